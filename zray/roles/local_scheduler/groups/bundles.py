"""Bundles of placement groups on this node: reserved, used by tasks and actors, given back.

A bundle's amounts are subtracted from the node's resources, and added under names of the bundle's own
(wire/groups.bundle_name).  Tasks and actors in the bundle take these, and are otherwise like any other.

    PrepareBundles -> BundlesPrepared    all of a message's, or none
    CommitBundles                        they are the group's
    ReturnBundles                        given back when unused; tasks and actors running there are killed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ....exceptions import encode_system_error
from ....wire.amounts import is_enough
from ....wire.bundles import sum_of
from ....wire.events import State
from ....wire.groups import BundlesPrepared, CommitBundles, PrepareBundles, ReturnBundles, bundle_name, plain_name
from ....wire.task_spec import ActorOptions
from ....wire.where import Where
from ...role import on
from ..gpus import GPU
from ..tables import ReadyQueue
from ..task import Task, TaskState
from ..worker import Worker

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class BundleState(IntEnum):
    """A bundle's part in its group."""

    PREPARED = 0  # reserved: the group has it, or another one, as the shard says
    COMMITTED = 1  # the group's
    LEAVING = 2  # given back as soon as nothing of it is in use


PREPARED, COMMITTED, LEAVING = BundleState
TRANSITIONS = {
    (PREPARED, "committed"): COMMITTED,
    (COMMITTED, "committed"): COMMITTED,  # said again
    (PREPARED, "returned"): LEAVING,
    (COMMITTED, "returned"): LEAVING,
}


class Bundle(Struct, gc=False, eq=False):
    """A bundle on this node."""

    group_id: bytes
    index: int
    trip: int
    amounts: dict[str, int]
    state: BundleState = PREPARED

    def happened(self, event: str) -> None:
        """Apply an event to the bundle's state."""
        self.state = TRANSITIONS[self.state, event]

    def named(self, request: Mapping[str, int]) -> dict[str, int]:
        """Translate a request into the bundle's resource names."""
        return {bundle_name(name, self.group_id, self.index): amount for name, amount in request.items() if amount}


