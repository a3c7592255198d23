"""Lend the CPUs of workers that wait in a task.

A waiting worker lends its CPU and gets the CPU back before going on.  At the pool's cap, a waiting worker runs the
awaited task inside the wait.  An actor holds its CPU for life, and lends nothing while waiting.

A worker that waits for room in a full object store lends its CPU too, but only to tasks that may make room.  Such tasks
take values from the store, or belong to work that has begun and goes on.  Other ready tasks would need room themselves.

A worker's frames are its stack: only the top frame can go on.  A wait of another thread of a process also lends the
CPU, while that thread uses none (`host/worker/background_waits`): such a wait is *aside*.  A wait of the main thread
replaces a wait that is aside.

A worker whose wait has timed out goes on at once (`go_on`).  The CPU stays lent, and the worker *owes* the CPU.  So the
amounts in use exceed the total by the CPUs of owing workers.  Nothing new starts on such a CPU before the owing workers
have theirs back.  A frame that ends while owing gives back only the rest.

A task whose CPU was taken for life goes on in the same way.  The CPU may belong to an actor that the task has made and
waits for, or to a bundle of a placement group.  A generator that runs may have no end before its consumer goes on, so
its CPU counts too.  Such tasks owe together at most the amount that actors, bundles and running generators hold.  Such
tasks stand behind workers that still wait for a CPU.

    RUNS -> WAITS -> RUNS                             no CPU to lend
    RUNS -> LENDS -> AWAITS_CPU -> RUNS
    RUNS -> AWAITS_ROOM -> RUNS, or LENDS             a task that may make room has taken the CPU
            LENDS, AWAITS_CPU -> OWES -> RUNS         the worker goes on before having the CPU

Rule 1: A frame has a wait, but in RUNS and OWES.  The wait of a top frame is over in AWAITS_CPU, and in no other state.
Rule 2: `resuming` has the workers whose top frame is in AWAITS_CPU or OWES; `writers` has the workers whose top frame
is in AWAITS_ROOM.
Rule 3: Frames below the top frame are in WAITS or LENDS; frames of an actor in RUNS or WAITS.
Rule 4: Nothing else changes a frame's state or wait, nor a worker's stack.

Tasks behind the waits of blocked workers start with the lent CPU, or run inside the waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ....wire.task_spec import StoredValue
from ....wire.tasks import StartTasks
from ...effects import ReclaimTasks
from ..gpus import Shares
from ..objects.waits import Wait
from ..resources import cpu_of
from ..tables import ReadyQueue
from ..task import Task, TaskState
from ..worker import Worker, WorkerState
from .actor_room import SHORT_TASK_SECONDS

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .dispatch import Dispatch

# Ready tasks of one kind that are looked at to find one that takes what lies in a full store: more than run at once.
TAKERS_SEARCH_MAX = 256


class FrameState(IntEnum):
    """A level of a worker's stack."""

    ENDED = 0  # in no stack any more
    RUNS = 1
    WAITS = 2  # keeps what it has
    AWAITS_ROOM = 3  # in the object store; its CPU is there for what may make some
    LENDS = 4  # waits, or other threads of it do
    AWAITS_CPU = 5  # its wait is over
    OWES = 6  # runs without the CPU that it has lent


RUNS, WAITS, AWAITS_ROOM, LENDS, AWAITS_CPU, OWES = list(FrameState)[1:]
BLOCKED = (WAITS, AWAITS_ROOM, LENDS)
Event = Literal[
    "stops",  # to wait, with no CPU to lend
    "blocks",  # to wait, with one
    "lacks room",
    "lent",  # its CPU, to what may make room
    "over",  # its wait
    "granted",  # its CPU, again
    "held for life",  # its CPU, by actors, bundles or generators
    "goes on",  # its time is over
    "ends",
]
TRANSITIONS: dict[tuple[FrameState, str], FrameState] = {
    (state, event): then
    for states, event, then in (
        ((RUNS, WAITS), "stops", WAITS),
        ((RUNS, AWAITS_ROOM, LENDS, AWAITS_CPU, OWES), "blocks", LENDS),
        ((RUNS, AWAITS_ROOM), "lacks room", AWAITS_ROOM),
        ((LENDS, AWAITS_CPU, OWES), "lacks room", LENDS),
        ((AWAITS_ROOM,), "lent", LENDS),
        ((WAITS, AWAITS_ROOM), "over", RUNS),
        ((LENDS,), "over", AWAITS_CPU),
        ((AWAITS_CPU, OWES), "granted", RUNS),
        ((AWAITS_CPU,), "held for life", OWES),
        ((WAITS, AWAITS_ROOM), "goes on", RUNS),
        ((LENDS, AWAITS_CPU), "goes on", OWES),
        ((RUNS, *BLOCKED, AWAITS_CPU, OWES), "ends", FrameState.ENDED),
    )
    for state in states
}


