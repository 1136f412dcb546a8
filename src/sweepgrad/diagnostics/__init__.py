"""What a running program looks like from outside: memory, locks, the machine."""

from sweepgrad.diagnostics.machine import cores, describe_machine
from sweepgrad.diagnostics.memory import RESIDENT_SOURCE, resident_bytes

__all__ = ["RESIDENT_SOURCE", "cores", "describe_machine", "resident_bytes"]
