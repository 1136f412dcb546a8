"""Ordinary NumPy code is differentiated as it stands: examples/numpy_drop_in.py."""

import subprocess
import sys

import numpy as np
import pytest
from drop_in_cases import DROP_IN, EXAMPLE
from finite_differences import check_gradients


@pytest.mark.parametrize("name", DROP_IN)
def test_gradients_of_the_example_agree_with_finite_differences(name):
    function, parameters, data = DROP_IN[name]
    check_gradients(lambda *p: function(*p, *data), *parameters, second=False, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", DROP_IN)
def test_the_same_code_runs_on_arrays(name):
    function, parameters, data = DROP_IN[name]
    assert np.isfinite(function(*parameters, *data)).all()


def test_the_example_runs_and_prints_a_gradient_for_each_function():
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=50, check=True
    )
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(DROP_IN)


def test_the_example_is_about_fifty_lines_of_code():
    lines = EXAMPLE.read_text("utf-8").splitlines()
    assert len(lines) <= 60
