"""Tests that need PyTorch are collected where it is installed."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["test_torch_agrees.py"]
