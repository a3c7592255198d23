"""Where random programs run: in a zray session, or in one thread that does everything at once."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np

import zray

from . import tasks
from .hand import Ask, Body
from .play import run_body
from .values import Known, Stand, describe, found_in

DIED = zray.exceptions.ActorDiedError


class Real:
    """zray.  In its folder: what each body noted, stacks of processes that hang, which bodies have run before."""

    is_real = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make_folders(self) -> None:
        for kind in ("begun", "ended", "first", "stacks"):
            (self.folder / kind).mkdir()

    # --- tasks and objects ---

    def put(self, value: Any) -> Any:
        return zray.put(value)

    def submit(self, how: str, options: dict[str, Any], body: Body, args: list[Any]) -> list[Any]:
        if how == "closure":
            return as_list(zray.remote(tasks.with_closure(body, args)).options(**options).remote())
        function = tasks.task.options(**options) if options else tasks.task
        if how == "keywords":
            return as_list(function.remote(body, **{f"arg_{index}": arg for index, arg in enumerate(args)}))
        return as_list(function.remote(body, *args))

    def tiny(self, value: Any) -> Any:
        return tasks.tiny.remote(value)

    def wait(self, refs: list[Any], count: int, timeout: float | None, fetch: bool) -> None:
        ready, rest = zray.wait(refs, num_returns=count, timeout=timeout, fetch_local=fetch)
        assert len(ready) + len(rest) == len(refs) and len(ready) <= count
        assert timeout is not None or len(ready) == count

    def answer(self, ask: Ask) -> list[Any]:
        """The same answers however it is asked."""
        how, refs = ask
        if how == "list":
            return self._all_at_once(refs)
        if how == "completed":
            assert set(zray.as_completed(refs)) == set(refs)
        elif how == "zero":
            try:
                zray.get(refs, timeout=0)
            except Exception:
                pass  # not there yet, or failed
        elif how == "future":
            return [self._outcome(lambda ref=ref: ref.future().result()) for ref in refs]
        return [self._outcome(lambda ref=ref: zray.get(ref)) for ref in refs]

    def _all_at_once(self, refs: list[Any]) -> list[Any]:
        """The error that is raised may be any of theirs."""
        ((values, error),) = [self._outcome(lambda: zray.get(refs))]
        if error is None:
            return [(value, None) for value in values]
        answers = [self._outcome(lambda ref=ref: zray.get(ref)) for ref in refs]
        assert describe(error) in [describe(other) for _, other in answers if other is not None]
        return answers

    async def answer_async(self, ask: Ask) -> list[Any]:
        if ask.how in ("zero", "completed"):
            return self.answer(ask)  # blocks the loop
        if ask.how == "list":
            return list(await asyncio.gather(*map(self._awaited, ask.refs)))
        return [await self._awaited(ref) for ref in ask.refs]

    @staticmethod
    async def _awaited(ref: Any) -> tuple[Any, Exception | None]:
        try:
            return checked(await ref, None)
        except Exception as error:
            return checked(None, error)

    def _outcome(self, get: Any) -> tuple[Any, Exception | None]:
        try:
            return checked(get(), None)
        except Exception as error:
            return checked(None, error)

    # --- actors ---

    def create(self, kind: str, name: str, is_detached: bool, body: Body, args: list[Any]) -> Any:
        options = {"name": name} if name else {}
        if is_detached:
            options["lifetime"] = "detached"
        cls = tasks.CLASSES[kind].options(**options) if options else tasks.CLASSES[kind]
        return cls.remote(kind, body, *args)

    def call(self, known: Known, method: str, options: dict[str, Any], body: Body, args: list[Any]) -> list[Any]:
        called = getattr(known.handle, method)
        return as_list((called.options(**options) if options else called).remote(body, *args))

    def find(self, known: Known) -> Any:
        """Unless its constructor failed."""
        try:
            handle = zray.get_actor(known.name)
        except ValueError:
            assert isinstance(self._outcome(lambda: zray.get(known.handle.__ray_ready__.remote()))[1], DIED)
            return known.handle
        assert handle == known.handle
        return handle

    def kill(self, known: Known) -> None:
        zray.kill(known.handle)

    def leave(self, known: Known) -> Any:
        return known.handle.leave.remote()

    def check_victims(self, answers: list[Any]) -> None:
        """Of an actor that was killed while it worked: an answer, or the news."""
        for _, error in answers:
            assert error is None or isinstance(error, (DIED, zray.exceptions.TaskError)), repr(error)

    # --- the rest ---

    def in_threads(self, works: list[Any]) -> list[Exception | None]:
        errors: list[Exception | None] = [None] * len(works)

        def run(index: int) -> None:
            try:
                works[index]()
            except Exception as error:
                errors[index] = checked(None, error)[1]

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return errors

    def is_first(self, body: Body) -> bool:
        """Whether this body has not run before."""
        try:
            os.close(os.open(self.file_of("first", body.tag, body.path), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def crash(self, body: Body) -> None:
        if self.is_first(body):
            os.kill(os.getpid(), signal.SIGKILL)

    def file_of(self, kind: str, tag: str, path: Any) -> Path:
        return self.folder / kind / f"{tag} {'.'.join(map(str, path))}"

    def begins(self, body: Body) -> None:
        self.show_stacks()
        self.file_of("begun", body.tag, body.path).write_text(str(os.getpid()))

    def ends(self, body: Body, log: list[str]) -> None:
        path = self.file_of("ended", body.tag, body.path)
        new = Path(f"{path}.new")
        new.write_text("\n".join(log))
        new.rename(path)  # it may be looked at already

    def show_stacks(self) -> None:
        """From now on this process writes its threads' stacks into a file at each SIGUSR1."""
        path = self.folder / "stacks" / str(os.getpid())
        if not path.exists():
            faulthandler.register(signal.SIGUSR1, path.open("w"), all_threads=True)


