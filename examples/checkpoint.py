"""Trade time for memory: 64 layers, what they save, and the same gradients from less.

Run it: python examples/checkpoint.py
"""

import time

import numpy as np

import sweepgrad as sg

LAYERS, WIDTH, BATCH = 64, 64, 128


class Layer:
    """x + tanh(x w), with dropout; its parameter and generator come through the object."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.weight = sg.tensor(rng.normal(size=(WIDTH, WIDTH)) / WIDTH, requires_grad=True)
        self.rng = rng.spawn(1)[0]

    def __call__(self, x):
        return x + sg.dropout(sg.tanh(x @ self.weight), 0.1, self.rng)


def make_layers() -> list[Layer]:
    rng = np.random.default_rng(0)
    return [Layer(rng) for _ in range(LAYERS)]


def run(name: str, apply) -> tuple[int, list[np.ndarray]]:
    """One forward and backward; returns the peak of saved bytes and the gradients."""
    layers = make_layers()
    peak = 0

    def watched(layer):
        def call(x):
            nonlocal peak
            peak = max(peak, sg.memory_report().saved_bytes)
            return layer(x)

        return call

    x = sg.from_numpy(np.random.default_rng(1).normal(size=(BATCH, WIDTH)))
    start = time.perf_counter()
    loss = (apply([watched(layer) for layer in layers], x) ** 2).mean()
    peak = max(peak, sg.memory_report().saved_bytes)
    grads = loss.backward()
    seconds = time.perf_counter() - start
    print(f"{name:>24}: {peak / 2**20:6.1f} MB saved at the peak, {seconds:.2f} s")
    return peak, [grads[layer.weight] for layer in layers]


def in_turn(layers, x):
    for layer in layers:
        x = layer(x)
    return x


def main() -> None:
    plain, expected = run("everything kept", in_turn)
    root, found = run("8 pieces, recomputed", sg.checkpoint_sequential)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
    print(f"the same gradients, bit for bit, from {plain / root:.1f} times less")
    assert root < plain / 2.5


if __name__ == "__main__":
    main()
