"""Lineage: records of this node's tasks for the GCS shard, in batches.

The specs of tasks with referenced results are recorded at the shard, with the specs of their ancestors.  A task that
takes another task's result is recorded after LINEAGE_SECONDS, any other after YOUTH_SECONDS. A task whose results die
earlier, without living descendants, is never recorded, so most small tasks cost the shard nothing.  (Before other nodes
learn of an object, its task is recorded; see the callers of `flush`.)

With several shards, the records of a task and of its arguments may lie in different shards, which may differ in speed.
So a release is sent only after earlier records are acknowledged, because until then only this node keeps the tasks'
arguments (`gcs/keeping`).  Likewise a ref leaves this node only then.  Its receiver may outlive this node, and must be
able to reconstruct the value from the first task on (`settled`).
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from ....ids import FIRST_RETURN, OBJECT_ID_BYTES, task_of
from ....wire import gcs, limits
from ....wire.task_spec import TaskSpec
from ...role import on
from ..log_batches import BATCH_BYTES_MAX, in_batches
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Longer batches send less, and hold the specs of dead tasks longer in memory.
LINEAGE_SECONDS = 0.02
# Tasks that take nothing wait so long (each, give or take a mark), and so many of them: a burst that is fetched by then
# costs the shard nothing.
YOUTH_SECONDS = 0.3
MARK_SECONDS = 0.05
YOUNG_MAX = 20_000
# Records that waited together must not delay other work: at most this many specs, or ends of objects (some 3 us each),
# are sent in a turn, and the next portion this much later.
PORTION_COUNT = 2_000
PORTION_SECONDS = 0.005
# Portions that the shards have not acknowledged: with so many under way no more are sent, so that what waits for a
# shard that is cut off, or slow, is as much as lives here, however long that takes.
UNHEARD_MAX = 32
# Dead tasks are removed from the fresh ones whenever those have doubled, and from this number on.
FRESH_COUNT = 1_000


class Owed(Struct, gc=False, eq=False):
    """Actions due when a request and all earlier ones are acknowledged."""

    missing: int  # replies
    object_ids: dict[bytes, None]  # are let go of
    requests: list[int]  # are acknowledged once more


def is_alive(task: Task) -> bool:
    """Whether the task has not ended, or a result is still referenced."""
    entry = task.entry
    return (
        entry.task is not None
        or entry.value is not None
        or (task.more is not None and any(further.value is not None for further in task.more))
    )


def _size_of(spec: TaskSpec) -> int:
    return len(spec.args) + OBJECT_ID_BYTES * (len(spec.deps) + len(spec.holds))


def _in_messages(specs: list[TaskSpec]) -> list[list[TaskSpec]]:
    """Split specs into messages: a frame between hosts cannot hold 2,000 specs with 100 KiB of arguments each."""
    size = sum([len(spec.args) for spec in specs]) + sum([_size_of(spec) for spec in specs if spec.deps or spec.holds])
    if size <= BATCH_BYTES_MAX and len(specs) <= limits.ITEMS_MAX:
        return [specs]
    return list(in_batches(specs, _size_of))


def _of(specs: list[TaskSpec], attempts: dict[bytes, int]) -> list[tuple[bytes, int]]:
    if not attempts:
        return []
    return [(spec.task_id, attempts[spec.task_id]) for spec in specs if spec.task_id in attempts]


class Lineage:
    """Specs not yet recorded, and records no longer needed."""

    # A portion for several shards may take two requests.
    PASSING = {"owed owed_by_object fresh chosen": None, "unheard": lambda _: UNHEARD_MAX + 1}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.fresh: list[Task] = []  # submitted since the last batch
        self.young_count = 0  # the first so many of them are known to take nothing
        self.marks: deque[tuple[float, int]] = deque()  # when, and how many of them there were: those are so old now
        self.sift_young_at = YOUNG_MAX
        self.chosen: deque[Task] = deque()  # a batch, which goes in portions
        self.timer_is_set = False
        self.unheard: dict[int, int] = {}  # requests of portions -> replies that are missing
        self.sift_at = FRESH_COUNT
        self.owed: dict[int, Owed] = {}  # by request, in their order
        self.owed_by_object: dict[bytes, Owed] = {}

    def end_turn(self) -> None:
        """Schedule a batch, if there is anything to send."""
        if not self.timer_is_set and (self.fresh or self.chosen or self.node.objects.freed_recorded):
            self.timer_is_set = True
            is_behind = self.chosen or len(self.node.objects.freed_recorded) >= PORTION_COUNT
            self.node.after(PORTION_SECONDS if is_behind else LINEAGE_SECONDS, self.send_portion)

    def send_portion(self) -> None:
        """Send a portion when due."""
        self.timer_is_set = False
        if len(self.unheard) >= UNHEARD_MAX:
            self._sift()
            return
        if not self.chosen and self.fresh:
            if self._take_nothing():
                self._choose_old()
            else:
                self._choose()
        portion = [self.chosen.popleft() for _ in range(min(PORTION_COUNT, len(self.chosen)))]
        self._record(portion, self.node.acks.next_request())
        if not self.chosen:
            self._let_go_of_freed()

    def _take_nothing(self) -> bool:
        """Whether all fresh tasks may wait, because none takes arguments."""
        fresh, count = self.fresh, self.young_count
        if any(task.spec.deps or task.spec.holds for task in islice(fresh, count, None)):
            return False
        self.young_count = len(fresh)
        return True

    def _choose_old(self) -> None:
        """Choose the tasks that have waited long enough, or all if too many are alive."""
        now, marks, due = self.node.now, self.marks, 0
        while marks and now - marks[0][0] >= YOUTH_SECONDS:
            due = marks.popleft()[1]
        if due:
            self.chosen += filter(is_alive, islice(self.fresh, due))
            del self.fresh[:due]
            self.marks = deque((when, count - due) for when, count in marks)
        if len(self.fresh) > self.sift_young_at:
            self._sift_young()
            if len(self.fresh) > YOUNG_MAX:
                self._choose()
        self.young_count = len(self.fresh)
        if self.fresh and (not self.marks or now - self.marks[-1][0] >= MARK_SECONDS):
            self.marks.append((now, len(self.fresh)))

    def flush(self) -> None:
        """Record living tasks with their ancestors now."""
        if self.fresh:
            self._choose()
        if self.chosen:
            # The queue itself stays: whoever fills it may be the one who has us flush.
            chosen = [*self.chosen]
            self.chosen.clear()
            self._record(chosen)

    def _sift_young(self) -> None:
        """Drop dead tasks among the young tasks without arguments."""
        fresh, marks = self.fresh, self.marks
        alive: list[Task] = []
        start = 0
        self.marks = deque()
        for when, count in marks:
            alive += filter(is_alive, islice(fresh, start, count))
            self.marks.append((when, len(alive)))
            start = count
        alive += filter(is_alive, islice(fresh, start, None))
        fresh[:] = alive
        self.sift_young_at = max(YOUNG_MAX, len(alive) + YOUNG_MAX // 2)

    def _sift(self) -> None:
        """Drop dead tasks while the shards are behind."""
        if len(self.fresh) >= self.sift_at:
            alive = self._take_alive()
            self.fresh += alive
            self.sift_at = max(FRESH_COUNT, 2 * len(alive))

    def _choose(self) -> None:
        """Choose the fresh tasks that the shard must know."""
        self.chosen += self._take_alive()

    def _take_alive(self) -> list[Task]:
        # The list itself stays: whoever fills it may be the one who has us flush.
        fresh = self.fresh.copy()
        self.fresh.clear()
        self.marks.clear()
        self.young_count = 0
        self.sift_young_at = YOUNG_MAX
        alive = list(filter(is_alive, fresh))
        if len(alive) != len(fresh) and any(task.spec.deps or task.spec.holds for task in alive):
            alive = self._with_ancestors(alive, {task.spec.task_id: task for task in fresh})
        return alive

    def _let_go_of_freed(self) -> None:
        """Tell the shards a portion of what has died: a program may drop a million refs at once."""
        freed = self.node.objects.freed_recorded
        if freed:
            portion = [freed.popleft() for _ in range(min(PORTION_COUNT, len(freed)))]
            self.let_go(self._still_gone(portion))

    def _still_gone(self, freed: list[bytes]) -> list[bytes]:
        """Return the freed objects without the objects made anew by a repeated task, which the local node still holds.

        An exception is a repeated task placed by another node, which is then the holder.
        """
        entries = self.node.objects.entries
        gone = []
        for object_id in freed:
            entry = entries.get(object_id)
            if entry is None or entry.is_released:
                gone.append(object_id)
            else:
                entry.recorded()
        return gone

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

    def has_run_again(self, task: Task) -> None:
        """Report the attempts of a re-executed task, which limit later reconstruction."""
        if task.entry.is_recorded:
            shard, attempts = self.node.addresses.shard_of(task.spec.task_id), [(task.spec.task_id, task.attempts)]
            self.node.send(shard, gcs.AddLocations(self.node.address, [], attempts))

    def _record(self, tasks: list[Task], portion: int = 0) -> None:
        """Record tasks and their ancestors.  portion: the request to acknowledge; 0: the caller acknowledges more."""
        if not tasks:
            return
        node = self.node
        specs_by_shard: dict[str, list[TaskSpec]] = {}
        dead: list[bytes] = []
        further: list[bytes] = []
        attempts = {task.spec.task_id: task.attempts for task in tasks if task.attempts}
        shard = node.addresses.shards[0] if len(node.addresses.shards) == 1 else ""
        specs = specs_by_shard.setdefault(shard, []) if shard else []
        for task in tasks:
            entry = task.entry
            entry.recorded()
            if shard:
                specs.append(task.spec)
            else:
                specs_by_shard.setdefault(node.addresses.shard_of(task.spec.task_id), []).append(task.spec)
            if entry.task is None and entry.value is None and (entry.shared is None or entry.is_released):
                dead.append(entry.object_id)
            for other in task.more or ():
                if other.task is not None or other.value is not None:
                    other.recorded()
                    further.append(other.object_id)
        if shard:
            messages = _in_messages(specs)
            for part in messages:
                node.send(shard, gcs.RecordTasks(node.address, part, portion, attempts=_of(part, attempts)))
            if portion:
                self.unheard[portion] = len(messages)
        else:
            self._record_at_several(tasks, specs_by_shard, portion, attempts)
            self.held_again(further)
        if node.generators.left:
            self.say_left([task.spec.task_id for task in tasks if task.options.is_generator])
        for address, ids in self.node.addresses.by_shard(further).items():
            for held in limits.portions(ids):
                node.send(address, gcs.HoldAtNode(node.address, held, 0))
        self.let_go(dead)

    # --- several shards ---

    def _record_at_several(
        self, tasks: list[Task], specs_by_shard: dict[str, list[TaskSpec]], portion: int, attempts: dict[bytes, int]
    ) -> None:
        node = self.node
        self.held_again([task.entry.object_id for task in tasks])
        request = portion or node.acks.next_request()
        messages = [(address, part) for address, specs in specs_by_shard.items() for part in _in_messages(specs)]
        self.owed[request] = Owed(len(messages), {}, [])
        if portion:
            self.unheard[portion] = len(messages)
        for address, part in messages:
            shards = len(node.addresses.shards)
            node.send(address, gcs.RecordTasks(node.address, part, request, shards, _of(part, attempts)))

    def record_one(self, spec: TaskSpec, request: int, attempts: int = 0) -> None:
        """Record a task at once; the reply is the caller's."""
        node = self.node
        address = node.addresses.shard_of(spec.task_id)
        shards = len(node.addresses.shards)
        if shards > 1:
            self.held_again([spec.task_id + FIRST_RETURN])
            self.owed[request] = Owed(1, {}, [])
        again = [(spec.task_id, attempts)] if attempts else []
        node.send(address, gcs.RecordTasks(node.address, [spec], request, shards, again))
        self.say_left([spec.task_id])

    def say_left(self, task_ids: list[bytes]) -> None:
        """Tell the shards of generators that were left, for further runs on other nodes."""
        node = self.node
        for task_id in task_ids:
            if (count := node.generators.left.get(task_id, 0)) and not node.is_embedded:
                message = gcs.AddLocations(node.address, [], drawn=[(task_id, count)])
                node.send(node.addresses.shard_of(task_id), message)

    def record_again(self, spec: TaskSpec) -> None:
        """Record a task that is held again, at once after its arguments: the shard may have dropped the record."""
        self.flush()
        self.record_one(spec, self.node.acks.next_request() if len(self.node.addresses.shards) > 1 else 0)

    def settled(self, request: int) -> int:
        """Acknowledge the request too after all records sent so far.  Returns the number of replies to expect."""
        if not self.owed:
            return 0
        self.owed[next(reversed(self.owed))].requests.append(request)
        return 1

    def let_go(self, object_ids: list[bytes]) -> None:
        """Release objects at the shards, after the records sent before."""
        if not self.owed:
            self._release(object_ids)
            return
        self._owe_no_more(object_ids)
        last = self.owed[next(reversed(self.owed))]
        for object_id in object_ids:
            last.object_ids[object_id] = None
            self.owed_by_object[object_id] = last

    def held_again(self, object_ids: list[bytes]) -> None:
        """Cancel pending releases of objects that are held again."""
        for object_id in object_ids if self.node.objects.by_death else ():
            self.node.objects.by_death.pop(object_id, None)
        self._owe_no_more(object_ids)

    def _owe_no_more(self, object_ids: list[bytes]) -> None:
        if self.owed_by_object:
            for object_id in object_ids:
                owed = self.owed_by_object.pop(object_id, None)
                if owed is not None:
                    del owed.object_ids[object_id]

    def expect_more(self, request: int, count: int) -> None:
        """Expect further replies to a request, which was sent again in parts."""
        if request in self.unheard:
            self.unheard[request] += count
        if request in self.owed:
            self.owed[request].missing += count

    @on(gcs.RecordTasksReply)
    def on_recorded(self, message: gcs.RecordTasksReply) -> None:
        """RecordTasksReply: the records now keep the arguments of the tasks."""
        if message.request in self.unheard:
            self.unheard[message.request] -= 1
            if not self.unheard[message.request]:
                del self.unheard[message.request]
        self.node.acks.acknowledged(message.request)
        owed = self.owed.get(message.request)
        if owed is None:
            return
        owed.missing -= 1
        gone: list[bytes] = []
        settled: list[int] = []
        while self.owed:
            request = next(iter(self.owed))
            if self.owed[request].missing:
                break
            done = self.owed.pop(request)
            gone += done.object_ids
            settled += done.requests
        for object_id in gone:
            del self.owed_by_object[object_id]
        self._release(gone)
        for request in settled:
            self.node.acks.acknowledged(request)

    def _release(self, object_ids: list[bytes]) -> None:
        known = self.node.objects.by_death
        if known:
            by_death = [object_id for object_id in object_ids if object_id in known]
            object_ids = [object_id for object_id in object_ids if object_id not in known]
            for object_id in by_death:
                known.pop(object_id, None)
            self._send_releases(by_death, by_death=True)
        self._send_releases(object_ids)

    def _send_releases(self, object_ids: list[bytes], *, by_death: bool = False) -> None:
        for shard, ids in self.node.addresses.by_shard(object_ids).items():
            for part in limits.portions(ids):
                self.node.send(shard, gcs.ReleaseAtNode(self.node.address, part, by_death))

    @on(gcs.LineageNeeded, gcs.LineageNeededReply, gcs.LineageMoved)
    def on_lineage_between_shards(self, message: gcs.LineageNeeded | gcs.LineageNeededReply | gcs.LineageMoved) -> None:
        """A request or an answer of a shard to another is passed on."""
        shards = self.node.addresses.shards
        number = message.target if type(message) is gcs.LineageNeeded else message.source
        if number < len(shards):
            self.node.send(shards[number], message)
        else:
            self.node.reject("a word for a shard that there is not")
