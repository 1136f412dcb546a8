"""Ours on the sample inputs of PyTorch's own tests: value, gradient and second gradient.

Run with ``-m peers`` where PyTorch and expecttest are installed; not collected
elsewhere (see conftest.py).  The counts in ``peers.json``, which docs/operations.md
shows, are compared with what is found, so that nothing is left out silently.
"""

import evidence
import numpy as np
import opinfo_runs
import pytest
import torch
from opinfo_table import REAL_ONLY, TABLE

#: An operation has up to 1,440 samples: seconds on a free machine, a minute on a crowded one.
pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

MAPPED = sorted(name for name in TABLE if name in opinfo_runs.infos())
IN_COMPLEX = [
    name
    for name in MAPPED
    if torch.complex128 in opinfo_runs.infos()[name].dtypes and name not in REAL_ONLY
]


@pytest.mark.parametrize("name", MAPPED)
def test_value_and_both_gradients_are_pytorchs(name):
    assert opinfo_runs.summary(name, torch.float64) == evidence.peers()["opinfo"][name]


@pytest.mark.parametrize("name", IN_COMPLEX)
def test_complex_gradients_are_the_conjugates_of_pytorchs(name):
    found = opinfo_runs.summary(name, torch.complex128)
    assert found == evidence.peers()["opinfo_complex"][name]


def test_every_operation_of_pytorch_is_mapped_or_listed():
    unmapped = sorted(set(opinfo_runs.infos()) - set(TABLE))
    assert unmapped == evidence.peers()["opinfo_unmapped"]


def test_a_wrong_rule_is_found(monkeypatch):
    monkeypatch.setitem(TABLE, "exp", lambda x: np.exp(x.detach()) + x - x.detach())
    with pytest.raises(AssertionError, match="gradient"):
        opinfo_runs.run("exp")
