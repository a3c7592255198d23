"""Workers that wait in a task: they lend their CPU out, get it back before they go on, and at the pool's cap run what
they wait for themselves.  An actor holds its CPU for life, and lends nothing while it waits.

A worker that waits for room in a full object store lends its CPU too, but only to what may make some: what takes values
from there, or was begun before and goes on.  What else is ready would want room itself.

A worker's frames are its stack (tables.Frame): only the top one can go on.  What other threads of a process wait
for lends its CPU too, while it uses none (`host/aside`): such a wait is *aside*.  It gives way to the main thread's.

A worker whose time is over goes on at once (`go_on`).  Its CPU stays lent and it *owes* it: it is in `resuming`, and
its frame has no wait.  So the amounts in use are over by what such workers hold, and nothing new starts on that CPU
before they have it back.  A frame that ends while it owes gives back only the rest.

A task whose CPU was taken for life goes on in the same way: an actor may have it that the task has made and waits for,
or a bundle of a placement group.  Such tasks owe together at most what actors and bundles hold.  They stand behind
those that still wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from ...wire.task_spec import StoredValue
from ..effects import ReclaimTasks
from .actor_room import SHORT_TASK_SECONDS
from .resources import cpu_of
from .tables import Frame, ReadyQueue, Wait, Worker, WorkerState

if TYPE_CHECKING:
    from .dispatch import Dispatch
    from .scheduler import LocalScheduler

# Ready tasks of one kind that are looked at to find one that takes what lies in a full store: more than run at once.
TAKERS_SEARCH_MAX = 256


class Lending:
    """CPUs lent out by blocked workers."""

    PASSING = {"resuming new_lenders writers": None}

    def __init__(self, node: LocalScheduler, dispatch: Dispatch) -> None:
        self.node = node
        self.dispatch = dispatch
        self.resuming: deque[Worker] = deque()  # blocked workers whose wait is over, waiting for their CPU
        self.new_lenders: dict[str, Worker] = {}  # by address: those that have lent their CPU in this turn
        self.writers: dict[str, Worker] = {}  # by address: those that wait for room, and have not lent their CPU

    def block(self, worker: Worker, wait: Wait) -> None:
        """Its thread stops: lend its CPU out, and take back what it has not begun."""
        if not worker.frames:
            return
        frame = worker.frames[-1]
        if wait.aside and (frame.wait is not None or (frame.cpu_lent and worker not in self.resuming)):
            wait.is_over = True  # it is lent already
            self.node.waits.finish(wait)
            return
        self._begin(worker, frame, wait)
        share = self._share_of(worker, frame)
        if not frame.cpu_lent and share:
            frame.cpu_lent = True
            self.node.resources.give(share)
            self.new_lenders[worker.address] = worker
            self.dispatch.give_turn_back(worker)
            self.dispatch.is_dirty = True
            self.node.calls.wanting_worker_changed()
        self._take_back(worker)

    @staticmethod
    def _share_of(worker: Worker, frame: Frame) -> dict[str, int]:
        """The CPU that it lends while it waits."""
        return cpu_of(frame.resources) if worker.actor is None else {}

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
        if not frame.cpu_lent and self._share_of(worker, frame):
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
                ((name, amount),) = share.items()
                if name in scarce or not self._has_free(name, amount):
                    scarce.add(name)
                    if frame.wait is None or not self._is_held_for_life(name, amount):
                        continue
                    self.resuming.append(worker)  # from here on it owes it
                else:
                    resources.take(share)
                    frame.cpu_lent, frame.cpu_since = False, self.node.now
            self.resuming.remove(worker)
            self._ends_wait(worker, frame)
            if not worker.inflight:  # its task has ended, whatever threads of it waited for
                self.dispatch.worker_progressed(worker)

    def _ends_wait(self, worker: Worker, frame: Frame) -> None:
        """It goes on, unless it has before."""
        wait, frame.wait = frame.wait, None
        if wait is not None:
            worker.progress_at = self.node.now
            self.node.waits.finish(wait)

    def _has_free(self, name: str, amount: int) -> bool:
        """Whether there is so much of that CPU, if need be by what waiting writers hold."""
        missing = amount - self.node.resources.free.get(name, 0)  # no bundle, where its group is removed
        return missing <= 0 or self._lend_writers(name, missing)

    def _is_held_for_life(self, name: str, amount: int) -> bool:
        """Whether actors and bundles hold what is missing of it, and what others owe already."""
        resources = self.node.resources
        frames = (worker.frames[-1] for worker in self.resuming)
        owed = sum(frame.resources.get(name, 0) for frame in frames if frame.cpu_lent and frame.wait is None)
        return amount - resources.free.get(name, 0) + owed <= resources.held.get(name, 0)

    def is_owed(self, resources: Mapping[str, int]) -> bool:
        """Whether a worker whose wait is over has lent out CPU of this kind."""
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

    def check_everything(self) -> None:
        """CPU is lent by levels that wait, and by workers that owe it; the last are `resuming`.  No actor lends."""
        for worker in self.node.pool.workers.values():
            for level, frame in enumerate(worker.frames, 1):
                if frame.cpu_lent:
                    assert worker.actor is None, f"{worker.address} is an actor's, and has lent its CPU"
                    is_owed = level == len(worker.frames) and worker in self.resuming
                    assert frame.wait is not None or is_owed, (
                        f"{worker.address} runs, and nobody owes it the CPU that it lent"
                    )
        for worker in self.resuming:
            frame = worker.frames[-1]
            assert frame.cpu_lent, f"{worker.address} waits for a CPU that it has"
            assert frame.wait is None or frame.wait.is_over, f"{worker.address} is to go on, and waits"
            assert not self.node.resources.fits(cpu_of(frame.resources)) or self.resuming[0] is not worker
        assert len(set(map(id, self.resuming))) == len(self.resuming)
