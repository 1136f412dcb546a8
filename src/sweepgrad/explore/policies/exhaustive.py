"""Exhaustive: depth-first over all schedules within a preemption bound, each order once.

*The tree.*  A branch is a step at which several threads could go on.  Each run
replays the branches on the path and takes default choices below; after the run
the deepest branch with an alternative left takes it.  No run is stored.

*The bound.*  A preemption is a switch away from a thread that could have gone on.
Musuvathi and Qadeer (PLDI 2007) found that few preemptions show most faults, and
with the bound the number of schedules grows with a power of the length instead of
exponentially.  Events are free: a bound of zero still tries an event at each step.

*The reduction.*  Sleep sets (Godefroid, LNCS 1032, 1996).  When thread t was
explored first at a branch and u second, then t sleeps below u until somebody
makes a step that does not commute with t's pending one: until then, running t
would only give an order that was explored under t already.  A run in which only
sleepers could go on is redundant and given up.

*Both together.*  In a bounded search a sleep set may prune too much, because the
equal order that was explored first may have needed one preemption more and so
have been cut off.  With a bound, therefore, only the thread that could have gone
on without a preemption is ever put to sleep, and it is explored first.  That
loses nothing: moving its step t forward from behind the steps u1..uk that commute
with it, as in ``u1..uk t w`` to ``t u1..uk w``, saves the preemption before u1 and
the switch from uk to t, and adds at most the switch from t to u1 and, before w,
the one from uk that the first order also has, or has from t.  Going through who w
belongs to (t, one of the u's, another) shows the sum never rises.

*Branches that need no alternative.*  Let t be the thread explored first at a
branch (and, with a bound, the one that could go on for free).  If no run through
t's step met an operation of another thread that does not commute with it, done
or still pending at the end, then every schedule that begins otherwise can have
t's step moved to its front: it equals one that was explored.  So the other
threads need not be tried there.  This is the observation of dynamic partial-order
reduction (Flanagan and Godefroid, POPL 2005), used for whole branches: what only
one thread ever touches costs one run, not one for each step.

``tests/explore/test_reduction.py`` compares outcomes with and without reduction
on generated programs.
"""

from __future__ import annotations

from sweepgrad.errors import NonDeterminismError
from sweepgrad.explore.model_thread import ModelThread, dependent


class Branch:
    """One step with a choice on the current path.

    Attributes:
        signature: index and pending operation of each thread that could go on;
            when a replay finds another one, the program does not repeat itself.
        chosen: index of the thread taken now.
        left: indices still to be taken, next one last.
        first: index of the thread taken first.
        asleep: indices explored before whose threads sleep under the present choice.
        contested: whether some other thread's operation did not commute with the
            first step taken here; while not, the other threads need not be tried.
        write: whether the first step changes what it touches.
    """

    __slots__ = ("asleep", "chosen", "contested", "first", "free", "left", "signature", "write")

    def __init__(
        self, signature: list[tuple[int, str]], chosen: int, left: list[int], free: int
    ) -> None:
        self.signature = signature
        self.chosen = self.first = chosen
        self.left = left
        self.free = free
        self.asleep: list[int] = []
        self.contested = False
        self.write = False


