"""The tables of a GCS shard: tasks with their lineage, objects with holders and locations, functions, actors.

A task's record also records the first holder of its first return, and most tasks need nothing else.  A record lives
while a node holds one of the task's objects.  It also lives while a living record's task takes one of them
(`dependents`), here or in another shard (`keeping`).  So the lineage of every living object is kept (Ray paper 4.8).
Records are released iteratively.

Objects returned by a task that may run only once are not made again.  So a copy of such an object stays without a
holder while a living record's task takes it and may run again.  If the store lacks room, the copy is evicted
(`OfferCopies`).  Copies of objects that were made again stay likewise: other tasks that took objects of the same task
may be lost too, and one run serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b

from msgspec import Struct

from ...exceptions import ProtocolError
from ...ids import FIRST_RETURN, PUT_INDEX_FIRST, index_of, is_put, task_of
from ...wire.shards import SlotTable
from ...wire.task_spec import TaskSpec, parse_options
from .keeping import Keeping

# An estimate of a spec's bytes, besides its arguments, and of the bytes for each object that it names.
SPEC_BYTES = 400
NAMED_BYTES = 64


class Flushed(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The part of a flushed spec kept in memory (flushing.py): the place in the store, and frequently used fields."""

    place: int  # page << PLACE_BITS | number in it
    digest: int
    parents: tuple[bytes, ...]  # the objects that the task takes
    is_once: bool = False  # as `is_once`


PLACE_BITS = 16
# The place of a dropped spec: in a single-node session, no task is re-executed from records.
NOWHERE = -1
# The limit up to which a single-node session's shard keeps arguments; the node counts larger ones until the task has
# run.
ARGUMENTS_BYTES_MAX = 1024


def weight_of(spec: TaskSpec) -> int:
    """Estimate the spec's memory, in bytes."""
    return SPEC_BYTES + len(spec.args) + NAMED_BYTES * (len(spec.deps) + len(spec.holds))


def digest_of(spec: TaskSpec) -> int:
    """Return a digest of the task's function and arguments, in 60 bits (a larger number takes more memory)."""
    data = spec.function_id + len(spec.args).to_bytes(8, "big") + spec.args
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 4


class ObjectRecord(Struct, gc=False, eq=False):
    """Holders, copies and subscribers of an object."""

    object_id: bytes
    holders: dict[str, None]
    sizes: dict[str, int]  # node -> bytes of its copy
    subscribers: dict[str, None]

    def lies_at(self, node: str, size: int) -> None:
        """Record a node's copy."""
        self.sizes[node] = size

    def leaves(self, node: str) -> bool:
        """Forget a node's copy.  Returns whether the node had one."""
        return self.sizes.pop(node, None) is not None

    def held_by(self, node: str) -> None:
        """Add a holder."""
        self.holders[node] = None

    def awaited_by(self, node: str) -> None:
        """Add a subscriber."""
        self.subscribers[node] = None

    def awaited_no_more(self, node: str) -> None:
        """Remove a subscriber."""
        self.subscribers.pop(node, None)

    def take_subscribers(self) -> dict[str, None]:
        """Remove all subscribers, and return them."""
        subscribers, self.subscribers = self.subscribers, {}
        return subscribers


class TaskRecord(Struct, gc=False, eq=False):
    """A task: the spec (None: only objects are known yet), and the reasons to keep the record."""

    spec: TaskSpec | Flushed | None = None
    holder: str = ""  # the one node that holds the first return, while `objects` has no record of it
    dependents: int = 0  # living records whose tasks take an object of this one
    objects: dict[bytes, ObjectRecord] | None = None


