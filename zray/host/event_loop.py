"""The event loop of an async actor, in a thread of its own, and how it ends.

asyncio has a sys.exit() and a KeyboardInterrupt of any task or callback end the loop, and so does loop.stop().  Calls
would then wait for ever, so the end of the loop is the end of the process, as in a program that asyncio.run() runs.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from .exits import is_success
from .forks import end_child
from .leaving import crash
from .processes import end_process
from .submitter import Call, current_call

if TYPE_CHECKING:
    from .actor_host import ActorHost

# The frame in which asyncio runs a callback or a step of a task: it knows the context of that.
HANDLE_CODE = asyncio.events.Handle._run.__code__


class EventLoop:
    """Of one actor."""

    def __init__(self, host: ActorHost) -> None:
        self.host = host
        self.stopped_by: Call | None = None
        self.instance: Future[Any] = Future()  # of the class; done once its constructor has ended
        self.loop = asyncio.new_event_loop()
        try:
            self.loop.stop = self._stop  # type: ignore[method-assign]
        except AttributeError:
            pass  # a loop written in C: who stops it is not known
        self.thread = threading.Thread(target=self._run, name="zray-loop", daemon=True)
        self.thread.start()

    def construct(self, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """An instance, made in the loop's thread: constructors of async actors may ask for the running loop."""

        async def construct() -> None:
            try:
                if inspect.iscoroutinefunction(cls.__init__):
                    instance = cls.__new__(cls, *args, **kwargs)
                    if isinstance(instance, cls):
                        await instance.__init__(*args, **kwargs)  # type: ignore[misc]
                else:
                    instance = cls(*args, **kwargs)
            except BaseException as error:
                self._constructor_failed(error)
            else:
                if not self.instance.done():
                    self.instance.set_result(instance)

        asyncio.run_coroutine_threadsafe(construct(), self.loop)
        error = self.instance.exception()
        if error is not None:
            raise error
        return self.instance.result()

    def _constructor_failed(self, error: BaseException) -> None:
        """By what it raised, or by what something beside it has done to the loop."""
        if not self.instance.done():
            trace = error.__traceback__
            self.instance.set_exception(error.with_traceback(trace.tb_next if trace is not None else None))

    # --- the end ---

    def _stop(self) -> None:
        self.stopped_by = current_call.get()
        type(self.loop).stop(self.loop)

    def _run(self) -> None:
        try:
            while True:
                try:
                    self.loop.run_forever()
                except BaseException as error:
                    self._ended(error)
                else:
                    self._stopped()
        finally:
            end_process(1)

    def _ended(self, error: BaseException) -> None:
        """The loop goes on for the calls that are still running, if the actor is to leave in order."""
        host = self.host
        if os.getpid() != host.worker.pid:
            end_child(error)
        if not self.instance.done():
            self._constructor_failed(error)
        elif is_success(error):
            host.leave_when_idle(error)
        else:
            crash(host.worker, self._name_of(_call_that_raised(error)), error)

    def _stopped(self) -> None:
        error = RuntimeError("the actor's event loop was stopped (loop.stop()): no call of it can run any more")
        if not self.instance.done():
            self._constructor_failed(error)
        else:
            crash(self.host.worker, self._name_of(self.stopped_by), error, "stopped the actor's event loop")

    def _name_of(self, call: Call | None) -> str:
        """The call from which the end came, in words."""
        if call is None:
            return f"A task or callback in the event loop of {self.host.in_words}"
        return self.host.worker.name_of(call.spec)


def current_task() -> Any:
    """The asyncio task that runs this code; None outside of event loops."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _call_that_raised(error: BaseException) -> Call | None:
    """The call in whose context the innermost callback or task ran from which the error came."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code is HANDLE_CODE:
            context = getattr(frame.f_locals.get("self"), "_context", None)
            if context is not None:
                found = context.get(current_call)
        trace = trace.tb_next
    return found