class Frame(Struct, eq=False):
    """Level of a worker's stack: a task, and the resources held.

    Level 0 is the worker's ordinary queue; a blocked worker that runs awaited tasks has more levels.
    """

    resources: dict[str, int]
    depth: int  # of the tasks that run there
    began_at: float  # when what runs there did; of an actor's calls, the first
    gpus: Shares  # which ones those of the resources are
    task: Task | None  # levels above 0: the one task that runs there
    state: FrameState = RUNS
    wait: Wait | None = None  # what this level is blocked on
    cpu_since: float = 0.0  # when it was given its CPU, if it had lent it
    held_since: float = 0.0  # when the level began, also of an actor's many calls

    def begins(self, now: float) -> None:
        """Note the start of another task or call."""
        self.began_at = now

    def held(self) -> dict[str, int]:
        """Return the resources without the lent CPU."""
        if self.state < LENDS:
            return self.resources
        lent = cpu_of(self.resources)
        return {name: amount for name, amount in self.resources.items() if name not in lent}


class Lending:
    """CPUs lent out by blocked workers."""

    PASSING = {"resuming new_lenders writers": None}

    def __init__(self, node: LocalScheduler, dispatch: Dispatch) -> None:
        self.node = node
        self.dispatch = dispatch
        self.resuming: deque[Worker] = deque()  # in the order in which they get their CPU
        self.writers: dict[str, Worker] = {}  # by address
        self.new_lenders: dict[str, Worker] = {}  # by address: those that have lent their CPU in this turn

    # --- states ---

    def _happened(self, worker: Worker, frame: Frame, event: Event) -> None:
        former = frame.state
        state = frame.state = TRANSITIONS[former, event]
        if former == state:
            return
        if former == AWAITS_ROOM:
            del self.writers[worker.address]
        elif former >= AWAITS_CPU:
            self.resuming.remove(worker)
        if state is AWAITS_ROOM:
            self.writers[worker.address] = worker
        elif state >= AWAITS_CPU:
            (self.resuming.appendleft if event == "goes on" else self.resuming.append)(worker)

    def begin(self, worker: Worker, resources: dict[str, int], depth: int, task: Task | None = None) -> Frame:
        """Add a level that takes the given resources."""
        frame = Frame(resources, depth, self.node.now, self.node.resources.take(resources), task)
        frame.held_since = self.node.now
        worker.stacks(frame)
        return frame

    def end(self, worker: Worker) -> None:
        """End the top level; threads of the level may wait on."""
        frame = worker.unstacks()
        self._give_back(worker, frame)
        self._end_aside(frame)
        self.dispatch.is_dirty = True
        self.node.calls.wanting_worker_changed()

    def end_all(self, worker: Worker) -> None:
        """End all levels of a worker that is gone."""
        for frame in worker.unstacks_all():
            self._give_back(worker, frame)
        self.dispatch.idle_leases = [other for other in self.dispatch.idle_leases if other is not worker]
        self.dispatch.is_dirty = True
        self.node.calls.wanting_worker_changed()

    def _give_back(self, worker: Worker, frame: Frame) -> None:
        held = frame.held()
        self._happened(worker, frame, "ends")
        self.node.resources.give(held, frame.gpus)

    # --- waits ---

    def block(self, worker: Worker, wait: Wait) -> None:
        """Stop the worker's thread: lend the CPU out, and reclaim tasks that have not begun."""
        if not worker.frames:
            return
        frame = worker.frames[-1]
        if wait.aside and frame.wait is not None:
            wait.ends()  # it is lent already
            self.node.waits.finish(wait)
            return
        share, had_lent = self._share_of(worker, frame), frame.state >= LENDS
        self._begin(worker, frame, wait, "blocks" if share else "stops")
        if share and not had_lent:
            self.node.resources.give(share)
            self.new_lenders[worker.address] = worker
            worker.gives_turn_back()
            self.dispatch.is_dirty = True
            self.node.calls.wanting_worker_changed()
        self._take_back(worker)

    @staticmethod
    def _share_of(worker: Worker, frame: Frame) -> dict[str, int]:
        """Return the CPU that the worker lends while waiting."""
        return cpu_of(frame.resources) if worker.actor is None else {}

    def _begin(self, worker: Worker, frame: Frame, wait: Wait, event: Event) -> None:
        """Begin a wait of the level: the level owes nothing, and is not about to go on."""
        self._end_aside(frame)
        wait.is_inside(frame.wait)
        frame.wait = wait
        self._happened(worker, frame, event)

    def _take_back(self, worker: Worker) -> None:
        if len(worker.frames) == 1 and len(worker.inflight) > 1 and worker.state == WorkerState.LEASED:
            self.node.perform(ReclaimTasks(worker.address, len(worker.inflight) - 1))

    def _end_aside(self, frame: Frame) -> None:
        """End the level's wait if the wait is aside: the CPU stays lent, or is nobody's any more."""
        wait = frame.wait
        if wait is not None and wait.aside:
            wait.ends()
            frame.wait = None
            self.node.waits.finish(wait)

    def await_room(self, worker: Worker, wait: Wait) -> None:
        """Stop the worker's thread until the object store has room: tasks that may make room can have the CPU."""
        if not worker.frames:
            return
        frame = worker.frames[-1]
        self._begin(worker, frame, wait, "lacks room" if self._share_of(worker, frame) else "stops")
        self.dispatch.is_dirty |= frame.state == AWAITS_ROOM
        self._take_back(worker)

    def lend_to(self, queue: ReadyQueue) -> bool:
        """Return whether the queue's next task can have the CPU of a worker that waits for room, because the task may
        make some.
        """
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
        """Return whether the queue's tasks may make room in the store.

        A task that takes a value from the store may make room, and moves to the front of the queue.  The children of
        begun tasks may make room too: a parent may let go of values when the children are done.
        """
        entries = self.node.objects.entries
        for place, task in enumerate(islice(queue.tasks, TAKERS_SEARCH_MAX)):
            taken = (entries.get(object_id) for object_id in (*task.spec.deps, *task.spec.holds))
            if any(entry is not None and type(entry.value) is StoredValue for entry in taken):
                if place:
                    queue.move_first(place)
                return True
        return any(worker.frames[-1].depth < queue.depth for worker in self.writers.values())

    def _lend_writers(self, name: str, missing: int) -> bool:
        """Free the missing amount of the named CPU from waiting writers; lend nothing where the writers hold too
        little.
        """
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
            self._happened(worker, worker.frames[-1], "lent")
            self.node.resources.give(cpu_of(worker.frames[-1].resources))
        return True

    def lent(self, name: str) -> int:
        """Return how much of the named CPU is lent out: of the node's own, or of a bundle's."""
        frames = (frame for worker in self.node.pool.workers.values() for frame in worker.frames)
        return sum(frame.resources.get(name, 0) for frame in frames if frame.state >= LENDS)

    def wait_is_over(self, worker: Worker, wait: Wait) -> None:
        """Let the waiting level go on as soon as the level is on top and has its CPU again."""
        frame = worker.frames[-1] if worker.frames else None
        if frame is None or (wait.aside and frame.wait is not wait):
            self.node.waits.finish(wait)
        elif frame.wait is wait and wait.outer is not None:
            self._end_inner(worker, wait)
        elif frame.wait is wait:
            self._happened(worker, frame, "over")
            self.resume()
            if frame.state == RUNS and frame.wait is not None:  # it had its CPU all the time
                self._ends_wait(worker, frame)

    def _end_inner(self, worker: Worker, wait: Wait) -> None:
        """Let a signal's handler go on without the CPU: the CPU stays lent for the outer wait."""
        outer = worker.frames[-1].wait = wait.outer
        self.node.waits.finish(wait)
        if outer.is_over:
            self.wait_is_over(worker, outer)

    def go_on(self, worker: Worker, wait: Wait) -> None:
        """Let a worker whose wait has timed out go on at once; the worker owes the lent CPU."""
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
        worker.moves(self.node.now)
        self.node.waits.finish(wait)
        self._happened(worker, frame, "goes on")
        if frame.state == OWES:
            self.resume()

    def _forget_outer(self, worker: Worker, wait: Wait) -> None:
        """Unlink the wait from the waits of signal handlers inside the wait."""
        for frame in worker.frames:
            inner = frame.wait
            while inner is not None and inner.outer is not wait:
                inner = inner.outer
            if inner is not None:
                inner.is_inside(wait.outer)

    def _take_nested_back(self, worker: Worker) -> None:
        """Take back the task of the worker's top level: sent, but not begun, since the thread was in the wait below."""
        task = worker.frames[-1].task
        assert task is not None
        self.end(worker)
        self.node.lifecycle.run_again(task)

    def resume(self) -> None:
        """Give blocked workers their CPU back before anything new starts."""
        resources = self.node.resources
        scarce: set[str] = set()  # CPU that those ahead wait for: the node's own, or a bundle's
        for worker in list(self.resuming):
            frame = worker.frames[-1]
            ((name, amount),) = cpu_of(frame.resources).items()
            if name not in scarce and self._has_free(name, amount):
                resources.take({name: amount})
                frame.cpu_since = self.node.now
                self._happened(worker, frame, "granted")
            else:
                scarce.add(name)
                if frame.state == OWES or not self._is_held_for_life(name, amount):
                    continue
                self._happened(worker, frame, "held for life")
            self._ends_wait(worker, frame)

    def _ends_wait(self, worker: Worker, frame: Frame) -> None:
        """Let the worker go on, unless the wait has ended before."""
        wait, frame.wait = frame.wait, None
        if wait is not None:
            worker.moves(self.node.now)
            self.node.waits.finish(wait)
        if not worker.inflight:  # its task has ended, whatever threads of it waited for
            self.dispatch.worker_progressed(worker)

    def _has_free(self, name: str, amount: int) -> bool:
        """Return whether the amount of the named CPU is free, if need be with the CPU of waiting writers."""
        missing = amount - self.node.resources.free.get(name, 0)  # no bundle, where its group is removed
        return missing <= 0 or self._lend_writers(name, missing)

    def _is_held_for_life(self, name: str, amount: int) -> bool:
        """Return whether actors, bundles and running generators hold the missing amount, in addition to the amount
        that others owe already.
        """
        resources = self.node.resources
        frames = [worker.frames[-1] for worker in self.resuming]
        owed = sum(frame.resources.get(name, 0) for frame in frames if frame.state == OWES)
        held = resources.held.get(name, 0)
        for worker in self.node.pool.leased.values():
            is_running = [frame.state for frame in worker.frames] == [RUNS]
            if is_running and worker.queue is not None and worker.queue.options.is_generator:
                held += worker.frames[0].resources.get(name, 0)
        return amount - resources.free.get(name, 0) + owed <= held

    def is_owed(self, resources: Mapping[str, int]) -> bool:
        """Return whether a worker whose wait is over has lent out CPU of the given kind."""
        return any(not cpu_of(worker.frames[-1].resources).keys().isdisjoint(resources) for worker in self.resuming)

    def is_kept_from(self, queue: ReadyQueue) -> bool:
        """Return whether one more lease of the queue would delay the first worker that waits for its CPU.

        The waiting worker has a part of the CPU free already, and short tasks free the rest soon.
        """
        ((name, lacking),) = cpu_of(self.resuming[0].frames[-1].resources).items()
        if name not in queue.resources:
            return False
        lacking -= self.node.resources.free.get(name, 0)
        for worker in self.node.pool.leased.values():
            frame, is_short = worker.frames[-1], self.node.now - worker.progress_at <= SHORT_TASK_SECONDS
            if is_short and frame.state == RUNS:
                lacking -= frame.resources.get(name, 0)
        if lacking <= 0:
            self.node.actor_room.look_again_soon()
        return lacking <= 0

    def check_everything(self) -> None:
        """Check rules 1 to 3, and that the first worker to have its CPU again lacks the CPU."""
        awaiting, writing = [], []
        for worker in self.node.pool.workers.values():
            frames = worker.frames
            is_actor = worker.actor is not None
            assert not is_actor or (len(frames) == 1 and frames[0].state in (RUNS, WAITS)), worker.address
            for frame in frames:
                state, wait = frame.state, frame.wait
                assert (wait is None) == (state in (RUNS, OWES)), worker.address
                assert wait is None or state != AWAITS_CPU or wait.is_over, worker.address
                assert frame is frames[-1] or state in (WAITS, LENDS), worker.address
            if frames and frames[-1].state >= AWAITS_CPU:
                awaiting.append(worker.address)
            elif frames and frames[-1].state == AWAITS_ROOM:
                writing.append(worker.address)
        resuming = [worker.address for worker in self.resuming]
        assert sorted(resuming) == sorted(awaiting)
        assert set(self.writers) == set(writing)
        assert not resuming or not self.node.resources.fits(cpu_of(self.resuming[0].frames[-1].resources))


