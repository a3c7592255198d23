"""Makes a failing program small: `python -m tests.random_programs.shrink --seed N --program I`; prints what is left.

Parts are taken away as long as what is left fails in the same way, in one of a few runs.
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import moves as say
from .moves import Program, Spec, text_of
from .sessions import programs_of

SIMPLEST = Spec("int", 1)


def without_parts(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Large parts first."""
    size = len(items)
    while size:
        for begin in range(0, len(items), size):
            yield items[:begin] + items[begin + size :]
        size //= 2


def smaller_specs(specs: tuple[Spec, ...]) -> Iterator[tuple[Spec, ...]]:
    yield from without_parts(specs)
    for index, spec in enumerate(specs):
        rest = specs[:index], specs[index + 1 :]
        if spec.parts:
            for parts in smaller_specs(spec.parts):
                yield (*rest[0], spec._replace(parts=parts), *rest[1])
            for part in spec.parts:
                yield (*rest[0], part, *rest[1])
        elif spec != SIMPLEST:
            yield (*rest[0], SIMPLEST, *rest[1])
            if spec.number > 9:
                yield (*rest[0], spec._replace(number=spec.number % 10), *rest[1])


def smaller_moves(move: Any) -> Iterator[Any]:
    if isinstance(move, say.Threads):
        yield from (move._replace(programs=p) for p in without_parts(move.programs))
        for index, program in enumerate(move.programs):
            for less in smaller(program):
                yield move._replace(programs=(*move.programs[:index], less, *move.programs[index + 1 :]))
        return
    if isinstance(move, say.Private):
        yield from (move._replace(calls=calls) for calls in without_parts(move.calls))
        yield from (move._replace(create=create) for create in smaller_moves(move.create))
        for index, call in enumerate(move.calls):
            for less in smaller_moves(call):
                yield move._replace(calls=(*move.calls[:index], less, *move.calls[index + 1 :]))
        return
    fields = move._asdict()
    if "program" in fields:
        yield from (move._replace(program=program) for program in smaller(move.program))
    if "args" in fields:
        yield from (move._replace(args=args) for args in smaller_specs(move.args))
    for name in fields.get("options", ()):
        yield move._replace(options={key: value for key, value in move.options.items() if key != name})
    for name, simple in (("how", "plain" if isinstance(move, say.Submit) else "each"), ("method", "call")):
        if fields.get(name, simple) != simple:
            yield move._replace(**{name: simple})
    if "picks" in fields:
        yield from (move._replace(picks=picks) for picks in without_parts(move.picks) if picks)
    if isinstance(move, say.Chain) and move.length > 1:
        yield move._replace(length=move.length // 2)
    if "value" in fields:
        yield from (move._replace(value=specs[0]) for specs in smaller_specs((move.value,)) if len(specs) == 1)


def smaller(program: Program) -> Iterator[Program]:
    """All that is one step smaller."""
    for moves in without_parts(program.moves):
        yield program._replace(moves=moves)
    for results in smaller_specs(program.results):
        yield program._replace(results=results)
    for index, move in enumerate(program.moves):
        for inner in say.programs_in(move):  # its children in its place
            yield program._replace(moves=(*program.moves[:index], *inner.moves, *program.moves[index + 1 :]))
        for less in smaller_moves(move):
            yield program._replace(moves=(*program.moves[:index], less, *program.moves[index + 1 :]))


def outcome(style: Any, program: Program, times: int, seconds: float) -> tuple[int, str]:
    """Of so many runs in one session: the exit code, and what was said."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        path.write_bytes(pickle.dumps([(style, program)] * times))
        command = [sys.executable, "-m", "tests.random_programs.sessions", "--file", str(path)]
        command += ["--seconds", str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--program", type=int, default=0)
    parser.add_argument("--times", type=int, default=3, help="runs that a part may take to fail")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    style, program = programs_of(options.seed)[options.program]
    code, said = outcome(style, program, options.times, options.seconds)
    print(f"{code}: {said[:1000]}", flush=True)
    is_smaller = code != 0
    while is_smaller:
        is_smaller = False
        for less in smaller(program):
            found, text = outcome(style, less, options.times, options.seconds)
            if found == code:
                program, said, is_smaller = less, text, True
                print(f"{len(say.parts_of(program))} moves", flush=True)
                break
    print(f"{style}\n{text_of(program)}\n{program!r}\n{said[:3000]}")


if __name__ == "__main__":
    main()
