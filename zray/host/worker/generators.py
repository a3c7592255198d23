"""Runs of generator functions and methods in a worker: each item leaves as soon as it is made."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...exceptions import ObjectStoreFullError, encode_retry_error
from ...ids import item_id, return_id
from ...object_ref import DynamicObjectRefGenerator, ObjectRef
from ...store.errors import serialize_error
from ...store.layout import Serialized
from ...store.values import serialize
from ...wire.task_spec import ITEMS_OF_GENERATOR_MAX, GivenItems, StoredValue, TaskSpec, parse_options
from .replays import keep

if TYPE_CHECKING:
    from .main import Worker

# Items leave at least so often; the first one leaves at once.
SEND_SECONDS = 0.001
# Large items leave when there are so many bytes of them.  A frame each would cost a third of the rate.
LARGE_BYTES_MAX = 6 << 20
# Space is asked for before so many further items are made, for at most so many bytes and parts of the store.  Half of
# it makes the worker wait for a third longer for each item of 1 MB.
AHEAD_COUNT = 16
AHEAD_BYTES_MAX = 16 << 20
AHEAD_STORE_PARTS = 16


class ItemSender:
    """The items of one run, on their way to the node."""

    def __init__(self, worker: Worker, spec: TaskSpec) -> None:
        self.worker = worker
        self.spec = spec
        self.count = 0
        self.sent_at = 0.0
        self.large_bytes = 0  # of items in the store that have not been sent
        self.ordered: dict[bytes, None] = {}  # items for which there may be space already
        self.max_buffered = parse_options(spec.options).max_buffered
        self.given, drawn = worker.again.pop(spec.task_id, (GivenItems(), 0))
        if self.max_buffered:
            worker.drawn[spec.task_id] = drawn

    def close(self) -> None:
        """Forget what was drawn, and give back space for further items, at the end of the run."""
        if self.ordered:
            self.worker.writer.give_up([*self.ordered])
        self.worker.drawn.pop(self.spec.task_id, None)

    def _order(self, size: int) -> None:
        """Ask for space for the next items, which mostly are as large as the last: each would wait for it else."""
        bytes_max = min(AHEAD_BYTES_MAX, self.worker.arena.size() // AHEAD_STORE_PARTS)
        numbers = range(self.count + 1, self.count + 1 + min(AHEAD_COUNT, bytes_max // size))
        expected = [item_id(self.spec.task_id, number) for number in numbers]
        self.ordered.update(dict.fromkeys(expected))
        self.worker.writer.order(expected, size)

    def _is_not_stored(self, object_id: bytes) -> None:
        """Give back the space of an item that needs none."""
        if object_id in self.ordered:
            del self.ordered[object_id]
            self.worker.writer.give_up([object_id])

    def wait_for_room(self) -> None:
        """Wait until one more item may be made, where their number is limited."""
        if self.max_buffered and self.count >= self.max_buffered:
            self.worker.wait_for_draws(self.spec.task_id, self.count - self.max_buffered + 1)

    def send(self, item: Any) -> None:
        """Store an item and send it.

        Raises:
            SerializationError: the item cannot be pickled.
            ObjectStoreFullError: the item does not fit into the object store.
        """
        worker, task_id = self.worker, self.spec.task_id
        if self.count == ITEMS_OF_GENERATOR_MAX:
            raise ValueError(f"A generator may yield at most {ITEMS_OF_GENERATOR_MAX:,} items.")
        object_id = item_id(task_id, self.count)
        serialized = serialize(item)
        if serialized.size > worker.inline_bytes_max and self.given.has(self.count):
            self._is_not_stored(object_id)
            self.count += 1  # small ones are compared with those of the earlier run
            return
        try:
            stored = worker.store(object_id, serialized)
        except ObjectStoreFullError:
            if getattr(worker, "actor", None) is not None:
                worker.cancelling.closes_at(self.spec, self.count + 1)  # a replay finds room
            raise
        if type(stored) is StoredValue:
            self.ordered.pop(object_id, None)
            self._order(serialized.size)
            self.large_bytes += serialized.size
        else:
            self._is_not_stored(object_id)
        is_full = worker.say_item(task_id, self.count, stored, serialized.contained)
        self.count += 1
        now = time.perf_counter()
        if is_full or self.large_bytes > LARGE_BYTES_MAX or now - self.sent_at > SEND_SECONDS:
            self.sent_at, self.large_bytes = now, 0
            worker.flush()
            worker.wait_for_room()
        else:
            worker.arm()


def is_cancelled(worker: Worker, spec: TaskSpec) -> bool:
    """Return whether a task is to end early, so that its errors are not its own."""
    cancelling = getattr(worker, "cancelling", None)  # local mode has none
    return cancelling is not None and cancelling.is_cancelled(spec)


def require_iterator(worker: Worker, spec: TaskSpec, made: Any, option: str) -> None:
    """Refuse what a function that is no generator has returned.

    Raises:
        TypeError: it is no iterator.
    """
    if not hasattr(made, "__next__"):
        raise TypeError(
            f'{worker.name_of(spec)} has num_returns="{option}", and is no generator: it returned '
            f"{type(made).__name__}.  Write `yield` in it, or leave num_returns out."
        )


def run_generator(worker: Worker, spec: TaskSpec, made: Iterator[Any]) -> bytes:
    """Send all items.  Returns the end of the stream: their number, as a stored value.

    Raises:
        TypeError: the function returned something else than a generator.
        any error of the generator.
    """
    require_iterator(worker, spec, made, "streaming")
    sender = ItemSender(worker, spec)
    cancelling = getattr(worker, "cancelling", None)  # local mode has none
    try:
        for item in made:
            sender.send(item)
            sender.wait_for_room()
            if cancelling is None:
                continue
            if cancelling.ends_generator(spec, sender.count):
                made.close()  # type: ignore[attr-defined]  # GeneratorExit at its `yield`, as in Ray
                return serialize(sender.count).inband
            if worker.actor is None:
                cancelling.check(spec)  # its signal may come later, on a busy machine
    except BaseException as error:
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next  # this frame is not the user's
        close = getattr(made, "close", None)
        if close is not None:
            close()
        raise
    finally:
        sender.close()
    if sender.count < sender.given.before and parse_options(spec.options).is_deterministic:
        yielded = f"it yielded {sender.count} items, and an earlier attempt {sender.given.before}"
        return encode_retry_error(worker.name_of(spec), yielded)
    return serialize(sender.count).inband


def run_dynamic(
    worker: Worker, spec: TaskSpec, made: Iterator[Any]
) -> tuple[list[bytes | StoredValue], tuple[tuple[bytes, ...], ...]]:
    """Put all items.  Returns the one value, a DynamicObjectRefGenerator, and the refs inside.

    An error of the generator is the last item.
    """
    require_iterator(worker, spec, made, "dynamic")
    refs: list[ObjectRef[Any]] = []
    try:
        for item in made:
            refs.append(ObjectRef(worker.put_serialized(serialize(item))))
    except Exception as error:
        if is_cancelled(worker, spec):
            raise
        name = worker.name_of(spec)
        failed = serialize_error(error, name, node=worker.node_id.hex(), skip_frames=1)
        keep(worker, spec, name, error)
        refs.append(ObjectRef(worker.put_serialized(failed)))
    serialized = serialize(DynamicObjectRefGenerator(refs))
    return [worker.store(return_id(spec.task_id, 1), serialized)], (serialized.contained,)


def replay(
    worker: Worker, spec: TaskSpec, value: Any, closed_at: int | None, give: Callable[[int, Serialized], None] | None
) -> None:
    """Run the generator of a replayed call as far as it had run.  Its items are not stored.

    closed_at: the generator was closed behind so many items.  give: a function that is given each item's number.

    Raises:
        any error of the generator.
    """
    options = parse_options(spec.options)
    if options.has_plain_return or not options.num_returns or not hasattr(value, "__next__"):
        return
    if options.is_dynamic:
        submitter = worker.submitter()
        for item in value:
            submitter.next_put()  # as `run_dynamic`, so that further puts have the same ids
            serialize(item)
        return
    count = closed_at
    if not options.is_generator:
        count = 1 if options.takes_first else options.num_returns + 1
    for number, item in enumerate(islice(value, count)):
        serialized = serialize(item)  # what could not be pickled has ended the first run
        if give is not None:
            give(number, serialized)
    if count is not None:
        value.close()


async def run_async_generator(worker: Worker, spec: TaskSpec, made: AsyncIterator[Any]) -> bytes:
    """Send all items of an async generator, in the event loop of an actor.  Returns as `run_generator`."""
    import asyncio  # an async actor has it

    sender = ItemSender(worker, spec)
    try:
        async for item in made:
            sender.send(item)
            if sender.max_buffered:
                await asyncio.get_running_loop().run_in_executor(None, sender.wait_for_room)
    except BaseException:
        close = getattr(made, "aclose", None)
        if close is not None:
            await close()  # the call has ended when its `finally` has
        raise
    finally:
        sender.close()
    return serialize(sender.count).inband
