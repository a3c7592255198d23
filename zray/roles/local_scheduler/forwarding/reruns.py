"""Generators that still run, and have made an item of which no copy exists any more: they run again at once.

    shard              RebuildObject   a lost item, to the node that has the task in hand
    local scheduler    ResultMissing   the same, to the node that runs the task or call
    local scheduler    InterruptTask   the run is ended, if it has made the item; the next run makes it once more

A run that waits for draws may never end by itself, since the process that draws may wait for that very item.  The
further run counts as a retry.  If none is left, the item is lost for good, and the run goes on.

A call of a recoverable actor does not run again: the node of the actor answers with an error in place of an item that
was drawn and is not given again, behind all items that are on their way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....exceptions import encode_system_error, is_error_value
from ....ids import ObjectID, TaskID, index_of
from ....wire import gcs
from ....wire.objects import ResultMissing
from ....wire.task_spec import StoredValue
from ..tables import Actor
from ..task import RebuiltTask, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..scheduler import LocalScheduler


class Reruns:
    """The runs that end for the sake of a further run."""

    PASSING = {"ending sought": "node.tasks"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.ending: dict[TaskID, int] = {}  # tasks whose runs are interrupted -> attempts before that run
        self.sought: dict[TaskID, dict[ObjectID, None]] = {}  # items of calls of recoverable actors elsewhere

    def is_missing(self, task: Task, object_id: ObjectID) -> None:
        """Have an item made once more that nobody has, if the present run has made it."""
        if type(task) is RebuiltTask:
            return  # nothing holds the run up
        actor = self.node.calls.actors.get(task.options.actor_id)
        if task.options.is_logged and actor is None:
            self.sought.setdefault(task.spec.task_id, {})[object_id] = None
        if actor is not None and actor.items is not None:
            self._is_not_given(actor, task, object_id)
        elif task.worker is not None:
            self._end_run(task, object_id)
        elif place := self.node.generators.place_of(task):
            self.node.send(place, ResultMissing(object_id, task.trip, task.attempts))

    def _end_run(self, task: Task, object_id: ObjectID) -> None:
        node, task_id = self.node, task.spec.task_id
        has_made = node.generators.made_in_run(task) >= index_of(object_id) - 1
        if not has_made or task_id in self.ending or task_id in node.cancels.asked:
            return  # it comes, or the end of the run says more
        if node.lifecycle.may_retry(task):
            self.ending[task_id] = task.attempts
            node.cancels.interrupt_run(task)
        else:
            self._is_lost(task, object_id)

    def sent_again(self, task: Task) -> None:
        """Ask another home of an actor for the items that the former one was asked for."""
        for object_id in list(self.sought.get(task.spec.task_id, ())):
            self.is_missing(task, object_id)

    def _is_not_given(self, actor: Actor, task: Task, object_id: ObjectID) -> None:
        """Give an error in place of an item that was drawn, and comes no more."""
        given, number = actor.items.require(task.spec.task_id), index_of(object_id) - 2
        stream = self.node.generators.streams.get(task.spec.task_id)
        drawn = max(given.drawn, stream.drawn if stream is not None else 0)
        if not given.here().has(number) or drawn <= number or number in given.lying:
            return
        error: bytes = encode_system_error("ObjectLostError", _why_lost(object_id, task))
        if actor.shipping is not None:
            actor.shipping.yielded(task, number, [(error, (), "")])
        else:
            actor.items.leave(task, number, [(error, (), "")])

    def _is_lost(self, task: Task, object_id: ObjectID) -> None:
        node = self.node
        entry = node.objects.require(object_id)
        if entry.shared is None:
            node.remote.adopt(entry)
        if not entry.is_here and not entry.is_elsewhere:
            text = gcs.result_is_lost(object_id, task.options)
            node.object_is_here(entry, encode_system_error("ObjectReconstructionFailedError", text))

    def begins(self, task: Task, values: Sequence[bytes | StoredValue]) -> bool:
        """Run a task again whose interrupted run has ended.  A value counts: the run was faster, or has gone on."""
        node, task_id = self.node, task.spec.task_id
        attempts = self.ending.pop(task_id, -1)
        is_error = bool(values) and is_error_value(values[0])
        if attempts != task.attempts or not is_error or not node.lifecycle.may_retry(task):
            return False
        task.tried(attempts + 1)
        node.notices.item_lost(task)
        # What is made again is kept for all tasks that took it: the shard is told that it runs again.
        shard = node.addresses.shard_of(task_id)
        node.send(shard, gcs.AddLocations(node.address, [], [(task_id, task.attempts)]))
        node.lifecycle.run_again(task)
        return True

    def ended(self, task: Task) -> None:
        """Forget a task that has ended."""
        self.sought.pop(task.spec.task_id, None)
        self.ending.pop(task.spec.task_id, None)


def _why_lost(object_id: ObjectID, task: Task) -> str:
    call = f"the call of {task.options.method!r}, which still runs"
    return (
        f"Object {object_id.hex()} was lost with its node; {call}, has made it, and a call of an actor with "
        "checkpoint_interval is not run again.  Keep the ref while results that were computed from it are needed."
    )
