"""Entry point: fixes the number of arithmetic threads before any engine is imported."""

import os
import sys

from benchmarks.one_thread import SETTINGS

os.environ.update(SETTINGS)

from benchmarks.cli import main  # the settings are read when NumPy is imported

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
