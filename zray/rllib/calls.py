"""Calls of workers under way, and hanging workers.

A worker whose call does not end in time is replaced: its process is killed, and the new one runs its calls again.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import zray
from zray.util.state import list_actors

from .environments import InvalidEnvironmentError

__all__ = ["Calls", "end_in_order", "fetched"]

logger = logging.getLogger("zray.rllib")

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(zray.__file__)), "")

# Processes that are started, one after another, for a call that does not end.  The time that each has is twice that of
# the one before: a new process imports torch first.
REPLACEMENTS_MAX = 5
# Seconds after which the wait for workers without a process is explained, as by zray's own report of a slow wait.
SAID_AFTER_S = 10.0
# Actors of a session that are looked at for that.
ACTORS_MAX = 10_000
# Seconds that workers have to close their environments.
END_SECONDS = 5.0


def fetched(refs: Any) -> Any:
    """Return the values of calls of workers.

    Raises:
        InvalidEnvironmentError: an environment failed there; its sentence comes first, and then the lines of the
            program that led to it.
    """
    try:
        return zray.get(refs)
    except zray.exceptions.ZrayError as error:
        text = sentence_of(str(error))
        if text is None:
            raise
        raise InvalidEnvironmentError(text) from None


def sentence_of(report: str) -> str | None:
    """The sentence of a remote error on an environment, without frames of zray; None: another kind of error."""
    _, mark, said = report.rpartition(f"\n{InvalidEnvironmentError.__module__}.{InvalidEnvironmentError.__name__}: ")
    if not mark:
        return None
    said = re.sub(r" \(pid=\d+, node=\w+: its constructor raised\)$", "", said.rstrip())
    frames: list[str] = []
    is_own = False
    for line in report[: -len(said)].splitlines():
        if line.startswith('  File "'):
            is_own = not line.startswith(f'  File "{_FOLDER}')
        elif not line.startswith("    "):
            is_own = False
        if is_own:
            frames.append(line)
    return "\n".join([said, "In the worker:", *frames]) if frames else said


def end_in_order(actors: Sequence[Any]) -> None:
    """Let workers close their environments after their calls, and end the workers, even hanging ones."""
    if not actors or not zray.is_initialized():  # the end of the session has ended them
        return
    refs = [actor.close.remote() for actor in actors]
    zray.wait(refs, num_returns=len(refs), timeout=END_SECONDS)
    for actor in actors:
        zray.kill(actor)


class Calls:
    """Calls under way, by ref.

    Args:
        actors: the workers.  Their class has `max_restarts` and `max_task_retries`.
        timeout_s: seconds that a worker has for a call; None: no limit.
        started: the workers that have answered before; those that answer are added.  What the others wait for is said.
    """

    def __init__(self, actors: Sequence[Any], timeout_s: float | None, started: set[int] | None = None) -> None:
        self._actors, self._timeout_s = actors, timeout_s
        self._started = set(range(len(actors))) if started is None else started
        self._worker_by_ref: dict[Any, int] = {}
        self._since: dict[int, float] = {}  # worker -> when its oldest call began, or it was replaced
        self._replaced: dict[int, int] = {}  # worker -> how often, for the same call

    def __len__(self) -> int:
        return len(self._worker_by_ref)

    def add(self, ref: Any, worker: int) -> None:
        """Note a call of a worker, which runs calls one after another."""
        if worker not in self._worker_by_ref.values() or self._since[worker] == math.inf:
            self._since[worker] = time.monotonic()
        self._worker_by_ref[ref] = worker

    def wait(self, count: int = 1) -> list[tuple[Any, int]]:
        """Wait until so many calls have ended: the ref and the worker of each.

        Raises:
            InvalidEnvironmentError: a call hangs in each of several processes.
        """
        are_new = not self._started.issuperset(self._worker_by_ref.values())
        with self._explained() if are_new else contextlib.nullcontext():
            while True:
                refs = list(self._worker_by_ref)
                ready, _ = zray.wait(refs, num_returns=count, timeout=self._seconds_left())
                if len(ready) >= count:
                    break
                self._replace_late()
        ended = [(ref, self._worker_by_ref.pop(ref)) for ref in ready]
        for _, worker in ended:
            self._since[worker] = time.monotonic()
            self._replaced.pop(worker, None)
            self._started.add(worker)
        return ended

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say during a long wait for workers without a process what to do; zray says what they wait for."""
        timer = threading.Timer(SAID_AFTER_S, lambda: self._without_process(is_said=True))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _without_process(self, is_said: bool = False) -> set[int]:
        """Return the workers that wait for resources; with `is_said`, log which actors run, and what to do."""
        try:
            rows = {row["actor_id"]: row for row in list_actors(limit=ACTORS_MAX)}
        except zray.exceptions.ZrayError:  # the session ends, or stands still
            return set()
        own: list[Any] = [next((rows[name] for name in rows if name in repr(actor)), {}) for actor in self._actors]
        waiting = {
            worker for worker, row in enumerate(own) if row.get("state") == "PENDING_CREATION" and not row["pid"]
        }
        if waiting and is_said:
            others = Counter(row["class_name"] for row in rows.values() if row["state"] == "ALIVE" and row not in own)
            held = ", ".join(f"{name} x{count}" for name, count in others.items())
            logger.warning(
                "%s of %s env runners wait for resources%s.  Call algo.stop() of an algorithm that is not needed "
                "(its actors are GroupHost or Evolver), give fewer num_env_runners, or num_cpus_per_env_runner=0.5.",
                len(waiting),
                len(own),
                f", which other actors may hold: {held}" if held else ": the session has too few",
            )
        return waiting

    def _seconds_left(self) -> float | None:
        if self._timeout_s is None:
            return None
        deadlines = map(self._deadline, set(self._worker_by_ref.values()))
        left = min(deadlines) - time.monotonic()
        return max(0.0, left) if left < math.inf else None

    def _deadline(self, worker: int) -> float:
        assert self._timeout_s is not None
        return self._since[worker] + self._timeout_s * 2 ** self._replaced.get(worker, 0)

    def _replace_late(self) -> None:
        """Kill the workers past their deadline, except workers with all calls ended."""
        refs = list(self._worker_by_ref)
        ready, _ = zray.wait(refs, num_returns=len(refs), timeout=0)
        ended = set(ready)
        busy = {worker for ref, worker in self._worker_by_ref.items() if ref not in ended}
        for worker in set(self._worker_by_ref.values()) - busy:
            self._since[worker] = math.inf  # all of its calls have ended, and nobody has taken them yet
        late = {worker for worker in busy if self._deadline(worker) <= time.monotonic()}
        for worker in self._without_process() if late - self._started else ():
            self._since[worker] = time.monotonic()  # no environment hangs: the worker has not begun
        for worker in sorted(busy):
            if self._deadline(worker) > time.monotonic():
                continue
            attempt = self._replaced.get(worker, 0)
            seconds = (self._timeout_s or 0.0) * 2**attempt
            if attempt == REPLACEMENTS_MAX:
                raise InvalidEnvironmentError(
                    f"A rollout of worker {worker + 1} did not end in {attempt + 1} processes, within {seconds:g} s in "
                    "the last one: an environment hangs, or sample_timeout_s is too small."
                )
            logger.warning("Worker %s is replaced: its rollout did not end within %g s.", worker + 1, seconds)
            self._replaced[worker] = attempt + 1
            self._since[worker] = time.monotonic()
            zray.kill(self._actors[worker], no_restart=False)
