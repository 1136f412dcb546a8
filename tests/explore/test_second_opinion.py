"""frontrun, which knows nothing of our steps, has nothing against the runtime either."""

import json
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.peers
@pytest.mark.timeout(600)
def test_frontrun_finds_nothing_in_three_core_scenarios():
    """Random and systematic switching between bytecodes; the random one found a fault once."""
    script = pathlib.Path(__file__).parent / "second_opinion.py"

    done = subprocess.run(
        [sys.executable, str(script), "40"], capture_output=True, text=True, timeout=550, check=True
    )

    verdicts = json.loads(done.stdout)
    print(done.stdout)
    assert len(verdicts) == 6
    assert {name: verdict["holds"] for name, verdict in verdicts.items()} == dict.fromkeys(
        verdicts, True
    )
