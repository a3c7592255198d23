"""The reasons why an object is not ready, in words, as a chain, as far as this node knows.

    object -> the task that makes it -> whatever the task waits for (an argument, resources, a worker, an actor, a node)
           -> the holder of that

Nothing is changed.  The chain is bounded in depth and in lines.  Objects on another node are noted as a Hop, and asked
for there (`Explain`).

Answers why an object is not ready (Explain): reasons of this node and of another.

A question goes a single hop: a node asked by another reports its own knowledge, and asks no other node.  A node that
does not answer in HOP_SECONDS is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import FIRST_RETURN
from ....wire.amounts import in_words, name_of, number, why_nowhere
from ....wire.groups import plain_name
from ....wire.reasons import EXPLAINED_MAX, LINE_CHARACTERS_MAX, LINES_MAX, Explain, ExplainReply
from ....wire.task_spec import StoredValue
from ...role import on
from ..objects.table import ObjectEntry
from ..tables import Actor, ActorState
from ..task import FORWARDED, Task, TaskState
from ..tasks.lending import Frame
from ..worker import Worker

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

DEPTH_MAX = 6
# The number of missing objects followed for a task or a wait, and of holders named for a resource.
FOLLOWED_MAX = 2
HOLDERS_MAX = 4
# Tasks and objects that are looked at to know what fills the store.
LOOKED_AT_MAX = 10_000


class Hop(Struct, gc=False):
    """The node to ask for more reasons."""

    node: str  # its local scheduler
    object_id: bytes
    line: int  # the answer goes behind so many of the lines
    depth: int


class Reasons:
    """The reasons for an answer."""

    def __init__(self, node: LocalScheduler, home: str = "") -> None:
        self.node = node
        # Another node that may know more.
        self.home = next((peer for peer in node.members.peers if home and peer.startswith(f"{home}/")), "")
        self.lines: list[str] = []
        self.hop: Hop | None = None
        self.seen: set[bytes] = set()  # membership only
        self.chain: list[bytes] = []  # objects whose explanation has not ended, each waited for by the one before
        self.seen_store = False  # it was said what fills it

    # --- lines ---

    def say(self, depth: int, text: str) -> None:
        if len(self.lines) < LINES_MAX:
            self.lines.append(("  " * depth + text)[:LINE_CHARACTERS_MAX])

    def _goes_on(self, depth: int) -> bool:
        return depth <= DEPTH_MAX and len(self.lines) < LINES_MAX

    def _ask(self, node: str, object_id: bytes, depth: int) -> None:
        if self.hop is None and node != self.node.address:
            self.hop = Hop(node, object_id, len(self.lines), depth)

    def for_seconds(self, since: float) -> str:
        return f"for {max(0.0, self.node.now - since):.0f} s"

    # --- objects ---

    def of_objects(self, object_ids: Iterable[bytes], depth: int) -> None:
        """Explain objects, up to a maximum number."""
        left = 0
        for count, object_id in enumerate(object_ids):
            if count < FOLLOWED_MAX:
                self.of_object(object_id, depth)
            else:
                left += 1
        if left:
            self.say(depth, f"and {left} more")

    def of_object(self, object_id: bytes, depth: int) -> None:
        """Explain why the object is not here."""
        if not self._goes_on(depth):
            return
        entry = self.node.objects.entries.get(object_id)
        name = f"ObjectRef({object_id.hex()})"
        if object_id in self.seen:
            cycle = ", and so these wait for each other" if object_id in self.chain else ""
            self.say(depth, f"{name}: see above{cycle}")
            return
        self.seen.add(object_id)
        self.chain.append(object_id)
        if entry is None and self.home:
            self._ask(self.home, object_id, depth)
        elif entry is None:
            self.say(depth, f"{name}: node {self._here()} has no record of it")
        elif entry.value is not None:
            # A waiting process may be told only after the shards know the holders of the refs inside the value.
            expected = self.node.acks.expected.values()
            is_held_back = entry.contained and any(item.node == self.node.sender for item in expected)
            then = ", and is delivered when the GCS has recorded the holders of the refs in it" if is_held_back else ""
            self.say(depth, f"{name}: is here{then}")
        elif entry.task is not None:
            self.of_task(entry.task, entry.object_id, depth, f"{name}: ")
        else:
            self._of_foreign(entry, depth, name)
        self.chain.pop()

    def _of_foreign(self, entry: ObjectEntry, depth: int, name: str) -> None:
        """Explain an object not made by any local task."""
        shared = entry.shared
        places = ", ".join(name_of(place) for place in shared.locations) if shared is not None else ""
        size = f"{shared.size:,} bytes" if shared is not None and shared.size >= 0 else "its bytes"
        is_on_disk = entry.object_id in self.node.objects.on_disk
        if entry.is_on_disk:
            when = "when the task's turn comes and the object store has space"
            self.say(depth, f"{name}: {size} lie on the disk of node {self._here()}, and are restored {when}")
        elif shared is not None and shared.is_fetching:
            if why := self.node.fetches.why_no_room(entry.object_id):
                self.say(depth, f"{name}: {size} wait for free space in the object store of node {self._here()}:")
                self._of_full_store(why, depth + 1)
                return
            source = "its disk" if is_on_disk else f"node {places or '?'}"
            self.say(depth, f"{name}: {size} are on their way to node {self._here()} from {source}")
        elif places:
            self.say(depth, f"{name}: lies on node {places}, and is not being fetched")
        else:
            self.say(depth, f"{name}: is not computed on node {self._here()}, and no copy of it is known yet")
            if home := self._home_of(entry):
                self._ask(home, entry.object_id, depth + 1)

    def _of_full_store(self, why: str, depth: int) -> None:
        """Quote the object manager's first sentence, and list known reasons why objects stay in the store."""
        if not self.seen_store:
            self.seen_store = True
            self.say(depth, why.partition(".  ")[0])
            for what, sizes in self._in_store().items():
                count = len(sizes)
                self.say(depth, f"{sum(sizes):,} bytes, {count} object{'s' * (count > 1)}: {what}")
        else:
            self.say(depth, "see above")

    def _in_store(self) -> dict[str, list[int]]:
        """Return the sizes of objects in the store, by the reason why they stay."""
        objects = self.node.objects
        tasks = [task for task in islice(self.node.tasks.values(), LOOKED_AT_MAX) if task.state == TaskState.WAITING]
        awaiting = {object_id: task for task in tasks for object_id in task.spec.deps}
        found: dict[str, list[int]] = {}
        for object_id, entry in islice(objects.entries.items(), LOOKED_AT_MAX):
            if type(entry.value) is not StoredValue:
                continue
            if object_id in objects.pins:
                what = "read by processes of this node"
            elif object_id in awaiting:
                what = f"for {self.name_of_task(awaiting[object_id])}, which waits for further arguments"
            elif entry.holders is not None:
                what = "referenced by processes of this node"
            elif entry.is_released:
                what = "referenced on other nodes only"
            else:
                what = "for tasks that are about to run, or inside other objects"
            found.setdefault(what, []).append(entry.value.size)
        return dict(islice(sorted(found.items(), key=lambda item: -sum(item[1])), HOLDERS_MAX))

    def _home_of(self, entry: ObjectEntry) -> str:
        """Return the driver's node of a job waiting for the object; the driver's node may know the task."""
        for waiter in entry.waiting or ():
            if waiter.job.home:
                return str(waiter.job.home)
        for wait in entry.watchers or ():
            if wait.process.job.home:
                return str(wait.process.job.home)
        return ""

    def _here(self) -> str:
        return name_of(self.node.address)

    # --- tasks ---

    def name_of_task(self, task: Task) -> str:
        """Name a task, as in "task f" or "call Counter.add"."""
        options = task.options
        if options.actor_id:
            return f"call {options.name or options.method}"
        actor = self.node.calls.actors.get(task.spec.task_id)
        if actor is not None:
            return f"actor {actor.options.class_name}"
        return f"task {options.name or self.node.lifecycle.function_name(task.spec.function_id)}"

    def of_task(self, task: Task, object_id: bytes, depth: int, prefix: str = "") -> None:
        """Explain where a task runs, or why it waits."""
        if not self._goes_on(depth):
            return
        name = prefix + self.name_of_task(task)
        if task.state == TaskState.WAITING:
            self._of_missing(task, depth, name)
        elif task.state == TaskState.READY:
            self._of_ready(task, depth, name)
        elif task.state >= FORWARDED:
            self._of_spilled(task, object_id, depth, name)
        elif task.state == TaskState.CALL:
            self._of_call(task, object_id, depth, name)
        elif task.state == TaskState.SENT and task.worker is not None:
            self._of_sent(task, task.worker, depth, name)
        else:
            self.say(depth, f"{name} is about to end")

    def _of_missing(self, task: Task, depth: int, name: str) -> None:
        """Explain a task that lacks arguments or code."""
        missing = self._missing(task)
        if missing:
            self._waits_for(missing, depth, name)
        elif why := self.node.memory.why_waits(task):
            self.say(depth, f"{name} {why}")
        else:
            self.say(depth, f"{name} waits for its code from the GCS")

    def _waits_for(self, arguments: list[bytes], depth: int, name: str) -> None:
        count = len(arguments)
        self.say(depth, f"{name} waits for {'an argument' if count == 1 else f'{count} arguments'}:")
        self.of_objects(arguments, depth + 1)

    def _missing(self, task: Task) -> list[bytes]:
        entries = self.node.objects.entries
        lacking = []
        for object_id in task.spec.deps:
            entry = entries.get(object_id)
            if entry is None or entry.value is None:
                lacking.append(object_id)
        return list(dict.fromkeys(lacking))

    def _of_ready(self, task: Task, depth: int, name: str) -> None:
        node, request = self.node, task.options.resources
        pool = node.pool
        where = task.options.where
        if where is not None and where.group:
            request = node.bundles.lacking(where, request)
        if not node.resources.fits(request):
            self._of_resources(request, depth, name)
        elif pool.starting[task.options.environment.packages]:
            self._of_start(task.options.environment.packages, depth, name)
        else:
            busy = f"all {len(pool.workers)} of node {self._here()} are busy"
            self.say(depth, f"{name} waits for a worker process: {busy}")
            self._of_holders(("CPU",), depth + 1)

    def _of_start(self, packages: str, depth: int, name: str) -> None:
        if packages:
            self.say(depth, f"{name} waits for its environment: node {self._here()} installs packages, or starts it")
        else:
            count = self.node.pool.starting[""]
            self.say(depth, f"{name} waits for a worker process, of which {count} are starting")

    def _of_resources(self, request: dict[str, int], depth: int, name: str) -> None:
        """Explain the use of the requested resources."""
        resources = self.node.resources
        lacking = resources.lacking(request)
        state = ", ".join(
            f"{number(resources.free.get(key, 0))} of {number(resources.total.get(key, 0))} {plain_name(key)}"
            for key in lacking
        )
        self.say(depth, f"{name} waits for {in_words(request)}: node {self._here()} has {state} free")
        self._of_holders(lacking, depth + 1)

    def _of_holders(self, names: Iterable[str], depth: int) -> None:
        """List the holders of resources of these names."""
        wanted = list(names)
        groups: dict[str, list[float]] = {}  # what -> since when each
        for worker in self.node.pool.workers.values():
            for frame in worker.frames:
                if any(frame.held().get(name) for name in wanted):
                    groups.setdefault(self._doing(worker, frame), []).append(self._held_since(worker, frame))
        for count, (what, times) in enumerate(groups.items()):
            if count == HOLDERS_MAX:
                self.say(depth, f"and {len(groups) - count} more")
                break
            several = f" x{len(times)}, the longest" if len(times) > 1 else ""
            self.say(depth, f"held by {what}{several} {self.for_seconds(min(times))}")

    def _held_since(self, worker: Worker, frame: Frame) -> float:
        """Return since when a task runs, an actor holds its resources, or is idle."""
        if worker.actor is None:
            return max(frame.began_at, frame.cpu_since)
        return frame.held_since if worker.actor.inflight else worker.progress_at

    def _doing(self, worker: Worker, frame: Frame) -> str:
        if worker.actor is not None:
            what = f"actor {worker.actor.options.class_name}"
            return what if worker.actor.inflight else f"{what}, which is idle,"
        task = frame.task if frame.task is not None else (worker.inflight[0] if worker.inflight else None)
        return self.name_of_task(task) if task is not None else "a worker between two tasks"

    def _of_sent(self, task: Task, worker: Worker, depth: int, name: str) -> None:
        """Explain a task that a worker or an actor has."""
        where = f"on node {self._here()}" + (f" (pid {worker.process.pid})" if worker.process is not None else "")
        frame = next((frame for frame in worker.frames if frame.task is task), None)
        if frame is None and worker.inflight and worker.inflight[0] is task and worker.frames:
            frame = worker.frames[0]
        if worker.actor is not None:
            self._of_sent_call(task, worker, worker.actor, depth, name, where)
        elif frame is None:
            ahead = self.name_of_task(worker.inflight[0]) if worker.inflight else "another task"
            since = worker.frames[0].began_at if worker.frames else worker.progress_at
            self.say(depth, f"{name} is next {where}, behind {ahead} {self.for_seconds(since)}")
        else:
            self._of_running(frame, task, depth, f"{name} runs {where}")

    def _of_sent_call(self, task: Task, worker: Worker, actor: Actor, depth: int, name: str, where: str) -> None:
        is_serial = actor.options.is_serial
        if ahead := actor.ahead_of(task):
            others = f"{len(ahead)} other{'s' * (len(ahead) > 1)} of the same actor"
            if task.options.group:
                others += f" and concurrency group {task.options.group!r}"
            self.say(depth, f"{name} waits {where}, behind {others}:")
            task = ahead[0]
            name, where, depth = self.name_of_task(task), "", depth + 1
        text = f"{name} runs {where}".rstrip()
        self._of_running(worker.frames[0], task, depth, text, is_alone=is_serial)

    def _of_running(self, frame: Frame, task: Task, depth: int, text: str, *, is_alone: bool = True) -> None:
        """Explain running user code, which computes or waits.

        is_alone: False for concurrent calls, without recorded beginnings.
        """
        wait = frame.wait
        if self.node.generators.waits_for_draws(task):
            self.say(depth, f"{text}, and waits until more of its items are drawn (`max_buffered`)")
        elif wait is None:
            self.say(depth, f"{text} {self.for_seconds(frame.began_at)}" if is_alone else text)
        elif wait.is_over:
            self.say(depth, f"{text}, and waits to get its CPU back")
            self._of_holders(("CPU",), depth + 1)
        elif not wait.pending:
            self.say(depth, f"{text}, and waits for free space in the object store")
        else:
            self.say(depth, f"{text}, and waits itself for:")
            self.of_objects(wait.pending, depth + 1)

    # --- elsewhere ---

    def _of_spilled(self, task: Task, object_id: bytes, depth: int, name: str) -> None:
        """Explain a spilled task."""
        node = self.node
        place = task.forward.peer
        if task.state == TaskState.PARKED:
            reason = node.strategies.why_no_labels(task.options.where)
            reason = reason or why_nowhere(task.options.resources, node.infeasible.totals())
            self.say(depth, f"{name} waits for a node that can run it: {reason}")
        elif task.state == TaskState.DEFERRED:
            request = in_words(task.options.resources)
            self.say(depth, f"{name} waits for {request}, which actors hold on every node that has it")
        elif place:
            self._of_sent_away(task, place, object_id, depth, f"{name} was placed on node {name_of(place)}")
        elif task.state == TaskState.RECORDING:
            self.say(depth, f"{name} moves to another node when the GCS has recorded the task and its arguments")
        elif (where := task.options.where) is not None and where.group:
            self.say(depth, f"{name} waits for {node.groups.state_in_words(where.group)}")
        else:
            self.say(depth, f"{name} was spilled to a global scheduler, which has not placed it yet")

    def _of_sent_away(self, task: Task, place: str, object_id: bytes, depth: int, text: str) -> None:
        """Explain a task on another node, unless arguments made by local tasks are missing."""
        entries = self.node.objects.entries
        unmade = [
            key for key in self._missing(task) if (entry := entries.get(key)) is not None and entry.task is not None
        ]
        if unmade:
            self._waits_for(unmade, depth, f"{text}, and")
        else:
            self.say(depth, text)
            self._ask(place, object_id, depth + 1)

    # --- actors ---

    def _of_call(self, task: Task, object_id: bytes, depth: int, name: str) -> None:
        node = self.node
        actor = node.calls.actors.get(task.options.actor_id or task.spec.task_id)
        if actor is None:
            self._of_remote_call(task, object_id, depth, name)
        elif task is actor.creation:
            self.of_actor(actor, depth, name)
        elif self._missing(task):
            self._of_missing(task, depth, name)
        elif actor.state == ActorState.ALIVE:
            what = f"{len(actor.inflight)} calls ahead of it" if actor.inflight else "a call of the same caller"
            self.say(depth, f"{name} is in the queue of actor {actor.options.class_name}, behind {what}")
            if actor.inflight and actor.worker is not None:
                first = next(iter(actor.inflight.values()))
                self._of_sent(first, actor.worker, depth + 1, self.name_of_task(first))
        else:
            self.say(depth, f"{name} waits for its actor:")
            self.of_actor(actor, depth + 1, f"actor {actor.options.class_name}")

    def of_actor(self, actor: Actor, depth: int, name: str) -> None:
        """Explain why an actor is not ready."""
        node, request = self.node, actor.options.resources
        again = "again " if actor.state == ActorState.RESTARTING else ""
        where = actor.options.where
        if where is not None and where.group and actor.actor_id in node.groups.unsettled:
            self.say(depth, f"{name} waits for {node.groups.state_in_words(where.group)}")
        elif actor.state == ActorState.REGISTERING:
            self.say(depth, f"{name} waits for the GCS or another node to confirm its name or its node")
        elif actor.state == ActorState.STARTING and actor.worker is not None:
            pid = actor.worker.process.pid if actor.worker.process is not None else 0
            self._of_running(
                actor.worker.frames[0], actor.creation, depth, f"{name} {again}runs its constructor (pid {pid})"
            )
        elif self._missing(actor.creation):
            self._of_missing(actor.creation, depth, name)
        elif (ask := node.moves.asks.get(actor.actor_id)) is not None and not ask.is_shared:
            self.say(depth, f"{name} moves to another node when the GCS has recorded the task and its arguments")
        elif reason := node.strategies.why_no_labels(where):
            self.say(depth, f"{name} finds no node: {reason}")
        elif not node.resources.could_ever_fit(request) and node.infeasible.is_met_elsewhere(request):
            self.say(depth, f"{name} waits for resources: its request is in use on all nodes that have it")
        elif not node.resources.could_ever_fit(request):
            self.say(depth, f"{name} finds no node: {why_nowhere(request, node.infeasible.totals())}")
        elif not node.resources.fits(request):
            self._of_resources(request, depth, f"{name} {again}".rstrip())
        else:
            self._of_start(actor.options.environment.packages, depth, name)

    def _of_remote_call(self, task: Task, object_id: bytes, depth: int, name: str) -> None:
        route = self.node.routes.by_actor.get(task.options.actor_id)
        if route is None or not route.home:
            self.say(depth, f"{name} waits for the GCS to locate its actor")
            # While it has no place it is its maker's, who knows why: as a rule the node of its name, or of the driver.
            maker = (route.hint if route is not None else "") or task.job.home
            if maker:
                self._ask(maker, (task.options.actor_id or task.spec.task_id) + FIRST_RETURN, depth + 1)
        elif task.spec.task_id in route.sent:
            text = f"{name} was sent to its actor on node {name_of(route.home)}"
            self._of_sent_away(task, route.home, object_id, depth, text)
        elif self._missing(task):
            self._of_missing(task, depth, name)
        else:
            leaves = route.home in self.node.drain.going.closed
            until = " when its actor has moved: that node leaves the cluster (`zray drain`)" if leaves else ""
            self.say(depth, f"{name} is about to be sent to node {name_of(route.home)}{until}")

    # --- a process that waits ---

    def awaited_by(self, worker: Worker | None, message: Explain) -> tuple[list[bytes], int]:
        """Return the missing objects of a question, and how many more are awaited; all objects, if none is missing.

        A worker that has lent its CPU learns of objects only when all are ready, so the node knows more.
        """
        asked, left_out = message.object_ids, message.left_out
        wait = worker.frames[-1].wait if worker is not None and worker.frames else None
        if wait is not None and not wait.aside and asked and (asked[0] in wait.pending or asked[0] in wait.ready):
            asked, left_out = list(wait.pending), 0
        entries = self.node.objects.entries
        missing = [i for i in asked if (entry := entries.get(i)) is None or entry.value is None]
        return (missing or asked, left_out)

    def of_process(self, worker: Worker, depth: int) -> bool:
        """Explain that a worker lacks only a CPU; return False if anything else is missing."""
        frame = worker.frames[-1] if worker.frames else None
        if frame is None or frame.wait is None or not frame.wait.is_over:
            return False
        self.say(depth, "all values are here; this process waits to get its CPU back")
        self._of_holders(("CPU",), depth + 1)
        return True


