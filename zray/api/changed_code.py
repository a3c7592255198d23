"""Code that is changed where it is loaded, for libraries that stand between a worker and the program's functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .actor_class import ActorClass
from .remote_function import Code, RemoteFunction, name_of

__all__ = ["Change", "begin", "end"]


class Change:
    """A change of the functions and classes that are submitted while the change is on.  Subclasses are pickled."""

    def loaded(self, target: Any, name: str) -> Any:
        """Return what a worker is to run in place of a function, or to create in place of a class."""
        raise NotImplementedError

    def is_on(self) -> bool:
        """Return whether further submissions are to be changed."""
        return True


class _Changed:
    """A function or class together with its change: unpickled, it is what `loaded` returns."""

    def __init__(self, change: Change, target: Any, name: str) -> None:
        self.parts = change, target, name

    def __reduce__(self) -> Any:
        return _load, self.parts


def _load(change: Change, target: Any, name: str) -> Any:
    return change.loaded(target, name)


class _ChangedCode(Code):
    def __init__(self, change: Change, target: Any, name: str) -> None:
        self.change = change
        super().__init__(target, name)

    def _pickled(self) -> tuple[bytes, tuple[bytes, ...]]:
        from ..store.functions import serialize_function

        return serialize_function(_Changed(self.change, self.source, self.name))


# Fields of a remote function and of an actor class: the plain function or class, and its code.
FIELDS: dict[Any, tuple[str, str]] = {
    RemoteFunction: ("_function", "_code"),
    ActorClass: ("_ActorClass__cls", "_ActorClass__code"),
}

_change: Change | None = None
_plain: dict[Any, Callable[..., Any]] = {}
_copies: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_codes: dict[int, Code] = {}  # by the id of the function or class, which the code keeps


def begin(change: Change) -> None:
    """Change what this process submits from now on.  Submissions have no further cost before, and after `end`.

    Raises:
        RuntimeError: another change is on.
    """
    global _change
    if _change is not None and _change.is_on() and _change != change:
        raise RuntimeError("Another change of submitted code is on.")
    end()
    _change = change
    for cls in FIELDS:
        _plain[cls] = cls.remote
        cls.remote = _remote


def end() -> None:
    """End the change of this process, if there is one."""
    global _change
    _change = None
    for cls, remote in _plain.items():
        cls.remote = remote
    _plain.clear()
    _copies.clear()
    _codes.clear()


def _remote(target: Any, /, *args: Any, **kwargs: Any) -> Any:
    change, plain = _change, _plain.get(type(target))
    if change is not None and plain is not None and change.is_on():
        return plain(_copy(target, change), *args, **kwargs)
    end()
    return target.remote(*args, **kwargs)


def _copy(target: Any, change: Change) -> Any:
    """Return the function or class with changed code."""
    copy = _copies.get(target)
    if copy is None:
        source, place = FIELDS[type(target)]
        function = vars(target)[source]
        code = _codes.get(id(function)) or _ChangedCode(change, function, name_of(function))
        _codes[id(function)] = code
        copy = target.options()
        object.__setattr__(copy, place, code)
        _copies[target] = copy
    return copy
