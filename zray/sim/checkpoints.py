"""Recovery of a simulated actor with checkpoints: save, restore and replay, in the order of host/worker/checkpoints.

Its class has `save()`, which returns a value, and `restore(state)`, for an instance without a constructor call.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ..exceptions import encode_system_error
from ..ids import checkpoint_id, children_prefix, return_id
from ..wire.actors import ActorSaved, StartActor
from ..wire.objects import AllocateRefused
from ..wire.task_spec import TaskSpec, parse_options
from . import language as say
from .process import Activation
from .requests import Write
from .values import Ref, RemoteError, UserError, encode

if TYPE_CHECKING:
    from .worker import Worker

# The errors that are an ObjectLostError in production.
LOST = ("ObjectLostError", "ObjectReconstructionFailedError")


class Recovery:
    """The checkpoints and the replay of an actor."""

    def __init__(self, worker: Worker, order: StartActor) -> None:
        self.worker = worker
        self.interval = order.options.checkpoint_interval
        self.count = self.saved_at = order.call_count
        self.restart_count = order.restart_count
        self.saved = b""
        self.closed = dict(order.closed)  # replayed calls that were cancelled -> items of their generators

    def restored(self, top: Activation, cls: Any, checkpoint: bytes) -> Generator[Any, Any, Any]:
        """Return the instance as saved."""
        self.worker.client.hold(checkpoint)
        top.refs.append(checkpoint)
        state = yield say.Get(Ref(checkpoint))
        actor = cls.__new__(cls)
        yield from actor.restore(state)
        return actor

    def run_again(self, top: Activation, order: StartActor) -> Generator[Any, Any, bytes | None]:
        """Replay the calls since the checkpoint.  Returns the error if the former state cannot be reached."""
        worker, again = self.worker, order.again
        for spec in order.calls:
            is_read = parse_options(spec.options).is_readonly
            top.task_id, top.prefix = spec.task_id, children_prefix(spec.task_id)
            top.children = top.puts = top.items = 0
            if self.closed.get(spec.task_id) == 0:
                self.count += not is_read
                continue
            worker.again = {task_id: given for task_id, given in order.items if task_id == spec.task_id}
            try:
                values = [worker.executor.arguments[object_id] for object_id in spec.deps]
                args, error = worker._arguments(top, spec, values)
                if error is None:
                    result = getattr(worker.actor, parse_options(spec.options).method)(*args)
                    if isinstance(result, Generator):
                        result = yield from result
                    if any(object_id.startswith(spec.task_id) for object_id in again):
                        yield from self._put(top, spec, result)
            except (UserError, say.Closed):
                pass
            except RemoteError as error:
                if error.failed.kind in LOST and spec.task_id not in order.failed and not is_read:
                    return encode_system_error("ActorDiedError", "It cannot recover: what a call of it had is lost.")
            self.count += not is_read
        worker.again = {}
        return None

    def _put(self, top: Activation, spec: TaskSpec, result: Any) -> Generator[Any, Any, None]:
        values, contained = yield from self.worker.returns_of(spec, result)
        for index, value in enumerate(values, 1):
            self.worker.client.put(return_id(spec.task_id, index), value, contained[index - 1] if contained else ())
            top.refs.append(return_id(spec.task_id, index))

    def count_call(self, spec: TaskSpec) -> bool:
        """Count a call that has ended, or was dropped, unless it is readonly; return whether it counts."""
        if parse_options(spec.options).is_readonly:
            return False
        self.count += 1
        return True

    def save_after(self, spec: TaskSpec) -> Activation | None:
        """Return an activation that saves the state, if due."""
        if not self.count_call(spec) or not self.interval or self.count - self.saved_at < self.interval:
            return None
        self.saved_at = self.count
        top = Activation(self.worker.actor_id)
        top.is_save = True
        top.body = self._save()
        return top

    def _save(self) -> Generator[Any, Any, None]:
        worker, client = self.worker, self.worker.client
        object_id = checkpoint_id(worker.actor_id, self.restart_count, self.count)
        value: Any
        value, contained = encode(worker.actor.save())
        if len(value) > worker.inline_bytes_max:
            value = yield Write(object_id, value)
            if type(value) is AllocateRefused:
                return
        worker.flush()  # results first: the state includes them
        client.put(object_id, value, contained)
        client.say(ActorSaved(worker.actor_id, object_id, self.count))
        if self.saved:
            client.released.append(self.saved)
        self.saved = object_id
