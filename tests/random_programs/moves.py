"""What a random program is made of: plain data.  A task gets its part of it, and does the same each time it runs.

Numbers that choose (`pick`) are taken modulo what there is to choose from when the move is made; a move that finds
nothing to act upon is left out.  So any part of a program may be taken away, and the rest is a program.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Spec(NamedTuple):
    """A value to be made; kinds: see `values.build`.  At the top level of arguments a "ref" is resolved."""

    kind: str
    number: int = 0
    parts: tuple[Spec, ...] = ()


class Program(NamedTuple):
    """The body of a driver, task, method, constructor or thread.  form: what it returns, see `play.results_of`."""

    moves: tuple[Any, ...]
    results: tuple[Spec, ...] = ()
    form: str = "all"


class Put(NamedTuple):
    value: Spec


class Submit(NamedTuple):
    """how: plain, keywords, closure (the arguments are what the function's closure holds)."""

    args: tuple[Spec, ...]
    program: Program
    how: str = "plain"
    options: dict[str, Any] = {}


class Chain(NamedTuple):
    """So many tiny tasks, each of which passes on what the one before it returned."""

    value: Spec
    length: int


class Get(NamedTuple):
    """how: see `worlds.Real.answer`.  catches: a failure is noted; else it is the body's own."""

    picks: tuple[int, ...]
    how: str = "each"
    catches: bool = True


class Wait(NamedTuple):
    picks: tuple[int, ...]
    count: int
    timeout: float | None = None
    fetch: bool = True


class Drop(NamedTuple):
    """what: refs, values, actors."""

    what: str
    pick: int


class View(NamedTuple):
    """A part of an array, in place."""

    pick: int


class Create(NamedTuple):
    """kind: serial, threaded, async."""

    kind: str
    is_named: bool
    args: tuple[Spec, ...]
    program: Program


class Call(NamedTuple):
    pick: int
    args: tuple[Spec, ...]
    program: Program
    options: dict[str, Any] = {}
    method: str = "call"


class Find(NamedTuple):
    """Another handle on an actor that has a name."""

    pick: int


class Private(NamedTuple):
    """An actor whose handle nobody else gets, so that its end is determined.  endings: see `play.private`."""

    ending: str
    create: Create
    calls: tuple[Call, ...]


class Threads(NamedTuple):
    programs: tuple[Program, ...]


class Keep(NamedTuple):
    """In a serial actor's method: for the same caller's next calls."""

    value: Spec


class Raise(NamedTuple):
    value: Spec


class Stumble(NamedTuple):
    """Raise Stumbled, the first time that this body runs."""


class Crash(NamedTuple):
    """End the process, the first time that this body runs."""


class Nap(NamedTuple):
    """Let others go first; at another place each time."""

    seconds: float


def parts_of(program: Program) -> list[Any]:
    """All moves of a program, and of the programs inside."""
    found: list[Any] = []
    for move in program.moves:
        found.append(move)
        for inner in programs_in(move):
            found += parts_of(inner)
    return found


def programs_in(move: Any) -> list[Program]:
    """The programs directly inside a move."""
    if type(move) is Private:
        return [move.create.program, *(call.program for call in move.calls)]
    if type(move) is Threads:
        return list(move.programs)
    return [move.program] if hasattr(move, "program") else []


def text_of(program: Program, indent: str = "") -> str:
    """For people."""
    lines = []
    for move in program.moves:
        fields = move._asdict()
        inner = programs_in(move)
        for name in ("program", "programs", "create", "calls"):
            fields.pop(name, None)
        said = [f"{name}={_text_of(value)}" for name, value in fields.items() if value not in ((), {}, None)]
        if type(move) is Private:
            said += [_text_of(part._replace(program=None)) for part in (move.create, *move.calls)]
        lines.append(f"{indent}{type(move).__name__} {' '.join(said)}")
        lines += [text_of(part, indent + "    ") for part in inner]
    return "\n".join([*lines, f"{indent}-> {program.form} {_text_of(program.results)}"])


def _text_of(value: Any) -> str:
    if isinstance(value, Spec):
        return f"{value.kind}:{value.number}{_text_of(value.parts) if value.parts else ''}"
    if type(value) is tuple:
        return f"({', '.join(map(_text_of, value))})"
    return repr(value)
