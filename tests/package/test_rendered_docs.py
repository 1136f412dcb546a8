"""The pages that are rendered from the code say what the code says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_rendered_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "render.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