class Sequential:
    """Everything happens where it is asked for, in one thread, with plain objects for refs and actors."""

    is_real = False

    def __init__(self) -> None:
        self.logs: dict[Any, list[str]] = {}  # by path

    def put(self, value: Any) -> Stand:
        return Stand(value)

    def submit(self, how: str, options: dict[str, Any], body: Body, args: list[Any]) -> list[Stand]:
        def run() -> Any:
            return run_body(body, args if how == "closure" else resolved(args))

        return stands(body.returns if how != "" else 1, run)

    def tiny(self, value: Any) -> Stand:
        return Stand(value.value, value.error) if isinstance(value, Stand) else Stand(value)

    def wait(self, refs: list[Any], count: int, timeout: float | None, fetch: bool) -> None:
        """All are ready."""

    def answer(self, ask: Ask) -> list[Any]:
        return [(ref.value, ref.error) for ref in ask.refs]

    def create(self, kind: str, name: str, is_detached: bool, body: Body, args: list[Any]) -> list[Any]:
        try:
            return [tasks.Player(kind, body, *resolved(args))]
        except Exception:
            return [None]

    def call(self, known: Known, method: str, options: dict[str, Any], body: Body, args: list[Any]) -> list[Stand]:
        def run() -> Any:
            if known.handle[0] is None:
                raise DIED
            return known.handle[0].call(body, *resolved(args))

        return stands(body.returns, run)

    def find(self, known: Known) -> Any:
        return known.handle

    def kill(self, known: Known) -> None:
        known.handle[0] = None

    def leave(self, known: Known) -> Stand:
        if known.handle[0] is None:
            return Stand(error=DIED())
        known.handle[0] = None
        return Stand(error=DIED())

    def check_victims(self, answers: list[Any]) -> None:
        """They had all the time they needed."""

    def in_threads(self, works: list[Any]) -> list[Exception | None]:
        return [stands(1, work)[0].error for work in works]

    def is_first(self, body: Body) -> bool:
        return False

    def crash(self, body: Body) -> None:
        """Nobody sees that a body ran twice."""

    def begins(self, body: Body) -> None:
        """Nothing to note."""

    def ends(self, body: Body, log: list[str]) -> None:
        self.logs[body.path] = list(log)


def as_list(refs: Any) -> list[Any]:
    return [] if refs is None else refs if isinstance(refs, list) else [refs]


def checked(value: Any, error: Any) -> tuple[Any, Exception | None]:
    """An answer: arrays in it are read-only; errors are of the user's class, and know nothing of our frames."""
    for part in found_in(value):
        assert not isinstance(part, np.ndarray) or not part.flags.writeable
    cause = getattr(error, "cause", None)
    assert cause is None or isinstance(error, type(cause)), repr(error)
    for link in (error, cause):
        if link is not None:
            link.__traceback__ = link.__context__ = link.__cause__ = None
    return value, error


def resolved(args: list[Any]) -> list[Any]:
    """Refs at the top level stand for their values."""
    for arg in args:
        if isinstance(arg, Stand) and arg.error is not None:
            raise arg.error
    return [arg.value if isinstance(arg, Stand) else arg for arg in args]


def stands(count: int, run: Any) -> list[Stand]:
    """What a task leaves behind."""
    try:
        value = run()
        if count > 1 and len(value) != count:
            raise ValueError("another number of returns")
    except Exception as error:
        return [Stand(error=error) for _ in range(count)]
    return [Stand(value)] if count == 1 else [Stand(part) for part in value or ()]
