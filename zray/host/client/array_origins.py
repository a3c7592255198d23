"""Texts about how an array in shared memory came into this process, for the message about a write into it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...store.arguments import argument_of_dep
from ...wire.task_spec import TaskSpec, parse_options

if TYPE_CHECKING:
    from ..worker.main import Worker

# Limits of the cache of texts, and of the payloads that are cached for their parameters' places.
KNOWN_MAX = 1_000
SHORT_BYTES = 64
OF_GET = "which zray.get() or an await gave"


def words_of(object_id: bytes, size: int, origin: str) -> str:
    """Return the sentence about the object, with spaces before the next sentence."""
    return f"The array is in object {object_id.hex()} ({size:,} bytes), {origin}.  "


class Origins:
    """Texts about the arguments of a worker's tasks, cached: most tasks take arrays as earlier tasks did."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.known: dict[tuple[bytes, bytes, int | str | None], str] = {}

    def of_argument(self, spec: TaskSpec, index: int) -> str:
        """Return the text about a task's dep: the parameter and the task."""
        payload = spec.args
        place = _short_place(payload, index) if len(payload) <= SHORT_BYTES else argument_of_dep(payload, index)
        key = (spec.function_id, spec.options, place)
        words = self.known.get(key)
        if words is None:
            if len(self.known) >= KNOWN_MAX:
                self.known.clear()
            words = self.known[key] = self._words(spec, place)
        return words

    def _words(self, spec: TaskSpec, place: int | str | None) -> str:
        worker = self.worker
        actor, name = worker.actor, worker.name_of(spec)
        actor = actor.of(spec) if actor is not None else None
        if actor is None:
            function, name = worker.functions.get(spec.function_id), f"task {name}"
        elif parse_options(spec.options).method:
            function = actor.method_of(spec)
        else:
            function, name = worker.functions.get(spec.function_id), f"the constructor of {name}"
        parameter = place if type(place) is str else _parameter(function, place)
        return f"argument {repr(parameter) if parameter else _number(place)} of {name}"


def _parameter(function: Any, place: Any) -> str:
    """Return the name of a positional parameter; "" if the function has no such facts, since a slow look is not worth
    it.
    """
    function = getattr(function, "__wrapped__", function)
    is_bound = isinstance(function, type) or getattr(function, "__self__", None) is not None
    code = getattr(getattr(function, "__init__", None) if isinstance(function, type) else function, "__code__", None)
    if code is None or type(place) is not int:
        return ""
    at = place + is_bound
    return str(code.co_varnames[at]) if at < code.co_argcount else ""


_short_place = lru_cache(KNOWN_MAX)(argument_of_dep)


def _number(place: Any) -> str:
    return str(place + 1) if type(place) is int else "?"
