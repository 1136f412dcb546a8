"""What this interpreter is."""

from __future__ import annotations

import sys
import sysconfig

#: True on a free-threaded build.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def gil_is_on() -> bool:
    """True while threads take turns."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()
