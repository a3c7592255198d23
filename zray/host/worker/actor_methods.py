"""The methods of an actor's class, bound to its instance.  As in Ray, an attribute does not hide a method of the same
name.

Methods of an actor's class for its end: `__ray_shutdown__` and `__del__`.

Both run at each orderly end, in this order, for SHUTDOWN_SECONDS at most; neither runs after kill() or a crash.  They
run like the actor's calls: in the main thread, or on the event loop.
"""

from __future__ import annotations

import inspect
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import singledispatchmethod
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

from ...exceptions import ClusterLostError
from ...wire.actors import SHUTDOWN_SECONDS
from .exit_errors import ActorExit

if TYPE_CHECKING:
    from .actor_runner import ActorHost

# Limit of bound methods of a class: a class that grows all the time has the others looked up at each call.
METHODS_MAX = 1_000
# Bound once.  Any other descriptor, such as a property, is asked at each call.
STEADY = (FunctionType, staticmethod, classmethod, singledispatchmethod)


class Methods:
    """The bound methods of an instance."""

    def __init__(self, instance: Any) -> None:
        self.instance = instance
        self.bound: dict[str, Callable[..., Any]] = {
            "__ray_call__": self._call,
            "__ray_ready__": _is_ready,
            "__ray_terminate__": _terminate,
        }

    def find(self, name: str) -> Callable[..., Any]:
        """Return the method of that name.

        Raises:
            AttributeError: neither the class nor the instance has such a method.
        """
        instance = self.instance
        for base in type(instance).__mro__:
            if name in vars(base):
                found = vars(base)[name]
                break
        else:
            return getattr(instance, name)  # type: ignore[no-any-return]  # a __getattr__, perhaps
        bind = getattr(type(found), "__get__", None)
        method: Callable[..., Any] = found if bind is None else bind(found, instance, type(instance))
        if isinstance(found, STEADY) and len(self.bound) < METHODS_MAX:
            self.bound[name] = method
        return method

    def let_go(self) -> None:
        """Drop the instance after the last call."""
        self.instance = None
        self.bound.clear()

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(self.instance, *args, **kwargs)


def _is_ready() -> bool:
    return True


def _terminate() -> None:
    raise ActorExit(0)


async def make_instance(cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return an instance of a class whose constructor may be async."""
    if not inspect.iscoroutinefunction(cls.__init__):
        return cls(*args, **kwargs)
    instance = cls.__new__(cls, *args, **kwargs)
    if isinstance(instance, cls):
        await instance.__init__(*args, **kwargs)  # type: ignore[misc]
    return instance


METHOD = "__ray_shutdown__"


def call_shutdown(instance: Any) -> Any:
    """Call `__ray_shutdown__`, if the class has it, and return the result; print an exception."""
    method = getattr(type(instance), METHOD, None)
    if method is None:
        return None
    try:
        return method.__get__(instance, type(instance))()
    except BaseException:
        traceback.print_exc()
        return None


def has_shutdown(instance: Any) -> bool:
    """Return whether the class has either method."""
    return hasattr(type(instance), METHOD) or hasattr(type(instance), "__del__")


class Shutdown:
    """The end of an actor, with its methods that run first."""

    def __init__(self, host: ActorHost) -> None:
        self.host = host
        self.has_begun = threading.Lock()

    def run(self, then: Callable[[], NoReturn]) -> None:
        """Run what the class has, once, and end the process by `then`.  Returns only in the thread of an event loop."""
        host = self.host
        if not host.has_shutdown:
            then()
        if not self.has_begun.acquire(blocking=False):
            self._wait_for_the_end()
            return
        with suppress(ClusterLostError):
            host.worker.flush()  # nobody waits longer for the results that are there
        watchdog = threading.Timer(SHUTDOWN_SECONDS, self._end_late, (then,))
        watchdog.daemon = True
        watchdog.start()
        if host.async_calls is not None:
            host.async_calls.loop.call_soon_threadsafe(self._run_on_loop, then)
            self._wait_for_the_end()
            return
        returned = call_shutdown(self.host.instance)
        if inspect.iscoroutine(returned):
            returned.close()
            print(f"{host.in_words}: {METHOD} is async, but the actor is not: it was not run.", file=sys.stderr)
        self._finalize()
        then()

    def _wait_for_the_end(self) -> None:
        """Another thread ends the process; the loop's thread is needed meanwhile."""
        calls = self.host.async_calls
        if calls is None or threading.current_thread() is not calls.events.thread:
            threading.Event().wait()

    def _end_late(self, then: Callable[[], NoReturn]) -> None:
        with suppress(OSError, ValueError, AttributeError):  # the stream is closed, or none
            print(
                f"{self.host.in_words}: {METHOD} or __del__ has not ended after {SHUTDOWN_SECONDS:g} s: "
                "the process ends without it.",
                file=sys.stderr,
            )
        then()

    def _run_on_loop(self, then: Callable[[], NoReturn]) -> None:
        async def run() -> None:
            returned = call_shutdown(self.host.instance)
            if inspect.isawaitable(returned):
                try:
                    await returned
                except BaseException:
                    traceback.print_exc()
            self._finalize()
            then()

        assert self.host.async_calls is not None
        self.task = self.host.async_calls.loop.create_task(run())  # a loop refers to its tasks weakly

    def _finalize(self) -> None:
        """Drop the instance, so that its finalizer runs; call the finalizer if other references exist."""
        host = self.host
        instance = host.instance
        if not hasattr(type(instance), "__del__"):
            return
        host.instance = None
        if host.methods is not None:
            host.methods.let_go()
        if host.async_calls is not None:
            host.async_calls.methods.clear()
        try:
            found: Callable[[], Any] = weakref.ref(instance)
        except TypeError:
            kept = instance  # of a class with __slots__: its end cannot be detected

            def found() -> Any:
                return kept

        del instance
        host.instance = found()  # kept from now on: the finalizer must not run twice
        if host.instance is not None:
            try:
                type(host.instance).__del__(host.instance)
            except BaseException:
                traceback.print_exc()
