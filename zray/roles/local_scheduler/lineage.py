"""What the GCS shard is told of the tasks of this node, in batches.

Every LINEAGE_SECONDS the specs of tasks whose results are still referred to go to the shard, and those of
their ancestors.  What was born and died between two batches, with nothing alive descending from it, is never
sent: most small tasks cost the shard nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ids import task_of
from ...wire.gcs import HoldAtNode, RecordTasks, ReleaseAtNode
from ...wire.message import Local
from ...wire.task_spec import TaskSpec
from .tables import Task

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# Longer batches send less, and hold the specs of dead tasks longer in memory.
LINEAGE_SECONDS = 0.02


class LineageTimeout(Local):
    """Send the batch."""


class Lineage:
    """Specs not yet recorded, and records no longer needed."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.fresh: list[Task] = []  # submitted since the last batch
        self.timer_is_set = False

    def end_turn(self) -> None:
        """Have a batch sent soon if there is one."""
        if not self.timer_is_set and (self.fresh or self.node.objects.freed_recorded):
            self.timer_is_set = True
            self.node.set_timer(LINEAGE_SECONDS, LineageTimeout())

    def on_lineage_timeout(self) -> None:
        """Send the batch."""
        self.timer_is_set = False
        self.flush()

    def flush(self) -> None:
        """Record what lives, with its ancestors; let go of what died."""
        if self.fresh:
            fresh_by_id: dict[bytes, Task] | None = None
            # The list itself stays: whoever fills it may be the one who has us flush.
            fresh = self.fresh.copy()
            self.fresh.clear()
            alive = [task for task in fresh if self._is_referred_to(task)]
            chosen = alive
            if len(alive) != len(fresh) and any(task.spec.deps or task.spec.holds for task in alive):
                fresh_by_id = {task.spec.task_id: task for task in fresh}
                chosen = self._with_ancestors(alive, fresh_by_id)
            self._record(chosen)
        freed = self.node.objects.freed_recorded
        if freed:
            self.node.objects.freed_recorded = []
            freed = self._still_gone(freed)
            for shard, ids in self._by_shard(freed).items():
                self.node.send(shard, ReleaseAtNode(self.node.address, ids))

    def _still_gone(self, freed: list[bytes]) -> list[bytes]:
        """Without those that a repeated task has made anew: this node never stopped to hold them.

        Unless the repeated task was placed here by another node, and it is that one which holds them.
        """
        entries = self.node.objects.entries
        gone = []
        for object_id in freed:
            entry = entries.get(object_id)
            if entry is None or entry.is_released:
                gone.append(object_id)
            else:
                entry.is_recorded = True
        return gone

    @staticmethod
    def _is_referred_to(task: Task) -> bool:
        entry = task.entry
        if entry.task is not None or entry.value is not None:
            return True
        return any(further.value is not None for further in task.more or ())

    @staticmethod
    def _with_ancestors(alive: list[Task], fresh_by_id: dict[bytes, Task]) -> list[Task]:
        chosen = {task.spec.task_id: task for task in alive}
        to_look_at = list(alive)
        while to_look_at:
            spec = to_look_at.pop().spec
            for object_id in (*spec.deps, *spec.holds):
                parent = fresh_by_id.get(task_of(object_id))
                if parent is not None and parent.spec.task_id not in chosen:
                    chosen[parent.spec.task_id] = parent
                    to_look_at.append(parent)
        # In the order of submission: a shard hears of an ancestor before its descendants.
        return [task for task_id, task in fresh_by_id.items() if task_id in chosen]

    def _record(self, tasks: list[Task]) -> None:
        if not tasks:
            return
        node = self.node
        specs_by_shard: dict[str, list[TaskSpec]] = {}
        dead: list[bytes] = []
        further: list[bytes] = []
        shard = node.addresses.shards[0] if len(node.addresses.shards) == 1 else ""
        specs = specs_by_shard.setdefault(shard, []) if shard else []
        for task in tasks:
            entry = task.entry
            entry.is_recorded = True
            if shard:
                specs.append(task.spec)
            else:
                specs_by_shard.setdefault(node.addresses.shard_of(task.spec.task_id), []).append(task.spec)
            if entry.task is None and entry.value is None:
                dead.append(entry.object_id)
            for other in task.more or ():
                if other.task is not None or other.value is not None:
                    other.is_recorded = True
                    further.append(other.object_id)
        for address, batch in specs_by_shard.items():
            node.send(address, RecordTasks(node.address, batch))
        for address, ids in self._by_shard(further).items():
            node.send(address, HoldAtNode(node.address, ids, 0))
        for address, ids in self._by_shard(dead).items():
            node.send(address, ReleaseAtNode(node.address, ids))

    def _by_shard(self, object_ids: list[bytes]) -> dict[str, list[bytes]]:
        addresses = self.node.addresses
        if len(addresses.shards) == 1:
            return {addresses.shards[0]: object_ids} if object_ids else {}
        groups: dict[str, list[bytes]] = {}
        for object_id in object_ids:
            groups.setdefault(addresses.shard_of(object_id), []).append(object_id)
        return groups
