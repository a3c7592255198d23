"""Handle of a call with `async_op=True`, and the thread that runs such calls of a group in their order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from ...exceptions import GetTimeoutError


class Handle:
    """Call that runs in the background.  The tensor belongs to the call until `wait` returns.

    handle = collective.allreduce(gradient, async_op=True)
    calculate_more()
    handle.wait()
    """

    __module__ = "zray.util.collective"

    def __init__(self, run: Callable[[], None]) -> None:
        self._run: Callable[[], None] | None = run
        self._error: BaseException | None = None
        self._has_ended = threading.Event()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the call has ended.

        Args:
            timeout: seconds to wait at most; None: no limit.

        Raises:
            GetTimeoutError: the call goes on after the timeout.
            RuntimeError: any error of the call.
        """
        if not self._has_ended.wait(timeout):
            raise GetTimeoutError(f"The collective call has not ended within {timeout} s, and goes on.")
        if self._error is not None:
            raise self._error

    def is_completed(self) -> bool:
        """Whether the call has ended, well or with an error."""
        return self._has_ended.is_set()

    def _complete(self) -> None:
        """Run the call.  In the thread of the group."""
        run, self._run = self._run, None
        try:
            if run is not None:
                run()
        except BaseException as error:
            self._error = error
        self._has_ended.set()


class Background:
    """Thread that runs calls one after the other.  It waits for work without using the CPU."""

    def __init__(self, group: str) -> None:
        self._calls: SimpleQueue[Handle | None] = SimpleQueue()
        self._unfinished = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._work, name=f"zray-collective-{group}", daemon=True).start()

    def add(self, run: Callable[[], None]) -> Handle:
        """Begin a call behind all others."""
        handle = Handle(run)
        with self._lock:
            self._unfinished += 1
        self._calls.put(handle)
        return handle

    def is_idle(self) -> bool:
        """Whether all calls have ended."""
        return self._unfinished == 0

    def end(self) -> None:
        """End the thread, after its calls."""
        self._calls.put(None)

    def _work(self) -> None:
        while (handle := self._calls.get()) is not None:
            handle._complete()
            with self._lock:
                self._unfinished -= 1
            del handle
