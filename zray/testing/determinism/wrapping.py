"""Functions and methods that leave a line about each of their runs, in the workers that run them."""

from __future__ import annotations

import functools
import inspect
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from types import CodeType
from typing import Any

from ...api import changed_code
from ...api.actor_class import ActorClass
from ...api.actor_handle import ActorHandle, ActorMethod
from ...api.remote_function import RemoteFunction
from ...api.runtime_context import get_runtime_context
from ...host import context
from ...object_ref import ObjectRef
from ...store.folding import OWN_FOLDER
from ..ledger import Ledger
from ..wrapping import in_kind, is_method, wrap_of
from .digests import clean, digest, shown, unordered
from .hints import TELLING
from .records import Ending, Kill, Submission, Writer

__all__ = ["Place", "Watch", "mentions_of", "place_of", "sources_drawn", "sources_now"]

# Elements of a tuple that are compared one by one, and items of a generator.
PARTS_MAX = 16
ITEMS_MAX = 10_000
SHOWN_MAX = 16
TEXT_MAX = 200
PATH_MAX = 4_096


class Watch(changed_code.Change):
    """The order to leave lines in a folder, for the processes that submit and run tasks.

    Args:
        folder: of the run.
        kills: begins of tasks, by number, at which the worker dies: "begin" or "end" of the run.
    """

    def __init__(self, folder: str, kills: dict[int, str]) -> None:
        self.folder = folder
        self.kills = kills

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Watch) and other.folder == self.folder

    __hash__ = None  # type: ignore[assignment]

    def loaded(self, target: Any, name: str) -> Any:
        """Return a function or class that leaves lines.  What it submits in this process is watched too."""
        place = place_of(self)
        place.begin()
        if _is_own(target):
            return target
        if not inspect.isclass(target):
            return wrapped(target, functools.partial(place.run_of, name, mentions_of(target), 0))
        methods = {}
        for method in dir(target):
            function = inspect.getattr_static(target, method)
            is_of_users = function is not object.__init__ if method == "__init__" else not method.startswith("__")
            if is_of_users and is_method(function):
                is_static = isinstance(function, staticmethod)
                begin = functools.partial(place.run_of, f"{name}.{method}", mentions_of(function), int(not is_static))
                methods[method] = in_kind(function, functools.partial(wrapped, begin=begin))
        own = {"__module__": target.__module__, "__qualname__": target.__qualname__, "__doc__": target.__doc__}
        metaclass: Any = type(target)
        return metaclass(target.__name__, (target,), {**own, **methods})


_place: Place | None = None


def place_of(watch: Watch) -> Place:
    """Return what this process has of a run."""
    global _place
    if _place is None or _place.watch != watch:
        _place = Place(watch)
    return _place


class Place:
    """A process of a run: its file, and the tasks that run in it."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.writer = Writer(watch.folder)
        self.ledger = Ledger(watch.folder)
        self.open: set[Any] = set()  # calls that run
        self.kills = dict(watch.kills)  # those that no process has taken, as far as this one knows
        self.has_begun = False

    def begin(self) -> None:
        """Watch what this process submits, from now on."""
        if not self.has_begun:
            self.has_begun = True
            for cls in (RemoteFunction, ActorClass, ActorMethod):
                cls.remote = _noted(cls.remote, self.writer)  # type: ignore[method-assign]
        changed_code.begin(self.watch)

    def run_of(
        self, name: str, mentions: list[str], left_out: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Run | None:
        """Return the run that begins; None: a call inside of a run, or in a thread that has outlived its task.

        left_out: number of first arguments that are no part of the call: the actor.
        """
        facts = get_runtime_context()
        call = facts._call
        if call is None or call in self.open or facts.get_task_function_name() != name:
            return None
        task_id = facts.get_task_id() or ""
        ending = Ending(task_id, name, digest((args[left_out:], kwargs)), actor=facts.get_actor_id() or "")
        ending.mentions = mentions
        return Run(self, call, ending)

    def due(self, ending: Ending) -> Callable[[str], None]:
        """Count a begin.  Returns a function that ends this process if that is asked for."""
        if not self.watch.kills:
            return lambda at: None
        chosen: list[str] = []
        number = self.ledger.count("", lambda number: chosen.extend(self._taken(number, ending.task)))

        def strike(at: str) -> None:
            if at in chosen:
                self.writer.write(Kill(ending.task, ending.name, at, number, ending.actor))
                os.kill(os.getpid(), signal.SIGKILL)

        return strike

    def _taken(self, number: int, task: str) -> list[str]:
        """Take the first death that is due at a begin.  A task dies once: its retries are few."""
        for due in sorted(self.kills):
            if due > number or not self._is_first(f"task-{task}"):
                return []
            if self._is_first(f"kill-{due}"):
                return [self.kills.pop(due)]
            os.unlink(os.path.join(self.watch.folder, f"task-{task}"))
            del self.kills[due]  # another process has taken it
        return []

    def _is_first(self, mark: str) -> bool:
        """Leave a mark in the folder.  Returns whether there was none."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            os.close(os.open(os.path.join(self.watch.folder, mark), flags, 0o600))
        except OSError:
            return False
        return True


