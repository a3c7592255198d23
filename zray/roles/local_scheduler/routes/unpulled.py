"""Large answers of recoverable actors, not pulled by this node yet: they lie on the actor's node.

    CallsFinished                               this node may still ask for the answer: the actor's node keeps it
    the value is here, or nobody here has refs  AnswersTaken: no request for the answer will follow
    on it, or on the actor
    the actor's node is lost before that        the call goes to the actor's next home again, not to be executed: replay
                                                of the calls since the checkpoint produces the answer again

So a checkpoint waits for unpulled answers, within a bound (`shipping`).  An answer in a checkpoint is on other nodes by
then, or lost.
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
    """A finished call whose answer is requested again."""


class Item(Struct, gc=False, eq=False):
    """An answer not pulled by the local node."""

    task: Task
    key: bytes  # the call, or the first item
    home: str
    missing: dict[bytes, None]  # of what it returned
    taken: Callable[[], None]


class Unpulled:
    """The unpulled answers of a node's calls."""

    PASSING = {"by_actor by_object": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.by_actor: dict[bytes, dict[bytes, Item]] = {}  # by call
        self.by_object: dict[bytes, Item] = {}

    def keep(self, task: Task, home: str, taken: Callable[[], None]) -> None:
        """Record an answer on its home node.  taken: called when the answer will not be requested again."""
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
        self._add(Item(task, task.spec.task_id, home, missing, taken))

    def keep_items(self, task: Task, home: str, object_ids: list[bytes], taken: Callable[[], None]) -> bool:
        """Record items of a generator on their home node, as `keep` does.  Returns whether any are missing."""
        missing: dict[bytes, None] = {}
        for object_id in object_ids:
            entry = self.node.objects.entries.get(object_id)
            if entry is not None and entry.value is None and not entry.is_released:
                missing[object_id] = None
                self.is_over(object_id)  # of an earlier home
        if missing:
            self._add(Item(task, object_ids[0], home, missing, taken))
        return bool(missing)

    def _add(self, item: Item) -> None:
        self.by_actor.setdefault(item.task.options.actor_id, {})[item.key] = item
        self.by_object.update(dict.fromkeys(item.missing, item))

    def is_over(self, object_id: bytes) -> None:
        """Stop tracking an object after its arrival, or after the end of its last local ref."""
        item = self.by_object.get(object_id)
        if item is not None:
            del self.by_object[object_id]
            item.missing.pop(object_id, None)
            if not item.missing:
                self._forget(item)

    def said_to_be_lost(self, entry: ObjectEntry) -> None:
        """Correct a shard's report that an answer is lost: stale, because the answer was given again or the loss is not
        known yet."""
        entry.share().lies_at((self.by_object[entry.object_id].home,))
        self.look_for(entry)

    def actor_is_gone(self, actor_id: bytes) -> None:
        """Forget the answers of an actor that has ended, or has lost its last local ref."""
        for item in list(self.by_actor.get(actor_id, {}).values()):
            self._forget(item)

    def _forget(self, item: Item) -> None:
        actor_id = item.task.options.actor_id
        items = self.by_actor[actor_id]
        del items[item.key]
        if not items:
            del self.by_actor[actor_id]
        for object_id in item.missing:
            del self.by_object[object_id]
        item.taken()

    def home_lost(self, actor_id: bytes, lost: str, *, is_asked: bool) -> dict[bytes, Task]:
        """Handle the loss of a home node.  is_asked: the actor gives its answers again, in the returned calls."""
        asked: dict[bytes, Task] = {}
        for item in list(self.by_actor.get(actor_id, {}).values()):
            if item.home != lost:
                continue
            missing, task_id = item.missing, item.task.spec.task_id
            self._forget(item)
            if is_asked:
                if task_id not in self.node.tasks:  # else a generator that goes on, or is asked again already
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
            entry.made_by(task)
            node.objects.drop(entry.object_id)  # held again, until the call has ended
        node.add_task(task)
        return task

    def give_up(self, task: Task) -> bool:
        """Look for an answer that the actor no longer has.  Returns whether the task asked for an answer again."""
        if type(task) is not Asked:
            return False
        self.node.take_task(task.spec.task_id)
        task.ended()
        for entry in self.node.lifecycle.returns_of(task):
            entry.task = None
            self.look_for(entry)
        self.node.generators.look_again(task)
        return True

    def look_for(self, entry: ObjectEntry) -> None:
        """Ask the shard for an awaited object; otherwise free the entry."""
        if entry.value is None and (entry.waiting or entry.watchers):
            self.node.remote.want(entry)
        else:
            self.node.objects.free_if_unreferenced(entry)
