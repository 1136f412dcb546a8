"""The explorer runs on builds with a GIL: greenlet would switch it on in a free-threaded one.

The schedules explored are those of all builds: the steps of the model are the
single operations that a free-threaded build keeps apart, see docs/verification.md.
"""

from support.build import FREE_THREADED

collect_ignore_glob = ["test_*.py"] if FREE_THREADED else []
