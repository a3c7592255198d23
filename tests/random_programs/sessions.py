"""Random programs in real sessions, compared with one thread that does the same: `python -m ... --seed N --runs M`.

A seed is a session, with a few programs one after the other: each value and each kind of error must be the sequential
world's, and in the end nothing is left.  What differs, stays or hangs is told with the line that replays the seed.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import itertools
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import zray
from tests.gates import until
from zray.host import context
from zray.wire.session import GetStatus

from .hand import Body, Hand
from .moves import Program, text_of
from .play import drive, finale
from .values import describe
from .worlds import Real, Sequential
from .writer import Style, style_of, write

PROGRAMS = 4  # per session
SECONDS_MAX = 60.0  # for one program
REST_SECONDS = 20.0
LEFT = ("objects", "actors", "tasks", "pinned", "store_objects", "store_used_bytes", "task_records")
RESOURCES = {"slot": 2}


class Wrong(Exception):
    """What was found, in words."""

    code = 1


class Left(Wrong):
    """Something stays."""

    code = 2


def programs_of(seed: int) -> list[tuple[Style, Program]]:
    """Those of one session; the first one's style says how many CPUs it has."""
    rng = random.Random(seed)
    style = style_of(rng)
    styles = [style] + [style_of(rng)._replace(cpus=style.cpus) for _ in range(PROGRAMS - 1)]
    return [(style, write(rng, style)) for style in styles]


def run_in(world: Any, tag: str, style: Style, program: Program) -> list[str]:
    """What the driver sees of a program."""
    body = Body(world, tag, style.flip, (), program)
    try:
        return drive(world, finale(Hand(body)))
    except Exception as error:
        return [f"raised: {describe(error)}"]


def left_over() -> dict[str, Any]:
    """What a session at rest must not have."""
    gc.collect()
    status = context.runtime.ask(GetStatus)
    left: dict[str, Any] = {name: status.counts[name] for name in LEFT if status.counts.get(name)}
    if status.free != status.total:
        left["resources"] = (status.free, status.total)
    return left


def difference(expected: list[str], found: list[str]) -> str:
    """The first line that differs."""
    for index, (one, other) in enumerate(itertools.zip_longest(expected, found)):
        if one != other:
            return f"line {index} of {len(expected)}\n    expected {one}\n    found    {other}"
    return "line ends"


def compare(real: Real, tag: str, style: Style, program: Program) -> None:
    """Run a program in both worlds.

    Raises:
        Wrong: they differ.
        Left: something stays.
    """
    sequential = Sequential()
    expected = run_in(sequential, tag, style, program)
    found = run_in(real, tag, style, program)
    differences = []
    if found != expected:
        differences.append(f"  the driver: {difference(expected, found)}")
    else:
        try:
            until(lambda: not left_over(), REST_SECONDS)
        except AssertionError:
            raise Left(f"at rest there is left: {left_over()}") from None
    for path, log in sequential.logs.items():
        file = real.file_of("ended", tag, path)
        if file.exists() and file.read_text() != "\n".join(log):
            differences.append(f"  body {path}: {difference(log, file.read_text().splitlines())}")
    if differences:
        raise Wrong("\n".join(["other values than in one thread:", *differences]))


class Watchdog:
    """Tells all it can find out when a program hangs, then ends this process."""

    def __init__(self, real: Real, what: str, seconds: float) -> None:
        self.real, self.what = real, what
        self.timer = threading.Timer(seconds, self.tell)
        self.timer.daemon = True

    def __enter__(self) -> None:
        self.timer.start()

    def __exit__(self, *error: object) -> None:
        self.timer.cancel()

    def tell(self) -> None:
        say(f"{self.what} hangs.  The driver:")
        faulthandler.dump_traceback(sys.stdout.fileno())
        for path in sorted((self.real.folder / "begun").iterdir()):
            if not (self.real.folder / "ended" / path.name).exists():
                say(f"body {path.name} has begun in process {path.read_text()}, and not ended")
        for path in sorted((self.real.folder / "stacks").iterdir()):
            self._tell_stacks(path)
        try:
            say(f"status: {context.runtime.ask(GetStatus, timeout=5)}")
        except Exception as error:
            say(f"status: {error!r}")
        os._exit(3)

    def _tell_stacks(self, path: Path) -> None:
        if int(path.name) == os.getpid():
            return
        try:
            os.kill(int(path.name), signal.SIGUSR1)
        except ProcessLookupError:
            return
        try:
            until(lambda: path.stat().st_size, 2)
        except AssertionError:
            pass
        say(f"process {path.name}:\n{path.read_text()}")


def say(text: str) -> None:
    print(text, flush=True)


def run_session(what: str, programs: list[tuple[Style, Program]], seconds: float) -> None:
    """Raises Wrong."""
    with tempfile.TemporaryDirectory() as folder:
        real = Real(Path(folder))
        real.make_folders()
        with zray.init(num_cpus=programs[0][0].cpus, resources=RESOURCES, log_to_driver=False):
            for index, (style, program) in enumerate(programs):
                with Watchdog(real, f"{what}, program {index}", seconds):
                    try:
                        compare(real, f"{index}", style, program)
                    except Wrong as error:
                        raise type(error)(f"program {index}: {error}") from None


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help="after which a program hangs")
    parser.add_argument("--file", type=Path, help="programs to run instead, pickled")
    parser.add_argument("--show", action="store_true", help="print the programs, run nothing")
    options = parser.parse_args(args)
    warnings.simplefilter("ignore", UserWarning)  # of large closures
    for seed in range(options.seed, options.seed + options.runs):
        programs = pickle.loads(options.file.read_bytes()) if options.file else programs_of(seed)
        if options.show:
            say("\n".join(f"{style}\n{text_of(program, '    ')}" for style, program in programs))
            continue
        replay = f"python -m tests.random_programs.sessions --seed {seed}"
        try:
            run_session(replay, programs, options.seconds)
        except Wrong as error:
            say(f"{replay}\n{error}")
            return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