# How many tasks may wait inside each other in one process: each level takes some of its C stack.
FRAMES_COUNT_MAX = 2_000
# Tasks looked at to find what a blocked worker could run itself.
NESTED_SEARCH_MAX = 1_000


class BehindWaits:
    """Tasks behind the waits of one node's workers."""

    def __init__(self, node: LocalScheduler, dispatch: Dispatch) -> None:
        self.node = node
        self.dispatch = dispatch

    def start_at_once(self) -> None:
        """Give CPU lent in this turn to children of the lender, ahead of workers that owe their CPU.

        As many tasks run as before.  Otherwise workers with many short waits would have the CPU in turns, and no child
        would start.
        """
        dispatch, lending, pool = self.dispatch, self.dispatch.lending, self.node.pool
        lenders, lending.new_lenders = lending.new_lenders, {}
        for lender in lenders.values() if lending.resuming and dispatch.ready_count else ():
            frame = lender.frames[-1] if lender.frames else None
            if frame is None or frame.wait is None or frame.state not in BLOCKED:
                continue
            for queue in dispatch.queues:
                is_deeper = queue.job is lender.job and queue.depth > frame.depth
                if is_deeper and queue.tasks and dispatch.fits(queue):
                    worker = pool.take_idle(queue)
                    if worker is not None:
                        dispatch.lease(worker, queue)
                    elif not pool.start_for(queue) and frame.wait.limited:
                        pool.start_beyond_cap(queue, is_limited=True)
                    break

    def run_nested(self, queue: ReadyQueue) -> None:
        """Run an awaited task inside the wait of a blocked worker: no other worker can be had.

        A generator has a worker of its own beyond the cap: its consumer, which may be below it in the stack, draws from
        it while it runs.
        """
        node = self.node
        for worker in node.pool.leased.values():
            if not queue.tasks or not self.dispatch.has_room(queue):
                return
            frame = worker.frames[-1]
            if frame.state not in BLOCKED or frame.wait is None or frame.wait.aside or worker.job is not queue.job:
                continue
            if worker.environment != queue.options.environment:
                continue  # one more is started for it when all are blocked
            task = self._task_behind(frame.wait, queue)
            if task is None:
                continue
            is_generator = queue.options.is_generator
            is_apart = is_generator or frame.wait.limited
            if is_apart and node.pool.start_beyond_cap(queue, is_limited=not is_generator):
                continue
            queue.remove(task)
            self.dispatch.ready_count -= 1
            if node.objects.on_disk and node.spilling.lacks(task):
                node.stages.wait_ends(task, TaskState.WAITING)
                task.lacks_argument()
                continue
            if len(worker.frames) >= FRAMES_COUNT_MAX:
                text = f"Tasks wait inside tasks {len(worker.frames)} deep in one process: does the recursion end?"
                node.lifecycle.fail(task, "TaskUnschedulableError", text)
                return
            gpus = self.dispatch.lending.begin(worker, queue.resources, queue.depth, task).gpus
            task.sent(worker)
            node.stages.are_sent((task,), task, are_alike=True)
            specs = [task.spec]
            functions = self.dispatch.batches.functions_for(worker, specs)
            arguments = self.dispatch.batches.arguments_for(worker, specs)
            names = node.resources.gpus.names_of(gpus)
            node.send(worker.address, StartTasks(specs, functions, arguments, True, names))

    def all_are_blocked(self) -> bool:
        """Return whether every leased worker waits, and no wait is for a task that a worker here could run inside the
        wait.

        All may be blocked by tasks of another node, whose blocked workers wait for tasks of this node, and by waiting
        actors.
        """
        leased = self.node.pool.leased.values()
        return bool(leased) and all(worker.frames[-1].state in BLOCKED for worker in leased)

    def _task_behind(self, wait: Wait, queue: ReadyQueue) -> Task | None:
        """Return a ready task of `queue` without which the wait cannot end."""
        entries = self.node.objects.entries
        looked_at = 0
        to_look_at = list(wait.pending)
        while to_look_at and looked_at < NESTED_SEARCH_MAX:
            entry = entries.get(to_look_at.pop())
            looked_at += 1
            task = entry.task if entry is not None else None
            if task is None or task.options.actor_id:
                continue
            is_its = task.job is queue.job and task.depth == queue.depth and task.spec.options == queue.blob
            if task.state == TaskState.READY and is_its:
                return task  # type: ignore[no-any-return]
            if task.state == TaskState.WAITING:
                to_look_at.extend(task.spec.deps)
        return None
