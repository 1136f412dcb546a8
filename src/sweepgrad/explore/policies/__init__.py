"""Policies: who goes on at each step.  One file each.

A policy sees the threads that can go on and names one.  It never sees the
program, so a run is a pure function of the program and the policy's choices.
"""

from __future__ import annotations

from sweepgrad.explore.policies.base import Policy
from sweepgrad.explore.policies.drawn import Drawn, drawn_schedules
from sweepgrad.explore.policies.exhaustive import Exhaustive
from sweepgrad.explore.policies.pct import PCT
from sweepgrad.explore.policies.replayed import Replayed
from sweepgrad.explore.policies.walk import RandomWalk

__all__ = ["PCT", "Drawn", "Exhaustive", "Policy", "RandomWalk", "Replayed", "drawn_schedules"]
