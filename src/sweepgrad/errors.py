"""Every error sweepgrad raises on purpose.

All derive from :class:`SweepgradError` and, where a builtin exception says the
same thing, from that too, so that code written against NumPy's errors keeps
working.  Messages name what was given, what was expected and how to fix it.
"""

from __future__ import annotations


class SweepgradError(Exception):
    """Base of every error that sweepgrad raises on purpose."""


class GraphConsumedError(SweepgradError, RuntimeError):
    """A backward asked for a gradient rule that another backward has taken.

    Raised before anything is consumed or computed: the graph, and the other
    backward, are as if the call had not been made.
    """


class NotTrackedError(SweepgradError, RuntimeError):
    """A gradient was asked of a tensor that carries no node."""


class NoGradientError(SweepgradError, KeyError):
    """A :class:`~sweepgrad.Gradients` holds no gradient for this tensor."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class NoGradientRuleError(SweepgradError, TypeError):
    """A NumPy function without a gradient rule met a tensor."""


class GradientError(SweepgradError, ValueError):
    """A gradient has the wrong shape or dtype, or is missing where one is needed."""


class ShapeError(SweepgradError, ValueError):
    """An operand has a shape that the operation cannot take."""


class DtypeError(SweepgradError, TypeError):
    """A value has a dtype that a tensor, or a tracked tensor, cannot have."""


class TensorTypeError(SweepgradError, TypeError):
    """A tensor was used where only something else will do (bool, ndarray, item, …)."""


class ReentrantCallError(SweepgradError, RuntimeError):
    """Code that ran inside one of sweepgrad's critical sections called back into it.

    Such code is a ``__del__`` or weakref callback started by a garbage
    collection, or a signal handler.  Waiting would hang for ever on a lock that
    the same thread holds, so the call is refused before it changes anything.
    """


class LockOrderError(SweepgradError, RuntimeError):
    """The order checker saw a lock taken against the hierarchy."""


class RuntimeMismatchError(SweepgradError, ValueError):
    """Tensors of two different :class:`~sweepgrad.GraphRuntime` objects met in one operation."""


class InvariantError(SweepgradError, AssertionError):
    """``check_valid()`` found a structure that contradicts itself."""


class SubinterpreterError(SweepgradError, ImportError):
    """sweepgrad was imported in a subinterpreter, where NumPy does not work."""


class SettingError(SweepgradError, ValueError):
    """A setting (a learning rate, a layer size, a number of threads, …) is out of its range."""


class DatasetError(SweepgradError):
    """A data file of the package is missing or damaged."""


class LabelError(SweepgradError, IndexError):
    """A class label, or an index into an embedding, is outside the range it indexes."""


class NestingError(SweepgradError, RecursionError):
    """More backwards ran inside each other than the documented limit allows."""


class OutsideBackwardError(SweepgradError, RuntimeError):
    """Something that concerns the running backward was called while none was running."""


class HigherOrderError(SweepgradError, RuntimeError):
    """A gradient was asked to be differentiable through something that is not.

    A rule marked ``once_differentiable``, or a saved intermediate value whose
    dependence on the inputs was not recorded.
    """


class CheckpointError(SweepgradError, RuntimeError):
    """A checkpointed region cannot be recomputed as it ran, so its gradient would be wrong."""


class AnomalyError(SweepgradError, FloatingPointError):
    """``detect_anomaly()`` saw a rule give a NaN; says where the operation was recorded."""


class GradcheckError(SweepgradError, AssertionError):
    """A gradient rule disagrees with finite differences; names the worst entry."""


class ExplorerError(SweepgradError, RuntimeError):
    """The schedule explorer was used wrongly or is itself at fault; never the program's failure."""


class NonDeterminismError(ExplorerError):
    """A scenario did not repeat itself under the same choices.

    Something it reads is not controlled by the explorer: time, random numbers,
    the order of a set, state that a former run left behind, or a lock that was
    made before the exploration began.
    """


class ScheduleFailure(SweepgradError, AssertionError):  # noqa: N818  # what was found in the program explored, no error of ours
    """The explorer found a schedule under which the program fails.

    Attributes:
        report: what was covered, with the failure.
    """

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class DivergedError(SweepgradError, ArithmeticError):
    """The loss of a training run became infinite or not a number."""
