"""Table of a node's objects: values, references and pins (docs/design/references.md).

An entry lives as long as anything on this node refers to the object: a process (`holders`), or a task, a containing
object, a wait (`count`).  When nothing does, the entry goes, then the contained objects, iteratively.  A large value's
range is freed when no process reads the value any more (`pins`).  Deaths are collected in the table, and acted upon at
the end of the turn (`freed_places`, `freed_recorded`, `freed_shared`, `freed_actors`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ....ids import FIRST_RETURN
from ....wire.task_spec import StoredValue
from ...kept import Latest
from ..task import Task
from .sharing import LOST, Shared

if TYPE_CHECKING:
    from ..tables import Process
    from .waits import Wait

# Values of no more bytes are not counted (small_values): an entry and its task weigh as much.
SMALL_BYTES_MAX = 1024
# Large values that are known by the place in the program that made them, also of those that are gone.
MADE_MAX = 10_000


class ObjectEntry(Struct, gc=False, eq=False):
    """Object as this node sees it.

    holders: the processes with refs on the object: None, one Process, or a set of several.
    count: queued and running tasks that take the object, stored objects that contain the object, and waits.
    shared: None until other nodes may know the object; from then on the shard decides the object's end.

    Each field costs 8 bytes per object, in steps of 16.
    """

    object_id: bytes
    holders: Any = None
    value: bytes | StoredValue | None = None  # None: not here
    count: int = 0
    task: Any = None  # the Task that makes it, while unfinished here
    waiting: Any = None  # list of Tasks, and of Steps of actors' logs (copies)
    watchers: Any = None  # list of Waits
    contained: tuple[bytes, ...] = ()
    pushed_to: Any = None  # the Process that was sent the value when it came
    shared: Shared | None = None
    is_recorded: bool = False  # the shard has its task's spec
    actor: Any = None  # the Actor whose handles are refs on this object

    def share(self) -> Shared:
        """Let other nodes know the object from now on."""
        shared = self.shared
        if shared is None:
            shared = self.shared = Shared()
        return shared

    def share_unheld(self) -> Shared:
        """Let other nodes know the object; without local refs, this node is not among the holders."""
        shared = self.share()
        if self.holders is None and not self.count:
            shared.releases()
        return shared

    def waiting_tasks(self) -> list[Task]:
        """Return the tasks that wait for the value."""
        return [waiter for waiter in self.waiting or () if isinstance(waiter, Task)]

    @property
    def is_released(self) -> bool:
        """Return whether this node has let go of the object, and only the shard's word is awaited."""
        return self.shared is not None and self.shared.is_released

    @property
    def is_lost(self) -> bool:
        """Return whether the value is the error for a lost object."""
        return self.shared is not None and self.shared.copy is LOST

    @property
    def is_elsewhere(self) -> bool:
        """Whether a copy on another node is known."""
        return self.shared is not None and bool(self.shared.locations)

    @property
    def size(self) -> int:
        """Return the bytes of a large value that is local or known; 0: not known."""
        if type(self.value) is StoredValue:
            return self.value.size
        return max(0, self.shared.size) if self.value is None and self.shared is not None else 0

    def waits(self, waiter: Any) -> None:
        """Have a task, or a step of an actor's log, wait for the value."""
        if self.waiting is None:
            self.waiting = [waiter]
        else:
            self.waiting.append(waiter)

    def wait_no_more(self, doomed: Container[int]) -> None:
        """Take waiters out, by `id`."""
        self.waiting = [waiter for waiter in self.waiting or () if id(waiter) not in doomed] or None

    def take_waiting(self) -> Any:
        """Take out all that waits for the value."""
        waiting, self.waiting = self.waiting, None
        return waiting

    def take_contained(self) -> tuple[bytes, ...]:
        """Take out the refs inside; the caller drops them."""
        contained, self.contained = self.contained, ()
        return contained

    def came(self, value: bytes | StoredValue) -> Any:
        """Set the value, which has come; return the waiters."""
        self.value = value
        waiting, self.waiting = self.waiting, None
        return waiting

    def spilled(self) -> None:
        """Note a value that has left the arena for this node's disk."""
        shared = self.share()
        shared.lies_at(shared.locations, self.value.size)  # type: ignore[union-attr]
        shared.spilled()
        self.value = None
        self.pushed_to = None

    @property
    def is_on_disk(self) -> bool:
        """Whether the value lies in a spill file of this node, and nothing is ordered."""
        return self.shared is not None and self.shared.is_on_disk

    @property
    def is_here(self) -> bool:
        """Whether this node has the value, in memory or in a spill file."""
        return self.value is not None or self.is_on_disk

    def held_by_none(self) -> None:
        """Drop all refs of processes, where a task has no return."""
        self.holders = None

    def made_by(self, task: Task | None) -> None:
        """Note the task that makes the object; None: no task of this node does."""
        self.task = task

    def leads_to(self, actor: Any) -> None:
        """Make the object the handle of an Actor of this node, or of a Route to another; None: of no actor."""
        self.actor = actor

    def pushed(self, process: Process | None) -> None:
        """Note the process that is being sent the value; None: the value that was sent is no more."""
        self.pushed_to = process

    def recorded(self) -> None:
        """Note that the shard has the spec of the object's task."""
        self.is_recorded = True

    def watched(self, wait: Wait) -> None:
        """Have a wait of a process watch for the value."""
        if self.watchers is None:
            self.watchers = [wait]
        else:
            self.watchers.append(wait)

    def unwatched(self, wait: Wait) -> None:
        """Take a wait out, if the wait watches."""
        if self.watchers is not None and wait in self.watchers:
            self.watchers.remove(wait)

    def take_watchers(self) -> list[Wait]:
        """Take out the waits that watch for the value."""
        watchers, self.watchers = self.watchers, None
        return watchers or []


