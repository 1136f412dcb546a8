"""The functions of examples/numpy_drop_in.py with operands."""

import runpy
from pathlib import Path

import numpy as np

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "numpy_drop_in.py"
NAMES = runpy.run_path(str(EXAMPLE), run_name="example")

_RNG = np.random.default_rng(4)
X = np.linspace(0.0, 1.0, 9)
Y = np.sin(6 * X) + 0.1 * _RNG.normal(size=9)

#: Function, parameters, data.
DROP_IN = {
    "log_likelihood": (NAMES["log_likelihood"], [np.array(0.2), np.array(0.05)], (X, Y)),
    "attend": (
        NAMES["attend"],
        [_RNG.normal(size=s) for s in ((3, 4), (4, 2), (4, 2), (4, 4))],
        (),
    ),
    "spline_error": (NAMES["spline_error"], [np.array([0.31, 0.68])], (X, Y)),
}
