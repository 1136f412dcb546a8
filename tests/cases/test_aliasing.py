"""Writing into memory never gives a wrong gradient without an error (C11)."""

import copy
import pickle

import numpy as np
import pytest

import sweepgrad as sg


def test_a_result_cannot_be_written_into():
    a = sg.tensor([1.0], requires_grad=True)
    out = sg.tanh(a)
    with pytest.raises(ValueError, match="read-only"):
        out.numpy()[...] = 0.0
    with pytest.raises(sg.TensorTypeError, match="not written into"):
        out[...] = 0.0
    assert abs(out.backward([1.0])[a].item() - 0.41997434161402614) < 1e-12


def test_a_parameter_replaced_before_the_backward():
    w, x = sg.tensor([3.0], requires_grad=True), sg.tensor([2.0], requires_grad=True)
    y = w * x
    with pytest.raises(ValueError, match="read-only"):
        w.numpy()[...] = 10.0
    w.assign([10.0])
    grads = y.backward([1.0])
    assert (grads[x].item(), grads[w].item()) == (3.0, 2.0)


def test_tensor_copies_so_the_array_may_be_overwritten():
    source = np.array([2.0])
    x = sg.tensor(source, requires_grad=True)
    y = x * x
    source[:] = 100.0
    assert x.item() == 2.0
    assert y.backward([1.0])[x].item() == 4.0


def test_from_numpy_aliases_as_documented():
    """The tensor is the array; a backward computes with what it then finds."""
    source = np.array([2.0])
    x = sg.from_numpy(source, requires_grad=True)
    y = x * x
    source[:] = 5.0
    assert x.item() == 5.0
    assert np.shares_memory(x.numpy(), source)
    assert y.backward([1.0])[x].item() == 10.0


def test_assign_copies():
    w, source = sg.tensor([1.0], requires_grad=True), np.array([2.0])
    w.assign(source)
    source[:] = 9.0
    assert w.item() == 2.0
    other = sg.tensor([3.0])
    w.assign(other)
    assert not np.shares_memory(w.numpy(), other.numpy())


def test_update_copies_what_the_function_returns():
    w, kept = sg.tensor([1.0], requires_grad=True), np.array([2.0])
    w.update(lambda a: kept)
    kept[:] = 9.0
    assert w.item() == 2.0
    w.update(lambda a: a)
    assert w.item() == 2.0


def test_the_seed_is_copied():
    x, seed = sg.tensor([1.0, 2.0], requires_grad=True), np.array([1.0, 1.0])
    gradient = (x + 0.0).backward(seed)[x]
    gradient[:] = 7.0
    assert seed.tolist() == [1.0, 1.0]


def test_gradients_share_no_memory_with_saved_values():
    w, x = sg.tensor([3.0], requires_grad=True), sg.tensor([2.0], requires_grad=True)
    y = w * x
    first = y.backward([1.0], retain_graph=True)
    first[w][:] = -1.0
    first[x][:] = -1.0
    second = y.backward([1.0])
    assert (second[w].item(), second[x].item()) == (2.0, 3.0)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(4),
        lambda x: x.T,
        lambda x: x[::-1],
        lambda x: x + 0.0,
        lambda x: x[None],
        lambda x: sg.broadcast_to(x, (1, 2, 2)),
    ],
)
def test_a_gradient_through_a_view_is_the_callers_own_and_contiguous(view):
    x = sg.tensor(np.arange(4.0).reshape(2, 2), requires_grad=True)
    y = view(x)
    seed = np.arange(4.0).reshape(y.shape)
    gradient = y.backward(seed)[x]
    assert gradient.base is None
    assert gradient.flags.c_contiguous
    assert gradient.flags.writeable
    assert not np.shares_memory(gradient, seed)


def test_a_detached_tensor_shares_memory_and_keeps_it_when_the_source_is_replaced():
    w = sg.tensor([1.0], requires_grad=True)
    constant = w.detach()
    assert np.shares_memory(constant.numpy(), w.numpy())
    w.assign([5.0])
    assert constant.item() == 1.0


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
@pytest.mark.parametrize("kind", ["leaf", "result", "constant"])
def test_copies_are_leaves_of_their_own(way, kind, baseline):
    x = sg.tensor([3.0], requires_grad=True)
    original = {"leaf": x, "result": x * 2.0, "constant": sg.tensor([3.0])}[kind]
    twin = way(original)
    assert twin.tolist() == original.tolist()
    assert twin.dtype == original.dtype
    assert twin.requires_grad is original.requires_grad
    assert twin.is_leaf
    assert not np.shares_memory(twin.numpy(), original.numpy())
    if kind != "constant":
        grads = (twin * twin).backward([1.0])
        assert list(grads) == [twin]
        assert grads[twin].item() == 2 * original.item()


def test_a_copy_stays_in_its_runtime():
    runtime = sg.GraphRuntime()
    x = runtime.tensor([3.0], requires_grad=True)
    for twin in (copy.copy(x), copy.deepcopy(x), copy.deepcopy(x * 1.0)):
        assert (twin * x).backward([1.0])[x].item() == 3.0


def test_copies_inside_a_structure_stay_one_object():
    x = sg.tensor([1.0], requires_grad=True)
    twins = copy.deepcopy([x, x, {"again": x}])
    assert twins[0] is twins[1] is twins[2]["again"]
    assert twins[0] is not x
