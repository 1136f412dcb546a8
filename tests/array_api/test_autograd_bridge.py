"""Rules lent by HIPS/autograd: values of SciPy, gradients of finite differences."""

import numpy as np
import pytest

import sweepgrad as sg
from support.threads import run_threads

pytestmark = pytest.mark.peers


def slope(function, x, step=1e-6):
    return (function(x + step) - function(x - step)) / (2 * step)


def test_special_functions_and_statistics_get_their_gradients():
    from scipy import special, stats

    lend = sg.bridge.autograd.lend
    x = np.array([0.3, 1.7, 2.5])
    for function in (special.i0, special.i1, special.j0, special.erfinv, special.gamma):
        at = x / 4 if function is special.erfinv else x
        t = sg.tensor(at, requires_grad=True)
        out = lend(function)(t)
        np.testing.assert_allclose(out.numpy(), function(at))
        np.testing.assert_allclose(out.backward(np.ones(3))[t], slope(function, at), rtol=1e-7)
    t = sg.tensor(x, requires_grad=True)
    out = lend(stats.norm.logpdf)(t, 0.5, 2.0)
    np.testing.assert_allclose(out.numpy(), stats.norm.logpdf(x, 0.5, 2.0))
    np.testing.assert_allclose(out.backward(np.ones(3))[t], -(x - 0.5) / 4)


def test_every_operand_gets_its_own_shape_and_dtype():
    from scipy import stats

    scale = sg.tensor(2.0, np.float32, requires_grad=True)
    t = sg.tensor([[1.0], [3.0]], requires_grad=True)
    out = sg.bridge.autograd.lend(stats.norm.cdf)(t, np.zeros(3), scale)
    gradients = out.sum().backward()
    assert gradients[t].shape == (2, 1)
    assert gradients[scale].shape == ()
    assert gradients[scale].dtype == np.float32
    z = np.array([0.5, 1.5])
    expected = 3 * (-z * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) / 2).sum()
    assert gradients[scale] == pytest.approx(expected, rel=1e-6)


def test_what_is_not_lent_is_refused_by_name():
    from scipy import special

    with pytest.raises(sg.NoGradientRuleError, match="lambertw"):
        sg.bridge.autograd.lend(special.lambertw)
    t = sg.tensor([0.5], requires_grad=True)
    lent = sg.bridge.autograd.lend(special.i0)
    (first,) = sg.grad(lent(t), t, grad_outputs=np.ones(1), create_graph=True)
    with pytest.raises(sg.HigherOrderError):
        first.sum().backward()


def test_threads_do_not_get_each_others_trace():
    from scipy import special

    lent = sg.bridge.autograd.lend(special.i0)

    def work(number):
        x = np.linspace(0.1, 1.0, 5) + number
        for _ in range(50):
            t = sg.tensor(x, requires_grad=True)
            gradient = lent(t * 2.0).sum().backward()[t]
            np.testing.assert_allclose(gradient, 2 * special.i1(2 * x), rtol=1e-12)

    run_threads([lambda n=n: work(n) for n in range(4)])
