"""Tasks under way to another node: spilled, and not yet accepted there.

A global scheduler's knowledge is lost when its process ends or the head is restarted.  No other process knows whether a
spilled task was placed: the message to the node, to us, or both may be lost.  So the other nodes are asked, and each
answers when no more messages from that scheduler can arrive:

    SchedulerGone -> FindTasks to all -> TasksFound of all, or their ends -> tasks that no node has are spilled again

No attempt is used up, and no task is in two places.

The shard may report that an accepted task's return has no copy.  Usually the task is not done yet.  But its copy may be
lost before the news of the result arrives, so the accepting node is asked:

    RebuildObject -> ResultMissing -> the task, or its value, is there, and is announced anew; or TaskGivenBack
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import ObjectID, is_item, task_of
from ....wire.objects import ResultMissing
from ....wire.scheduling import FindTasks, TaskGivenBack, TasksFound
from ...effects import SchedulerGone
from ...kept import Latest
from ...role import on
from ..task import THERE, Event, Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Schedulers whose end is remembered: a question about one comes soon after it.
GONE_MAX = 1_000
# In one question.
TASKS_MAX = 10_000


class Search(Struct, eq=False):
    """A search for the tasks of a lost scheduler."""

    trips: dict[bytes, int]  # by task
    silent: dict[str, None]  # nodes that have not answered


class Flights:
    """The searches of a node."""

    PASSING = {"searches questions": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.gone: Latest[str, None] = Latest(GONE_MAX)  # schedulers that we hear nothing from any more
        self.searches: dict[int, Search] = {}
        self.count = 0  # of searches
        self.questions: dict[str, list[tuple[str, FindTasks]]] = {}  # about schedulers that we still listen to

    def scheduler_gone(self, scheduler: str) -> None:
        """Handle the end of a global scheduler, after all its messages have arrived."""
        self.gone.pop(scheduler, None)
        self.gone[scheduler] = None
        self.node.load.placed_counts.pop(scheduler, None)
        for asker, question in self.questions.pop(scheduler, ()):
            self._answer(asker, question)
        sought = self.node.task_states.with_scheduler(scheduler)
        for start in range(0, len(sought), TASKS_MAX):
            self._search(scheduler, sought[start : start + TASKS_MAX])
        self.node.keeping.ask_again()

    def _search(self, scheduler: str, tasks: list[Task]) -> None:
        self.count += 1
        peers = list(self.node.members.peers)
        trips = [(task.spec.task_id, task.trip) for task in tasks]
        self.searches[self.count] = Search(dict(trips), dict.fromkeys(peers))
        for task in tasks:
            self.node.task_states.happened(task, Event.SCHEDULER_GONE)
        for peer in peers:
            self.node.send(peer, FindTasks(scheduler, self.count, trips))
        self._maybe_end(self.count)

    @on(SchedulerGone)
    def on_scheduler_gone(self, message: SchedulerGone) -> None:
        """SchedulerGone."""
        self.scheduler_gone(message.role)
        self.node.moves.ask_again()

    # --- asked ---

    @on(FindTasks)
    def on_find_tasks(self, message: FindTasks) -> None:
        """FindTasks."""
        node, scheduler = self.node, message.scheduler
        if node.sender in node.recovery.lost:
            node.reject("a question of a node that is lost")
        elif scheduler in node.addresses.global_schedulers and scheduler not in self.gone:
            self.questions.setdefault(scheduler, []).append((node.sender, message))
        else:
            self._answer(node.sender, message)

    def _answer(self, asker: str, question: FindTasks) -> None:
        node = self.node
        # The task may be done, and not accepted yet.  A task that was given back is on another trip by now.
        arriving = node.remote.arriving.values()
        here = {(task.spec.task_id, task.trip) for task in arriving if task.origin == asker}
        found = []
        for task_id, trip in question.tasks:
            task = node.tasks.get(task_id)
            is_here = task is not None and task.origin == asker and task.trip == trip
            if is_here or (task_id, trip) in here:
                found.append(task_id)
        node.send(asker, TasksFound(question.request, found))

    # --- answered ---

    @on(TasksFound)
    def on_tasks_found(self, message: TasksFound) -> None:
        """TasksFound."""
        node, search = self.node, self.searches.get(message.request)
        if search is None or node.sender not in search.silent:
            node.reject("an answer to no question")
            return
        del search.silent[node.sender]
        for task_id in message.task_ids:
            task = node.tasks.get(task_id)
            if task is not None and self._is_still_sought(search, task):
                del search.trips[task_id]
                node.task_states.happened(task, Event.FOUND, peer=node.sender)
        self._maybe_end(message.request)

    def node_lost(self, lost: str) -> None:
        """Count a lost node as having answered, and drop its questions."""
        for scheduler, questions in list(self.questions.items()):
            self.questions[scheduler] = [item for item in questions if item[0] != lost]
        for request, search in list(self.searches.items()):
            if lost in search.silent:
                del search.silent[lost]
                self._maybe_end(request)

    def _maybe_end(self, request: int) -> None:
        """Spill the remaining tasks again when all nodes have answered."""
        search = self.searches[request]
        if search.silent:
            return
        del self.searches[request]
        node = self.node
        for task_id in search.trips:
            task = node.tasks.get(task_id)
            if task is not None and self._is_still_sought(search, task):
                node.departures.spill(task)

    @staticmethod
    def _is_still_sought(search: Search, task: Task) -> bool:
        """Whether the task is still sought by this search."""
        return task.state == TaskState.SEARCHED and search.trips.get(task.spec.task_id) == task.trip

    # --- missed ---

    def is_missed(self, task: Task, object_id: ObjectID) -> None:
        """Ask the node of an accepted, re-executable task about a return without any copy."""
        forward = task.forward
        is_there = task.state in THERE and not forward.via
        if is_there and task.options.may_run_again:
            self.node.send(forward.peer, ResultMissing(object_id, task.trip, task.attempts))

    @on(ResultMissing)
    def on_result_missing(self, message: ResultMissing) -> None:
        """ResultMissing."""
        node, object_id = self.node, message.object_id
        task, entry = node.tasks.get(task_of(object_id)), node.objects.entries.get(object_id)
        if task is not None and task.options.is_generator and is_item(object_id):
            if task.origin == node.sender:
                node.reruns.is_missing(task, object_id)
        elif task is not None:
            node.remote.share_returns(task)
        elif entry is not None and entry.value is not None and not entry.is_lost:
            node.remote.share_anew([entry])
        else:
            node.send(node.sender, TaskGivenBack(task_of(object_id), message.trip, message.attempts))
