"""Writes random programs.  One seed decides everything; each leaves some kinds of moves out, so that others meet."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from . import moves as say
from .moves import Program, Spec

SCALARS = ("int", "text")
NESTS = ("list", "list", "tuple", "dict", "box", "closure", "error")
HOW_TO_GET = ("each", "each", "list", "list", "completed", "zero", "future")
WAITS = (say.Get, say.Wait, say.Private, say.Threads)
STATEFUL = (say.Create, say.Call, say.Private, say.Threads, say.Keep, say.Find)
MOST_NUMBER = 100
SMALL = 61  # chooses an array or bytes of a few bytes


class Style(NamedTuple):
    """What a program may have."""

    cpus: int
    flip: bool  # the order of actors: the first, or the last, waits for the others
    bodies: int
    has_actors: bool
    has_threads: bool
    has_crashes: bool
    has_stumbles: bool
    has_errors: bool
    has_large: bool
    has_naps: bool


def style_of(rng: random.Random) -> Style:
    has_crashes = rng.random() < 0.2
    return Style(
        cpus=rng.choice((1, 2, 2, 2, 3)),
        flip=rng.random() < 0.5,
        bodies=rng.choice((8, 25, 60)),
        has_actors=not has_crashes and rng.random() < 0.7,
        has_threads=not has_crashes and rng.random() < 0.4,
        has_crashes=has_crashes,
        has_stumbles=rng.random() < 0.4,
        has_errors=rng.random() < 0.7,
        has_large=rng.random() < 0.7,
        has_naps=rng.random() < 0.4,
    )


class Writer:
    """One program."""

    def __init__(self, rng: random.Random, style: Style) -> None:
        self.rng, self.style = rng, style
        self.left = style.bodies

    def number(self) -> int:
        return self.rng.randrange(MOST_NUMBER)

    # --- values ---

    def value(self, depth: int = 2, *, may_be_large: bool = True) -> Spec:
        rng, has_large = self.rng, self.style.has_large
        weights = {"scalar": 2, "plain": 3, "value": 2 if may_be_large or not has_large else 0, "ref": 4, "actor": 1}
        (kind,) = rng.choices([*weights, "nest"], [*weights.values(), 4 if depth else 0])
        if kind == "nest":
            return self.nest(rng.choice(NESTS), depth, may_be_large=may_be_large)
        if kind == "scalar":
            return Spec(rng.choice(SCALARS), rng.randrange(1000))
        if kind == "plain":
            return Spec(
                rng.choice(("array", "array", "bytes")), rng.randrange(300) if may_be_large and has_large else SMALL
            )
        return Spec(kind, self.number())

    def nest(self, kind: str, depth: int, *, may_be_large: bool = True) -> Spec:
        parts = tuple(self.value(depth - 1, may_be_large=may_be_large) for _ in range(self.rng.randrange(4)))
        return Spec(kind, self.rng.randrange(100), parts)

    def error(self) -> say.Raise:
        """Errors carry a quarter of a megabyte at most."""
        return say.Raise(self.nest("error", 2, may_be_large=False))

    def arguments(self) -> tuple[Spec, ...]:
        return tuple(self.value() for _ in range(self.rng.choice((0, 1, 1, 2, 3))))

    # --- programs ---

    def program(self, role: str, depth: int) -> Program:
        """role: driver, task, method, constructor, thread."""
        rng = self.rng
        self.left -= 1
        count = rng.randrange(6, 18) if role == "driver" else rng.randrange(0, 7)
        moves = [move for _ in range(count) if (move := self.move(role, depth)) is not None]
        if role not in ("driver", "constructor") and self.style.has_errors and rng.random() < 0.15:
            moves.append(self.error())
        results = tuple(self.value() for _ in range(rng.randrange(1, 4)))
        return Program(tuple(moves), results, rng.choice(("all", "all", "bare")))

    def move(self, role: str, depth: int) -> Any:
        style, may_nest = self.style, depth > 0 and self.left > 0
        weights = {
            "put": 3,
            "submit": 6 if may_nest else 0,
            "get": 4,
            "wait": 1,
            "drop": 2,
            "view": 0.7,
            "chain": 0.7,
            "nap": 0.7 if style.has_naps else 0,
            "create": 2 if style.has_actors and may_nest else 0,
            "call": 5 if style.has_actors and may_nest else 0,
            "find": 0.5 if style.has_actors else 0,
            "private": 1 if style.has_actors and may_nest else 0,
            "threads": 0.7 if style.has_threads and may_nest and role != "thread" else 0,
            "keep": 2 if role == "method" else 0,
        }
        (kind,) = self.rng.choices(list(weights), list(weights.values()))
        return getattr(self, f"write_{kind}")(depth)

    def write_put(self, depth: int) -> Any:
        return say.Put(self.value())

    def write_submit(self, depth: int) -> Any:
        program = self.program("task", depth - 1)
        options = self.retries(program, "max_retries")
        if "max_retries" in options:
            program = self.with_troubles(program, options)
        self.vary_returns(options, program)
        rng = self.rng
        if rng.random() < 0.3:
            options["num_cpus"] = rng.choice((0, 0.5, self.style.cpus))
        if rng.random() < 0.1 and not any(isinstance(move, WAITS) for move in program.moves):
            options["resources"] = {"slot": 1}
        how = rng.choice(("plain", "plain", "plain", "keywords", "closure"))
        return say.Submit(self.arguments(), program, how, options)

    def vary_returns(self, options: dict[str, Any], program: Program) -> None:
        """Mostly one; else as many as there will be, or, seldom, others."""
        if self.rng.random() < 0.3:
            right = len(program.results) + 1
            options["num_returns"] = self.rng.choice(
                (0, right, right, right, right + 1 if self.style.has_errors else 0)
            )

    def retries(self, program: Program, name: str) -> dict[str, Any]:
        """Options that let a body run again, where that cannot be told from outside."""
        if any(isinstance(move, STATEFUL) for move in say.parts_of(program)):
            return {}
        options: dict[str, Any] = {}
        if self.style.has_stumbles and self.rng.random() < 0.4:
            options = {name: 4, "retry_exceptions": True}
        elif self.style.has_crashes:
            options = {name: 4}
        return options

    def with_troubles(self, program: Program, options: dict[str, Any]) -> Program:
        """The same with a first attempt that fails somewhere."""
        moves = list(program.moves)
        if self.style.has_crashes and self.rng.random() < 0.3:
            moves.insert(self.rng.randrange(len(moves) + 1), say.Crash())
        elif "retry_exceptions" in options and self.rng.random() < 0.6:
            moves.insert(self.rng.randrange(len(moves) + 1), say.Stumble())
        return program._replace(moves=tuple(moves))

    def write_get(self, depth: int) -> Any:
        picks = tuple(self.number() for _ in range(self.rng.choice((1, 1, 1, 2, 5))))
        return say.Get(picks, self.rng.choice(HOW_TO_GET), self.rng.random() < 0.8)

    def write_wait(self, depth: int) -> Any:
        picks = tuple(self.number() for _ in range(self.rng.randrange(1, 6)))
        timeout = self.rng.choice((None, None, 0, 0.001))
        return say.Wait(picks, self.rng.randrange(1, 6), timeout, self.rng.random() < 0.8)

    def write_drop(self, depth: int) -> Any:
        return say.Drop(self.rng.choice(("refs", "refs", "refs", "values", "values", "actors")), self.number())

    def write_view(self, depth: int) -> Any:
        return say.View(self.number())

    def write_chain(self, depth: int) -> Any:
        return say.Chain(self.value(), self.rng.choice((1, 2, 5, 20)))

    def write_nap(self, depth: int) -> Any:
        return say.Nap(self.rng.choice((0.0005, 0.003, 0.02)))

    # --- actors ---

    def write_create(self, depth: int) -> Any:
        kind = self.rng.choice(("serial", "serial", "threaded", "async"))
        program = self.program("constructor", depth - 1)
        if self.style.has_errors and self.rng.random() < 0.05:
            program = program._replace(moves=(*program.moves, self.error()))
        return say.Create(kind, self.rng.random() < 0.2, self.arguments(), program)

    def write_call(self, depth: int) -> Any:
        program = self.program("method", depth - 1)
        options = self.retries(program, "max_task_retries")
        if options:
            program = self.with_troubles(program, options)
        self.vary_returns(options, program)
        method = "plain" if self.rng.random() < 0.2 else "call"
        return say.Call(self.number(), self.arguments(), program, options, method)

    def write_find(self, depth: int) -> Any:
        return say.Find(self.number())

    def write_private(self, depth: int) -> Any:
        endings = ["scope", "kill", "leaves", "detached", "killed_now", "leaves_now"]
        ending = self.rng.choice(endings)
        create = self.write_create(depth)._replace(is_named=False)
        if ending == "leaves_now":
            create = create._replace(kind="serial")
        calls = tuple(self.write_call(depth) for _ in range(self.rng.randrange(0, 5)))
        if ending == "leaves_now":  # one that runs again would come behind the one that leaves
            calls = tuple(call for call in calls if "retry_exceptions" not in call.options)
        return say.Private(ending, create, calls)

    def write_threads(self, depth: int) -> Any:
        return say.Threads(tuple(self.program("thread", depth - 1) for _ in range(self.rng.randrange(1, 4))))

    def write_keep(self, depth: int) -> Any:
        return say.Keep(self.value())


def write(rng: random.Random, style: Style) -> Program:
    return Writer(rng, style).program("driver", 4)
