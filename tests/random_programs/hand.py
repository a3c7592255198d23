"""What a body of a random program has in hand: refs, values, actors; and what it may wait for.

So that no program hangs by itself, all actors are in one order (`Hand.rank`), and a body inside an actor waits only
for what cannot come to its own actor or one before it (`Held.reach`): a ring of waits would have to pass a first one.
Threads of a task never wait: their CPU would not be lent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

import numpy as np

from . import moves as say
from .values import Held, Known, Path, build, cause_of, describe, found_in

HAND_MAX = 12  # of each kind: the oldest goes


class Body(NamedTuple):
    """What is sent to where a program is to run.  reach: of its arguments."""

    world: Any
    tag: str
    flip: bool
    path: Path
    program: say.Program
    reach: frozenset[Path] = frozenset()
    returns: int = 1


class Ask(NamedTuple):
    """Values are needed: answered with a (value, error) for each ref."""

    how: str
    refs: list[Any]


Play = Generator[Ask, list[Any], Any]


class Hand:
    """What one body has: all that its moves choose from."""

    def __init__(
        self, body: Body, *, inside: Path | None = None, is_task: bool = False, may_block: bool = True
    ) -> None:
        self.body, self.world, self.path = body, body.world, body.path
        self.inside, self.is_task, self.may_block = inside, is_task, may_block
        self.refs: list[Held] = []
        self.values: list[Any] = []
        self.actors: list[Known] = []
        self.log: list[str] = []
        self.store: list[Any] | None = None  # a serial actor's, for this caller
        self.told: dict[Path, frozenset[Path]] = {}  # what actors may have of this body
        self.count = 0

    def pick(self, what: str, number: int) -> Any:
        found = getattr(self, what)
        return found[number % len(found)] if found else None

    def child(self) -> Path:
        """A name for a further body or actor."""
        self.count += 1
        return (*self.path, self.count)

    def _add(self, what: list[Any], item: Any) -> None:
        what.append(item)
        if len(what) > HAND_MAX:
            del what[0]

    def hold(self, refs: Iterable[Any], reach: frozenset[Path], *, is_here: bool = False) -> None:
        for ref in refs:
            self._add(self.refs, Held(ref, reach, is_here))

    def take(self, value: Any, reach: frozenset[Path]) -> None:
        """A value has come; with it all that is inside."""
        self._add(self.values, value)
        for part in found_in(value):
            if isinstance(part, Known):
                self._add(self.actors, part)
            elif isinstance(part, np.ndarray):
                if part is not value:
                    self._add(self.values, part)
            else:
                self.hold([part], reach)

    def reach_of(self, args: Iterable[Any]) -> frozenset[Path]:
        """Of values that are made of this hand."""
        reach: frozenset[Path] = frozenset()
        for arg in args:
            for part in (arg,) if isinstance(arg, Held) else found_in(arg):
                if isinstance(part, (Held, Known)):
                    reach |= part.reach
                elif not isinstance(part, np.ndarray):
                    reach |= self._reach_of_ref(part)
        return reach

    def _reach_of_ref(self, ref: Any) -> frozenset[Path]:
        """Of a ref inside a value: whatever this hand knows of it, else of all it was given."""
        known = [held.reach for held in self.refs if held.ref == ref]
        return frozenset().union(*known) if known else self.all_reach()

    def all_reach(self) -> frozenset[Path]:
        return self.body.reach.union(*[item.reach for item in (*self.refs, *self.actors)], *self.told.values())

    def rank(self, path: Path) -> tuple[int, ...]:
        return tuple(-number for number in path) if self.body.flip else path

    def may_wait(self, reach: frozenset[Path]) -> bool:
        if not self.may_block:
            return False
        inside = self.inside
        return inside is None or all(self.rank(path) > self.rank(inside) for path in reach)

    def waitable(self, picks: Iterable[int]) -> list[Held]:
        """Different refs among those chosen that this body may wait for."""
        chosen: list[Held] = []
        for number in picks:
            held = self.pick("refs", number)
            if held is None or any(held.ref == other.ref for other in chosen):
                continue
            if (held.is_here and self.may_block) or self.may_wait(held.reach):
                chosen.append(held)
        return chosen

    def arguments(self, specs: Iterable[say.Spec]) -> tuple[list[Any], frozenset[Path]]:
        """Built, with their reach."""
        args = [build(spec, self) for spec in specs]
        return args, self.reach_of(args)

    def inner(self, path: Path, program: say.Program, reach: frozenset[Path], returns: int = 1) -> Body:
        return self.body._replace(path=path, program=program, reach=reach, returns=returns)

    def hear(self, held: list[Held], answers: list[Any], catches: bool) -> list[Exception]:
        """Note answers; returns what the body is to raise."""
        raised: list[Exception] = []
        for item, (value, error) in zip(held, answers, strict=True):
            if error is None:
                self.log.append(describe(value))
                self.take(value, item.reach)
                continue
            self.log.append(f"failed: {describe(error)}")
            self.take(cause_of(error), item.reach)
            if not catches and not raised:
                raised.append(error)
        return raised
