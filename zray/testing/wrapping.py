"""Functions and methods that look for faults at each begin, in the workers that run them."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from ..api import changed_code
from .kinds import Fault
from .ledger import Happened, Ledger


class Plan(changed_code.Change):
    """The faults of a block, for the processes that submit and run its tasks."""

    def __init__(self, ledger: Ledger, faults: tuple[Fault, ...]) -> None:
        self.ledger = ledger
        self.faults = faults
        self.pid = os.getpid()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and other.ledger.folder == self.ledger.folder

    __hash__ = None  # type: ignore[assignment]

    def is_on(self) -> bool:
        """Return whether the block goes on."""
        return self.ledger.is_open()

    def loaded(self, target: Any, name: str) -> Any:
        """Return a function or class with its faults.  What it submits in this process has them too."""
        if self.is_on():
            changed_code.begin(self)
        names = {fault.of for fault in self.faults}
        if not inspect.isclass(target):
            return wrapped(target, functools.partial(Begin, self, name)) if name in names else target
        methods = {}
        for full in names:
            owner, _, method = full.rpartition(".")
            function = inspect.getattr_static(target, method, None) if owner == name else None
            if is_method(function):
                begin = functools.partial(Begin, self, full)
                methods[method] = in_kind(function, functools.partial(wrapped, begin=begin))
        if not methods:
            return target
        own = {"__module__": target.__module__, "__qualname__": target.__qualname__, "__doc__": target.__doc__}
        metaclass: Any = type(target)
        return metaclass(target.__name__, (target,), {**own, **methods})


class Begin:
    """The begin of a function: counted, with the faults that are due."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan, self.name = plan, name
        self.due: list[Fault] = []
        self.call = plan.ledger.count(name, self._note)
        self.seconds = sum(fault.seconds for fault in self.due)
        if self.call and os.getpid() == plan.pid:
            raise NotImplementedError("zray.testing.faults needs worker processes, which local mode does not have.")

    def _note(self, call: int) -> None:
        self.due = [fault for fault in self.plan.faults if fault.is_due(self.name, call)]
        self.call = call
        for fault in self.due:
            if fault.at == "begin":
                self._tell(fault)

    def _tell(self, fault: Fault) -> None:
        from ..api.runtime_context import get_runtime_context

        context = get_runtime_context()
        place = context.get_task_id() or "", os.getpid(), context.get_node_id()
        self.plan.ledger.note(Happened(str(fault), self.call, *place))

    def strike(self, at: str) -> None:
        """Do what is due at the begin or the end."""
        for fault in self.due:
            if fault.at == at:
                if at == "end":
                    self._tell(fault)
                if fault.kind == "kill_worker":
                    os.kill(os.getpid(), signal.SIGKILL)


def is_method(member: Any) -> bool:
    """Return whether a member of a class, as the class holds it, is a method."""
    return isinstance(member, (staticmethod, classmethod)) or (inspect.isroutine(member) and callable(member))


def in_kind(member: Any, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    """Return a method of a class with its function wrapped: a static one stays static."""
    if isinstance(member, (staticmethod, classmethod)):
        return type(member)(wrap(member.__func__))
    return wrap(member)


Wrap = Callable[[Callable[..., Any], Any], Callable[..., Any]]


def wrap_of(function: Callable[..., Any], plain: Wrap, generator: Wrap, coroutine: Wrap, async_generator: Wrap) -> Wrap:
    """Return the wrapper for functions of this kind."""
    if inspect.isasyncgenfunction(function):
        return async_generator
    if inspect.iscoroutinefunction(function):
        return coroutine
    return generator if inspect.isgeneratorfunction(function) else plain


def wrapped(function: Callable[..., Any], begin: Callable[[], Begin]) -> Callable[..., Any]:
    """Return a function of the same kind that looks for faults first."""
    return wrap_of(function, _plain, _generator, _coroutine, _async_generator)(function, begin)


def _plain(function: Callable[..., Any], begin: Callable[[], Begin]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        begun = begin()
        time.sleep(begun.seconds)
        begun.strike("begin")
        value = function(*args, **kwargs)
        begun.strike("end")
        return value

    return run


def _generator(function: Callable[..., Any], begin: Callable[[], Begin]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        begun = begin()
        time.sleep(begun.seconds)
        begun.strike("begin")
        value = yield from function(*args, **kwargs)
        begun.strike("end")
        return value

    return run


def _coroutine(function: Callable[..., Any], begin: Callable[[], Begin]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        begun = begin()
        await asyncio.sleep(begun.seconds)
        begun.strike("begin")
        value = await function(*args, **kwargs)
        begun.strike("end")
        return value

    return run


def _async_generator(function: Callable[..., Any], begin: Callable[[], Begin]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        begun = begin()
        await asyncio.sleep(begun.seconds)
        begun.strike("begin")
        async for item in function(*args, **kwargs):
            yield item
        begun.strike("end")

    return run