class ObjectTable:
    """Entries by id."""

    LASTING = {"made": "MADE_MAX"}
    PASSING = {"entries pins": None, "dying": "pins", "revivable": "dying"} | {
        "unread on_disk restored freed_places freed_recorded freed_shared freed_actors by_death bereft_actors": None,
        "unheld rejoined abandoned thinned": None,
    }

    def __init__(self) -> None:
        self.small_max = SMALL_BYTES_MAX
        self.inline_bytes = 0  # of values and arguments that are larger, and are here
        self.entries: dict[bytes, ObjectEntry] = {}
        # object -> process -> how often it was told the place.  Only large values.
        self.pins: dict[bytes, dict[Process, int]] = {}
        # Large values here that no process was told the place of, least recently used first; some have gone since.
        self.unread: dict[bytes, None] = {}
        self.made: Latest[bytes, str] = Latest(MADE_MAX)  # how large values are made, for the user
        self.on_disk: dict[bytes, None] = {}  # those with a copy in a spill file of this node
        # Those that are kept for tasks which have not begun: bytes, and the task.
        self.restored: dict[bytes, tuple[int, Task]] = {}
        self.dying: dict[bytes, StoredValue] = {}  # freed but still pinned
        self.revivable: dict[bytes, tuple[bytes, ...]] = {}  # those of them that may be a value again: the refs inside
        self.freed_places: list[bytes] = []
        self.freed_recorded: deque[bytes] = deque()
        self.freed_shared: list[bytes] = []
        self.freed_actors: list[Any] = []  # Actors of ours, Routes to others
        self.bereft_actors: list[Any] = []  # the same, where a process has died with the last handle
        self.thinned: dict[bytes, None] = {}  # handles of actors that have lost a holder in this turn, and have others
        self.are_traced = False  # handles that are let go of are noted as well
        self.is_by_death = False  # what is freed now goes with a process that has died
        self.unheld: list[bytes] = []  # known to others, and of a task that runs here again: nobody here wants them
        self.by_death: dict[bytes, None] = {}  # of `freed_shared`, and the shard has not heard of it: those that did
        self.abandoned: list[Task] = []  # unfinished tasks to a return of which nothing refers
        self.rejoined: list[bytes] = []  # shared objects that this node let go of, and holds again

    def require(self, object_id: bytes) -> ObjectEntry:
        """Return the entry; a new entry for an object that this node has not heard of."""
        entry = self.entries.get(object_id)
        if entry is None:
            entry = self.entries[object_id] = ObjectEntry(object_id)
        return entry

    # --- references ---

    def hold(self, entry: ObjectEntry, process: Process) -> None:
        """Note that the process has refs on the object."""
        if entry.shared is not None:
            self._rejoin(entry, entry.shared)
        holders = entry.holders
        if holders is None:
            entry.holders = process
        elif holders is not process:
            if type(holders) is set:
                holders.add(process)
            else:
                entry.holders = {holders, process}

    def processes_that_hold(self, entry: ObjectEntry) -> list[Process]:
        """Return the processes with refs on the object, in order of address."""
        holders = entry.holders
        if type(holders) is set:
            return sorted(holders, key=lambda process: process.address)
        return [] if holders is None else [holders]

    def is_held_by(self, entry: ObjectEntry, process: Process) -> bool:
        """Return whether the process has refs on the object."""
        holders = entry.holders
        return holders is process or (type(holders) is set and process in holders)

    def release(self, entry: ObjectEntry, process: Process) -> None:
        """Release the process's last ref on the object."""
        holders = entry.holders
        if entry.pushed_to is process:
            entry.pushed_to = None  # should it come back for it, it is sent again
        if holders is process:
            entry.holders = None
        elif type(holders) is set and process in holders:
            holders.discard(process)
            if not holders:
                entry.holders = None
        else:
            return
        if entry.holders is None and not entry.count:
            self._free(entry)
        elif entry.actor is not None or entry.shared is not None:
            self._thins(entry)

    def release_all(self, object_ids: Iterable[bytes], process: Process) -> None:
        """Release the process's last refs on the objects; ignore objects without an entry."""
        entries, freed_recorded, small_max = self.entries, self.freed_recorded, self.small_max
        for object_id in object_ids:
            entry = entries.get(object_id)
            if entry is None:
                continue
            # Nearly all are small values that nobody else knows of or takes: `release`, in short.
            if (
                type(entry.value) is bytes
                and len(entry.value) <= small_max
                and entry.holders is process
                and not (entry.count or entry.contained)
                and entry.task is entry.shared is entry.actor is None
            ):
                entry.value = None
                del entries[object_id]
                if entry.is_recorded:
                    freed_recorded.append(object_id)
            else:
                self.release(entry, process)

    def retain(self, object_id: bytes) -> ObjectEntry:
        """Count a task, a containing object or a wait that refers to the object."""
        entry = self.require(object_id)
        if entry.shared is not None:
            self._rejoin(entry, entry.shared)
        entry.count += 1
        return entry

    def _rejoin(self, entry: ObjectEntry, shared: Shared) -> None:
        """Tell the shard that the object is held, where the shard has heard the opposite."""
        if shared.holds():
            self.rejoined.append(entry.object_id)

    def drop(self, object_id: bytes) -> None:
        """Undo one retain."""
        entry = self.entries[object_id]
        entry.count -= 1
        if not entry.count and entry.holders is None:
            self._free(entry)
        elif entry.actor is not None or entry.shared is not None:
            self._thins(entry)

    def drop_all(self, object_ids: Iterable[bytes]) -> None:
        """Undo several retains."""
        for object_id in object_ids:
            self.drop(object_id)

    def release_process(self, process: Process, handles: list[ObjectEntry] | None = None) -> Iterator[None]:
        """Release everything that a dead process held or read, in steps.  Costs a walk over all entries: deaths are
        rare.

        handles: a list for a process that did not end in order; receives the process's actor handles that still have
        entries.
        """
        self._unpin_all(process)
        for entry in list(self.entries.values()):
            if entry.pushed_to is process:
                entry.pushed_to = None
            if entry.holders is not None and self.is_held_by(entry, process):
                self.is_by_death = handles is not None
                self.release(entry, process)
                self.is_by_death = False
                if handles is not None and entry.actor is not None:
                    handles.append(entry)
            yield
        self._unpin_all(process)  # what came meanwhile it was told the place of, as a holder

    def _unpin_all(self, process: Process) -> None:
        for object_id, readers in list(self.pins.items()):
            if process in readers:
                self.unpin(object_id, process, readers[process])

    def free_if_unreferenced(self, entry: ObjectEntry) -> None:
        """Free the object after the end of the task, if nothing refers to the object."""
        if entry.holders is None and not entry.count and self.entries.get(entry.object_id) is entry:
            self._free(entry)

    def _free(self, entry: ObjectEntry) -> None:
        doomed = [entry]
        while doomed:
            entry = doomed.pop()
            if entry.task is not None:
                # Unfinished: freed when it finishes (tasks run though nobody wants the result).
                if entry.shared is not None:
                    self.unheld.append(entry.object_id)
                elif entry.task.job.facts.cancels_unreferenced:
                    self.abandoned.append(entry.task)
                continue
            shared = entry.shared
            if shared is not None:
                # The shard says when the copies go; this node only lets go of its hold.
                if not shared.is_released:
                    self.let_go(entry, shared)
                continue
            for contained in self._forget(entry):
                inner = self.entries[contained]
                inner.count -= 1
                if not inner.count and inner.holders is None:
                    doomed.append(inner)
                elif inner.actor is not None or inner.shared is not None:
                    self._thins(inner)

    def let_go(self, entry: ObjectEntry, shared: Shared) -> None:
        """Note for the shard that this node holds the object no more."""
        shared.releases()
        self.freed_shared.append(entry.object_id)
        if self.is_by_death:
            self.by_death[entry.object_id] = None
        if self.are_traced:
            self._thins(entry)

    def _thins(self, entry: ObjectEntry) -> None:
        """Note that a handle has lost a holder.  Handles from other nodes are not known as such before a call."""
        if entry.actor is not None or (entry.object_id[-4:] == FIRST_RETURN and entry.task is None):
            self.thinned[entry.object_id] = None

    def _forget(self, entry: ObjectEntry) -> tuple[bytes, ...]:
        del self.entries[entry.object_id]
        if type(entry.value) is StoredValue:
            self.free_place(entry.object_id, entry.value)
            if entry.object_id in self.pins:
                self.revivable[entry.object_id] = entry.contained
        elif entry.object_id in self.on_disk:
            self.restored.pop(entry.object_id, None)
            self.freed_places.append(entry.object_id)
        if entry.is_recorded:
            self.freed_recorded.append(entry.object_id)
        if entry.actor is not None:
            (self.bereft_actors if self.is_by_death else self.freed_actors).append(entry.actor)
            entry.actor = None
        contained = entry.take_contained()
        self.forget_value(entry)
        return contained

    def free_place(self, object_id: bytes, value: StoredValue) -> None:
        """Free a large value that no entry has, when nobody reads the value any more."""
        self.unread.pop(object_id, None)
        self.restored.pop(object_id, None)
        if object_id in self.pins:
            self.dying[object_id] = value
        else:
            self.freed_places.append(object_id)

    def place(self, entry: ObjectEntry, value: bytes | StoredValue) -> None:
        """Note a value for which nobody waits."""
        entry.value = value
        if type(value) is bytes and len(value) > self.small_max:
            self.inline_bytes += len(value)

    def forget_value(self, entry: ObjectEntry) -> None:
        """Remove the value from the entry.  The range of a large value is freed elsewhere."""
        value = entry.value
        if type(value) is bytes and len(value) > self.small_max:
            self.inline_bytes -= len(value)
        entry.value = None

    def forget_released(self, entry: ObjectEntry) -> None:
        """Forget an object that this node has let go of, without a copy for the shard to free."""
        entry.is_recorded = False
        self.drop_all(self._forget(entry))

    def free_copy(self, entry: ObjectEntry, *, by_death: bool = False) -> None:
        """Free the copy on the shard's word: no node holds the object. by_death: as in FreeCopies."""
        is_made_quietly = entry.task is not None and entry.task.is_quiet
        entry.shared = None
        if is_made_quietly:
            # The word was about an earlier run's value; this one is not the shard's business.
            entry.share().told_to(origin_alone=True)
        entry.is_recorded = False
        self.is_by_death = by_death
        self.free_if_unreferenced(entry)
        self.is_by_death = False

    # --- values ---

    def contain(self, entry: ObjectEntry, contained: tuple[bytes, ...]) -> None:
        """Note the refs inside the entry's value."""
        if contained and not entry.contained:
            for object_id in contained:
                self.retain(object_id)
            entry.contained = contained

    # --- pins ---

    def pin(self, object_id: bytes, process: Process) -> None:
        """Note that the process is being told the place."""
        if self.restored:
            self.restored.pop(object_id, None)
        readers = self.pins.setdefault(object_id, {})
        readers[process] = readers.get(process, 0) + 1

    def unpin(self, object_id: bytes, process: Process, count: int) -> bool:
        """End `count` tellings of the place: the process no longer reads the value.  False: the process was
        never told.
        """
        readers = self.pins.get(object_id)
        if readers is None or process not in readers:
            return False
        readers[process] -= count
        if readers[process] <= 0:
            del readers[process]
            if not readers:
                del self.pins[object_id]
                if self.dies_no_more(object_id):
                    self.freed_places.append(object_id)
                else:
                    self.is_unread(object_id)
        return True

    def is_unread(self, object_id: bytes) -> None:
        """Note that nobody reads a large local value: the most recently used of the unread values."""
        self.unread.pop(object_id, None)
        self.unread[object_id] = None

    def take_freed_places(self) -> list[bytes]:
        """Take out the objects with free ranges, and forget the copies on disk."""
        freed, self.freed_places = self.freed_places, []
        for object_id in freed if self.on_disk else ():
            self.on_disk.pop(object_id, None)
        return freed

    def dies_no_more(self, object_id: bytes) -> bool:
        """Note that a dying object is an entry's value again, or gone.  False: the object was not dying."""
        self.revivable.pop(object_id, None)
        return self.dying.pop(object_id, None) is not None

    def claim(self, object_id: bytes, process: Process) -> StoredValue | None:
        """Tell the process the place of an object that may be dying.  None: the range is free, or about to be."""
        entry = self.entries.get(object_id)
        value = entry.value if entry is not None else None
        place = value if type(value) is StoredValue else self.dying.get(object_id)
        if place is not None:
            self.pin(object_id, process)
        return place

    # --- checks ---

    def check_everything(self) -> None:
        """Check that every entry is referred to, or unfinished, or another's to free."""
        for object_id, entry in self.entries.items():
            assert entry.object_id == object_id
            assert entry.count >= 0
            if entry.holders is None and not entry.count:
                assert entry.task is not None or entry.shared is not None, "an entry that nothing refers to"
            for contained in entry.contained:
                assert contained in self.entries, "a contained object is gone before its container"

    def statistics(self) -> dict[str, Any]:
        """Counts."""
        return {"objects": len(self.entries), "pinned": len(self.pins)}
