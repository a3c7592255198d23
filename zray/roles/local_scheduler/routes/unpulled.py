"""Large answers of actors that recover which this node was told of, and does not have: they lie where the actor is.

    CallsFinished                               that node could still be asked for the answer: it hears nothing yet
    the value is here, or nobody here has refs  AnswersTaken: nobody will ask for it again
    on it, or on the actor
    that node is lost before that               the call goes to the actor's next home again, not to be run: the answer
                                                is given again, as its call is run again with those since the checkpoint

So a checkpoint waits for what nobody has pulled; within a bound (`shipping`).  What is in one by then is where other
nodes have it, or lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import return_id
from ....wire.task_spec import TaskSpec
from ..objects.table import ObjectEntry
from ..task import Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class Asked(Task, gc=False, eq=False):
    """A call that has ended, whose answer is asked for once more."""


class Item(Struct, gc=False, eq=False):
    """One such answer."""

    task: Task
    home: str
    missing: dict[bytes, None]  # of what it returned
    taken: Callable[[], None]


class Unpulled:
    """Of one node."""

    PASSING = {"by_actor by_object": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.by_actor: dict[bytes, dict[bytes, Item]] = {}  # by call
        self.by_object: dict[bytes, Item] = {}

    def keep(self, task: Task, home: str, taken: Callable[[], None]) -> None:
        """It lies there.  taken: when nobody will ask for it again."""
        entries = self.node.objects.entries
        returns = self.node.lifecycle.returns_of(task)
        missing: dict[bytes, None] = {
            entry.object_id: None
            for entry in returns
            if entry.value is None and not entry.is_released and entries.get(entry.object_id) is entry
        }
        if not missing:
            taken()
            return
        item = Item(task, home, missing, taken)
        self.by_actor.setdefault(task.options.actor_id, {})[task.spec.task_id] = item
        self.by_object.update(dict.fromkeys(missing, item))

    def is_over(self, object_id: bytes) -> None:
        """It is here, or nobody here has refs on it."""
        item = self.by_object.get(object_id)
        if item is not None:
            del self.by_object[object_id]
            item.missing.pop(object_id, None)
            if not item.missing:
                self._forget(item)

    def said_to_be_lost(self, entry: ObjectEntry) -> None:
        """By its shard: by word from before it was given again, or ahead of word that its node is lost."""
        entry.share().lies_at((self.by_object[entry.object_id].home,))
        self.look_for(entry)

    def actor_is_gone(self, actor_id: bytes) -> None:
        """Nobody here has refs on the actor, or it has ended: it is not asked again."""
        for item in list(self.by_actor.get(actor_id, {}).values()):
            self._forget(item)

    def _forget(self, item: Item) -> None:
        actor_id = item.task.options.actor_id
        items = self.by_actor[actor_id]
        del items[item.task.spec.task_id]
        if not items:
            del self.by_actor[actor_id]
        for object_id in item.missing:
            del self.by_object[object_id]
        item.taken()

    def home_lost(self, actor_id: bytes, lost: str, *, is_asked: bool) -> dict[bytes, Task]:
        """What lay on that node.  is_asked: the actor is to give it again, in calls that go to wherever it is next."""
        asked: dict[bytes, Task] = {}
        for task_id, item in list(self.by_actor.get(actor_id, {}).items()):
            if item.home != lost:
                continue
            missing = item.missing
            self._forget(item)
            if is_asked:
                asked[task_id] = self._ask(item.task)
                continue
            for object_id in missing:
                self.look_for(self.node.objects.entries[object_id])
        return asked

    def _ask(self, ended: Task) -> Task:
        node, spec, count = self.node, ended.spec, max(1, ended.options.num_returns)
        returns = [node.objects.retain(return_id(spec.task_id, index)) for index in range(1, count + 1)]
        spec = TaskSpec(spec.task_id, b"", options=spec.options, caller=spec.caller)
        task = Asked(spec, ended.options, returns[0], ended.job, state=TaskState.CALL, more=returns[1:] or None)
        for entry in returns:
            entry.task = task
            node.objects.drop(entry.object_id)  # held again, until the call has ended
        node.tasks[spec.task_id] = task
        return task

    def give_up(self, task: Task) -> bool:
        """Whether that is such a call; the actor has no answer: what it was is where others have it, or lost."""
        if type(task) is not Asked:
            return False
        self.node.small_values.forget_task(task.spec.task_id)
        task.ended()
        for entry in self.node.lifecycle.returns_of(task):
            entry.task = None
            self.look_for(entry)
        return True

    def look_for(self, entry: ObjectEntry) -> None:
        """The shard knows where it is, or that it is lost."""
        if entry.value is None and (entry.waiting or entry.watchers):
            self.node.remote.want(entry)
        else:
            self.node.objects.free_if_unreferenced(entry)
