"""The sequential run of a program, by one thread in order, whose results are compared with a simulated run's."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

from . import language as say
from .language import FUNCTIONS
from .values import Failed, Handle, Ref, RemoteError, UserError, decode, encode

# Bundles of more fit on no node.
TOO_MUCH = 100_000_000


class Sequential:
    """An interpreter of scripts, with values by number and actors by number."""

    def __init__(self, *, has_gpus: bool = False) -> None:
        self.resources = {"CPU", "late", "GPU"} if has_gpus else {"CPU", "late"}
        self.values: dict[bytes, Any] = {}
        self.actors: dict[bytes, Any] = {}
        self.names: dict[str, Handle] = {}
        self.groups: dict[str, bytes] = {}
        self.count = 0
        self.streams: dict[bytes, list[Ref]] = {}
        self.making: list[list[Ref]] = []  # items of the generators that run, the innermost last

    def run(self, program: Any, args: tuple[Any, ...]) -> Any:
        """Return the result of a driver's program."""
        return self._script(program(*args), 0)

    def _new_id(self) -> bytes:
        self.count += 1
        return self.count.to_bytes(16, "big")

    def _store(self, value: Any) -> Ref:
        ref = Ref(self._new_id())
        # Through bytes: a task gets a copy, as between processes.
        self.values[ref.id] = value if type(value) is Failed else decode(encode(value)[0])[0]
        return ref

    def _value(self, ref: Ref) -> Any:
        value = self.values[ref.id]
        if type(value) is Failed:
            raise RemoteError(value)
        return value

    def _script(self, body: Any, runs: int) -> Any:
        if not isinstance(body, Generator):
            return body
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                request = body.throw(failure) if failure is not None else body.send(answer)
            except StopIteration as end:
                return end.value
            answer, failure = None, None
            try:
                answer = self._answer(request, runs)
            except RemoteError as error:
                failure = error

    def _task(self, code: Any, args: tuple[Any, ...], runs: int = 0) -> Any:
        """Return the task's value, or the Failed in its place."""
        try:
            given = [self._value(arg) if type(arg) is Ref else arg for arg in args]
        except RemoteError as error:
            return error.failed  # a failed argument is the task's result
        try:
            return self._script(code(*decode(encode(given)[0])[0]), runs)
        except (UserError, RemoteError) as error:
            is_system = isinstance(error, RemoteError) and error.failed.is_system
            return Failed("task", str(error), is_system)

    def _answer(self, request: Any, runs: int) -> Any:
        kind = type(request)
        if kind is say.Submit:
            return self._submit(request)
        if kind is say.Generate or kind is say.CallGenerator:
            return self._generate(request)
        if kind is say.Item:
            self.making[-1].append(self._store(request.value))
            return None
        if kind is say.Draw:
            return self._draw(request.stream)
        if kind is say.Put:
            return self._store(request.value)
        if kind is say.Get:
            refs = request.refs
            return [self._value(ref) for ref in refs] if isinstance(refs, list) else self._value(refs)
        if kind is say.Wait:
            return request.refs[: request.count], request.refs[request.count :]
        if kind is say.Create:
            handle = Handle(self._new_id())
            self.actors[handle.actor_id] = self._construct(handle, request)
            if request.name:
                self.names[request.name] = handle
            return handle
        if kind is say.Call:
            actor = self.actors[request.actor.actor_id]
            if type(actor) is Failed:
                return self._store(actor)
            return self._store(self._task(getattr(actor, request.method), request.args))
        if kind is say.Kill:
            self.actors[request.actor.actor_id] = Failed("ActorDiedError", "killed", True)
            return None
        if kind is say.Find:
            return self.names.get(request.name)
        if kind is say.FindNames:
            return sorted(self.names)
        if kind is say.Runs:
            return runs
        if kind is say.MayNotStart:
            return False
        if kind is say.View:
            return request.ref
        if kind is say.MakeGroup:
            is_too_large = any(amount > TOO_MUCH for bundle in request.bundles for amount in bundle.values())
            group_id = (b"never" if is_too_large else b"group") + self._new_id()[5:]
            self.groups[request.name] = group_id
            return group_id
        if kind is say.FindGroup:
            return self.groups.get(request.name)
        if kind is say.IsHere:
            return True
        if kind is say.Look:
            return self._value(request.view)
        return None  # Publish, Sleep, Cancel, Drop, Keep, Close, ExitActor: no answer

    def _generate(self, request: Any) -> say.Stream:
        is_call = type(request) is say.CallGenerator
        code = getattr(self.actors[request.actor.actor_id], request.method) if is_call else request.function
        stream = say.Stream(self._new_id())
        items: list[Ref] = []
        self.making.append(items)
        end = self._store(self._task(code, request.args))
        self.making.pop()
        self.streams[stream.task_id] = [*items, end]
        return stream

    def _draw(self, stream: say.Stream) -> Ref | None:
        *items, end = self.streams[stream.task_id]
        if stream.drawn < len(items):
            stream.drawn += 1
            return items[stream.drawn - 1]
        self._value(end)
        return None

    def _construct(self, handle: Handle, request: say.Create) -> Any:
        try:
            actor = request.cls(*[self._value(arg) if type(arg) is Ref else arg for arg in request.args])
            if hasattr(actor, "begin"):
                self._script(actor.begin(), 0)
        except UserError as error:
            return Failed("task", str(error), False)
        actor.process = SimpleNamespace(address="", life="", actor_id=handle.actor_id, is_once_more=False)
        actor.world = SimpleNamespace(actor_logs={})
        return actor

    def _submit(self, request: say.Submit) -> Any:
        code = FUNCTIONS[request.function.__name__]
        if set(request.resources or ()) - self.resources:
            return self._store(Failed("TaskUnschedulableError", "no node has it", True))
        if request.where is not None and request.where.group.startswith(b"never"):
            return self._store(Failed("TaskUnschedulableError", "no nodes have it", True))
        value = self._task(code, request.args)
        runs = 0
        while type(value) is Failed and request.retry_exceptions and runs != request.max_retries:
            runs += 1
            value = self._task(code, request.args, runs)
        count = request.num_returns
        if type(value) is Failed or count == 1:
            refs = [self._store(value) for _ in range(count)]
        else:
            refs = [self._store(item) for item in value or ()]
        return (refs[0] if count == 1 else refs) if refs else None
