"""A user's program as a strict type checker sees it; ``mypy`` checks this file, no test runs it."""

from typing import assert_type

import numpy as np

import sweepgrad as sg

weights = sg.tensor(np.ones((3, 2)), requires_grad=True)
scores = sg.relu(np.ones((4, 3)) @ weights)
loss = sg.cross_entropy(scores, np.zeros(4, dtype=np.int64))
assert_type(weights, sg.Tensor)
assert_type(scores, sg.Tensor)
assert_type(loss, sg.Tensor)
assert_type(loss.backward(), sg.Gradients)
weights.update(lambda array: array * 0.5)
assert_type(sg.graph_cleanup(), sg.SweepReport)
