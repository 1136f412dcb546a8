"""Ordinary NumPy, differentiated: nothing below the imports knows of tensors but ``main``.

Run it with ``python examples/numpy_drop_in.py``.
"""

import numpy as np

import sweepgrad as sg


def log_likelihood(length, noise, x, y):
    """Of a Gaussian process with a squared-exponential kernel."""
    distance = (x[:, None] - x[None, :]) / length
    kernel = np.exp(-0.5 * distance**2) + noise * np.eye(len(x))
    lower = np.linalg.cholesky(kernel)
    white = np.linalg.solve(lower, y)
    logdet = 2.0 * np.sum(np.log(np.diagonal(lower)))
    return -0.5 * (np.dot(white, white) + logdet + len(x) * np.log(2 * np.pi))


def attend(x, wq, wk, wv):
    """One head of attention over the rows of x."""
    q, k, v = x @ wq, x @ wk, x @ wv
    scores = np.einsum("qd,kd->qk", q, k) / np.sqrt(q.shape[-1])
    powers = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return np.matmul(powers / np.sum(powers, axis=-1, keepdims=True), v)


def spline_error(knots, x, y):
    """Mean square error of the best cubic spline with these knots."""
    powers = np.stack([x**0, x, x**2, x**3], axis=1)
    pieces = np.clip(x[:, None] - knots, 0, None) ** 3
    basis = np.concatenate([powers, pieces], axis=1)
    gram = basis.T @ basis + 1e-6 * np.eye(basis.shape[1])
    weights = np.linalg.solve(gram, basis.T @ y)
    return np.mean((basis @ weights - y) ** 2)


def main():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 1.0, 12)
    y = np.sin(6 * x) + 0.05 * rng.normal(size=12)
    for function, parameters, data in (
        (log_likelihood, [np.array(0.3), np.array(0.02)], (x, y)),
        (attend, [rng.normal(size=s) for s in ((3, 4), (4, 2), (4, 2), (4, 4))], ()),
        (spline_error, [np.array([0.3, 0.7])], (x, y)),
    ):
        leaves = [sg.tensor(p, requires_grad=True) for p in parameters]
        grads = np.sum(function(*leaves, *data)).backward()
        print(function.__name__, *[np.round(grads[leaf], 6).tolist() for leaf in leaves])


if __name__ == "__main__":
    main()