class TaskTable:
    """Lineage and object directory of a shard.

    is_weighed: specs may be flushed from memory, so their memory is estimated.  is_alone: in an embedded session's
    node, where no task can ever be re-executed.
    """

    PASSING = {"records": None, "makers attempts drawn once pages": "records"}
    LASTING = {"keeping": ..., "needed": (lambda it: len(it.keeping.kept_for) if it.keeping else 0, "records")}

    def __init__(
        self,
        *,
        is_weighed: bool = False,
        is_alone: bool = False,
        free: Callable[[ObjectRecord], None] = lambda item: None,
    ) -> None:
        self.is_weighed = is_weighed
        self.is_alone = is_alone
        self.records: dict[bytes, TaskRecord] = {}
        # Task -> the node that has it in hand, until a result of it is somewhere: of tasks with `objects`.  For the
        # others it is the holder.  A hint: it may have done its work long ago, unseen, and is asked (losses).
        self.makers: dict[bytes, str] = {}
        # Task -> how often it has run again: for its workers' deaths and errors, as its nodes say, and for losses.
        self.attempts: dict[bytes, int] = {}
        self.drawn: dict[bytes, int] = {}  # items that programs have had of generators that they have left
        # Task -> how many of its `dependents`, of this shard, have tasks that may run once only.
        self.once: dict[bytes, int] = {}
        self.free = free  # its copies go: nobody holds it, and no more
        self.keeping: Keeping | None = None  # where there are several shards
        self.slots: SlotTable | None = None  # None: that of the cluster's birth
        self.unlike = 0  # tasks recorded again that ask for something else: their parents do not repeat themselves
        self.weight = 0  # of the specs in memory, in bytes
        self.pages: dict[int, int] = {}  # of the store -> how many specs of living records lie there
        # While a state is handed out in parts: the records as they were when that began (state.Frozen).
        self.frozen: dict[bytes, TaskRecord] | None = None

    def keep(self, shards: int, own: str, nodes: Iterable[str]) -> Keeping | None:
        """Begin to keep records needed by other shards; return None for a single shard.

        own: the local shard's name, with its number at the end; nodes: the present nodes, the last sender last.
        """
        if self.keeping is None and shards > 1:
            self.keeping = Keeping(int(own.rpartition("-")[2]), shards, self.slots)
            for node in nodes:
                self.keeping.met(node)
        return self.keeping

    def take_slots(self, table: SlotTable) -> None:
        """Take a newer table of slots."""
        self.slots = table
        if self.keeping is not None:
            self.keeping.take_slots(table)

    def changes(self, task_id: bytes, record: TaskRecord) -> None:
        """Copy the record into `frozen` before a change, if `frozen` still refers to it."""
        frozen = self.frozen
        if frozen is not None and frozen.get(task_id) is record:
            objects = {name: copy_of(item) for name, item in record.objects.items()} if record.objects else None
            frozen[task_id] = TaskRecord(record.spec, record.holder, record.dependents, objects)

    def require(self, task_id: bytes) -> TaskRecord:
        """Return the record, to change it; a new record for an unknown task."""
        record = self.records.get(task_id)
        if record is None:
            record = self.records[task_id] = TaskRecord()
        elif self.frozen is not None:
            self.changes(task_id, record)
        return record

    def is_end(self, object_id: bytes) -> bool:
        """Whether a task is over once this object of it is somewhere: puts, and items of generators, come before."""
        index = index_of(object_id)
        if index == 1 or index >= PUT_INDEX_FIRST:
            return index == 1
        record = self.records.get(task_of(object_id))
        spec = record.spec if record is not None else None
        return type(spec) is not TaskSpec or not parse_options(spec.options).is_generator

    def require_object(self, object_id: bytes) -> ObjectRecord:
        """Return the full record of an object, to change it; created if missing."""
        task_id = task_of(object_id)
        record = self.require(task_id)
        if record.objects is None:
            record.objects = {}
            if record.holder:
                self.makers[task_id] = record.holder
        item = record.objects.get(object_id)
        if item is None:
            item = record.objects[object_id] = ObjectRecord(object_id, {}, {}, {})
            if record.holder and object_id[-4:] == FIRST_RETURN:
                item.holders[record.holder] = None
                record.holder = ""
        return item

    def find_object(self, object_id: bytes) -> ObjectRecord | None:
        """Return the full record of an object, or None; the caller may change it."""
        task_id = task_of(object_id)
        record = self.records.get(task_id)
        if record is None or not record.objects:
            return None
        if self.frozen is not None:
            self.changes(task_id, record)
        return record.objects.get(object_id)

    def is_held(self, object_id: bytes) -> bool:
        """Whether any node holds the object."""
        return any(self.holders_of(object_id))

    def holders_of(self, object_id: bytes) -> Iterable[str]:
        """Return the nodes that hold the object."""
        record = self.records.get(task_of(object_id))
        if record is None:
            return ()
        if record.holder and object_id[-4:] == FIRST_RETURN:
            return (record.holder,)
        item = record.objects.get(object_id) if record.objects else None
        return item.holders if item is not None else ()

    def is_there(self, object_id: bytes) -> bool:
        """Whether a node holds the object, or a recorded task could make it."""
        record = self.records.get(task_of(object_id))
        is_made = record is not None and record.spec is not None and not is_put(object_id)
        return is_made or self.is_held(object_id)

    def record(self, spec: TaskSpec, node: str) -> None:
        """Record a spec, with the node as holder of the task's first return."""
        task_id = spec.task_id
        record = self.records.get(task_id)
        kept: TaskSpec | Flushed = spec
        if self.is_alone and len(spec.args) > ARGUMENTS_BYTES_MAX:
            kept = Flushed(NOWHERE, digest_of(spec), parents_of(spec), is_once(spec))
        if record is None:
            self.records[task_id] = TaskRecord(kept, node)
        else:
            if record.spec is None:
                if self.frozen is not None:
                    self.changes(task_id, record)
                record.spec = kept
                self.makers[task_id] = node
            else:
                if not _do_the_same(record.spec, spec):
                    self.unlike += 1  # the first one known stays; the node holds the object all the same
                if not record.holder and task_id not in self.makers:
                    self.makers[task_id] = node
                return self.hold(task_id + FIRST_RETURN, node)
            self.hold(task_id + FIRST_RETURN, node)
        if self.is_weighed:
            self.weight += weight_of(spec)
        for object_id in spec.deps:
            self.require(task_of(object_id)).dependents += 1
        for object_id in spec.holds:
            self.require(task_of(object_id)).dependents += 1
        if spec.deps or spec.holds:
            self.count_once(spec, 1)
        if self.keeping is not None:
            self.keeping.recorded(spec)
        return None

    def count_once(self, spec: TaskSpec | Flushed, step: int) -> None:
        """Count the arguments of a new spec (1), or of a removed spec (-1), if its task may run only once."""
        if is_once(spec):
            for object_id in parents_of(spec):
                task_id = task_of(object_id)
                count = self.once.get(task_id, 0) + step
                if count:
                    self.once[task_id] = count
                else:
                    del self.once[task_id]

    def is_made_by(self, task_id: bytes, node: str) -> None:
        """Record the node that is to make lost objects of a task again: one more attempt."""
        self.makers[task_id] = node
        self.attempts[task_id] = self.attempts.get(task_id, 0) + 1

    def made_no_more(self, task_id: bytes, *, was_granted: bool) -> None:
        """Forget the node that was to make a task's objects.  was_granted: the attempt was counted, and has not run."""
        del self.makers[task_id]
        if was_granted and self.attempts.get(task_id):
            self.attempts[task_id] -= 1

    def ends(self, object_id: bytes) -> bool:
        """Note a first copy of an object.  Returns whether a node had the task in hand, and the task is over now."""
        return self.is_end(object_id) and bool(self.makers.pop(task_of(object_id), ""))

    def maker_lost(self, node: str) -> None:
        """Forget what a lost node had in hand."""
        for task_id in [task_id for task_id, maker in self.makers.items() if maker == node]:
            del self.makers[task_id]

    def load(self, task_id: bytes, record: TaskRecord) -> None:
        """Add a record of a loaded state."""
        self.records[task_id] = record
        spec = record.spec
        if spec is not None:
            self.count_once(spec, 1)
        if type(spec) is Flushed:
            page = spec.place >> PLACE_BITS
            self.pages[page] = self.pages.get(page, 0) + 1
        elif type(spec) is TaskSpec and self.is_weighed:
            self.weight += weight_of(spec)

    def has_run_again(self, task_id: bytes, attempts: int) -> None:
        """Record how often the task has run, in all."""
        if task_id in self.records and attempts > self.attempts.get(task_id, 0):
            self.attempts[task_id] = attempts

    def was_left(self, task_id: bytes, count: int) -> None:
        """Record how many items a further run of a generator has to yield."""
        if task_id in self.records:
            self.drawn[task_id] = count

    def hold(self, object_id: bytes, node: str) -> None:
        """Add the node to the holders."""
        record = self.require(task_of(object_id))
        is_first = object_id[-4:] == FIRST_RETURN
        if is_first and record.objects is None and record.holder in ("", node):
            record.holder = node
        else:
            self.require_object(object_id).holders[node] = None

    def release(self, object_id: bytes, node: str) -> ObjectRecord | None:
        """Remove the node from the holders.  Returns the full record if the object lost its last holder and its copies
        go."""
        task_id = task_of(object_id)
        record = self.records.get(task_id)
        if record is None:
            return None
        if self.frozen is not None:
            self.changes(task_id, record)
        if record.holder == node and object_id[-4:] == FIRST_RETURN:
            record.holder = ""
            self._let_go(task_id)
            return None
        item = record.objects.get(object_id) if record.objects else None
        if item is None or node not in item.holders:
            return None
        del item.holders[node]
        item.subscribers.pop(node, None)
        if item.holders or self._stays(item, record):
            return None
        assert record.objects is not None
        del record.objects[object_id]
        self._let_go(task_id)
        return item

    def _stays(self, item: ObjectRecord, record: TaskRecord) -> bool:
        """Whether a copy exists, and is kept for tasks that took it: of what runs once only, or has run again."""
        if not (item.sizes and record.dependents) or record.spec is None or is_put(item.object_id):
            return False
        task_id = task_of(item.object_id)
        return (is_once(record.spec) or task_id in self.attempts) and self._is_taken(task_id, record)

    def _is_taken(self, task_id: bytes, record: TaskRecord) -> bool:
        """Whether a re-executable task takes an object of this task; never if no task is re-executed.

        Dependent records of other shards are unknown, so they count as re-executable.
        """
        return not self.is_alone and record.dependents > self.once.get(task_id, 0)

    def _free_unheld(self, record: TaskRecord) -> None:
        """Free copies kept for dependent tasks, when no dependent task is left."""
        assert record.objects is not None
        for item in [item for item in record.objects.values() if item.sizes and not item.holders]:
            del record.objects[item.object_id]
            self.free(item)

    def drop_if_unused(self, item: ObjectRecord) -> None:
        """Drop the object's record if no node holds it, has a copy or waits for a copy."""
        task_id = task_of(item.object_id)
        record = self.records.get(task_id)
        if record is None or record.objects is None or record.objects.get(item.object_id) is not item:
            return
        if not (item.holders or item.sizes or item.subscribers):
            if self.frozen is not None:
                self.changes(task_id, record)
            del record.objects[item.object_id]
            self._let_go(task_id)

    def _let_go(self, task_id: bytes, *, has_lost_dependent: bool = False) -> None:
        """Remove a record that nothing keeps.  Of a generator's many objects, only a lost dependent frees others."""
        doomed = [task_id]
        while doomed:
            task_id = doomed.pop()
            record = self.records.get(task_id)
            if record is None:
                continue
            if has_lost_dependent and record.objects and not self._is_taken(task_id, record):
                self._free_unheld(record)
            has_lost_dependent = True  # all further ones
            if record.holder or record.dependents or record.objects:
                continue
            del self.records[task_id]
            self.makers.pop(task_id, None)
            self.attempts.pop(task_id, None)
            self.drawn.pop(task_id, None)
            if self.keeping is not None:
                self.keeping.gone(task_id)
            spec = record.spec
            if spec is None:
                continue
            if self.is_weighed:
                self._forget_spec(spec)
            parents = parents_of(spec)
            if parents:
                self.count_once(spec, -1)
            for object_id in parents:
                parent_id = task_of(object_id)
                parent = self.records.get(parent_id)
                if parent is not None:
                    if self.frozen is not None:
                        self.changes(parent_id, parent)
                    parent.dependents -= 1
                    doomed.append(parent_id)

    def _forget_spec(self, spec: TaskSpec | Flushed) -> None:
        """Release the memory, or the place in its page, of a removed record's spec."""
        if type(spec) is TaskSpec:
            self.weight -= weight_of(spec)
        else:
            page = spec.place >> PLACE_BITS  # type: ignore[union-attr]
            self.pages[page] -= 1
            if not self.pages[page]:
                del self.pages[page]

    def flush(self, task_id: bytes, spec: TaskSpec, page: int, index: int) -> None:
        """Replace a spec that has been stored in a page by its place, if the record still exists.

        A snapshot in progress may contain either form.
        """
        record = self.records.get(task_id)
        if record is not None and record.spec is spec:
            record.spec = Flushed(page << PLACE_BITS | index, digest_of(spec), parents_of(spec), is_once(spec))
            self.weight -= weight_of(spec)
            self.pages[page] = self.pages.get(page, 0) + 1

    def keep_for(self, task_id: bytes, shard: int) -> None:
        """Keep a record that a record of another shard needs."""
        assert self.keeping is not None
        if self.keeping.keep_for(task_id, shard):
            self.require(task_id).dependents += 1

    def let_go_for(self, task_id: bytes, shard: int) -> None:
        """Release a record that no record of the other shard needs any more."""
        assert self.keeping is not None
        if self.keeping.let_go_for(task_id, shard):
            self.require(task_id).dependents -= 1
            self._let_go(task_id, has_lost_dependent=True)

    def take_out(self, task_id: bytes) -> TaskRecord:
        """Remove a record that moves to another shard.  Its arguments' `dependents` still count it."""
        record = self.records.pop(task_id)
        for table in (self.makers, self.attempts, self.drawn):
            table.pop(task_id, None)
        if record.spec is not None:
            self.count_once(record.spec, -1)
            if self.is_weighed:
                self._forget_spec(record.spec)
        return record

    def put_in(self, task_id: bytes, record: TaskRecord, stub: TaskRecord | None) -> None:
        """Add a record that has moved here.  stub: the former one, for its dependents here."""
        record.dependents = stub.dependents if stub is not None else 0
        self.load(task_id, record)

    def taken_by_moved(self, task_id: bytes) -> None:
        """Count one dependent more of a task: one of both has moved."""
        self.require(task_id).dependents += 1

    def taken_no_more(self, task_id: bytes) -> None:
        """Count one dependent fewer of a task: it has moved to another shard."""
        self.require(task_id).dependents -= 1
        self._let_go(task_id)

    def look_at(self, task_id: bytes) -> None:
        """Drop a moved record, or its spare copies, if nothing keeps these here."""
        self._let_go(task_id)

    def check_everything(self) -> None:
        """Assert that `dependents` match the specs, and each record has a reason to live."""
        kept_for = self.keeping.kept_for if self.keeping is not None else {}
        dependents = {task_id: len(shards) for task_id, shards in kept_for.items()}
        once: dict[bytes, int] = {}
        places: list[int] = []
        weight = 0
        for record in self.records.values():
            spec = record.spec
            if spec is None:
                continue
            if parents := parents_of(spec):
                runs_once = is_once(spec)
                for task_id in map(task_of, parents):
                    dependents[task_id] = dependents.get(task_id, 0) + 1
                    if runs_once:
                        once[task_id] = once.get(task_id, 0) + 1
            if type(spec) is not Flushed:
                weight += weight_of(spec) if self.is_weighed else 0  # type: ignore[arg-type]
            elif spec.place != NOWHERE:
                places.append(spec.place)
        assert self.once == once, "dependents that run once only do not add up"
        for task_id, record in self.records.items():
            assert record.dependents == dependents.get(task_id, 0), "dependents do not add up"
            assert record.holder or record.dependents or record.objects, "a record that nothing keeps"
            for item in record.objects.values() if record.objects else ():
                if item.subscribers:
                    assert item.subscribers.keys() <= item.holders.keys(), "a node waits for what it does not hold"
                assert item.holders or self._stays(item, record), "copies of what nobody holds, kept for nothing"
        assert self.weight == weight, "weight of specs"
        assert len(set(places)) == len(places) == sum(self.pages.values()), "specs in the store do not add up"
        assert {place >> PLACE_BITS for place in places} == self.pages.keys(), "pages do not add up"
        assert self.makers.keys() <= self.records.keys(), "makers of tasks that nobody knows"
        assert self.attempts.keys() <= self.records.keys(), "attempts of tasks that nobody knows"
        assert self.drawn.keys() <= self.records.keys(), "generators that nobody knows"


def copy_of(item: ObjectRecord) -> ObjectRecord:
    """Return an independent copy of the record."""
    return ObjectRecord(item.object_id, dict(item.holders), dict(item.sizes), dict(item.subscribers))


def parents_of(spec: TaskSpec | Flushed) -> tuple[bytes, ...]:
    """Return the objects that the task takes."""
    return spec.parents if type(spec) is Flushed else (*spec.deps, *spec.holds)  # type: ignore[union-attr]


def is_once(spec: TaskSpec | Flushed) -> bool:
    """Whether the task is never re-executed to reconstruct its returns."""
    if type(spec) is Flushed:
        return spec.is_once
    try:
        return not parse_options(spec.options).may_run_again  # type: ignore[union-attr]
    except ProtocolError:
        return False


def _do_the_same(known: TaskSpec | Flushed, spec: TaskSpec) -> bool:
    """Whether two specs of a task have the same function and arguments."""
    if type(known) is Flushed:
        return known.digest == digest_of(spec)
    return known.function_id == spec.function_id and known.args == spec.args  # type: ignore[union-attr]