class Exhaustive:
    """Depth-first search over schedules.

    Args:
        preemptions: at most so many switches away from a thread that could have
            gone on; None for no bound.
        reduce: leave out orders that differ only in steps that commute.
    """

    def __init__(self, preemptions: int | None = 2, reduce: bool = True) -> None:
        self.preemptions = preemptions
        self.reduce = reduce
        self._path: list[Branch] = []
        self._position = 0
        self._spent = 0
        self._sleeping: list[ModelThread] = []
        #: Branches of this run whose first step touched the key and is not contested yet.
        self._uncontested: dict[int, list[Branch]] = {}
        self._events: frozenset[int] = frozenset()
        self._runs = 0
        self._exhausted = False

    def begin(self) -> bool:
        if self._runs and not self._backtrack():
            self._exhausted = True
            return False
        self._runs += 1
        self._position = self._spent = 0
        self._sleeping = []
        self._uncontested = {}
        return True

    def _backtrack(self) -> bool:
        """Turn the deepest branch that has an alternative left; False when none has."""
        path = self._path
        while path:
            branch = path[-1]
            if branch.left and self.reduce and not branch.contested:
                self._drop_threads(branch)
            if branch.left:
                if self.reduce and (self.preemptions is None or branch.chosen == branch.free):
                    branch.asleep.append(branch.chosen)
                branch.chosen = branch.left.pop()
                return True
            path.pop()
        return False

    def _drop_threads(self, branch: Branch) -> None:
        """Leave out the alternatives at an uncontested branch, other than events."""
        if branch.chosen == branch.first and (
            self.preemptions is None or branch.first == branch.free
        ):
            branch.left = [index for index in branch.left if index in self._events]

    def choose(self, enabled: list[ModelThread], last: ModelThread | None) -> ModelThread | None:
        if len(enabled) == 1:
            if self._sleeping:
                if enabled[0] in self._sleeping:
                    return None
                self._sleeping = [t for t in self._sleeping if not dependent(t, enabled[0])]
            if enabled[0].key in self._uncontested:
                self._contest(enabled[0])
            return enabled[0]
        position = self._position
        if position < len(self._path):
            branch = self._path[position]
            self._compare(branch, enabled)
        else:
            opened = self._open(enabled, last)
            if opened is None:
                return None
            branch = opened
            self._path.append(branch)
        self._position = position + 1
        chosen = last
        for thread in enabled:
            if thread.index == branch.chosen:
                chosen = thread
                break
        assert chosen is not None
        if chosen.event is not None:
            self._contest_thread(chosen)
        elif chosen is not last and last is not None and last in enabled:
            self._spent += 1
        if chosen.key in self._uncontested:
            self._contest(chosen)
        if branch.left and not branch.contested and branch.chosen == branch.first:
            branch.write = chosen.write
            self._uncontested.setdefault(chosen.key, []).append(branch)
        if self._sleeping or branch.asleep:
            sleepers = self._sleeping + [t for t in enabled if t.index in branch.asleep]
            self._sleeping = [t for t in sleepers if not dependent(t, chosen)]
        return chosen

    def _contest(self, thread: ModelThread) -> None:
        """The pending operation of ``thread`` contests the steps that it does not commute with."""
        still = []
        for branch in self._uncontested[thread.key]:
            if branch.first != thread.index and (branch.write or thread.write):
                branch.contested = True
            else:
                still.append(branch)
        self._uncontested[thread.key] = still

    def _contest_thread(self, event: ModelThread) -> None:
        """An event contests every step of the thread it is delivered to."""
        assert event.event is not None
        for branches in self._uncontested.values():
            for branch in branches:
                if branch.first == event.event.index:
                    branch.contested = True

    def stopped(self, live: list[ModelThread]) -> None:
        for thread in live:
            if thread.key in self._uncontested:
                self._contest(thread)

    @staticmethod
    def _compare(branch: Branch, enabled: list[ModelThread]) -> None:
        found = [(thread.index, thread.kind) for thread in enabled]
        if found != branch.signature:
            raise NonDeterminismError(
                "the scenario does not repeat itself: after the same choices, the threads that "
                f"could go on were {branch.signature} in one run and are {found} in another. "
                "Make everything it uses anew in its set-up, and take no decision from time, "
                "random numbers, addresses or the order of a set."
            )

    def _open(self, enabled: list[ModelThread], last: ModelThread | None) -> Branch | None:
        """A new branch at the end of the path, or None if all that could go on sleep."""
        events = {thread.index for thread in enabled if thread.event is not None}
        if not events <= self._events:
            self._events = self._events | events
        free = last if last is not None and last in enabled else None
        sleeping = self._sleeping
        choices = [thread for thread in enabled if thread not in sleeping]
        if free is not None and self.preemptions is not None and self._spent >= self.preemptions:
            choices = [t for t in choices if t is free or t.event is not None]
        if not choices:
            return None
        if free is not None and free in choices:
            choices.remove(free)
            choices.insert(0, free)
        indices = [thread.index for thread in reversed(choices)]
        chosen = indices.pop()
        signature = [(thread.index, thread.kind) for thread in enabled]
        branch = Branch(signature, chosen, indices, free.index if free is not None else -1)
        first = choices[0]
        branch.contested = any(dependent(t, first) for t in enabled if t is not first)
        return branch

    def end(self, steps: int) -> None:
        pass

    def exhausted(self) -> bool:
        return self._exhausted

    def describe(self) -> str:
        bound = "no bound" if self.preemptions is None else f"at most {self.preemptions}"
        reduction = "on" if self.reduce else "off"
        return f"exhaustive, preemptions: {bound}, partial-order reduction {reduction}"
