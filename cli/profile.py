"""`zray profile`: where a task, an actor or a worker spends its time, by samples of its stacks."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING

import click

from .flame_graph import FORMS, Stack
from .stacks import PY_SPY_SECONDS, Frame, Thread, Unreadable, asking, check_runs, py_spy

if TYPE_CHECKING:
    from .processes import Process

DURATION_MAX = 600.0
# Each sample without py-spy interrupts every thread.
RATE_BY_REQUEST_MAX = 20
RATE_MAX = 1_000
SAMPLES_MAX = 100_000
SEPARATOR = ";"


@click.command()
@click.argument("id", metavar="ID")
@click.option(
    "--duration", type=click.FloatRange(0.1, DURATION_MAX), default=5.0, show_default=True, metavar="S", help="Seconds."
)
@click.option(
    "--rate",
    type=click.IntRange(1, RATE_MAX),
    default=100,
    show_default=True,
    metavar="N",
    help=f"Samples a second; at most {RATE_BY_REQUEST_MAX} without py-spy.",
)
@click.option("--output", "-o", default="profile.svg", show_default=True, metavar="FILE", help=".svg, .json or .txt.")
@click.option("--verbose", "-v", is_flag=True, help="All frames and threads, also those of zray.")
def profile(id: str, duration: float, rate: int, output: str, verbose: bool) -> None:
    """Sample the process of a task or an actor, and write where its threads were, also while they waited.

    ID is that of a task or an actor, its beginning, the name of a function or of an actor, or a pid.

    FILE is a flame graph (.svg), a file for https://www.speedscope.app (.json), or a line for each stack (.txt).
    """
    from .processes import chosen, processes
    from .stack import title

    form = FORMS.get(os.path.splitext(output)[1])
    if form is None:
        raise click.UsageError(f"The name of the output ends in {', '.join(FORMS)}, not {output!r}.")
    if duration * rate > SAMPLES_MAX:
        raise click.UsageError(f"{duration * rate:,.0f} samples are too many: at most {SAMPLES_MAX:,}.")
    named = [*chosen(processes(), [id])]
    if len(named) > 1:
        pids = ", ".join(str(process.pid) for process in named)
        raise click.UsageError(f"Several processes run {id!r}: give one of the pids {pids}.")
    (process,) = named
    try:
        with open(output, "w", encoding="utf-8") as file:  # ahead of the work, since it may fail
            try:
                samples = _samples(process, duration, rate, verbose)
            except Unreadable as error:
                raise click.ClickException(f"{title(process)}: it {error}.") from None
            if not samples:
                raise click.ClickException(
                    f"{title(process)}: no code of the program ran meanwhile.  --verbose shows the code of zray."
                )
            file.write(form(samples, f"{title(process)}, {samples.total():,} samples"))
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}.") from None
    except click.ClickException:
        os.unlink(output)
        raise
    click.echo(f"{output}: {samples.total():,} samples of process {process.pid}")


def _samples(process: Process, duration: float, rate: int, verbose: bool) -> Counter[Stack]:
    check_runs(process.pid)
    samples = by_py_spy(process.pid, duration, rate, verbose) if py_spy() else None
    if samples is not None:
        return samples
    if rate > RATE_BY_REQUEST_MAX:
        why = "py-spy may not trace the process" if py_spy() else "py-spy is not installed"
        click.echo(f"{RATE_BY_REQUEST_MAX} samples a second, since {why}.", err=True)
    return by_request(process.pid, duration, min(rate, RATE_BY_REQUEST_MAX), verbose)


def by_request(pid: int, duration: float, rate: int, verbose: bool) -> Counter[Stack]:
    """Take samples as `zray stack` does, until the time is over or the process ends.

    A process whose C code holds the GIL answers late.  Its threads have stood there for as many samples as were due
    meanwhile, and those are counted.

    Raises:
        Unreadable: there is no sample.
    """
    samples: Counter[Stack] = Counter()
    begun, number = time.monotonic(), 0
    with asking(pid) as asker:
        while number < max(1, round(duration * rate)):
            time.sleep(max(0.0, begun + number / rate - time.monotonic()))
            try:
                check_runs(pid)
                threads = asker.stacks()
            except Unreadable:
                if not samples:
                    raise
                break
            due = int((time.monotonic() - begun) * rate) + 1
            add(samples, threads, verbose, max(1, due - number))
            number = max(number + 1, due)
    return samples


def add(samples: Counter[Stack], threads: list[Thread], verbose: bool, times: int = 1) -> None:
    """Count the stacks of a sample, or of several at once."""
    for thread in threads:
        if verbose or not thread.is_own:
            frames = [frame for frame in thread.frames if verbose or not frame.is_own]
            samples[tuple((frame.function, frame.file) for frame in frames)] += times


def by_py_spy(pid: int, duration: float, rate: int, verbose: bool) -> Counter[Stack] | None:
    """Take samples with py-spy; None: it may not look."""
    handle, path = tempfile.mkstemp(prefix="zray-profile-")
    os.close(handle)
    options = ["--format", "raw", "--idle", "--full-filenames", "--output", path]
    command = [py_spy(), "record", "--pid", str(pid), "--duration", f"{max(1, round(duration))}", "--rate", str(rate)]
    try:
        done = subprocess.run(
            [*command, *options],
            timeout=duration + PY_SPY_SECONDS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with open(path, encoding="utf-8", errors="replace") as file:
            return of_raw(file.read(), verbose) if not done.returncode else None
    except (OSError, subprocess.SubprocessError):
        return None
    finally:
        os.unlink(path)


def of_raw(text: str, verbose: bool) -> Counter[Stack]:
    """Read the lines of py-spy: `outer (file.py:3);inner (file.py:8) 12`."""
    samples: Counter[Stack] = Counter()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if not count.isdecimal():
            continue
        frames = []
        for part in stack.split(SEPARATOR):
            function, _, place = part[:-1].partition(" (")
            file, _, number = place.rpartition(":")
            if function and number.isdecimal():
                frames.append(Frame(function, file, int(number)))
        add(samples, [Thread(0, "", False, frames)], verbose, int(count))
    return samples
