"""Failed calls of actors that run again: the actor as its file has it (host/worker/actor_states.py)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ..host.session.replay_files import ActorFacts, EarlierCall

__all__ = ["constructed", "method_of", "settled", "words_on"]


def words_on(actor: ActorFacts) -> Iterator[str]:
    """Yield sentences on the state that a replay begins with."""
    calls = f"{len(actor.earlier)} call{'s' * (len(actor.earlier) != 1)} since" if actor.earlier else ""
    if actor.is_before:
        parts = ["its last checkpoint" if actor.state else "its constructor", calls]
        again = " and ".join(filter(None, parts))
        yield f"the state of the actor is the one before the call, from {again}"
    elif actor.state:
        why = f" (that before it is not in the file: {actor.reason})" if actor.reason else ""
        yield f"the state of the actor is the one after the failure, with what the call had changed by then{why}"
    else:
        yield f"the state of the actor is not in the file ({actor.reason}): the call runs on a new instance"
    if actor.absent:
        absent = ", ".join(f"{name} ({why})" for name, why in actor.absent.items())
        yield f"attributes of the actor that are not in the file: {absent}"
    if actor.running:
        calls = "another call" if actor.running == 1 else f"{actor.running} other calls"
        yield f"{calls} of the actor ran at the same time, and may have changed its state"


def method_of(actor: ActorFacts, cls: Any, parts: list[bytes], notes: list[str]) -> Callable[..., Any]:
    """Return the bound method of a failed call.  Earlier calls run first; notes: receives sentences on them.

    parts: those that ActorFacts.lengths() tells.
    """
    from ..host.worker.actor_methods import Methods

    instance = _instance(actor, cls, parts)
    _lose_unknown_refs()
    methods = Methods(instance)
    rest = parts[2 + len(actor.creation_value_bytes) :]
    failed = []
    for call in actor.earlier:
        end = 1 + len(call.value_bytes)
        try:
            _run_earlier(call, methods, rest[:end])
        except Exception as error:
            failed.append(f"{call.name} ({type(error).__name__}: {str(error)[:200]})")
        rest = rest[end:]
    if failed:
        notes.append(f"calls before it that raise now, and may have raised then: {', '.join(failed)}")
    return methods.bound.get(actor.method) or methods.find(actor.method)


def _instance(actor: ActorFacts, cls: Any, parts: list[bytes]) -> Any:
    from ..host.worker.checkpoints import restored
    from ..store.values import deserialize_writable

    if actor.state:
        state = deserialize_writable(parts[0])
        if actor.state == "checkpoint":
            return restored(cls, state)
        if actor.state == "instance":
            return state
        instance = cls.__new__(cls)
        instance.__dict__.update(state)
        return instance
    args, kwargs = _arguments(parts[1 : 2 + len(actor.creation_value_bytes)])
    return constructed(cls, *args, **kwargs)


def _lose_unknown_refs() -> None:
    """Have refs in the state whose values the file lacks be errors: a `get` would wait for them."""
    from ..exceptions import encode_system_error
    from ..host import context

    objects: Any = context.runtime.objects  # type: ignore[union-attr]
    lost = encode_system_error("ObjectLostError", "The value is not in the file: the actor had not got it.")
    for object_id in [each for each in objects.held if each not in objects.values]:
        objects.deliver_first(object_id, lost)


def _arguments(parts: list[bytes]) -> Any:
    """Return the arguments of a call: the payload comes first, and the values of refs behind."""
    from ..store.arguments import deserialize_arguments
    from ..store.values import deserialize

    return deserialize_arguments(parts[0], [deserialize(value) for value in parts[1:]])


def _run_earlier(call: EarlierCall, methods: Any, parts: list[bytes]) -> None:
    """Run a call that has changed the state, with its own ids and random numbers."""
    from ..host import context
    from ..host.client.task_context import Submitter

    runtime: Any = context.runtime
    root = runtime.root
    runtime.root = Submitter(bytes.fromhex(call.task_id), call.name, path=bytes.fromhex(call.path))
    try:
        args, kwargs = _arguments(parts)
        value = settled((methods.bound.get(call.method) or methods.find(call.method))(*args, **kwargs))
        if inspect.isgenerator(value):
            for _ in value:
                pass
    finally:
        runtime.root = root


def constructed(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return an instance of a class, whose constructor may be async."""
    if not inspect.iscoroutinefunction(cls.__init__):
        return cls(*args, **kwargs)
    from ..host.worker.actor_methods import make_instance

    return settled(make_instance(cls, list(args), kwargs))


def settled(value: Any) -> Any:
    """Return what a function has returned; of a coroutine, its result; of an async generator, its items."""
    if inspect.isasyncgen(value):
        value = _items_of(value)
    if not inspect.iscoroutine(value):
        return value
    import asyncio

    return asyncio.run(value)


async def _items_of(items: Any) -> list[Any]:
    return [item async for item in items]
