"""Requests of a simulated process's script, carried out through the production client."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..exceptions import encode_system_error
from ..ids import SALT_BYTES, function_id, item_id, named_group_id, put_id, return_id, task_of, unrepeated_id
from ..roles.local_scheduler.tasks.pool import START_FAILURES_MAX
from ..wire.actors import CreateActor, FindActor, FindActorNames, KillActor
from ..wire.environment import NO_ENVIRONMENT, Environment
from ..wire.groups import CreateGroup, FindGroups, GroupSpec, RemoveGroup
from ..wire.objects import AllocateObject, AllocateRefused, ObjectAllocated
from ..wire.scheduling import Bundle, PublishCode
from ..wire.task_spec import ActorOptions, StoredValue, TaskOptions, TaskSpec, encode_options
from ..wire.tasks import CancelTask, Function, ItemsDrawn, PublishFunction
from ..wire.where import Where
from . import language as say
from .values import Dep, Handle, Ref, RemoteError, decode, decode_failure, encode

if TYPE_CHECKING:
    from .process import Activation, Process


# A writer that waits this long for space in the arena reports the wait.
ROOM_SECONDS = 0.01


class Write:
    """Allocate and write large bytes, within a process.  Answer: the place, or AllocateRefused."""

    def __init__(self, object_id: bytes, data: bytes) -> None:
        self.object_id = object_id
        self.data = data


def _spec(process: Process, top: Activation, code: Any, args: tuple[Any, ...], options: TaskOptions) -> TaskSpec:
    function = _function_of(code)
    if function.function_id not in process.published:
        process.published.add(function.function_id)
        process.client.say(PublishFunction(function))
    data, deps, holds = encode_arguments(args)
    return TaskSpec(top.next_child(), function.function_id, data, deps, holds, encode_options(options))


def _environment_of(name: str) -> Environment:
    """Variables; some have packages too."""
    return Environment((("ENV", name),), packages=name if name.endswith("1") else "") if name else NO_ENVIRONMENT


def _submit(process: Process, top: Activation, request: say.Submit) -> None:
    options = TaskOptions(
        num_returns=request.num_returns,
        max_retries=request.max_retries,
        retry_exceptions=request.retry_exceptions,
        environment=_environment_of(request.env),
        where=request.where,
        time_limit=request.timeout,
        priority=request.priority,
        **({} if request.resources is None else {"resources": request.resources}),  # type: ignore[arg-type]
    )
    spec = _spec(process, top, request.function, request.args, options)
    process.client.submit(spec, request.num_returns)
    refs = [Ref(return_id(spec.task_id, index)) for index in range(1, request.num_returns + 1)]
    top.refs.extend(ref.id for ref in refs)
    top.answer = (refs[0] if len(refs) == 1 else refs) if refs else None


def _generate(process: Process, top: Activation, request: say.Generate) -> None:
    options = TaskOptions(
        max_retries=request.max_retries,
        retry_exceptions=request.retry_exceptions,
        where=request.where,
        is_generator=True,
        max_buffered=request.max_buffered,
        **({} if request.resources is None else {"resources": request.resources}),  # type: ignore[arg-type]
    )
    _draws(process, top, _spec(process, top, request.function, request.args, options))
    top.answer.is_limited = bool(request.max_buffered)


def _call_generator(process: Process, top: Activation, request: say.CallGenerator) -> None:
    options = TaskOptions(
        resources={},
        max_retries=request.max_retries,
        actor_id=request.actor.actor_id,
        method=request.method,
        is_generator=True,
        is_logged=request.actor.actor_id in process.world.recovering,
        max_buffered=request.max_buffered,
    )
    data, deps, holds = encode_arguments(request.args)
    options_blob = encode_options(options)
    _draws(process, top, TaskSpec(top.next_child(), b"", data, deps, holds, options_blob, process.actor_id))
    top.answer.is_limited = bool(request.max_buffered)


def _draws(process: Process, top: Activation, spec: TaskSpec) -> None:
    if process.kind == "worker" and process.actor_id not in process.world.recovering:
        process.world.generators += 1
        spec.task_id = unrepeated_id(spec.task_id, process.world.generators.to_bytes(SALT_BYTES, "big"))
    process.client.streams[spec.task_id] = 0
    process.client.submit(spec)
    top.refs.append(return_id(spec.task_id, 1))
    top.answer = say.Stream(spec.task_id)
    top.streams.append(top.answer)


def _item(process: Process, top: Activation, request: say.Item) -> None:
    number, task_id = top.items, top.task_id
    object_id = item_id(task_id, number)
    top.items += 1
    data, contained = encode(request.value)
    is_large, is_replay = len(data) > process.inline_bytes_max, top.spec is None
    given = process.again.get(task_id)

    def done(value: Any) -> None:
        if type(value) is AllocateRefused and not is_replay:
            top.closed_at = top.items
            raise RemoteError(decode_failure(encode_system_error("ObjectStoreFullError", value.reason)))
        if not is_replay:
            process.client.say_item(task_id, number, value, contained)
        elif type(value) is not AllocateRefused:
            process.client.put(object_id, value, contained)
            top.refs.append(object_id)
        closed()

    def closed() -> None:
        if is_replay or not process.waits_for_draws(top, end):
            end()

    def end() -> None:
        if process.closes(top):
            top.closed_at, top.failure = top.items, say.Closed()

    is_given = given is not None and given.has(number)
    if (is_replay and (given is None or is_given)) or (is_given and is_large):
        closed()
    elif not is_large:
        done(data)
    else:
        _write(process, top, Write(object_id, data), done)


def _draw(process: Process, top: Activation, request: say.Draw) -> None:
    stream, client = request.stream, process.client
    end, item = return_id(stream.task_id, 1), item_id(stream.task_id, stream.drawn)
    has_ended = end in client.values  # before the count: items arrive ahead of the end
    if stream.drawn < client.streams.get(stream.task_id, 0):
        stream.drawn += 1
        if stream.is_limited:
            client.say(ItemsDrawn(stream.task_id, stream.drawn))
        top.refs.append(item)
        top.answer = Ref(item)
        return
    if has_ended:
        try:
            if stream.drawn >= process.value_of(top, end):
                return
        except RemoteError as error:
            top.failure = error
            return

    def again() -> Any:
        _draw(process, top, request)
        return top.answer

    _wait_at_node(process, top, [item] if has_ended else [item, end], 1, True, None, again)


def _leave_stream(process: Process, top: Activation, request: say.LeaveStream) -> None:
    top.streams.remove(request.stream)
    process.leave_stream(request.stream)


def _put(process: Process, top: Activation, request: say.Put) -> None:
    object_id = put_id(top.task_id, top.puts)
    top.puts += 1
    data, contained = encode(request.value)

    def done(value: Any) -> Any:
        if type(value) is AllocateRefused:
            raise RemoteError(decode_failure(encode_system_error("ObjectStoreFullError", value.reason)))
        process.client.put(object_id, value, contained)
        top.refs.append(object_id)
        return Ref(object_id)

    if len(data) <= process.inline_bytes_max:
        top.answer = done(data)
    else:
        _write(process, top, Write(object_id, data), done)


def _publish(process: Process, top: Activation, request: say.Publish) -> None:
    def published(ref: Any) -> None:
        digest = sha256(repr(request.value).encode()).digest()
        process.client.say(PublishCode([Bundle(digest, ref.id, 1)]))
        process.bundles.append(ref.id)

    _put(process, top, say.Put(request.value))
    if top.resume is None:
        published(top.answer)
    else:
        resume = top.resume

        def then() -> Any:
            ref = resume()
            published(ref)
            return ref

        top.resume = then


def _write(process: Process, top: Activation, request: Write, done: Any = lambda place: place) -> None:
    object_id, data, client = request.object_id, request.data, process.client
    client.allocations[object_id] = len(data)
    client.say(AllocateObject(object_id, len(data)))
    room_wait = 0  # the CPU may have been lent to work that frees space
    is_cancelled = False

    def is_answered() -> bool:
        answer = client.allocations.get(object_id)
        if type(answer) is ObjectAllocated:
            return answer.reserved >= len(data) or answer.reserved < 0
        return type(answer) is AllocateRefused

    def is_over() -> bool:
        nonlocal is_cancelled
        if not is_answered() or not room_wait:
            return is_answered()
        if not is_cancelled:
            is_cancelled = True
            client.cancel_wait(room_wait)
        return client.replies[room_wait] is not None

    def lend() -> None:
        nonlocal room_wait
        if process.is_alive and top in process.stack and type(client.allocations.get(object_id)) is int:
            room_wait = client.await_room()
            process.flush()

    def resume() -> Any:
        if room_wait:
            del client.replies[room_wait]
        answer = client.allocations.pop(object_id)
        if type(answer) is AllocateRefused:
            return done(answer)
        assert type(answer) is ObjectAllocated
        place: StoredValue = answer.place
        if answer.reserved >= 0:
            process.node.arena.write(place.segment, place.offset, data)
        else:
            client.place_told(object_id)
        told = done(place)
        if answer.reserved < 0:
            client.place_unused(object_id)
        return told

    process.block(top, is_over, resume)
    if process.kind == "worker" and not process.is_host:
        process.world.call_later(ROOM_SECONDS, lend)


def _get(process: Process, top: Activation, request: say.Get) -> None:
    is_list = isinstance(request.refs, list)
    ids = [ref.id for ref in (request.refs if is_list else [request.refs])]
    values = process.client.values

    def resume() -> Any:
        got = [process.value_of(top, object_id) for object_id in ids]
        return got if is_list else got[0]

    missing = list(dict.fromkeys(object_id for object_id in ids if object_id not in values))
    if missing:
        resume = _kept_until(process, ids, resume)
    if not missing:
        process.block(top, lambda: True, resume)
        return
    if process.kind == "driver" and process.world.options.nodes == 1 and process.world.random.random() < 0.3:
        # As futures do: the values come by themselves.
        process.client.ask(ids)
        process.block(top, lambda: all(object_id in values for object_id in ids), resume)
        return
    _wait_at_node(process, top, missing, len(missing), True, None, resume)


def _kept_until(process: Process, ids: list[bytes], resume: Any) -> Any:
    """Return `resume` for a wait during which the process returns no places of these values."""
    process.client.waits.append(ids)

    def end() -> Any:
        process.client.waits = [wait for wait in process.client.waits if wait is not ids]
        return resume()

    return end


def _wait_at_node(
    process: Process, top: Activation, ids: list[bytes], count: int, fetch: bool, timeout: float | None, resume: Any
) -> None:
    if process.world.random.random() < 0.5:
        process.flush()  # results before the wait, or together in a frame
    client = process.client
    replies = client.replies
    blocks = process.kind == "worker" and timeout != 0 and not process.is_host
    number = client.wait(ids, count, fetch=fetch, block=blocks, limited=timeout is not None)
    if timeout == 0:
        client.cancel_wait(number)
    is_late = is_deaf = False  # expired; or not waiting for the answer, as after an interrupt

    def is_over() -> bool:
        if is_late and blocks and replies[number] is None and client.left != number:
            client.leave_wait(number)
            process.throw_nested_out()
        return replies[number] is not None or (is_late and is_deaf)

    def answer() -> Any:
        replies.pop(number)
        return resume()

    def too_long() -> None:
        nonlocal is_late, is_deaf
        if process.is_alive and replies.get(number, 0) is None:
            is_late = True
            if blocks:
                is_deaf = process.world.random.random() < 0.5
            else:
                client.cancel_wait(number)
            if not process.is_busy:
                process.run()

    process.block(top, is_over, answer)
    if timeout:
        process.world.call_later(timeout, too_long)


def _wait(process: Process, top: Activation, request: say.Wait) -> None:
    client = process.client
    ids = [ref.id for ref in request.refs]

    def resume() -> Any:
        ready = [ref for ref in request.refs if client.is_ready(ref.id)][: request.count]
        chosen = {ref.id for ref in ready}
        return ready, [ref for ref in request.refs if ref.id not in chosen]

    if sum(client.is_ready(object_id) for object_id in ids) >= request.count:
        process.block(top, lambda: True, resume)
    else:
        _wait_at_node(process, top, ids, request.count, request.fetch, request.timeout, resume)


def _sleep(process: Process, top: Activation, request: say.Sleep) -> None:
    process.busy(request.seconds)


def _compute(process: Process, top: Activation, request: say.Compute) -> None:
    seconds = process.node.occupy(request.seconds) - process.world.now
    # A kernel seldom takes the core away within a task: waits for a core do not count as run time.
    top.begun_at += seconds - request.seconds
    process.busy(seconds)


def _create(process: Process, top: Activation, request: say.Create) -> None:
    is_spread = request.where is None and request.resources is None and not request.hosted
    options = ActorOptions(
        resources=request.resources or {},
        max_restarts=request.max_restarts,
        name=request.name,
        detached=request.detached,
        class_name=request.cls.__name__,
        where=Where(is_spread=True) if is_spread else request.where,
        checkpoint_interval=request.checkpoint_interval,
        hosted=request.hosted,
    )
    spec = _spec(process, top, request.cls, request.args, TaskOptions(max_retries=0))
    if request.detached and process.bundles:
        spec = replace(spec, deps=tuple(dict.fromkeys((*spec.deps, *process.bundles))))
    handle = Handle(spec.task_id)
    if request.checkpoint_interval >= 0:
        process.world.recovering.add(handle.actor_id)
    process.client.say(CreateActor(spec, options))
    process.client.expect_actor(handle.id)
    top.refs.append(handle.id)
    top.answer = handle


def _call(process: Process, top: Activation, request: say.Call) -> None:
    actor_id = request.actor.actor_id
    options = TaskOptions(
        resources={},
        max_retries=request.max_retries,
        actor_id=actor_id,
        method=request.method,
        is_readonly=request.readonly,
        is_logged=actor_id in process.world.recovering,
    )
    data, deps, holds = encode_arguments(request.args)
    spec = TaskSpec(top.next_child(), b"", data, deps, holds, encode_options(options), process.actor_id)
    process.client.submit(spec)
    ref = Ref(return_id(spec.task_id, 1))
    top.refs.append(ref.id)
    top.answer = ref


def _find(process: Process, top: Activation, request: say.Find) -> None:
    client = process.client
    number = client.expect_reply()
    client.say(FindActor(number, "", request.name))

    def resume() -> Any:
        reply = client.replies.pop(number)
        if not reply.actor_id:
            return None
        handle = Handle(reply.actor_id)
        # The node counts us as a holder already: a hold is said once too often, never too seldom.
        client.hold(handle.id)
        top.refs.append(handle.id)
        return handle

    process.block(top, lambda: client.replies[number] is not None, resume)


def _find_names(process: Process, top: Activation, request: say.FindNames) -> None:
    client = process.client
    number = client.expect_reply()
    client.say(FindActorNames(number, ""))

    def resume() -> Any:
        return [name for _, name in client.replies.pop(number).names]

    process.block(top, lambda: client.replies[number] is not None, resume)


def _kill(process: Process, top: Activation, request: say.Kill) -> None:
    process.client.say(KillActor(request.actor.actor_id, request.no_restart))


def _cancel(process: Process, top: Activation, request: say.Cancel) -> None:
    client, task_id = process.client, task_of(request.ref.id)
    if not request.only_waiting:
        client.say(CancelTask(task_id, request.force, request.recursive))
        return
    number = client.expect_reply()
    client.say(CancelTask(task_id, request=number, only_waiting=True))
    process.block(top, lambda: client.replies[number] is not None, lambda: not client.replies.pop(number).error)


def _drop(process: Process, top: Activation, request: say.Drop) -> None:
    for ref in request.refs:
        (top.refs if ref.id in top.refs else process.kept).remove(ref.id)
        process.client.released.append(ref.id)


def _keep(process: Process, top: Activation, request: say.Keep) -> None:
    top.refs.remove(request.ref.id)
    process.kept.append(request.ref.id)


def _runs(process: Process, top: Activation, request: say.Runs) -> None:
    top.answer = process.world.runs[top.task_id] - 1


def _may_not_start(process: Process, top: Activation, request: say.MayNotStart) -> None:
    faults = process.world.faults
    top.answer = faults.start_failures > START_FAILURES_MAX or request.actor.actor_id in faults.found_no_room


def _view(process: Process, top: Activation, request: say.View) -> None:
    process.client.read_begins(request.ref.id)
    top.views.append(request.ref.id)
    top.answer = (request.ref.id, process.client.values[request.ref.id])


def _look(process: Process, top: Activation, request: say.Look) -> None:
    top.answer = decode(process.bytes_of(request.view[1]))[0]


def _close(process: Process, top: Activation, request: say.Close) -> None:
    top.views.remove(request.view[0])
    process.client.unread.append(request.view[0])


def _exit_actor(process: Process, top: Activation, request: say.ExitActor) -> None:
    process.leave_after(top)


def _make_group(process: Process, top: Activation, request: say.MakeGroup) -> None:
    client, task_id = process.client, top.next_child()
    group_id = named_group_id(task_id, "", request.name) if request.name else task_id
    spec = GroupSpec(request.bundles, request.strategy, request.name, "", request.is_detached, process.actor_id)
    number = client.expect_reply()
    client.say(CreateGroup(number, group_id, spec))

    def resume() -> Any:
        return client.replies.pop(number).holder or group_id

    process.block(top, lambda: client.replies[number] is not None, resume)


def _find_group(process: Process, top: Activation, request: say.FindGroup) -> None:
    client = process.client
    number = client.expect_reply()
    client.say(FindGroups(number, b"", "", request.name))

    def resume() -> Any:
        found = client.replies.pop(number).groups
        return found[0].group_id if found else None

    process.block(top, lambda: client.replies[number] is not None, resume)


def _remove_group(process: Process, top: Activation, request: say.RemoveGroup) -> None:
    process.client.say(RemoveGroup(request.group, "its program has removed it"))


def _surroundings(process: Process, top: Activation, request: say.Surroundings) -> None:
    top.answer = process


def _is_here(process: Process, top: Activation, request: say.IsHere) -> None:
    top.answer = not request.names or process.node.name in request.names


ANSWER: dict[type, Any] = {
    say.Submit: _submit,
    say.Generate: _generate,
    say.CallGenerator: _call_generator,
    say.Item: _item,
    say.Draw: _draw,
    say.LeaveStream: _leave_stream,
    say.Put: _put,
    Write: _write,
    say.Get: _get,
    say.Wait: _wait,
    say.Sleep: _sleep,
    say.Compute: _compute,
    say.Create: _create,
    say.Call: _call,
    say.Find: _find,
    say.FindNames: _find_names,
    say.Kill: _kill,
    say.Cancel: _cancel,
    say.Drop: _drop,
    say.Keep: _keep,
    say.Runs: _runs,
    say.MayNotStart: _may_not_start,
    say.Publish: _publish,
    say.View: _view,
    say.Look: _look,
    say.Close: _close,
    say.ExitActor: _exit_actor,
    say.IsHere: _is_here,
    say.Surroundings: _surroundings,
    say.MakeGroup: _make_group,
    say.FindGroup: _find_group,
    say.RemoveGroup: _remove_group,
}


def _function_of(code: Any) -> Function:
    name = code.__name__
    return Function(function_id(name.encode()), name, name.encode())


def encode_arguments(args: tuple[Any, ...]) -> tuple[bytes, tuple[bytes, ...], tuple[bytes, ...]]:
    """Return (bytes, deps, holds): refs that are arguments themselves, and refs inside arguments."""
    deps: list[bytes] = []
    places: list[Any] = []
    for arg in args:
        if type(arg) is Ref:
            places.append(Dep(len(deps)))
            deps.append(arg.id)
        else:
            places.append(arg)
    data, holds = encode(places)
    return data, tuple(deps), holds
