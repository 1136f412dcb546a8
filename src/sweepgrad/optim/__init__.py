"""Optimizers that many threads may step at once on shared parameters."""

from sweepgrad.optim.adam import Adam
from sweepgrad.optim.optimizer import Optimizer
from sweepgrad.optim.sgd import SGD

__all__ = ["SGD", "Adam", "Optimizer"]
