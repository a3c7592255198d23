"""`scripts/simulate --against COMMIT`: the same seeds in two trees, and the first different frame or message.

A change outside the protocol leaves every run the same: the same bytes in the same frames, at the same virtual times.
Names of classes and modules are no part of a run, so renaming leaves runs the same too.

The other tree is unpacked into a temporary folder (`git archive`).  A process in each tree runs the seeds and prints a
digest of each run.  The first different run is repeated in both, and its lines are compared.

The other tree, which may be older, executes this file as well, and provides only `run_seed`, `Wanted` and the three
methods of `Trace`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

# Lines of a transcript before the first different line.
LINES_BEFORE = 40
LINE_CHARACTERS_MAX = 400
# Senders of messages that never leave a process: only the time of arrival is compared.
LOCAL_SENDERS = ("host", "timer")


class Recorder:
    """Lines of a run: the compared bytes, and the same as texts."""

    def __init__(self, keeps_words: bool) -> None:
        self.hash = blake2b(digest_size=16)
        self.count = 0
        self.words: list[tuple[str, str]] | None = [] if keeps_words else None

    def add(self, said: bytes, words: Any) -> None:
        """Add a line.  words: called for the text where texts are kept."""
        self.count += 1
        self.hash.update(said)
        if self.words is not None:
            self.words.append((blake2b(said, digest_size=8).hexdigest(), words()[:LINE_CHARACTERS_MAX]))


def record(seed: int, asked: dict[str, Any], *, keeps_words: bool = False) -> tuple[Recorder, str]:
    """Run a seed in the tree from which `zray` is imported.  Returns its lines, and its error."""
    from zray.sim import trace
    from zray.sim.main import run_seed
    from zray.sim.options import Wanted

    recorder = Recorder(keeps_words)

    def frame(self: Any, now: float, source: str, target: str, data: bytes) -> None:
        recorder.add(
            f"{now!r} {source} {target} ".encode() + data,
            lambda: f"{now:11.6f}  frame of {len(data)} bytes, {source} -> {target}",
        )
        kept["frame"](self, now, source, target, data)

    def message(self: Any, now: float, source: str, target: str, said: Any) -> None:
        tag = type(said).__struct_config__.tag
        what = source if source in LOCAL_SENDERS else str(tag) if isinstance(tag, int) else "local"
        recorder.add(f"{now!r} {target} {what}".encode(), lambda: trace.render((now, source, target, said)))
        kept["message"](self, now, source, target, said)

    def event(self: Any, now: float, target: str, words: str) -> None:
        recorder.add(f"{now!r} {target} {words}".encode(), lambda: f"{now:11.6f}  {target}: {words}")
        kept["event"](self, now, target, words)

    ours = {"frame": frame, "message": message, "event": event}
    kept = {name: getattr(trace.Trace, name) for name in ours}
    try:
        for name, method in ours.items():
            setattr(trace.Trace, name, method)
        error = run_seed(seed, Wanted(**asked)).error
    finally:
        for name, method in kept.items():
            setattr(trace.Trace, name, method)
    return recorder, error


def serve(request: dict[str, Any]) -> None:
    """Print a line of JSON for each seed, or for each line of one seed, in a tree's process."""
    if request["words"]:
        recorder, _ = record(request["seeds"][0], request["asked"], keeps_words=True)
        for line in recorder.words or ():
            print(json.dumps(line))
        return
    for seed in request["seeds"]:
        recorder, error = record(seed, request["asked"])
        print(json.dumps([seed, recorder.hash.hexdigest(), recorder.count, bool(error)]), flush=True)


class Tree:
    """A folder with its own `zray`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name

    def start(self, seeds: list[int], asked: dict[str, Any], *, words: bool = False) -> subprocess.Popen[str]:
        """Start a process that runs the seeds in this tree."""
        request = {"seeds": seeds, "asked": asked, "words": words}
        # The file is not run by its name: modules beside it would hide modules of the standard library.
        program = (
            f"__name__ = 'against'; exec(compile(open({__file__!r}).read(), {__file__!r}, 'exec')); serve({request!r})"
        )
        return subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            text=True,
        )

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that imports this tree."""
        return {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONHASHSEED": "0"}


@contextmanager
def unpacked(commit: str) -> Iterator[Tree]:
    """Unpack a commit of this tree's repository into a temporary folder.

    Raises:
        RuntimeError: there is no such commit.
    """
    with tempfile.TemporaryDirectory(prefix="zray-against-") as folder:
        packed = subprocess.run(
            ["git", "archive", commit, "zray"], cwd=this_tree().folder, capture_output=True, check=False
        )
        if packed.returncode:
            raise RuntimeError(f"git archive {commit}: {packed.stderr.decode(errors='replace').strip()}")
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Tree(Path(folder), commit)


def this_tree() -> Tree:
    """Return the tree of this file, in its present state."""
    return Tree(Path(__file__).resolve().parents[2], "this tree")


def lines_of(process: subprocess.Popen[str], tree: Tree) -> Iterator[Any]:
    """Yield the decoded lines of JSON printed by a tree's process.

    Raises:
        RuntimeError: the process failed.
    """
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            yield json.loads(line)
    if process.wait():
        raise RuntimeError(f"{tree.name} could not run these seeds: its process ended with {process.returncode}")


def compare(ours: Tree, theirs: Tree, seeds: list[int], asked: dict[str, Any]) -> str:
    """Run the seeds in both trees.  Returns "" if all runs are equal, else the place of the first difference."""
    both = [(tree, tree.start(seeds, asked)) for tree in (ours, theirs)]
    try:
        for mine, other in zip(*(lines_of(process, tree) for tree, process in both), strict=True):
            if mine != other:
                return difference(ours, theirs, mine[0], asked)
    finally:
        for _, process in both:
            process.kill()
            process.wait()
    return ""


def difference(ours: Tree, theirs: Tree, seed: int, asked: dict[str, Any]) -> str:
    """Return the first different line of a run in two trees, and the lines before."""
    both = [(tree, tree.start([seed], asked, words=True)) for tree in (ours, theirs)]
    mine, other = (list(lines_of(process, tree)) for tree, process in both)
    place = next(
        (number for number, (a, b) in enumerate(zip(mine, other, strict=False)) if a[0] != b[0]),
        min(len(mine), len(other)),
    )
    before = [words for _, words in islice(mine, max(0, place - LINES_BEFORE), place)]

    def at(lines: list[Any]) -> str:
        return lines[place][1] if place < len(lines) else "the run has ended"

    told = [*before, f"--- line {place + 1} of seed {seed}", f"{ours.name}: {at(mine)}", f"{theirs.name}: {at(other)}"]
    return "\n".join(told)


def compare_with(commit: str, seeds: list[int], asked: dict[str, Any]) -> str:
    """Compare this tree, in its present state, with a commit of its repository.

    Raises:
        RuntimeError: there is no such commit.
    """
    with unpacked(commit) as theirs:
        return compare(this_tree(), theirs, seeds, asked)
