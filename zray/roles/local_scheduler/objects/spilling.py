"""Spill objects from the arena to the node's disk, and restore them (docs/design/storage.md).

    object manager    SpillWanted        so many bytes are lacking, or in use beyond the threshold
    -> driver, worker ReturnPlaces       the process forgets the places of values not being read -> UnpinObjects
    -> GCS shard      HoldAtNode, AddLocations    the object is known to the shard before leaving the arena
    -> object manager SpillObjects -> ObjectsSpilled -> EvictObjects
    any reader        restore            FetchObject from this node -> ObjectFetched (fetches.py)

An object on disk is like an object on another node: the entry has no value, and tasks and processes wait for the copy.
So an unreadable copy on disk is a lost copy: another node has a copy, or the shard has the object reconstructed.

Rule 1: An object leaves the arena least recently used first.  An object stays while a process knows the place, or while
the object is kept for a task that has not begun (`ObjectTable.restored`).

Rule 2: Restored arguments of such tasks fill half of the store at most, unless nothing else goes on.  So the first
tasks get all arguments, and no argument is restored twice for one task.

Rule 3: A task that was ready, and whose argument has left, waits again (`lacks`).

Rule 4: While a process waits for a restored value, nothing is written ahead of need: both would share the disk.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING

from ....wire.limits import portions
from ....wire.objects import InlineRead, ReadInline, ReturnPlaces
from ....wire.task_spec import StoredValue
from ...kept import Latest
from ...role import on
from ...work_effects import EvictObjects, NothingLeaves, ObjectsSpilled, SpilledCopyLost, SpillObjects, SpillWanted
from ..task import Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Process
    from .table import ObjectEntry

# At least so much is written at a time: small objects share a file (spill_files.FILE_BYTES_MAX).
WRITE_BYTES_MIN = 32 << 20
# A process that did not return a place is asked again after so long: it may have read the value meanwhile.
RETURN_SECONDS = 0.25
# After a failed write nothing is written for so long, unless objects on disk were freed.
REFUSED_SECONDS = 1.0
# Objects that are looked at in a turn, of those that nobody reads.
LOOKED_AT_MAX = 1_000
# Calls of an actor whose arguments are kept.
CALLS_LOOKED_AT_MAX = 64
# Tasks whose arguments are kept in the arena.
MAY_BEGIN = (TaskState.WAITING, TaskState.READY, TaskState.CALL)
# Lost copies whose reason is remembered for the error of the object.
LOST_MAX = 1_000


class Spilling:
    """Objects of a node that are on disk, or on the way."""

    PASSING = {"writing to_restore pullers asked_for": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.wanted = 0  # bytes that are lacking
        self.is_lacking = False  # and a writer or a pull waits for them
        self.writers: frozenset[str] = frozenset()  # the processes that wait for them
        self.is_filling = False  # places are told to processes only when they ask
        self.writing: dict[bytes, int] = {}  # bytes of those that are to have a copy on disk
        self.to_restore: dict[bytes, None] = {}  # for tasks, in order
        self.pullers: dict[bytes, list[str]] = {}  # object managers that wait for one to be restored
        self.asked_for: dict[bytes, float] = {}  # values whose places are to be returned: when that was said
        self.timer_is_set = False
        self.said_at = -RETURN_SECONDS  # NothingLeaves, last
        self.refused_at = -REFUSED_SECONDS
        self.lost: Latest[bytes, str] = Latest(LOST_MAX)  # why copies on disk could not be read

    # --- out of the arena ---

    @on(SpillWanted)
    def on_spill_wanted(self, message: SpillWanted) -> None:
        """SpillWanted."""
        self.wanted, self.is_filling, self.is_lacking = message.size, message.is_filling, message.is_lacking
        self.writers = message.writers
        if not self.wanted:
            self.asked_for.clear()

    def end_turn(self) -> None:
        """Spill, restore and answer what this turn has made possible."""
        if self.pullers:
            self._answer_pullers()  # before the values leave again: what is being read stays
        if self.wanted and (self.is_lacking or not self._is_read_from_disk()):
            self._make_room()
        if self.to_restore and not self.is_lacking:  # else what is evicted for others would come back at once
            self._restore_some()

    def _is_read_from_disk(self) -> bool:
        """Return whether a process waits for a value that is being restored."""
        on_disk = self.node.objects.on_disk
        return any(is_urgent and object_id in on_disk for object_id, is_urgent in self.node.fetches.ordered.items())

    def _make_room(self) -> None:
        node, objects = self.node, self.node.objects
        lacking = self.wanted - sum(self.writing.values())
        evicted: list[ObjectEntry] = []
        written: list[ObjectEntry] = []
        may_write = node.now - self.refused_at >= REFUSED_SECONDS
        logs_read = self._logs_read()
        more = 0  # to be written beyond what is lacking
        for object_id in list(islice(objects.unread, LOOKED_AT_MAX)) if lacking > 0 else ():
            if lacking <= 0 and (not written or more >= WRITE_BYTES_MIN):
                break
            entry = objects.entries.get(object_id)
            if entry is None or type(entry.value) is not StoredValue or object_id in objects.pins:
                objects.unread.pop(object_id)
                continue
            if not self._may_leave(entry, logs_read):
                objects.is_unread(object_id)  # behind the others
                continue
            size = entry.value.size
            if object_id in objects.on_disk:
                if lacking > 0:
                    evicted.append(entry)
                    lacking -= 0 if entry.value.segment else size
            elif may_write:
                more += size if lacking <= 0 else 0
                written.append(entry)
                self.writing[object_id] = size
                lacking -= size
        self._evict(evicted)
        if written:
            self._share_first([entry.object_id for entry in written])
        is_stuck = lacking > 0 and not self._ask_for_places(lacking) and not (evicted or self.writing)
        if is_stuck and self.is_lacking and not self._evict_kept(lacking):
            is_new = node.now - self.said_at >= RETURN_SECONDS
            if is_new and objects.pins and not self._taken_by_running(self.writers):  # readers were asked in vain
                self.said_at = node.now
                node.send(node.addresses.object_manager, NothingLeaves())

    def _evict_kept(self, lacking: int) -> bool:
        """Evict arguments that are kept for the last tasks in the line, since nothing else can leave.

        Arguments of the task that awaits the next object are spared: otherwise the task could never begin.  Returns
        whether any argument was evicted.
        """
        evicted: list[ObjectEntry] = []
        node, objects = self.node, self.node.objects
        entries = objects.entries
        coming = [entries.get(object_id) for object_id in node.fetches.ordered if object_id in objects.on_disk]
        first = next((entry for entry in coming if entry is not None and entry.object_id in objects.restored), None)
        spared = set(objects.restored[first.object_id][1].spec.deps) if first is not None else set()
        for object_id in reversed(list(objects.restored)):
            entry = entries.get(object_id)
            if entry is None or object_id in spared or object_id in objects.pins or object_id not in objects.on_disk:
                continue
            if type(entry.value) is StoredValue:
                del objects.restored[object_id]
                evicted.append(entry)
                lacking -= entry.size
                if lacking <= 0:
                    break
        self._evict(evicted)
        return bool(evicted)

    def _may_leave(self, entry: ObjectEntry, logs_read: bool) -> bool:
        node, object_id = self.node, entry.object_id
        if object_id in self.writing or object_id in node.objects.restored or object_id in node.remote.unsaid:
            return False
        if entry.task is not None or entry.is_lost or entry.is_released:
            return False
        return not (self._is_in_file(entry) or (entry.count and logs_read))

    def may_be_lost(self, entry: ObjectEntry) -> bool:
        """Return whether nothing on this node relies on the copy: a task or actor that takes it, a log, or a write."""
        node, object_id = self.node, entry.object_id
        if object_id in self.writing or object_id in node.remote.unsaid or entry.task is not None or entry.is_lost:
            return False
        if not entry.count:
            return True
        takers = (*node.tasks.values(), *(actor.creation for actor in node.calls.actors.values()))
        return not self._logs_read() and not any(object_id in task.spec.deps for task in takers)

    def _is_in_file(self, entry: ObjectEntry) -> bool:
        """Return whether the only local copy lies in a file that processes map: spilling would win nothing."""
        is_mapped = type(entry.value) is StoredValue and entry.value.segment > 0
        return is_mapped and entry.object_id not in self.node.objects.on_disk

    def _logs_read(self) -> bool:
        """Return whether logs of actors may read and refer to objects at any time."""
        return bool(self.node.logs.copies or self.node.logs.touched) or any(
            actor.journal is not None for actor in self.node.calls.actors.values()
        )

    def _share_first(self, object_ids: list[bytes]) -> None:
        """Write the objects after the shards have acknowledged this node's copies and the records of the creating
        tasks.
        """
        node = self.node
        node.lineage.flush()
        request = node.acks.next_request()
        expected = node.remote._share(object_ids, request)

        def write() -> None:
            there = [object_id for object_id in object_ids if object_id in node.objects.entries]
            for object_id in object_ids:
                if object_id not in node.objects.entries:
                    self.writing.pop(object_id, None)
            if there:
                node.send(node.addresses.object_manager, SpillObjects(there))

        node.acks.expect(request, expected, write)

    @on(ObjectsSpilled)
    def on_objects_spilled(self, message: ObjectsSpilled) -> None:
        """ObjectsSpilled: evict the spilled objects without readers."""
        objects = self.node.objects
        if message.reason:
            self.refused_at = self.node.now
            self.node.after(REFUSED_SECONDS, self._look_again)
        evicted: list[ObjectEntry] = []
        logs_read = self._logs_read()
        for object_id in message.gone:
            self.writing.pop(object_id, None)
        for object_id in message.object_ids:
            self.writing.pop(object_id, None)
            entry = objects.entries.get(object_id)
            if message.reason or entry is None:
                continue
            objects.on_disk[object_id] = None
            is_idle = type(entry.value) is StoredValue and object_id not in objects.pins
            if is_idle and self.wanted and self._may_leave(entry, logs_read):
                evicted.append(entry)
        self._evict(evicted)

    def _look_again(self) -> None:
        """Look again for lacking bytes at the end of this turn."""
        self.timer_is_set = False

    def _evict(self, entries: list[ObjectEntry]) -> None:
        for entry in entries:
            self.node.objects.unread.pop(entry.object_id, None)
            entry.spilled()
        if entries:
            order = EvictObjects([entry.object_id for entry in entries])
            self.node.send(self.node.addresses.object_manager, order)

    def _ask_for_places(self, lacking: int) -> bool:
        """Have processes return the places of values not being read: values that were told first come first.

        Returns whether any place is expected: a value asked for in vain is being read.
        """
        node, pins, asked_for = self.node, self.node.objects.pins, self.asked_for
        for object_id in [object_id for object_id in asked_for if object_id not in pins]:
            del asked_for[object_id]
        fresh = [object_id for object_id, when in asked_for.items() if node.now - when < RETURN_SECONDS]
        expected = sum(self._size_if_large(object_id) for object_id in fresh)
        asked: dict[Process, list[bytes]] = {}
        taken = self._taken_by_running()
        for object_id, readers in pins.items():
            if expected >= lacking:
                break
            size = 0 if object_id in asked_for or object_id in taken else self._size_if_large(object_id)
            if size:
                asked_for[object_id] = node.now
                expected += size
                for process in readers:
                    asked.setdefault(process, []).append(object_id)
        for process, object_ids in asked.items():
            for portion in portions(object_ids):
                node.send(process.address, ReturnPlaces(portion))
        if not expected:
            asked_for.clear()  # those that are read now may be asked for again
        if not self.timer_is_set:
            self.timer_is_set = True
            node.after(RETURN_SECONDS, self._look_again)
        return expected > 0

    def _taken_by_running(self, but: Collection[str] = ()) -> set[bytes]:
        """Return the arguments of tasks and calls that workers have: workers do not return these places.

        but: addresses of processes that wait for space.  A worker that waits in its only task or call is left out.
        """
        begun: list[Task] = []
        for worker in self.node.pool.workers.values():
            frames, calls = [frame.task for frame in worker.frames if frame.task is not None], [*worker.calls()]
            if worker.address not in but or len(calls) > 1:
                begun += (*worker.inflight, *frames, *calls)
        return {object_id for task in begun for object_id in task.spec.deps}

    def _size_if_large(self, object_id: bytes) -> int:
        """Return the bytes of a value in the arena that may leave once nobody reads the value; 0: the value may not
        leave.
        """
        entry = self.node.objects.entries.get(object_id)
        is_large = entry is not None and type(entry.value) is StoredValue and not self._is_in_file(entry)
        return entry.size if entry is not None and is_large and entry.task is None else 0

    # --- back into the arena ---

    def restore(self, entry: ObjectEntry, *, is_urgent: bool) -> None:
        """Bring an object back from disk; for a process at once, for a task when there is space (rule 2)."""
        assert entry.shared is not None
        if is_urgent:
            self.to_restore.pop(entry.object_id, None)
            self.node.fetches.begin(entry, entry.shared, is_urgent=True)
        elif entry.shared.is_on_disk:
            self.to_restore[entry.object_id] = None

    def _restore_some(self) -> None:
        """Order the lacking arguments of the first tasks, and keep all arguments of these tasks, as far as half of the
        store suffices.
        """
        node, objects, entries = self.node, self.node.objects, self.node.objects.entries
        room = node.load.store_bytes // 2 - self._kept_bytes()
        # Kept arguments may be those of calls that wait for earlier calls: so one more comes whenever nothing goes on.
        is_idle = not node.dispatch.ready_count and not any(item in objects.on_disk for item in node.fetches.ordered)
        served: set[bytes] = set()
        for object_id in list(self.to_restore):
            entry = entries.get(object_id)
            if entry is None or not entry.is_on_disk:
                self.to_restore.pop(object_id, None)
                continue
            task = next((task for task in entry.waiting_tasks() if task.state != TaskState.DONE), None)
            if task is None:
                if entry.waiting and entry.shared is not None:  # a step of an actor's log
                    node.fetches.begin(entry, entry.shared)
                del self.to_restore[object_id]
                continue
            actor = node.calls.actors.get(task.options.actor_id)
            if actor is not None and actor.actor_id in served:
                continue
            served.add(task.options.actor_id)
            # Calls begin in order: what the first ones take comes before what a later one lacks.
            for following in islice(actor.queue, CALLS_LOOKED_AT_MAX) if actor is not None else (task,):
                taken = [entries[taken_id] for taken_id in dict.fromkeys(following.spec.deps)]
                if not all(map(_is_made, taken)):
                    if actor is None:
                        del self.to_restore[object_id]  # `argument_is_here` comes back to it
                    break
                size = sum(each.size for each in taken if each.object_id not in objects.restored)
                if size > room and objects.restored and not is_idle:
                    return
                room, is_idle = room - size, is_idle and not size
                for each in taken:
                    self._keep(each, following)

    def _keep(self, entry: ObjectEntry, task: Task) -> None:
        """Keep an argument of a task in the arena until the task begins, and order an argument that is on disk."""
        objects = self.node.objects
        self.to_restore.pop(entry.object_id, None)
        if type(entry.value) is StoredValue or entry.object_id in objects.on_disk:
            objects.restored[entry.object_id] = (entry.size, task)
        if entry.shared is not None and entry.is_on_disk:
            self.node.fetches.begin(entry, entry.shared)

    def _kept_bytes(self) -> int:
        """Return the bytes of arguments kept for tasks; stop keeping the arguments of tasks that are gone."""
        restored, tasks = self.node.objects.restored, self.node.tasks
        for object_id, (_, task) in list(restored.items()):
            if tasks.get(task.spec.task_id) is not task or task.state not in MAY_BEGIN:
                del restored[object_id]
        return sum(size for size, _ in restored.values())

    def argument_is_here(self, task: Task) -> None:
        """Restore a task's arguments from disk, once all arguments are made.

        Arguments that were here when the task came may have left since, so their number is not that of missing ones.
        """
        taken = [self.node.objects.entries[object_id] for object_id in task.spec.deps]
        if all(map(_is_made, taken)):
            self.to_restore.update((entry.object_id, None) for entry in taken if entry.is_on_disk)

    def lacks(self, task: Task) -> bool:
        """Return whether an argument of a task that could begin has left the arena: the task then waits for the
        restored copy.
        """
        entries = self.node.objects.entries
        if all(entries[object_id].value is not None for object_id in task.spec.deps):
            return False
        self.node.trips.wait_again(task)
        for object_id in dict.fromkeys(task.spec.deps):
            entry = entries[object_id]
            if entry.value is None:
                self.node.remote.want(entry)
        return True

    # --- for other nodes ---

    def pulled(self, message: ReadInline) -> None:
        """Restore an object on disk first when another node pulls the object."""
        entry = self.node.objects.entries[message.object_id]
        self.pullers.setdefault(message.object_id, []).append(message.puller)
        self.node.remote.want(entry, is_urgent=True)

    def _answer_pullers(self) -> None:
        entries = self.node.objects.entries
        for object_id, pullers in list(self.pullers.items()):
            entry = entries.get(object_id)
            if entry is not None and entry.value is None and object_id in self.node.objects.on_disk:
                self.node.remote.want(entry, is_urgent=True)  # it may have been stopped
                continue
            del self.pullers[object_id]
            contained = entry.contained if entry is not None else ()
            for puller in pullers:
                self.node.send(self.node.addresses.object_manager, InlineRead(object_id, puller, None, contained))

    # --- lost ---

    @on(SpilledCopyLost)
    def on_copy_lost(self, message: SpilledCopyLost) -> None:
        """SpilledCopyLost: the shard knows of one copy less; FetchFailed, next, has the other nodes asked
        for a copy.
        """
        objects, object_id = self.node.objects, message.object_id
        objects.on_disk.pop(object_id, None)
        objects.restored.pop(object_id, None)
        self.lost[object_id] = message.reason
        entry = objects.entries.get(object_id)
        if entry is not None and entry.shared is not None and entry.is_on_disk:  # nobody waits for it any more
            entry.shared.failed()
            self.node.fetches.is_lost_on_disk(entry)

    def check_everything(self) -> None:
        """Assert that entries on disk and their copies agree."""
        objects = self.node.objects
        for entry in objects.entries.values():
            if entry.shared is not None and entry.shared.is_on_disk:
                assert entry.value is None and entry.object_id in objects.on_disk, "an object on disk without a copy"


def _is_made(entry: ObjectEntry) -> bool:
    """Return whether the value of an argument is local, or being fetched, or on disk."""
    return entry.is_here or (entry.shared is not None and entry.shared.is_fetching)
