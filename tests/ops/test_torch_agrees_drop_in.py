"""The gradients of examples/numpy_drop_in.py are those that PyTorch gives its own version."""

import math

import numpy as np
import pytest
import torch
from drop_in_cases import DROP_IN

import sweepgrad as sg

pytestmark = pytest.mark.peers


def log_likelihood(length, noise, x, y):
    kernel = torch.exp(-0.5 * ((x[:, None] - x[None, :]) / length) ** 2)
    process = torch.distributions.MultivariateNormal(
        torch.zeros_like(y), kernel + noise * torch.eye(len(x), dtype=x.dtype)
    )
    return process.log_prob(y)


def attend(x, wq, wk, wv):
    scores = (x @ wq) @ (x @ wk).T / math.sqrt(wq.shape[1])
    return torch.softmax(scores, -1) @ (x @ wv)


def spline_error(knots, x, y):
    powers = x[:, None] ** torch.arange(4)
    basis = torch.cat([powers, torch.relu(x[:, None] - knots) ** 3], 1)
    gram = basis.T @ basis + 1e-6 * torch.eye(basis.shape[1], dtype=x.dtype)
    fitted = basis @ torch.linalg.solve(gram, basis.T @ y)
    return ((fitted - y) ** 2).mean()


@pytest.mark.parametrize("theirs", [log_likelihood, attend, spline_error], ids=lambda f: f.__name__)
def test_gradients_are_pytorchs(theirs):
    function, parameters, data = DROP_IN[theirs.__name__]
    mine = [sg.tensor(p, requires_grad=True) for p in parameters]
    peers = [torch.tensor(p, requires_grad=True) for p in parameters]
    out = function(*mine, *data)
    expected = theirs(*peers, *[torch.tensor(d) for d in data])
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-7, atol=1e-9)
    seed = np.linspace(0.5, 1.5, out.size).reshape(out.shape)
    gradients = out.backward(seed)
    expected.backward(torch.tensor(seed))
    for leaf, peer in zip(mine, peers, strict=True):
        np.testing.assert_allclose(gradients[leaf], peer.grad.numpy(), rtol=1e-6, atol=1e-8)
