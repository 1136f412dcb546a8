"""Every drawn case, by chapter, and which operations each one calls."""

import warnings
from collections.abc import Callable
from typing import Any

import drawn_arrays
import drawn_elementwise
import drawn_linear
import drawn_neural
import numpy as np
from drawing import Draw, DrawnCase
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from recording import held, recorded

import sweepgrad as sg
from sweepgrad.ops.install import public_operations

DRAWN: dict[str, DrawnCase] = {
    f"{chapter}: {name}": one
    for chapter, cases in {
        "elementwise": drawn_elementwise.ELEMENTWISE,
        "reduced": drawn_elementwise.REDUCED,
        "shapes": drawn_arrays.SHAPES,
        "places": drawn_arrays.PLACES,
        "products": drawn_linear.PRODUCTS,
        "linear": drawn_linear.LINEAR,
        "polynomials": drawn_linear.POLYNOMIALS,
        "neural": drawn_neural.NEURAL,
        "signals": drawn_neural.SIGNALS,
        "fourier": drawn_neural.FOURIER,
    }.items()
    for name, one in cases.items()
}


def operations_drawn() -> set[Callable[..., Any]]:
    """The operations that some drawn case calls itself, seen on two draws of each."""
    public = set(public_operations().values())

    @settings(
        max_examples=2,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def draw_and_call(one: DrawnCase, data: st.DataObject) -> None:
        function, arrays = one(Draw(data.draw))
        for operation in public.intersection([*held(one), *held(function)]):
            calls.note(operation)
        function(*[sg.tensor(array) for array in arrays])

    with recorded() as calls, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for one in DRAWN.values():
            draw_and_call(one)
    return set(calls.by_operation)