class Run:
    """A run of a task: its line is written when it ends."""

    def __init__(self, place: Place, call: Any, ending: Ending) -> None:
        self.place, self.call, self.ending = place, call, ending
        self.place.open.add(call)
        self.before = sources_now()
        self.strike = place.due(ending)
        self.strike("begin")

    def item(self, value: Any) -> None:
        """Note an item of a generator."""
        values = self.ending.values
        if len(values) < ITEMS_MAX:
            values.append(digest(value))
        else:  # further ones share a digest
            values[-1] = digest((values[-1], digest(value)))
        if len(self.ending.shown) < SHOWN_MAX:
            self.ending.shown.append(shown(value))

    def returned(self, value: Any) -> Any:
        """Note what the function has returned, and return what takes its place."""
        if hasattr(value, "__next__"):
            return _items(value, self)
        ending = self.ending
        parts = value if type(value) is tuple and 1 < len(value) <= PARTS_MAX else (value,)
        ending.values = [digest(part) for part in parts]
        ending.shown = [shown(part) for part in parts]
        ending.unordered = unordered(value)
        ending.number = float(value) if isinstance(value, float) else None
        self.end()
        return value

    def failed(self, error: BaseException) -> None:
        """Note an error."""
        if isinstance(error, GeneratorExit):
            self.ending.is_closed = True
        else:
            cause = getattr(error, "cause", None)  # of the task that failed first
            told = cause if isinstance(cause, BaseException) else error
            self.ending.error = type(told).__name__
            with suppress(Exception):  # code of the user's
                self.ending.error_text = clean(str(told).partition("\n")[0], TEXT_MAX)
        self.end()

    def end(self) -> None:
        """Write the line."""
        ending = self.ending
        ending.drew = sources_drawn(self.before)
        runtime: Any = context.runtime
        if runtime is not None and runtime.facts.seed is None and runtime.submitter().random is not None:
            ending.drew.append("zray.rng")
        self.place.open.discard(self.call)
        self.place.writer.write(ending)
        self.strike("end")


def _is_own(target: Any) -> bool:
    """Return whether a function or class is a part of zray."""
    return str(getattr(target, "__module__", "")).partition(".")[0] == "zray"


def _noted(remote: Callable[..., Any], writer: Writer) -> Callable[..., Any]:
    """Return `remote` that leaves a line about each submission."""

    @functools.wraps(remote)
    def noted(target: Any, /, *args: Any, **kwargs: Any) -> Any:
        made = remote(target, *args, **kwargs)
        first = made[0] if isinstance(made, list) and made else made
        task = actor = ""
        if isinstance(first, ObjectRef):
            task = first.hex()[:32]
        elif isinstance(first, ActorHandle):
            task = actor = first._actor_id.hex()
        elif isinstance(getattr(first, "_task_id", None), bytes):  # a generator
            task = first._task_id.hex()
        if isinstance(target, ActorMethod):
            actor, name, source = target._handle_id.hex(), f"{target._class_name}.{target._name}", None
        elif isinstance(target, RemoteFunction):
            name, source = target._name, target._function
        else:
            source = target.__dict__.get("_ActorClass__cls")
            name = f"{getattr(source, '__qualname__', '').rpartition('<locals>.')[2]}.__init__"
        if task and not _is_own(source):
            writer.write(Submission(task, name, actor, _site()))
        return made

    return noted


def _site() -> str:
    """Return the file and line of the program that submits."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    return f"{clean(frame.f_code.co_filename, PATH_MAX)}:{frame.f_lineno}"


def sources_now() -> dict[str, Any]:
    """Return the states of the sources of random numbers that this process has."""
    states: dict[str, Any] = {"random": random.getstate()}
    for name in ("numpy.random", "torch.random"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "get_state"):
            state = module.get_state()
            states[name] = state[1].tobytes(), state[2:]
        elif module is not None and hasattr(module, "get_rng_state"):
            states[name] = module.get_rng_state().numpy().tobytes()
    return states


def sources_drawn(before: dict[str, Any]) -> list[str]:
    """Return the sources whose state differs from an earlier one."""
    return [name for name, state in sources_now().items() if name in before and before[name] != state]


def mentions_of(function: Any) -> list[str]:
    """Return the telling names in a function or its code, also of functions inside of it."""
    found: set[str] = set()
    todo = [function if isinstance(function, CodeType) else getattr(inspect.unwrap(function), "__code__", None)]
    while todo:
        code = todo.pop()
        if isinstance(code, CodeType):
            found |= TELLING.intersection(code.co_names)
            todo += code.co_consts
    return sorted(found)


Begin = Callable[[tuple[Any, ...], dict[str, Any]], "Run | None"]


def wrapped(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """Return a function of the same kind that leaves a line."""
    return wrap_of(function, _plain, _generator, _coroutine, _async_generator)(function, begin)


def _plain(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        begun = begin(args, kwargs)
        if begun is None:
            return function(*args, **kwargs)
        try:
            value = function(*args, **kwargs)
        except BaseException as error:
            begun.failed(error)
            raise
        return begun.returned(value)

    return run


def _generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        begun = begin(args, kwargs)
        made = function(*args, **kwargs)
        return (yield from made if begun is None else _items(made, begun))

    return run


def _items(made: Iterator[Any], begun: Run) -> Iterator[Any]:
    begun.ending.is_generator = True
    try:
        for item in made:
            begun.item(item)
            yield item
    except BaseException as error:
        begun.failed(error)
        close = getattr(made, "close", None)
        if close is not None:
            close()
        raise
    begun.end()


def _coroutine(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        begun = begin(args, kwargs)
        if begun is None:
            return await function(*args, **kwargs)
        try:
            value = await function(*args, **kwargs)
        except BaseException as error:
            begun.failed(error)
            raise
        return begun.returned(value)

    return run


def _async_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        begun = begin(args, kwargs)
        if begun is not None:
            begun.ending.is_generator = True
        try:
            async for item in function(*args, **kwargs):
                if begun is not None:
                    begun.item(item)
                yield item
        except BaseException as error:
            if begun is not None:
                begun.failed(error)
            raise
        if begun is not None:
            begun.end()

    return run
