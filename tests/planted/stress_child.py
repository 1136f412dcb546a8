"""The worker of ``python -m stress`` with a fault planted: ``stress_child.py FAULT|shipped …``.

The stress suite knows nothing of it: this program plants the fault in its own process and
then is the worker.
"""

import os
import pathlib
import sys

os.environ["SWEEPGRAD_CHECK_LOCKS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from planted.catalogue import SHIPPED, planted
from stress import worker

name = sys.argv.pop(1)
with planted(None if name == SHIPPED else name):
    code = worker.main()
    sys.stdout.flush()
    os._exit(code)  # what exits beyond this is not what is looked at