# Less than who asks at the end of a timeout waits for us (1 s, host/client/slow_wait_report.py).
HOP_SECONDS = 0.8
# Questions under way to other nodes; further ones are answered without.
ASKED_COUNT_MAX = 100


class Asked(Struct, gc=False):
    """A question that another node answers in part."""

    asker: str
    request: int  # the asker's
    lines: list[str]
    hop: Hop


class Explanations:
    """The questions of a node's processes."""

    PASSING = {"asked": "ASKED_COUNT_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.asked: dict[int, Asked] = {}
        self.count = 0

    @on(Explain)
    def on_explain(self, message: Explain) -> None:
        """Explain, from a local process or another node."""
        node = self.node
        process = node.processes.get(node.sender)
        if process is None and node.sender not in node.members.peers:
            node.reject("a question of a process that is gone")
            return
        reasons = Reasons(node, message.home)
        if process is not None and (silence := node.members.silence()):
            reasons.say(0, silence)
            if node.members.suspension.is_on:
                node.send(node.sender, ExplainReply(message.request, reasons.lines))
                return
        for stall in node.members.stalls() if process is not None else ():
            reasons.say(0, stall)
        worker = process.worker if process is not None else None
        if worker is None or not reasons.of_process(worker, 0):
            awaited, left_out = reasons.awaited_by(worker, message)
            for object_id in awaited[:EXPLAINED_MAX]:
                reasons.of_object(object_id, 0)
            left_out += len(awaited[EXPLAINED_MAX:])
            if left_out:
                reasons.lines.append(f"and {left_out:,} more")
        hop = reasons.hop
        if process is None or hop is None or hop.node not in node.members.peers or len(self.asked) >= ASKED_COUNT_MAX:
            node.send(node.sender, ExplainReply(message.request, reasons.lines))
            return
        self.count += 1
        self.asked[self.count] = Asked(node.sender, message.request, reasons.lines, hop)
        node.send(hop.node, Explain(self.count, [hop.object_id]))
        node.after(HOP_SECONDS, self.answer_alone, self.count)

    @on(ExplainReply)
    def on_reply(self, message: ExplainReply) -> None:
        """ExplainReply, from another node."""
        asked = self.asked.get(message.request)
        if asked is not None and self.node.sender == asked.hop.node:
            self._answer(message.request, message.lines[:LINES_MAX])

    def answer_alone(self, request: int) -> None:
        """Answer alone, because the other node has not answered in time."""
        if request in self.asked:
            self._answer(request, [f"no answer within {HOP_SECONDS:g} s"])

    def _answer(self, request: int, heard: list[str]) -> None:
        asked = self.asked.pop(request)
        hop, node = asked.hop, self.node
        indent = "  " * hop.depth
        theirs = [f"{indent}{line}"[:LINE_CHARACTERS_MAX] for line in heard]
        if theirs:
            theirs[0] = f"{indent}on node {name_of(hop.node)}: {heard[0]}"[:LINE_CHARACTERS_MAX]
        if asked.asker in node.processes:
            lines = [*asked.lines[: hop.line], *theirs, *asked.lines[hop.line :]]
            node.send(asked.asker, ExplainReply(asked.request, lines[: 2 * LINES_MAX]))
