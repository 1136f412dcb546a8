"""Refuses to be imported into a subinterpreter; imported first, before NumPy is.

NumPy can be loaded once in a process.  Loaded into a subinterpreter, it would be
missing in the main one for good; after the main one has it, the subinterpreter's
import fails deep inside NumPy.  So the refusal comes first and says what to do.
"""

from __future__ import annotations

from sweepgrad.errors import SubinterpreterError


def in_main_interpreter() -> bool:
    """True unless this is a subinterpreter."""
    try:
        import ctypes
    except ImportError:  # not for this kind of subinterpreter; nor is NumPy, which says so
        return True
    # Function objects of our own: the attributes of pythonapi are everybody's.
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p)
    current = prototype(("PyInterpreterState_Get", ctypes.pythonapi))()
    main = prototype(("PyInterpreterState_Main", ctypes.pythonapi))()
    return bool(current == main)


if not in_main_interpreter():
    raise SubinterpreterError(
        "sweepgrad was imported in a subinterpreter, but NumPy, on which it stands, can be loaded "
        "once in a process and works in the main interpreter alone. Use threads, for which "
        "sweepgrad is made, or processes"
    )
