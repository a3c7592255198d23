"""Results of tasks and calls from other nodes: values go straight to the origin, or stay on this node until the origin
holds the objects.

    its node        a task of it (TaskDone), a call (CallsFinished: remote_calls, routes): small values
    its node        the sizes of large values and of values with refs: this node holds the values at the shards for as
                    long as the origin has not joined the holders
    that node       ResultsHeld: the origin holds the values

A task that went up without a word to the shards (a quiet trip) ends in this way.  Only the origin knows the returns,
and the shards never hear of small returns.  The results of other tasks are announced to the shards too: of tasks that
take refs, that have failed on the way before, or whose returns are known to others.

A node that is told of a value may take refs from the value at once, and record tasks with these refs.  So nobody is
told before the shards know the tasks behind the inner objects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ....ids import return_id
from ....wire.actors import ResultsHeld
from ....wire.gcs import ObjectLocated
from ....wire.scheduling import TaskAccepted, TaskDone
from ....wire.task_spec import StoredValue
from ...role import on
from ..objects.table import ObjectEntry
from ..tables import Process
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class Results:
    """Results that a node gives to other nodes, and takes from other nodes."""

    PASSING = {"unheld": None, "unaccepted": "node.tasks"} | {
        "tasks that are gone": (lambda it: len(it.unaccepted.keys() - it.node.tasks.keys()), 0)
    }

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.unheld: dict[str, list[bytes]] = {}  # another node -> results kept here until it holds them
        self.unaccepted: dict[bytes, Task] = {}  # quiet ones that are here, whose origin has heard nothing from us yet

    # --- given ---

    def begin_quietly(self, task: Task) -> None:
        """Begin a task whose holds the origin need not await: most such tasks are done before the origin needs to hear
        more.
        """
        task.entry.shared.told_to(origin_alone=True)
        self.unaccepted[task.spec.task_id] = task

    def accept(self) -> None:
        """Accept, now and then, the quiet tasks that take longer."""
        for task_id, task in self.unaccepted.items():
            self.node.send(task.origin, TaskAccepted(task_id, task.trip))
        self.unaccepted.clear()

    def end_quietly(
        self,
        task: Task,
        values: list[bytes | StoredValue],
        contained: tuple[tuple[bytes, ...], ...],
        writer: Process | None,
    ) -> None:
        """End a task whose returns only the origin knows."""
        node, task_id = self.node, task.spec.task_id
        if self.unaccepted.pop(task_id, None) is not None and any(contained):
            node.send(task.origin, TaskAccepted(task_id, task.trip))  # it is told of the end later: nobody looks for it
        done = partial(TaskDone, task_id, task.trip)
        self.give(task, values, contained, lambda back: node.send(task.origin, done(back, task.attempts)), writer)

    def give(
        self,
        task: Task,
        values: list[bytes | StoredValue],
        contained: tuple[tuple[bytes, ...], ...],
        tell: Callable[[list[bytes | int]], None],
        writer: Process | None,
    ) -> None:
        """End a task here.  Small values go to the origin, others are kept until the origin holds the objects.

        tell: sends the values to the origin; at once, or when the shards know the tasks behind the inner objects.
        writer: the process that ran the task, as in Lifecycle.finish.
        """
        node, objects = self.node, self.node.objects
        node.finished_count += 1
        node.ended.task_ended(task, values[0] if values else b"", writer)
        task.ended()
        back: list[bytes | int] = []
        held: list[bytes] = []  # inside
        values = values or [b""]
        bytes_max = node.small_values.limits.get(task.origin)
        for index, entry in enumerate(node.lifecycle.returns_of(task)):
            value = values[index] if index < len(values) else values[0]
            inside = contained[index] if index < len(contained) else ()
            entry.made_by(None)
            if type(value) is bytes and not inside and (bytes_max is None or len(value) <= bytes_max):
                back.append(value)
                if entry.is_released:
                    objects.forget_released(entry)
                else:  # somebody here has refs on it, or had
                    node.object_is_here(entry, value)
                continue
            back.append(self.lend(task.origin, entry, value, inside))
            held += entry.contained
        spec = task.spec
        objects.drop_all(spec.deps)
        objects.drop_all(spec.holds)
        if task.origin in node.recovery.lost:
            objects.drop_all(self.unheld.pop(task.origin, []))  # as in node_lost, which has been
            return
        if not held:
            node.generators.tell_in_order(task, lambda: tell(back))
            return
        request = node.acks.next_request()
        node.acks.expect(request, node.remote._share(held, request), lambda: tell(back), task.origin)

    def lend(self, origin: str, entry: ObjectEntry, value: bytes | StoredValue, inside: tuple[bytes, ...]) -> int:
        """Keep a value for the origin until the origin holds the object.  Returns the size in bytes."""
        node = self.node
        entry.share().holds()
        node.objects.retain(entry.object_id)
        self.unheld.setdefault(origin, []).append(entry.object_id)
        node.remote._hold_at_shards([entry.object_id], 0)
        node.object_is_here(entry, value, inside)
        return value.size if type(value) is StoredValue else len(value)  # type: ignore[arg-type]

    def tell_origin(
        self, task: Task, values: list[bytes | StoredValue], contained: tuple[tuple[bytes, ...], ...]
    ) -> None:
        """Send small results of a task known to the shards straight to the origin too, unasked; of a generator's end,
        at least the size.
        """
        node = self.node
        if task.origin == node.address or task.origin in node.recovery.lost:
            return
        small: list[bytes | int] = [value for value in values if type(value) is bytes]
        bytes_max = node.small_values.limits.get(task.origin, node.inline_bytes_max)
        if contained or len(small) < len(values) or sum(map(len, small)) > bytes_max:  # type: ignore[arg-type]
            if not task.options.is_generator:
                return
            small = [value.size if type(value) is StoredValue else len(value) for value in values]  # type: ignore[arg-type]
        small = small or [b""]
        small += small[:1] * (len(node.lifecycle.returns_of(task)) - len(small))  # an error stands in each
        done = TaskDone(task.spec.task_id, task.trip, small)
        node.generators.tell_in_order(task, lambda: node.send(task.origin, done))

    @on(ResultsHeld)
    def on_results_held(self, message: ResultsHeld) -> None:
        """ResultsHeld."""
        kept = self.unheld.get(self.node.sender, [])
        for object_id in message.object_ids:
            if object_id in kept:
                kept.remove(object_id)
                self.node.objects.drop(object_id)
        if not kept:
            self.unheld.pop(self.node.sender, None)

    def node_lost(self, lost: str) -> None:
        """Drop the results kept for a lost node; but others may have heard of the returns of the node's
        tasks by now.
        """
        self.node.objects.drop_all(self.unheld.pop(lost, []))
        for task in self.node.tasks.values():
            if task.is_quiet and task.origin == lost:
                task.entry.shared.told_to(origin_alone=False)
                self.unaccepted.pop(task.spec.task_id, None)

    # --- taken ---

    @on(TaskDone)
    def on_task_done(self, message: TaskDone) -> None:
        """TaskDone; a word to the shards, if any, comes later, and then nobody waits for the word."""
        node = self.node
        lying = [return_id(message.task_id, n) for n, value in enumerate(message.values, 1) if type(value) is int]
        task = node.trips.on_its_way(message.task_id, message.trip)
        if task is None or node.sender in node.recovery.lost:
            self._do_not_want(lying)
            return
        if (task.forward.peer or node.sender) != node.sender:
            node.reject("a result of a task that is with another node")
            self._do_not_want(lying)
            return
        returns = node.lifecycle.returns_of(task)
        if len(message.values) != len(returns):
            node.reject("not what the task returns")
            self._do_not_want(lying)
            return
        task.tried(max(task.attempts, message.attempts))
        if lying:
            home, request = node.sender, node.acks.next_request()
            expected = node.departures.record(task, request)
            node.acks.expect(request, expected, lambda: node.send(home, ResultsHeld(lying)), home)
        node.trips.landed(task)
        node.notices.failed(task, message.values[0])
        for entry, value in zip(returns, message.values, strict=True):
            entry.made_by(None)
            if entry.value is not None:
                node.objects.free_if_unreferenced(entry)  # the end of an earlier run
            elif type(value) is int:
                node.remote.on_object_located(ObjectLocated(entry.object_id, value, [node.sender]))
            else:
                node.object_is_here(entry, value)  # type: ignore[arg-type]
        node.generators.has_run(task, message.values[0])

    def _do_not_want(self, object_ids: list[bytes]) -> None:
        """Tell the sender that the objects need not be kept for this node."""
        if object_ids:
            self.node.send(self.node.sender, ResultsHeld(object_ids))
