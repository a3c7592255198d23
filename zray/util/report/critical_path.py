"""Critical path of a run: the chain of work and waits that made the program end when it did.

The chain is followed back from the end.  A program or a task that has waited goes on from the child that ended last
in that wait.  A task that begins goes on from whatever came last: the task that made its last argument, or the
submission in its parent.  Each moment of the run is in one step, so that the steps add up to the whole time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from .runs import OTHERS, PROGRAM, Runs, Wait, children, waits_by_owner

__all__: list[str] = []  # for `zray report`

RUN, PROGRAM_CODE, QUEUE, RESULT, BLOCKED = "run", "program", "queue", "result", "blocked"
# Clocks of processes agree to so many seconds.
CLOCK_SECONDS = 1e-4
# A result that takes longer to its waiter was perhaps not what the wait was for.
DELIVERY_SECONDS = 0.02
DEPTH_MAX = 1_000


class Step(NamedTuple):
    """A step of the path.  Times are in seconds since the start.

    kind: "run": code of a task; "program": code of the program; "queue": a task that has all arguments and has not
    begun; "result": a result on its way to the one that waits; "blocked": a wait for something that is no task.
    name: of the function.  run: the place of the run in Runs.runs; None: the program.
    """

    kind: str
    name: str
    begin: float
    end: float
    run: int | None = None

    @property
    def seconds(self) -> float:
        """How long the step took."""
        return self.end - self.begin


class Path(NamedTuple):
    """The steps of a critical path, from the start to the end."""

    steps: list[Step]

    def seconds_by_kind(self) -> dict[str, float]:
        """The seconds of all steps of a kind."""
        found: dict[str, float] = {}
        for step in self.steps:
            found[step.kind] = found.get(step.kind, 0.0) + step.seconds
        return found

    def rows(self) -> list[tuple[str, str, int, float]]:
        """(kind, name, number of steps, seconds) of steps that are alike, the longest first."""
        found: dict[tuple[str, str], tuple[int, float]] = {}
        for step in self.steps:
            count, seconds = found.get((step.kind, step.name), (0, 0.0))
            found[step.kind, step.name] = count + 1, seconds + step.seconds
        rows = [(kind, name, count, seconds) for (kind, name), (count, seconds) in found.items()]
        return sorted(rows, key=lambda row: -row[3])


def critical_path(runs: Runs) -> Path:
    """Return the critical path of a run."""
    return Path(list(_Walk(runs).steps())[::-1])


class _Walk:
    """A walk along the path, from the end to the start."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.waits = waits_by_owner(runs)
        self.wait_ends = {owner: [wait.end for wait in waits] for owner, waits in self.waits.items()}
        self.limits: dict[bytes, int] = {}  # of the waits that the walk has not passed
        self.children: dict[bytes | None, list[int]] = {}  # in the order of their ends; None: all
        for parent, place in children(runs):
            self.children.setdefault(parent, []).append(place)
            self.children.setdefault(None, []).append(place)
        self.ends = {parent: [runs.runs[place].stored for place in places] for parent, places in self.children.items()}

    def steps(self) -> Iterator[Step]:
        """Yield the steps, the last one first."""
        owner: int | None = None  # the place of a run; None: the program
        moment = self.runs.end
        while moment > 0 or owner is not None:
            begin = 0.0 if owner is None else self.runs.runs[owner].begin
            wait = self._last_wait(owner, begin, moment)
            if wait is not None:
                yield from self._code(owner, wait.end, moment)
                owner, moment, step = self._cause(owner, wait)
                yield from step
                continue
            yield from self._code(owner, begin, moment)
            if owner is None:
                return
            owner, moment, step = self._before(owner, min(begin, moment))
            yield from step

    def _code(self, owner: int | None, begin: float, end: float) -> Iterator[Step]:
        """The code of a task or the program between two moments."""
        if end > begin:
            if owner is None:
                yield Step(PROGRAM_CODE, "", begin, end)
            else:
                yield Step(RUN, self.runs.runs[owner].name, begin, end, owner)

    def _last_wait(self, owner: int | None, begin: float, moment: float) -> Wait | None:
        """The last wait of a task or the program that ended by a moment."""
        key = PROGRAM if owner is None else self.runs.runs[owner].task_id
        waits = self.waits.get(key, ())
        count = min(bisect_right(self.wait_ends.get(key, ()), moment), self.limits.get(key, len(waits)))
        if not count or waits[count - 1].begin < begin:
            return None
        self.limits[key] = count - 1
        return waits[count - 1]

    def _cause(self, owner: int | None, wait: Wait) -> tuple[int | None, float, list[Step]]:
        """The child that ended last in a wait, or a task below it; without one, the wait itself is a step."""
        key = PROGRAM if owner is None else self.runs.runs[owner].task_id
        place = self._last_ended(key, wait)
        if place is None or wait.end - self.runs.runs[place].stored > DELIVERY_SECONDS:
            below = self._last_below(key, wait)
            place = place if below is None else below
        if place is None:
            name = "" if owner is None else self.runs.runs[owner].name
            return owner, wait.begin, [Step(BLOCKED, name, wait.begin, wait.end, owner)]
        stored = min(self.runs.runs[place].stored, wait.end)
        step = [Step(RESULT, self.runs.runs[place].name, stored, wait.end, place)] if stored < wait.end else []
        return place, stored, step

    def _last_ended(self, parent: bytes | None, wait: Wait) -> int | None:
        """The child of a task that ended last in a wait; None as parent: of all runs."""
        count = bisect_right(self.ends.get(parent, ()), wait.end + CLOCK_SECONDS)
        return self.children[parent][count - 1] if count and self.ends[parent][count - 1] > wait.begin else None

    def _last_below(self, owner: bytes, wait: Wait) -> int | None:
        """The run that ended last in a wait, if a task has caused it: a child may return the ref of its own child."""
        place = self._last_ended(None, wait)
        parent = b"-" if place is None else self.runs.runs[place].parent
        for _ in range(DEPTH_MAX):
            if parent in (owner, PROGRAM, OTHERS):
                break
            above = self.runs.run_at(parent, self.runs.end)
            parent = PROGRAM if above is None else self.runs.runs[above].parent
        return place if parent == owner else None

    def _before(self, place: int, until: float) -> tuple[int | None, float, list[Step]]:
        """The cause for the begin of a run: its last argument, an earlier attempt, or its submission.

        until: the moment of the walk.
        """
        run = self.runs.runs[place]
        latest, cause = -1.0, None
        for task_id in (*run.dependencies, run.task_id):
            found = self.runs.run_at(task_id, run.begin - 1e-12)
            if found is not None and found != place:
                stored = self.runs.runs[found].stored
                if latest < stored <= run.begin + CLOCK_SECONDS:
                    latest, cause = stored, found
        if cause is None or (run.submitted is not None and run.submitted > latest):
            latest = run.begin if run.submitted is None else run.submitted
            cause = self._parent(run.parent, latest)
        moment = max(min(latest, until), 0.0)
        return cause, moment, [Step(QUEUE, run.name, moment, until, place)] if moment < until else []

    def _parent(self, task_id: bytes, moment: float) -> int | None:
        """The run of a task in which it submitted something; None: the program."""
        found = None if task_id == PROGRAM else self.runs.run_at(task_id, moment)
        if found is not None and self.runs.runs[found].begin >= moment:
            return None
        return found
