"""Blocked workers: they lend their CPU out, get it back before they go on, and at the pool's cap run what they
wait for themselves.

A worker that waits for room in a full object store lends its CPU too, but only to what may make some: what takes values
from there, or was begun before and goes on.  What else is ready would want room itself.

A worker's frames are its stack (tables.Frame): only the top one can go on.  What other threads of a process wait
for lends its CPU too, while it uses none (`host/aside`): such a wait is *aside*.  It gives way to the main thread's.

An actor holds its CPU for life, so it may have one that a blocked task has lent out: the task that made it, say, and
waits for it.  Such a task goes on with the CPU of an actor that has nothing to do, and that actor gets it back, before
anything new starts, to do its next call.  What the bundles of placement groups do not use is borrowed likewise: by a
task that made a group out of the CPU that it had lent, say, and waits for what runs in it.

A worker whose time is over goes on at once (`go_on`).  Its CPU stays lent and it *owes* it: it is in `resuming`, ahead
of those that still wait, and its frame has no wait.  So the amounts in use are over by what such workers hold, and
nothing new starts on that CPU before they have it back.  A frame that ends while it owes gives back only the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...wire.task_spec import StoredValue
from ...wire.tasks import AwaitRoom
from ..effects import ReclaimTasks
from .actor_room import SHORT_TASK_SECONDS
from .resources import CPU, cpu_of
from .tables import Actor, ActorState, Frame, ReadyQueue, Wait, Worker, WorkerState

if TYPE_CHECKING:
    from .dispatch import Dispatch
    from .scheduler import LocalScheduler

# Ready tasks of one kind that are looked at to find one that takes what lies in a full store: more than run at once.
TAKERS_SEARCH_MAX = 256


class Lending:
    """CPUs lent out by blocked workers."""

    def __init__(self, node: LocalScheduler, dispatch: Dispatch) -> None:
        self.node = node
        self.dispatch = dispatch
        self.resuming: deque[Worker] = deque()  # blocked workers whose wait is over, waiting for their CPU
        self.new_lenders: dict[str, Worker] = {}  # by address: those that have lent their CPU in this turn
        self.lenders: dict[bytes, Worker] = {}  # by actor: idle ones whose CPU a resumed task has
        self.loans: dict[str, int] = {}  # CPU of bundles -> how much of it a resumed task beside them has
        self.writers: dict[str, Worker] = {}  # by address: those that wait for room, and have not lent their CPU

    def block(self, worker: Worker, wait: Wait) -> None:
        """Its thread stops: lend its CPU out, and take back what it has not begun."""
        if not worker.frames:
            return  # an actor without resources of its own: nothing to lend
        frame = worker.frames[-1]
        if wait.aside and (frame.wait is not None or (frame.cpu_lent and worker not in self.resuming)):
            wait.is_over = True  # it is lent already
            self.node.waits.finish(wait)
            return
        self._begin(worker, frame, wait)
        share = cpu_of(frame.resources)
        if not frame.cpu_lent and share:
            frame.cpu_lent = True
            self.node.resources.give(share)
            self.new_lenders[worker.address] = worker
            self.dispatch.give_turn_back(worker)
            self.dispatch.is_dirty = True
            self.node.calls.wanting_worker_changed()
        self._take_back(worker)

    def _begin(self, worker: Worker, frame: Frame, wait: Wait) -> None:
        """Its level waits for this from now on: it owes nothing, and is not about to go on."""
        self._end_aside(worker, frame)
        if frame.cpu_lent and worker in self.resuming:
            self.resuming.remove(worker)
        wait.outer, frame.wait = frame.wait, wait

    def _take_back(self, worker: Worker) -> None:
        if len(worker.frames) == 1 and len(worker.inflight) > 1 and worker.state == WorkerState.LEASED:
            self.node.perform(ReclaimTasks(worker.address, len(worker.inflight) - 1))

    def _end_aside(self, worker: Worker, frame: Frame) -> None:
        """If the level's wait is one that is aside: its CPU stays lent, or is nobody's any more."""
        wait = frame.wait
        if wait is None or not wait.aside:
            return
        wait.is_over = True
        frame.wait = None
        if worker in self.resuming:
            self.resuming.remove(worker)
        self.node.waits.finish(wait)

    def frame_ends(self, worker: Worker, frame: Frame) -> dict[str, int]:
        """What the level that has ended still has; threads of it may wait on."""
        self._end_aside(worker, frame)
        if not frame.cpu_lent:
            return frame.resources
        if worker in self.resuming:
            self.resuming.remove(worker)  # it owed its CPU
        lent = cpu_of(frame.resources)
        return {name: amount for name, amount in frame.resources.items() if name not in lent}

    def await_room(self, worker: Worker, wait: Wait) -> None:
        """Its thread stops until there is room in the object store: its CPU is there for what may make some."""
        if not worker.frames:
            return
        frame = worker.frames[-1]
        self._begin(worker, frame, wait)
        if not frame.cpu_lent and cpu_of(frame.resources):
            self.writers[worker.address] = worker
            self.dispatch.is_dirty = True
        self._take_back(worker)

    def lend_to(self, queue: ReadyQueue) -> bool:
        """Whether its next task can have the CPU of a worker that waits for room, because it may make some."""
        resources = self.node.resources
        share = cpu_of(queue.resources)
        rest = {name: amount for name, amount in queue.resources.items() if name not in share}
        if queue.is_in_group or not share or resources.fits(share) or not resources.fits(rest):
            return False
        if not self._makes_room(queue):
            return False
        (name,) = share
        return self._lend_writers(name, share[name] - resources.free.get(name, 0)) and self.dispatch.has_room(queue)

    def _makes_room(self, queue: ReadyQueue) -> bool:
        """Whether a task of it takes what lies in the store (it is the first one then); or its tasks are the children
        of what has begun, which may let go of something when they are done.
        """
        entries = self.node.objects.entries
        for place, task in enumerate(islice(queue.tasks, TAKERS_SEARCH_MAX)):
            taken = (entries.get(object_id) for object_id in (*task.spec.deps, *task.spec.holds))
            if any(entry is not None and type(entry.value) is StoredValue for entry in taken):
                if place:
                    del queue.tasks[place]
                    queue.tasks.appendleft(task)
                return True
        return any(worker.frames[-1].depth < queue.depth for worker in self.writers.values())

    def _lend_writers(self, name: str, missing: int) -> bool:
        """Have so much more of that CPU free, by what waiting writers hold; nothing is lent where it is too little."""
        lenders: list[Worker] = []
        for worker in self.writers.values():
            if missing <= 0:
                break
            amount = cpu_of(worker.frames[-1].resources).get(name, 0)
            if amount:
                lenders.append(worker)
                missing -= amount
        if missing > 0:
            return False
        for worker in lenders:
            del self.writers[worker.address]
            worker.frames[-1].cpu_lent = True
            self.node.resources.give(cpu_of(worker.frames[-1].resources))
        return True

    def lent(self, name: str) -> int:
        """How much of that CPU is lent out: of the node's own, or of a bundle's."""
        frames = (frame for worker in self.node.pool.workers.values() for frame in worker.frames)
        return sum(frame.resources.get(name, 0) for frame in frames if frame.cpu_lent)

    def wait_is_over(self, worker: Worker, wait: Wait) -> None:
        """The level that waited may go on as soon as it is on top and has its CPU again."""
        self.writers.pop(worker.address, None)
        if not worker.frames or (wait.aside and worker.frames[-1].wait is not wait):
            self.node.waits.finish(wait)
        elif worker.frames[-1].wait is wait and wait.outer is not None:
            self._end_inner(worker, wait)
        elif worker.frames[-1].wait is wait and worker not in self.resuming:
            self.resuming.append(worker)
            self.resume()

    def _end_inner(self, worker: Worker, wait: Wait) -> None:
        """A signal's handler goes on, without the CPU: that stays lent, for what the wait around it is for."""
        outer = worker.frames[-1].wait = wait.outer
        self.node.waits.finish(wait)
        if outer.is_over:
            self.wait_is_over(worker, outer)

    def go_on(self, worker: Worker, wait: Wait) -> None:
        """Its time is over: it goes on at once, and owes the CPU that it has lent."""
        self.writers.pop(worker.address, None)
        if all(frame.wait is not wait for frame in worker.frames):
            self._forget_outer(worker, wait)
            self.node.waits.finish(wait)
            return
        while worker.frames[-1].wait is not wait:
            self._take_nested_back(worker)
        if wait.outer is not None:
            self._end_inner(worker, wait)
            return
        frame = worker.frames[-1]
        frame.wait = None
        worker.progress_at = self.node.now
        self.node.waits.finish(wait)
        if worker in self.resuming:
            self.resuming.remove(worker)
        if frame.cpu_lent:
            self.resuming.appendleft(worker)
            self.resume()

    def _forget_outer(self, worker: Worker, wait: Wait) -> None:
        """If a signal's handler waits inside it."""
        for frame in worker.frames:
            inner = frame.wait
            while inner is not None and inner.outer is not wait:
                inner = inner.outer
            if inner is not None:
                inner.outer = wait.outer

    def _take_nested_back(self, worker: Worker) -> None:
        """The task of the worker's top level, which was sent and not begun: its thread was in the wait below."""
        frame = worker.frames.pop()
        self.node.resources.give(self.frame_ends(worker, frame), frame.gpus)
        self.dispatch.is_dirty = True
        self.node.calls.wanting_worker_changed()
        assert frame.task is not None
        self.node.lifecycle.run_again(frame.task)

    def resume(self) -> None:
        """Blocked workers get their CPU back before anything new starts."""
        resources = self.node.resources
        scarce: set[str] = set()  # CPU that those ahead wait for: the node's own, or a bundle's
        for worker in list(self.resuming):
            frame = worker.frames[-1]
            if frame.cpu_lent:
                share = cpu_of(frame.resources)
                (name,) = share
                if name in scarce or (not resources.fits(share) and not self._borrow(name, share[name])):
                    scarce.add(name)
                    continue
                resources.take(share)
                frame.cpu_lent, frame.cpu_since = False, self.node.now
            self.resuming.remove(worker)
            wait, frame.wait = frame.wait, None
            if wait is not None:
                worker.progress_at = self.node.now
                self.node.waits.finish(wait)
            if not worker.inflight:  # its task has ended, whatever threads of it waited for
                self.dispatch.worker_progressed(worker)
        if self.loans:
            self._give_back_to_bundles()
        if self.lenders:
            self._give_back_to_actors()

    def is_owed(self, resources: Mapping[str, int]) -> bool:
        """Whether a worker waits for CPU of this kind that it has lent out: one whose wait is over, or an actor's."""
        actors = self.node.calls.actors
        return self._is_awaited(resources) or any(
            actor_id in actors
            and actors[actor_id].queue.has_ready()
            and not cpu_of(worker.frames[0].resources).keys().isdisjoint(resources)
            for actor_id, worker in self.lenders.items()
        )

    def _is_awaited(self, resources: Mapping[str, int]) -> bool:
        """Whether a worker whose wait is over waits for CPU of this kind."""
        frames = (worker.frames[-1] for worker in self.resuming)
        return any(frame.cpu_lent and not cpu_of(frame.resources).keys().isdisjoint(resources) for frame in frames)

    def is_kept_from(self, queue: ReadyQueue) -> bool:
        """Whether one more lease of it would take what the first that waits for its CPU has a part of, and has the rest
        of soon.
        """
        frame = self.resuming[0].frames[-1]
        share = cpu_of(frame.resources) if frame.cpu_lent else {}
        if share.keys().isdisjoint(queue.resources):
            return False
        ((name, lacking),) = share.items()
        lacking -= self.node.resources.free.get(name, 0)
        for worker in self.dispatch.leased.values():
            frame, is_short = worker.frames[-1], self.node.now - worker.progress_at <= SHORT_TASK_SECONDS
            if is_short and frame.wait is None and not frame.cpu_lent:
                lacking -= frame.resources.get(name, 0)
        if lacking <= 0:
            self.node.actor_room.look_again_soon()
        return lacking <= 0

    def _borrow(self, name: str, amount: int) -> bool:
        """Have so much of that CPU free, by what idle actors hold and, for the node's own, by what bundles do not use;
        nothing is borrowed where that is too little.
        """
        resources = self.node.resources
        missing = amount - resources.free.get(name, 0)
        lenders: list[tuple[Actor, Worker]] = []
        loans: dict[str, int] = {}
        for bundle_cpu, free in self.node.bundles.unused_cpu() if name == CPU else ():
            if missing > 0 and free:
                loans[bundle_cpu] = min(free, missing)
                missing -= loans[bundle_cpu]
        for actor, worker in self._idle_actors():
            (own,) = cpu_of(worker.frames[0].resources)
            if missing > 0 and (own == name or name == CPU):
                lenders.append((actor, worker))
                missing -= worker.frames[0].resources[own]
                if own != name:
                    loans[own] = loans.get(own, 0) + worker.frames[0].resources[own]
        if missing > 0 and not self._lend_writers(name, missing):
            return False
        for actor, worker in lenders:
            worker.frames[0].cpu_lent = True
            resources.give(cpu_of(worker.frames[0].resources))
            self.lenders[actor.actor_id] = worker
        for bundle_cpu, lent in loans.items():
            resources.borrow(CPU, bundle_cpu, lent)
            self.loans[bundle_cpu] = self.loans.get(bundle_cpu, 0) + lent
        return True

    def _idle_actors(self) -> Iterator[tuple[Actor, Worker]]:
        """Those that have CPU and nothing to do."""
        for actor in self.node.calls.actors.values():
            worker = actor.worker
            is_busy = actor.inflight or actor.queue.has_ready()
            if worker is None or actor.state != ActorState.ALIVE or is_busy or not worker.frames:
                continue
            frame = worker.frames[0]
            if not frame.cpu_lent and frame.wait is None and cpu_of(frame.resources):
                yield actor, worker

    def _give_back_to_bundles(self) -> None:
        """As far as there is CPU again."""
        for bundle_cpu, lent in list(self.loans.items()):
            back = min(lent, self.node.resources.free[CPU])
            if back:
                self.node.resources.borrow(CPU, bundle_cpu, -back)
                self.loans[bundle_cpu] -= back
                self.dispatch.is_dirty = True
                self.node.calls.wanting_worker_changed()
            if not self.loans[bundle_cpu]:
                del self.loans[bundle_cpu]

    def _give_back_to_actors(self) -> None:
        """Those with calls to do first."""
        for with_calls in (True, False):
            for actor_id in list(self.lenders):
                actor = self.node.calls.actors.get(actor_id)
                if actor is None or actor.worker is not self.lenders[actor_id]:
                    del self.lenders[actor_id]  # it has ended, and gave back what it had
                elif bool(actor.queue) is with_calls:
                    self.has_its_cpu(actor)

    def has_its_cpu(self, actor: Actor) -> bool:
        """Whether the actor may do a call; one that has lent its CPU to a task takes it back if it can."""
        worker = self.lenders.get(actor.actor_id)
        if worker is None or worker is not actor.worker:
            return True
        frame = worker.frames[0]
        share = cpu_of(frame.resources)
        if self._is_awaited(share):
            return False
        (name,) = share
        missing = share[name] - self.node.resources.free[name]
        if missing > 0 and not (actor.queue and self._lend_writers(name, missing)):
            return False
        self.node.resources.take(share)
        frame.cpu_lent, frame.cpu_since = False, self.node.now
        del self.lenders[actor.actor_id]
        self.node.calls.touch(actor.actor_id)
        return True

    def check_everything(self) -> None:
        """CPU is lent by levels that wait, by idle actors, and by workers that owe it; the last are `resuming`."""
        for worker in self.node.pool.workers.values():
            for level, frame in enumerate(worker.frames, 1):
                if frame.cpu_lent and frame.wait is None:
                    is_owed = level == len(worker.frames) and worker in self.resuming
                    actor = worker.actor
                    is_idle_actor = actor is not None and self.lenders.get(actor.actor_id) is worker
                    # Its process is being killed: the level ends without the CPU, and nothing is taken back.
                    has_ended = actor is not None and self.node.calls.actors.get(actor.actor_id) is not actor
                    assert is_owed or is_idle_actor or has_ended, (
                        f"{worker.address} runs, and nobody owes it the CPU that it lent"
                    )
        for worker in self.resuming:
            frame = worker.frames[-1]
            assert frame.cpu_lent, f"{worker.address} waits for a CPU that it has"
            assert frame.wait is None or frame.wait.is_over, f"{worker.address} is to go on, and waits"
            assert not self.node.resources.fits(cpu_of(frame.resources)) or self.resuming[0] is not worker
        assert len(set(map(id, self.resuming))) == len(self.resuming)


HANDLERS: dict[type, Any] = {AwaitRoom: lambda self, message: self.waits.await_room(message)}
