"""The examples about user code run as they stand, with warnings as errors."""

from pathlib import Path

import pytest

from support.child import run_child

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("custom_op", ["Huber", "softplus", "Polar", "robust centers near 3"]),
        ("checkpoint", ["everything kept", "the same gradients, bit for bit"]),
        ("hessian", ["Newton", "agree with the full Hessian", "the Hessian times b"]),
    ],
)
def test_the_example_runs_and_says_what_it_shows(name, words):
    printed = run_child(
        "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')",
        str(EXAMPLES / f"{name}.py"),
        limit=50,
        check_locks=False,
        options=("-W", "error"),
    )
    for word in words:
        assert word in printed
