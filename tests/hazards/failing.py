"""Memory that runs out at one allocation of an operation; runs in a process of its own.

No tests.  ``_testcapi.set_nomemory`` makes the interpreter's own allocators fail, once, at the
allocation with a given number: list growth, dict growth, frames, tensors, arrays' headers.
"""

import gc
import sys
from types import SimpleNamespace

from graph.test_interrupts import check_afterwards
from hazards.operations import OPERATIONS, left_as_it_was
from sweepgrad.graph import check_locks
from sweepgrad.sync import NATIVE

#: So many allocations in a row that did not matter: the operation has no more of them.
QUIET = 12

#: What CPython raises in two places in place of MemoryError: when it makes a lock, and when a
#: call has no room for its frame.
OTHER_WORDS = ("can't allocate lock", "error return without exception set")


def fails(operation, number, complaints):
    """Run the operation with this allocation failing; True if it mattered.

    That all memory comes back is not asked: CPython 3.11 itself leaks a reference when
    ``list(x)`` runs out of memory, and what the reference leads to stays.
    """
    import _testcapi

    prepare, action = OPERATIONS[operation]
    complaints.clear()
    scene = prepare()
    failed, result = False, None
    _testcapi.set_nomemory(number, number + 1)
    try:
        result = action(scene)
    except MemoryError:
        failed = True
    except (RuntimeError, SystemError) as error:
        if str(error) not in OTHER_WORDS:
            raise
        failed = True
    finally:
        _testcapi.remove_mem_hooks()
    where = f"{operation}, allocation {number}"
    assert all(issubclass(kind, MemoryError) for kind in complaints), (where, complaints)
    del result
    scene.runtime.graph_cleanup()
    check_afterwards(scene, SimpleNamespace(place=where, swallowed=bool(complaints)))
    left_as_it_was(scene)
    state = NATIVE.threads.state
    assert (state.garbage, state.deferred, state.sweeps_asked) == ([], [], []), where
    vars(scene).clear()
    return failed or bool(complaints)


def main(stride):
    """Fail every allocation of every operation, or one in ``stride``; prints how many mattered."""
    check_locks(False)  # production's locks
    gc.freeze()
    complaints = []
    sys.unraisablehook = lambda args: complaints.append(args.exc_type)
    total = 0
    for offset, operation in enumerate(OPERATIONS):
        number, quiet = offset % stride, 0
        while quiet * stride < QUIET:
            mattered = fails(operation, number, complaints)
            total += mattered
            quiet = 0 if mattered else quiet + 1
            number += stride
    print(total)
