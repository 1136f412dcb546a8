"""Writes peers.json: what the comparisons with JAX and with PyTorch's samples give.

``python tests/ops/write_peers.py jax``, ``... torch`` and ``... hand`` (with PyTorch, on our
own operands), each where the peer is installed; the other parts of the file stay.
``python docs/render_operations.py`` then shows it.  Stops at a disagreement.
"""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import evidence  # noqa: E402


def jax_part() -> dict[str, Any]:
    from test_jax_agrees import ALL, CONVENTIONS, check

    without = {
        f"{table}:{one}": reason
        for table, one in ALL
        if (reason := CONVENTIONS.get(one.name) or check(one)) is not None
    }
    return {"jax": {"cases": len(ALL), "without": without}}


def torch_part() -> dict[str, Any]:
    import opinfo_runs
    import torch
    from opinfo_table import TABLE
    from test_opinfo_agrees import IN_COMPLEX, MAPPED

    rows = evidence.operation_rows()
    called = {
        name: sorted(rows[op].name for op in opinfo_runs.operations_called(name) if op in rows)
        for name in MAPPED
    }
    return {
        "opinfo": {name: opinfo_runs.summary(name, torch.float64) for name in MAPPED},
        "opinfo_complex": {
            name: opinfo_runs.summary(name, torch.complex128) for name in IN_COMPLEX
        },
        "opinfo_calls": called,
        "opinfo_unmapped": sorted(set(opinfo_runs.infos()) - set(TABLE)),
    }


def hand_part() -> dict[str, Any]:
    """What test_torch_agrees.py and test_torch_agrees_linear.py compare, without samples."""
    import numpy as np
    from case_tables import BY_NAME
    from elementwise_table import ALL
    from recording import recorded
    from test_torch_agrees_linear import _by_other_names, _pairs

    import sweepgrad as sg

    found = {BY_NAME[one.name] for one in ALL if one.torch}
    with recorded() as calls, np.errstate(all="ignore"):
        for _, ours, _, *arrays in [*_pairs(), *_by_other_names()]:
            calls.note(ours)
            ours(*[sg.tensor(array) for array in arrays])
        found |= set(calls.by_operation)
    rows = evidence.operation_rows()
    return {"by_hand": sorted(rows[operation].name for operation in found & rows.keys())}


def main() -> None:
    known = evidence.peers()
    known |= {"jax": jax_part, "torch": torch_part, "hand": hand_part}[sys.argv[1]]()
    evidence.PEERS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
