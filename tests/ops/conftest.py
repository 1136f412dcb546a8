"""Tests that need PyTorch are collected where it is installed."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_torch_*.py"]
