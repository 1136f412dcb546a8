"""``python -m sweepgrad``: the command line; see :mod:`sweepgrad.cli`."""

import sys

from sweepgrad.cli import main

if __name__ == "__main__":
    sys.exit(main())
