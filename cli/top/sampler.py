"""The thread of `zray top` that asks the session, so that keys are answered meanwhile.

Looks are a second apart, and farther where an answer takes long: a busy session is asked less.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .asking import Asker, Sample
from .details import log_tail
from .summary import Waits
from .tables import text_of

SECONDS_MIN, SECONDS_MAX = 1.0, 10.0
# A look that takes so many seconds is followed by a pause of so many times that.
PACE = 30.0
# Seconds between two attempts to join a session again.
AGAIN_MIN, AGAIN_MAX = 1.0, 15.0


class Look(NamedTuple):
    """A sample, and the end of the log that was asked for."""

    sample: Sample
    log: list[str]


class Done(NamedTuple):
    """Result of a job."""

    name: str
    content: Any


class Lost(NamedTuple):
    """The session is lost, for this reason."""

    reason: str


class Sampler:
    """Looks at a session again and again, and does jobs in between.

    Args:
        asker: has joined the session.
        tell: is given each Look, Done and Lost; called in the thread.
    """

    def __init__(self, asker: Asker, tell: Callable[[Look | Done | Lost], Any]) -> None:
        self.asker, self.tell = asker, tell
        self.waits = Waits()
        self.wants_objects = False
        self.log: tuple[str, int] | None = None  # node and pid of the process whose log is shown
        self.is_paused = self.is_over = self.is_lost = False
        self.looks = 0
        self._again = AGAIN_MIN
        self._due = 0.0
        self._jobs: queue.SimpleQueue[tuple[str, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="zray-top", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End, and leave the session."""
        self.is_over = True
        self._jobs.put(None)
        self._thread.join(3.0)

    def pause(self, is_paused: bool) -> None:
        """Ask nothing until further notice; or look at once."""
        self.is_paused = is_paused
        self.look_now()

    def look_now(self) -> None:
        """Look as soon as the last look is a second old."""
        self._due = min(self._due, self._last + SECONDS_MIN) if self.looks else 0.0
        self._jobs.put(None)

    def do(self, name: str, job: Callable[[], Any]) -> None:
        """Have the thread do something for a key that was pressed."""
        self._jobs.put((name, job))

    _last = 0.0

    def _run(self) -> None:
        while not self.is_over:
            wait = None if self.is_paused else max(self._due - time.monotonic(), 0.0)
            try:
                job = self._jobs.get(timeout=wait)
            except queue.Empty:
                self._look()
                continue
            if job is not None:
                name, act = job
                self._guarded(lambda name=name, act=act: self.tell(Done(name, act())))  # type: ignore[misc]
        self.asker.leave()

    def _look(self) -> None:
        self._last = time.monotonic()
        if self.is_lost:
            self._join()
        elif not self._guarded(self._sample):
            return
        if not self.is_lost:
            took = time.monotonic() - self._last
            self._due = self._last + min(max(SECONDS_MIN, PACE * took), SECONDS_MAX)

    def _sample(self) -> None:
        sample = self.asker.look(objects=self.wants_objects)
        self.waits.look(sample, self.asker.explain)
        log = log_tail(self.log[1], self.log[0], self.asker) if self.log is not None else []
        self.looks += 1
        self.tell(Look(sample, log))

    def _guarded(self, act: Callable[[], Any]) -> bool:
        """Do something with the session, and return whether the session is there still."""
        from zray.exceptions import GetTimeoutError, ZrayError

        try:
            act()
        except GetTimeoutError as error:
            self.tell(Lost(f"it does not answer: {text_of(str(error))}"))
            self._due = time.monotonic() + AGAIN_MAX / 3
            return False
        except (ZrayError, OSError, RuntimeError) as error:
            self.asker.leave()
            self.is_lost, self._again = True, AGAIN_MIN
            self._due = time.monotonic() + self._again
            self.tell(Lost(text_of(str(error))))
            return False
        return True

    def _join(self) -> None:
        from zray.exceptions import ZrayError

        try:
            self.asker.join()
        except (ZrayError, OSError, ValueError, RuntimeError) as error:
            self._again = min(2 * self._again, AGAIN_MAX)
            self._due = time.monotonic() + self._again
            self.tell(Lost(text_of(str(error))))
        else:
            self.is_lost, self.waits = False, Waits()
            self._due = 0.0
