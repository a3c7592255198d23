"""Worker of a Pool: the class of its actors, which runs in their processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing.pool import ExceptionWithTraceback, mapstar, starmapstar  # type: ignore[attr-defined]
from types import FunctionType
from typing import Any

# Ways to call a function: with its arguments, with each item of a chunk, with the items of each tuple of a chunk.
CALL, MAP, STARMAP = 0, 1, 2
KIND_BY_FUNCTION = {mapstar: MAP, starmapstar: STARMAP}


class Worker:
    """State of one worker process: the known functions, and their common global variables.

    Functions of a program's main file travel by value, each with global variables of its own.  In a worker of Python's
    Pool they share them: an initializer sets what later calls read.
    """

    def __init__(self, initializer: Callable[..., Any] | None, initargs: Iterable[Any]) -> None:
        self.globals: dict[str, dict[str, Any]] = {}  # by module
        self.functions: dict[int, Callable[..., Any]] = {}
        if initializer is not None:
            self.adopt(initializer)(*initargs)

    def pid(self) -> int:
        """Id of the process."""
        return os.getpid()

    def learn(self, token: int, function: Callable[..., Any], is_full: bool) -> None:
        """Keep a function for later calls.  is_full: forget all others before."""
        if is_full:
            self.functions.clear()
        self.functions[token] = self.adopt(function)

    def run(self, token: int, kind: int, items: Any, kwargs: Any = None) -> tuple[bool | None, Any]:
        """Call a function that is known.

        Returns:
            Whether all went well, and the result or the error; None and the token if the function is not known.
        """
        function = self.functions.get(token)
        if function is None:
            return None, token
        try:
            if kind == MAP:
                return True, list(map(function, items))
            if kind == STARMAP:
                return True, [function(*item) for item in items]
            return True, function(*items, **(kwargs or {}))
        except Exception as error:
            return False, ExceptionWithTraceback(error, error.__traceback__)

    def run_chunks(self, token: int, kind: int, chunks: list[Any]) -> Any:
        """Call a known function for the items of several chunks.  Returns the returns of `run`, for each."""
        if token not in self.functions:
            return None, token
        return [self.run(token, kind, items) for items in chunks]

    def run_once(self, function: Callable[..., Any], items: Any, kwargs: Any = None) -> tuple[bool, Any]:
        """Call a function that comes with the call."""
        try:
            return True, self.adopt(function)(*items, **(kwargs or {}))
        except Exception as error:
            return False, ExceptionWithTraceback(error, error.__traceback__)

    def adopt(self, function: Any) -> Any:
        """Make a function sent by value share the global variables of earlier functions of its module."""
        if isinstance(function, partial):
            return partial(self.adopt(function.func), *function.args, **function.keywords)
        if not isinstance(function, FunctionType) or _is_of_module(function):
            return function
        own = function.__globals__
        shared = self.globals.setdefault(function.__module__, {})
        for name, value in own.items():
            if name not in shared:
                is_neighbour = isinstance(value, FunctionType) and value.__globals__ is own
                shared[name] = _with_globals(value, shared) if is_neighbour else value
        return _with_globals(function, shared)


def _is_of_module(function: FunctionType) -> bool:
    """Whether the function came by name, with the global variables of its module."""
    import sys

    module = sys.modules.get(function.__module__)
    return module is not None and function.__globals__ is module.__dict__


def _with_globals(function: FunctionType, variables: dict[str, Any]) -> FunctionType:
    other = FunctionType(function.__code__, variables, function.__name__, function.__defaults__, function.__closure__)
    other.__kwdefaults__ = function.__kwdefaults__
    other.__dict__.update(function.__dict__)
    other.__qualname__, other.__module__ = function.__qualname__, function.__module__
    other.__annotations__ = function.__annotations__
    return other
