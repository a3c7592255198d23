"""An actor with `checkpoint_interval`, inside its worker: its state is saved, restored, and replayed.

The state is the result of the class's `__zray_save__()`; `__zray_restore__(state)` restores it on an instance without a
constructor call.  The methods may also be called `__ray_save__` and `__ray_restore__`.  Without them the state is
pickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...exceptions import ObjectStoreFullError
from ...ids import checkpoint_id, item_id, return_id
from ...object_ref import ObjectRef
from ...roles.client import BUFFERED_COUNT_MAX
from ...store.layout import Serialized
from ...store.values import serialize
from ...wire.actors import ActorSaved
from ...wire.task_spec import StoredValue, TaskSpec, parse_options
from ..client.task_context import Call
from .generators import replay

if TYPE_CHECKING:
    from .actor_runner import ActorHost, Result

SAVE = ("__zray_save__", "__ray_save__")
RESTORE = ("__zray_restore__", "__ray_restore__")
# Calls since the checkpoint are noted as long as they take so many bytes; a call takes those of its arguments too.
LOG_BYTES_MAX, SPEC_BYTES = 2 << 20, 1 << 10


class NotAsBefore(Exception):
    """A replayed call misses lost data: the state would differ from the state that callers have seen."""


def _found(instance: Any, names: tuple[str, ...]) -> Any:
    return next((getattr(instance, name) for name in names if hasattr(instance, name)), None)


def restored(cls: Any, state: Any) -> Any:
    """Return an instance of a class with a state that was saved."""
    found = _found(cls, RESTORE)
    if found is None and _found(cls, SAVE) is None:
        return state
    instance = cls.__new__(cls)
    if found is None:
        instance.__dict__.update(state)
    else:
        _found(instance, RESTORE)(state)
    return instance


class Recovery:
    """Checkpoints and replay of an actor."""

    def __init__(self, host: ActorHost) -> None:
        self.host = host
        self.count = host.order.call_count  # calls so far, without readonly ones
        self.saved_at = self.count
        self.saved: ObjectRef | None = None  # the last checkpoint put by this process
        self.given: list[ObjectRef] = []  # results of replayed calls, until the node holds them
        self.closed = dict(host.order.closed)  # replayed calls that were cancelled -> items of their generators
        # Calls since the checkpoint, for the file of a failed one; None: too many, or one was cancelled.
        self.log: list[TaskSpec] | None = None if self.closed else []
        self.log_bytes = 0

    def restored(self, cls: Any) -> Any:
        """Return the instance as saved."""
        worker = self.host.worker
        ref = worker.another_ref(self.host.order.checkpoint)
        (state,) = worker.get([ref], None, writable=True)  # its arrays are its own, as before
        return restored(cls, state)

    def run_again(self) -> None:
        """Replay the calls since the checkpoint, in order, and readonly calls for their results.  Other results were
        reported.
        """
        host, worker = self.host, self.host.worker
        for spec in host.order.calls:
            worker.call = Call(spec)
            host.run_once_more(spec)
            if self.count_call(spec):
                self._note(spec)
        with worker.lock:
            for object_id in dict.fromkeys(object_id for spec in host.order.calls for object_id in spec.deps):
                if type(worker.executor.arguments.pop(object_id, None)) is StoredValue:
                    worker.client.place_unused(object_id)
        host.order.calls = []

    def give(self, spec: TaskSpec, result: Result) -> None:
        """Put the result of a replayed call, since it is lost and may be requested."""
        worker = self.host.worker
        values, contained, _ = result
        with worker.lock:
            for index, value in enumerate(values, 1):
                worker.client.put(return_id(spec.task_id, index), value, contained[index - 1] if contained else ())
                self.given.append(ObjectRef(return_id(spec.task_id, index)))
            worker.writer.drop_found()

    def replay_generator(self, spec: TaskSpec, value: Any) -> None:
        """Run the generator of a replayed call, and put the items that may be requested."""
        worker = self.host.worker
        given = next((given for task_id, given in self.host.order.items if task_id == spec.task_id), None)

        def give(number: int, serialized: Serialized) -> None:
            if given is None or given.has(number):
                return
            object_id = item_id(spec.task_id, number)
            try:
                stored = worker.store(object_id, serialized)
            except ObjectStoreFullError:
                return  # the item is lost, and the state is not
            with worker.lock:
                worker.client.put(object_id, stored, serialized.contained)
                self.given.append(ObjectRef(object_id))
                worker.writer.drop_found()
            if worker.client.buffered >= BUFFERED_COUNT_MAX:
                worker.flush()

        replay(worker, spec, value, self.closed.get(spec.task_id), give)

    def count_call(self, spec: TaskSpec) -> bool:
        """Count a call that has ended, or was dropped, unless it is readonly; return whether it counts."""
        if parse_options(spec.options).is_readonly:
            return False
        with self.host.worker.lock:
            self.count += 1
        return True

    def call_ended(self, spec: TaskSpec) -> None:
        """Save the state, now and then."""
        host = self.host
        interval = host.options.checkpoint_interval
        if host.exiting or not self.count_call(spec):
            return
        self._note(spec)
        if interval and self.count - self.saved_at >= interval:
            self._save()

    def _note(self, spec: TaskSpec) -> None:
        """Keep a call that may have changed the state, for the replay of a failure."""
        if (log := self.log) is not None:
            log.append(spec)
            self.log_bytes += len(spec.args) + SPEC_BYTES
            if self.log_bytes > LOG_BYTES_MAX:
                self.log = None

    def _save(self) -> None:
        """Save the state.  A failure is printed; the calls since the last checkpoint are replayed instead."""
        host, worker = self.host, self.host.worker
        try:
            save = _found(host.instance, SAVE)
            state = host.instance if save is None else save()  # lives until it is put, with the objects of its refs
            serialized = serialize(state)
            object_id = checkpoint_id(host.actor_id, host.order.restart_count, self.count)
            stored = worker.store(object_id, serialized)
        except Exception as error:
            print(f"{host.options.class_name}: its state could not be saved: {error!r}", flush=True)
            self.saved_at = self.count  # not again after each call
            return
        with worker.lock:  # in which no call is dropped
            worker.send_buffered()  # results first: the state includes them
            worker.client.put(object_id, stored, serialized.contained)
            worker.client.say(ActorSaved(host.actor_id, object_id, self.count))
            self.saved_at = self.count
        self.saved, self.log, self.log_bytes = ObjectRef(object_id), [], 0
        worker.flush()