class Bundles:
    """The bundles of a node."""

    PASSING = {"leaving": None}
    OF_JOBS = {"here": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.here: dict[tuple[bytes, int], Bundle] = {}
        self.leaving: list[Bundle] = []

    # --- two phases ---

    @on(PrepareBundles)
    def on_prepare(self, message: PrepareBundles) -> None:
        """PrepareBundles."""
        node = self.node
        wanted = sum_of(amounts for _, amounts in message.bundles)
        # The order in which the GPUs were checked: the largest part first.
        bundles = sorted(message.bundles, key=lambda bundle: -bundle[1].get(GPU, 0))
        is_known = any((message.group_id, index) in self.here for index, _ in message.bundles)
        is_done = (
            not is_known
            and not node.drain.is_on
            and node.calls.has_room_for(ActorOptions(resources=wanted), may_borrow=True, are_apart=True)
            and node.resources.gpus.fit_all(amounts.get(GPU, 0) for _, amounts in bundles)
        )
        if is_done:
            for index, amounts in bundles:
                bundle = Bundle(message.group_id, index, message.trip, amounts)
                self.here[(message.group_id, index)] = bundle
                node.resources.reserve(amounts, bundle.named(amounts))
            node.dispatch.is_dirty = True  # tasks that this leaves no room for go elsewhere
        node.send(node.sender, BundlesPrepared(message.group_id, message.trip, node.address, is_done))

    @on(CommitBundles)
    def on_commit(self, message: CommitBundles) -> None:
        """CommitBundles: the bundles may be used now."""
        for bundle in self.of_group(message.group_id):
            if bundle.trip == message.trip:
                bundle.happened("committed")
        self.node.changes.group(message.group_id, State.CREATED)
        self.node.dispatch.is_dirty = True
        self.node.calls.wanting_worker_changed()

    @on(ReturnBundles)
    def on_return(self, message: ReturnBundles) -> None:
        """ReturnBundles."""
        returned = [bundle for bundle in self.of_group(message.group_id) if message.trip in (0, bundle.trip)]
        for bundle in returned:
            bundle.happened("returned")
            self.leaving.append(bundle)
        if not message.trip:
            self._end_all(message)
        else:
            self._send_on(message.group_id)
        self.release()

    def _send_on(self, group_id: bytes) -> None:
        """Send on tasks that waited for a bundle not assigned to the group after all."""
        node = self.node
        for queue in list(node.dispatch.queues):
            where = queue.options.where
            if where is not None and where.group == group_id and not self.is_here(where, queue.options.resources):
                tasks = queue.take_all()
                node.dispatch.ready_count -= len(tasks)
                for task in tasks:
                    node.groups.enqueue(task, queue)

    def of_group(self, group_id: bytes) -> list[Bundle]:
        """Return the group's bundles that stay."""
        return [bundle for bundle in self.here.values() if bundle.group_id == group_id and bundle.state != LEAVING]

    def release(self) -> bool:
        """Give back leaving bundles without anything in use, and return whether there were any."""
        resources, leaving = self.node.resources, []
        for bundle in self.leaving:
            named = bundle.named(bundle.amounts)
            if all(resources.free[name] == amount for name, amount in named.items()):
                del self.here[(bundle.group_id, bundle.index)]
                resources.release(bundle.amounts, named)
                self.node.dispatch.is_dirty = True
                self.node.calls.wanting_worker_changed()
            else:
                leaving.append(bundle)
        has_released = len(leaving) < len(self.leaving)
        self.leaving = leaving
        if has_released:
            self.node.keeping.room_changed()
            if self.node.members.peers:  # what is spread right behind a removal goes where that was, too
                self.node.load.report()
        return has_released

    # --- removal ---

    def _end_all(self, message: ReturnBundles) -> None:
        """End all tasks and actors of a removed group."""
        node, group_id = self.node, message.group_id
        text = f"The placement group {group_id.hex()} was removed: {message.reason}."
        self.fail_waiting(group_id, encode_system_error("TaskPlacementGroupRemoved", text))
        error = encode_system_error("ActorPlacementGroupRemoved", text)
        for actor in list(node.calls.actors.values()):
            if _is_in(actor.options.where, group_id):
                if actor.worker is not None:
                    node.pool.kill(actor.worker)
                node.ends.bury(actor, error)
        for worker in node.pool.workers.values():
            if worker.actor is None and self._runs_in(worker, group_id):
                node.pool.kill(worker, encode_system_error("TaskPlacementGroupRemoved", text))

    def fail_waiting(self, group_id: bytes, error: bytes) -> None:
        """Fail the group's local tasks, except running tasks."""
        node = self.node
        doomed = [
            task
            for task in node.tasks.values()
            if _is_in(task.options.where, group_id) and task.state in (TaskState.WAITING, TaskState.READY)
        ]
        for queue in node.dispatch.queues:
            if _is_in(queue.options.where, group_id):
                node.dispatch.ready_count -= len(queue.take_all())
        for task in doomed:
            task.ended()  # so that the end of one does not start another
        node.undoing.end_tasks(doomed, error)
        node.functions.forget_waiters()

    @staticmethod
    def _runs_in(worker: Worker, group_id: bytes) -> bool:
        """Whether the worker runs or has a task of the group."""
        tasks = [*worker.inflight, *(frame.task for frame in worker.frames if frame.task is not None)]
        return any(_is_in(task.options.where, group_id) for task in tasks)

    def fail_of_doomed(self, worker: Worker, tasks: list[Task]) -> list[Task]:
        """Fail an ended worker's tasks of removed groups.  Returns the other tasks."""
        rest = []
        for task in tasks:
            where = task.options.where
            if where is not None and where.group and not self.of_group(where.group):
                self.node.lifecycle.fail_with(task, worker.error)
            else:
                rest.append(task)
        return rest

    # --- what runs in them ---

    def candidates(self, where: Where, request: Mapping[str, int], *, are_committed: bool = True) -> Iterator[Bundle]:
        """Yield bundles in which the request could run, full or not; bundles without unneeded GPUs are first.

        are_committed: only bundles that the group has already.
        """
        for bundle in sorted(self.of_group(where.group), key=lambda bundle: leaves_gpus_idle(bundle.amounts, request)):
            if bundle.state == COMMITTED or not are_committed:
                if where.bundle in (-1, bundle.index) and is_enough(bundle.amounts, request):
                    yield bundle

    def is_here(self, where: Where, request: Mapping[str, int]) -> bool:
        """Whether a suitable bundle is here, perhaps uncommitted: tasks may arrive before CommitBundles."""
        return next(self.candidates(where, request, are_committed=False), None) is not None

    def pick(self, queue: ReadyQueue) -> bool:
        """Assign the queue's next lease to a bundle with room now.  False: no bundle has room."""
        where, request = queue.options.where, queue.options.resources
        assert where is not None
        for bundle in self.candidates(where, request):
            named = bundle.named(request)
            if self.node.resources.fits(named):
                queue.lies_in(named)
                return True
        return False

    def lacking(self, where: Where, request: dict[str, int]) -> dict[str, int]:
        """Return the request in the names of the first suitable bundle."""
        bundle = next(self.candidates(where, request), None)
        return bundle.named(request) if bundle is not None else request

    def has_without_gpus(self, where: Where, request: Mapping[str, int]) -> bool:
        """Whether an actor with the request could run locally without leaving a GPU idle."""
        return any(not leaves_gpus_idle(bundle.amounts, request) for bundle in self.candidates(where, request))

    def with_room(self, options: ActorOptions, *, spares_gpus: bool = False) -> ActorOptions | None:
        """Return the actor's options in the names of a bundle with room; None: no bundle has room.

        spares_gpus: exclude bundles with unneeded GPUs.
        """
        assert options.where is not None
        for bundle in self.candidates(options.where, options.resources):
            if spares_gpus and leaves_gpus_idle(bundle.amounts, options.resources):
                return None  # those are the last ones
            named = replace(options, resources=bundle.named(options.resources))
            if self.node.calls.has_room_for(named):
                return named
        return None

    def check_everything(self) -> None:
        """Assert that the bundles account for all reserved amounts."""
        reserved: dict[str, int] = {}
        for bundle in self.here.values():
            for name, amount in bundle.amounts.items():
                if amount:
                    reserved[name] = reserved.get(name, 0) + amount
            for name, amount in bundle.named(bundle.amounts).items():
                assert self.node.resources.total[name] == amount
        assert reserved == self.node.resources.reserved, "reserved for no bundle"


def as_asked(options: ActorOptions) -> ActorOptions:
    """Return the actor's options with its original request, without a bundle's names."""
    if options.where is None or not options.where.group:
        return options
    return replace(options, resources={plain_name(name): amount for name, amount in options.resources.items()})


def leaves_gpus_idle(amounts: Mapping[str, int], request: Mapping[str, int]) -> bool:
    """Whether the bundle has GPUs, and the request takes none; a later request may need both."""
    return bool(amounts.get(GPU)) and not request.get(GPU)


def _is_in(where: Where | None, group_id: bytes) -> bool:
    return where is not None and where.group == group_id
