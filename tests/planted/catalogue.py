"""Every planted fault by its name, from whatever file states it."""

from contextlib import nullcontext

from planted import faults, faults_met

FAULTS = {**faults.FAULTS, **faults_met.FAULTS}

#: In place of a fault's name: the code as it is.
SHIPPED = "shipped"


def planted(name):
    """The context in which the fault of this name is planted; None plants nothing."""
    return nullcontext() if name is None else FAULTS[name]()
