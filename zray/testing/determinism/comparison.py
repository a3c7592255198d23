"""Two runs beside each other: the first task that differs, and likely reasons.

Children of a task stand beside each other if they have the same function and arguments, in the order of submission,
whatever was submitted in between.  What is left over stands beside each other by its order.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from .digests import INCOMPARABLE
from .hints import hints_of_program, hints_of_task
from .records import Ending
from .trees import Task, Tree

__all__ = ["Comparison", "Difference", "compare"]

Pair = tuple["Task | None", "Task | None"]


@dataclass
class Difference:
    """The first task that differs between two runs.

    Args:
        kind: "value", "error", "items", "attempts", "killed", "arguments", "submissions" or "sessions".
        name, index, of: of the task; it is number `index` of `of` submissions of the function by its parent.
        site: file and line of the submission.
        path: functions of the tasks that have submitted it, outermost first.
        here, there: in the first and in the other run.
        hints: likely reasons.
        order: place among the tasks of the first run.
    """

    kind: str
    name: str = ""
    index: int = 0
    of: int = 0
    site: str = ""
    path: list[str] = field(default_factory=list)
    here: str = ""
    there: str = ""
    hints: list[str] = field(default_factory=list)
    order: int = 0


@dataclass
class Comparison:
    """The result: the first difference, if there is one; and what is no difference by itself.

    Args:
        unfinished: number of tasks that have ended in one run only.
        reordered: number of tasks that were submitted in another order.
        incomparable: number of tasks whose values cannot be pickled.
    """

    first: Difference | None = None
    unfinished: int = 0
    reordered: int = 0
    incomparable: int = 0


def compare(here: Tree, there: Tree, mentions: list[str] | None = None) -> Comparison:
    """Compare a run with the first one.

    Args:
        here, there: the first run, and the other one.
        mentions: telling names in the code of the program.
    """
    found = Comparison()
    walk = _Walk(here, there, found, mentions or [])
    for number in range(max(len(here.sessions), len(there.sessions))):
        if number >= min(len(here.sessions), len(there.sessions)):
            counts = f"{len(here.sessions)} sessions", f"{len(there.sessions)} sessions"
            found.first = found.first or Difference("sessions", here=counts[0], there=counts[1], order=walk.order)
            break
        walk.through(here.sessions[number], there.sessions[number])
    return found


class _Walk:
    """A walk through two trees: tasks in the order of submission, each behind those that it has submitted."""

    def __init__(self, here: Tree, there: Tree, found: Comparison, mentions: list[str]) -> None:
        self.here, self.there, self.found, self.mentions = here, there, found, mentions
        self.order = 0

    def through(self, here: list[Task], there: list[Task]) -> None:
        """Walk through the tasks of a session."""
        levels: list[tuple[Iterator[Pair], Pair]] = [(self._matched(here, there), (None, None))]
        while levels:
            pairs, above = levels[-1]
            pair = next(pairs, None)
            if pair is None:
                levels.pop()
                if levels:
                    self._look(*above)
                continue
            a, b = pair
            if a is not None and b is not None and (a.children or b.children) and _are_alike(a, b):
                levels.append((self._matched(a.children, b.children), pair))
            else:
                self._look(a, b)

    def _matched(self, here: list[Task], there: list[Task]) -> Iterator[Pair]:
        """Pairs of tasks of one parent, in the order of submission."""
        waiting: defaultdict[tuple[str, str], deque[Task]] = defaultdict(deque)
        for task in there:
            if task.ending is not None:
                waiting[task.name, task.ending.arguments].append(task)
        partner: dict[int, Task] = {}
        last: Counter[str] = Counter()
        for task in here:
            same = waiting.get((task.name, task.ending.arguments)) if task.ending is not None else None
            if same:
                other = partner[id(task)] = same.popleft()
                self.found.reordered += other.number < last[task.name]
                last[task.name] = max(last[task.name], other.number)
        taken = {id(task) for task in partner.values()}
        rest: defaultdict[str, deque[Task]] = defaultdict(deque)
        for task in there:
            if id(task) not in taken:
                rest[task.name].append(task)
        for task in here:
            if id(task) not in partner and rest[task.name]:
                partner[id(task)] = rest[task.name].popleft()
        pairs: list[tuple[int, Pair]] = [(task.number, (task, partner.get(id(task)))) for task in here]
        pairs += [(task.number, (None, task)) for tasks in rest.values() for task in tasks]
        return iter([pair for _, pair in sorted(pairs, key=lambda each: each[0])])

    def _look(self, a: Task | None, b: Task | None) -> None:
        """Compare two tasks at the same place."""
        self.order += 1
        if a is None or b is None:
            self._absent(a, b)
        elif a.is_lost or b.is_lost:
            self.note("killed", a, b, _said(a), _said(b))
        elif a.ending is None or b.ending is None:
            self.found.unfinished += (a.ending is None) != (b.ending is None)
        elif a.ending.arguments != b.ending.arguments:
            self.note("arguments", a, b, "", "")
        else:
            self._compare(a, a.ending, b, b.ending)

    def _absent(self, a: Task | None, b: Task | None) -> None:
        task = a or b
        assert task is not None
        here, there = ("submitted" if each is not None else "not submitted" for each in (a, b))
        self.note("submissions", task, task, here, there)

    def _compare(self, a: Task, one: Ending, b: Task, two: Ending) -> None:
        if INCOMPARABLE in (one.arguments, *one.values, *two.values):
            self.found.incomparable += 1
        if one.error != two.error:
            self.note("error", a, b, _said(a), _said(b))
            return
        if (place := _differing(one, two)) is not None:
            kind = "items" if one.is_generator else "value"
            self.note(kind, a, b, _said(a, place), _said(b, place))
            return
        for task in (a, b):
            for each in task.endings[:-1]:
                last = task.endings[-1]
                place = _differing(each, last)
                if each.arguments == last.arguments and each.error == last.error and place is not None:
                    self.note("attempts", a, b, _text(each, place), _text(last, place))
                    return

    def note(self, kind: str, a: Task, b: Task, here: str, there: str) -> None:
        """Keep the first difference, with likely reasons."""
        if self.found.first is not None:
            return
        if a.parent is not None:
            siblings = a.parent.children
        else:
            siblings = next((tasks for tree in (self.here, self.there) for tasks in tree.sessions if a in tasks), [a])
        named = [task.number for task in siblings if task.name == a.name]
        index = named.index(a.number) + 1 if a.number in named else 0
        difference = Difference(kind, a.name, index, len(named), a.site, _path(a), here, there, order=self.order)
        if kind in ("arguments", "submissions"):
            if a.parent is None:
                difference.hints = hints_of_program(self.here, self.there, self.mentions)
            else:
                difference.hints = hints_of_task(self.here, a.parent, self.there, b.parent or a.parent)
        else:
            difference.hints = hints_of_task(self.here, a, self.there, b)
        self.found.first = difference


def _path(task: Task) -> list[str]:
    """Return the functions of the tasks above a task, outermost first."""
    names = []
    above = task.parent
    while above is not None:
        names.append(above.name)
        above = above.parent
    return names[::-1]


def _are_alike(a: Task, b: Task) -> bool:
    """Return whether what two tasks have submitted should be the same."""
    if a.is_lost or b.is_lost or a.ending is None or b.ending is None:
        return False
    return a.ending.arguments == b.ending.arguments


def _differing(one: Ending, two: Ending) -> int | None:
    """Return the place of the first value that differs; None: there is none."""
    for place, (left, right) in enumerate(zip(one.values, two.values, strict=False)):
        if left != right and INCOMPARABLE not in (left, right):
            return place
    if len(one.values) != len(two.values) and not (one.is_closed or two.is_closed):
        return min(len(one.values), len(two.values))
    return None


def _text(ending: Ending, place: int) -> str:
    """Return a value, an item or an error in words."""
    if ending.error:
        return f"{ending.error}: {ending.error_text}".rstrip(": ")
    if place >= len(ending.values):
        return f"{len(ending.values)} items"
    text = ending.shown[place] if place < len(ending.shown) else f"item {place + 1}"
    kind = "item" if ending.is_generator else "element"
    return f"{kind} {place + 1}: {text}" if ending.is_generator or len(ending.values) > 1 else text


def _said(task: Task, place: int = 0) -> str:
    if task.is_lost:
        return f"no value: its worker was killed {task.kills[-1].when}, and no retry followed"
    return _text(task.ending, place) if task.ending is not None else "no value"
