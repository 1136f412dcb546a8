"""Operations with gradient rules of their own, in the two forms, checked and used in threads.

Run it: python examples/custom_op.py
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import sweepgrad as sg


class Huber(sg.Function):
    """Σ huber(x): x²/2 near 0 and |x| - 1/2 beyond ±1.  Its gradient is x clipped to ±1."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        size = np.abs(x)
        return np.where(size.numpy() < 1, x * x * 0.5, size - 0.5).sum()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * sg.clip(x, -1.0, 1.0)


@sg.custom_vjp
def softplus(x):
    """log(1 + eˣ), without overflow."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def softplus_forward(x):
    return softplus(x), x  # the result, and what the rule needs


def softplus_backward(x, g):
    return (g * sg.sigmoid(x),)


softplus.defvjp(softplus_forward, softplus_backward)


class Polar(sg.Function):
    """Radius and angle of points: two results, one run of the rule for both."""

    @staticmethod
    def forward(ctx, x, y):
        radius, angle = np.hypot(x, y), np.arctan2(y, x)
        ctx.save_for_backward(x, y, radius)
        return radius, angle

    @staticmethod
    def backward(ctx, g_radius, g_angle):
        x, y, radius = ctx.saved_tensors
        square = radius * radius
        return (
            g_radius * x / radius - g_angle * y / square,
            g_radius * y / radius + g_angle * x / square,
        )


def check() -> None:
    """Compare every rule with finite differences, in first and second order."""
    x = sg.tensor([-2.5, -0.4, 0.3, 1.7], requires_grad=True)
    y = sg.tensor([0.5, 1.5, -0.7, 2.0], requires_grad=True)
    for name, function, inputs in (
        ("Huber", Huber.apply, x),
        ("softplus", softplus, x),
        ("Polar", Polar.apply, (x, y)),
    ):
        sg.gradcheck(function, inputs)
        sg.gradgradcheck(function, inputs)
        print(f"{name}: first and second derivatives agree with finite differences")


def fit(seed: int) -> float:
    """Robust location of data with outliers, by gradient descent; one call per thread."""
    generator = np.random.default_rng(seed)
    data = generator.normal(3.0, 0.1, size=200)
    data[:20] += 1000.0
    center = sg.tensor(0.0, requires_grad=True)
    for _ in range(100):
        grads = (Huber.apply(data - center) / data.size).backward()
        step = grads[center]
        center.update(lambda value, step=step: value - step)
    return center.item()


def main() -> None:
    check()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fit, range(4)))
    print("robust centers near 3:", ", ".join(f"{value:.2f}" for value in found))
    assert all(2.8 < value < 3.4 for value in found)


if __name__ == "__main__":
    main()
