"""A shard's whole state as bytes, and back: for snapshots, and for a replica that joins.

The state is encoded in parts of bounded size, while the shard goes on (Frozen).  Dictionaries keep their order, so a
loaded shard sends the same messages in the same order as the dumped shard.  A new table of the shard must be added here
(tests/roles/test_gcs_state.py finds a missing table).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from ...wire.actors import RegisterActor
from ...wire.shards import SlotTable
from ...wire.task_spec import TaskSpec
from ...wire.tasks import Function
from . import slots
from .flushing import spec_in
from .functions import FunctionTable, Published
from .groups import GroupRecord
from .homes import Home
from .keeping import Held, Keeping, Peer
from .tables import PLACE_BITS, Flushed, ObjectRecord, TaskRecord, weight_of

if TYPE_CHECKING:
    from .shard import GcsShard

T = TypeVar("T")

# In one part: what takes a millisecond or two.
PART_RECORDS_MAX = 250
PART_BYTES = 256 << 10


class ObjectState(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """An ObjectRecord."""

    object_id: bytes
    holders: list[str]
    sizes: list[tuple[str, int]]
    subscribers: list[str]


class TaskState(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A TaskRecord."""

    task_id: bytes
    spec: TaskSpec | None
    holder: str
    dependents: int
    objects: list[ObjectState] | None
    flushed: Flushed | None = None  # where the spec lies, if not here


class KeepingState(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A Keeping without its long tables."""

    own: int
    shards: int
    peers: list[tuple[int, Peer]]
    nodes: list[str]
    held: list[Held]
    via: list[tuple[bytes, int]] = []


class Part(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A part of a shard's state."""

    tasks: list[TaskState] = []
    functions: list[Function] = []
    function_waiters: list[tuple[bytes, list[str]]] = []
    actors: list[RegisterActor] = []
    homes: list[tuple[bytes, Home]] = []
    home_askers: list[tuple[bytes, list[str]]] = []
    makers: list[tuple[bytes, str]] = []
    attempts: list[tuple[bytes, int]] = []
    lost: list[str] = []
    keeping: KeepingState | None = None
    abroad: list[bytes] = []
    kept_for: list[tuple[bytes, list[int]]] = []
    groups: list[GroupRecord] = []
    attending: list[str] = []
    group_trips: int = 0
    wanted: list[bytes] = []
    owners: list[tuple[str, bytes, str, list[bytes]]] = []  # who has which functions
    orphans: list[bytes] = []
    ended: list[tuple[str, bytes]] = []
    has_lost_copies: bool = False
    drawn: list[tuple[bytes, int]] = []
    slots: SlotTable | None = None


_encode = Encoder().encode
_decode = Decoder(Part).decode


class Frozen:
    """A snapshot of a shard at creation, in parts, while the shard goes on.  Only one may exist; `close` ends it.

    Long tables are copied as references.  Before a task's record, an actor's home or a group changes, a copy takes its
    place here (`changes` of each table); functions and names never change in place.  Everything else is encoded at
    once.
    """

    def __init__(self, shard: GcsShard) -> None:
        assert shard.tasks.frozen is None, "two states at once"
        self.pages: dict[int, None] = {}  # in which the specs of the parts lie, so far
        self.new_pages: deque[int] = deque()  # those that nobody has taken away from here
        self._shard = shard
        self._records = shard.tasks.frozen = dict(shard.tasks.records)
        homes = shard.homes.frozen = dict(shard.homes.homes)
        groups = shard.groups.frozen = dict(shard.groups.records)
        self.parts = self._dump(self._records, list(shard.functions.by_id.values()), _dump_rest(shard, groups, homes))

    def _dump(
        self, records: dict[bytes, TaskRecord], functions: list[Function], rest: Iterator[bytes]
    ) -> Iterator[bytes]:
        yield from _dump_tasks(records, self._note)
        for function in functions:
            yield _encode(Part(functions=[function]))
        yield from rest

    def _note(self, page: int) -> None:
        if page not in self.pages:
            self.pages[page] = None
            self.new_pages.append(page)

    def close(self) -> None:
        """Close the snapshot: no further parts are wanted."""
        shard = self._shard
        if shard.tasks.frozen is self._records:
            shard.tasks.frozen = shard.homes.frozen = shard.groups.frozen = None


def dump(shard: GcsShard) -> Iterator[bytes]:
    """Yield the parts.  The shard must not change before the last has been taken."""
    yield from _dump_tasks(shard.tasks.records, lambda page: None)
    for function in shard.functions.by_id.values():
        yield _encode(Part(functions=[function]))
    yield from _dump_rest(shard, shard.groups.records, shard.homes.homes)


def _dump_tasks(records: dict[bytes, TaskRecord], note_page: Callable[[int], None]) -> Iterator[bytes]:
    tasks: list[TaskState] = []
    size = 0
    for task_id, record in records.items():
        tasks.append(task_state(task_id, record))
        spec = record.spec
        if type(spec) is Flushed:
            note_page(spec.place >> PLACE_BITS)
        elif spec is not None:
            size += weight_of(spec)  # type: ignore[arg-type]
        if len(tasks) == PART_RECORDS_MAX or size >= PART_BYTES:
            yield _encode(Part(tasks))
            tasks, size = [], 0
    if tasks:
        yield _encode(Part(tasks))


def _dump_rest(shard: GcsShard, groups: dict[bytes, GroupRecord], homes: dict[bytes, Home]) -> Iterator[bytes]:
    """Encode all but tasks and functions.  groups, homes: read only when their parts are encoded."""
    makers, attempts, drawn = dict(shard.tasks.makers), dict(shard.tasks.attempts), dict(shard.tasks.drawn)
    actors = list(shard.actor_by_name.values())
    last = Part(
        function_waiters=[(function_id, list(nodes)) for function_id, nodes in shard.function_waiters.items()],
        home_askers=[(actor_id, list(nodes)) for actor_id, nodes in shard.homes.askers.items()],
        lost=list(shard.lost),
        has_lost_copies=shard.has_lost_copies,
        attending=list(shard.groups.attending),
        group_trips=shard.groups.trips,
        wanted=list(shard.wanted),
        slots=shard.tasks.slots,
    )
    kept = _dump_keeping(shard.tasks.keeping) if shard.tasks.keeping is not None else ()
    owners = list(_dump_owners(shard.functions))
    return chain(
        (_encode(Part(makers=some)) for some in _portions(makers.items())),
        (_encode(Part(attempts=some)) for some in _portions(attempts.items())),
        (_encode(Part(drawn=some)) for some in _portions(drawn.items())),
        kept,
        owners,
        (_encode(Part(groups=[group])) for group in groups.values()),
        (_encode(Part(actors=some)) for some in _portions(actors)),
        (_encode(Part(homes=some)) for some in _portions(homes.items())),
        [_encode(last)],
    )


def _dump_owners(table: FunctionTable) -> Iterator[bytes]:
    """Encode the owners of functions, after the functions."""
    for owner, published in table.owners.items():
        for some in _portions(published.functions) if published.functions else [[]]:
            yield _encode(Part(owners=[(*owner, some)]))
    yield from (_encode(Part(orphans=some)) for some in _portions(table.orphans))
    yield from (_encode(Part(ended=some)) for some in _portions(table.ended))


def _load_owners(table: FunctionTable, part: Part) -> None:
    try:
        for node, job_id, publisher, ids in part.owners:
            published = table.owners.setdefault((node, job_id, publisher), Published())
            published.add(ids, sum(len(table.by_id[function_id].code) for function_id in ids))
        table.orphans.update(dict.fromkeys(part.orphans))
        table.orphan_bytes += sum(len(table.by_id[function_id].code) for function_id in part.orphans)
    except KeyError as error:
        raise ValueError("no part of a shard's state: a function that somebody has, and no code before it") from error
    table.ended.update(dict.fromkeys(part.ended))


def _dump_keeping(keeping: Keeping) -> Iterator[bytes]:
    nodes, peers = list(keeping.nodes), list(keeping.peers.items())
    via = list(keeping.via.items())
    first = _encode(Part(keeping=KeepingState(keeping.own, keeping.shards, peers, nodes, keeping.held, via)))
    abroad, kept_for = list(keeping.abroad), dict(keeping.kept_for)
    return chain(
        [first],
        (_encode(Part(abroad=some)) for some in _portions(abroad)),
        (_encode(Part(kept_for=[(task_id, list(it)) for task_id, it in some])) for some in _portions(kept_for.items())),
    )


def _portions(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, PART_RECORDS_MAX)):
        yield some


def load(shard: GcsShard, parts: Iterable[bytes], pages: Mapping[int, list[bytes]] | None = None) -> None:
    """Load the parts into a new shard.  pages: from another replica's store, unpacked; None: they are in our own.

    Raises:
        ValueError: the data is no part.
    """
    for data in parts:
        try:
            part = _decode(data)
        except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"no part of a shard's state: {error}") from error
        for task in part.tasks:
            if task.flushed is not None and pages is not None:
                task.spec, task.flushed = spec_in(pages, task.flushed.place), None
            shard.tasks.load(task.task_id, task_record(task))
        for function in part.functions:
            shard.functions.by_id[function.function_id] = function
        _load_owners(shard.functions, part)
        for function_id, nodes in part.function_waiters:
            shard.function_waiters[function_id] = dict.fromkeys(nodes)
        shard.tasks.makers.update(part.makers)
        shard.tasks.attempts.update(part.attempts)
        shard.tasks.drawn.update(part.drawn)
        shard.lost.update(dict.fromkeys(part.lost))
        shard.has_lost_copies = shard.has_lost_copies or part.has_lost_copies
        _load_keeping(shard, part)
        for actor in part.actors:
            key = (actor.options.namespace, actor.options.name)
            shard.actor_by_name[key] = actor
            shard.name_by_actor[actor.actor_id] = key
        shard.homes.homes.update(part.homes)
        for actor_id, nodes in part.home_askers:
            shard.homes.askers[actor_id] = dict.fromkeys(nodes)
        for group in part.groups:
            shard.groups.add(group)
        shard.groups.load(part.attending, part.group_trips)
        shard.wanted.update(dict.fromkeys(part.wanted))
        if part.slots is not None:
            if shard.tasks.keeping is not None:
                shard.tasks.keeping.begin_with(part.slots)
            slots.take(shard, part.slots)


def _load_keeping(shard: GcsShard, part: Part) -> None:
    found = part.keeping
    if found is not None:
        keeping = shard.tasks.keeping = Keeping(found.own, found.shards)
        keeping.peers.update(found.peers)
        keeping.nodes.update(dict.fromkeys(found.nodes))
        keeping.held = found.held
        keeping.via.update(found.via)
    elif part.abroad or part.kept_for:
        if shard.tasks.keeping is None:
            raise ValueError("no part of a shard's state: what other shards need, and nothing of them before it")
        shard.tasks.keeping.abroad.update(dict.fromkeys(part.abroad))
        for task_id, shards in part.kept_for:
            shard.tasks.keeping.kept_for[task_id] = dict.fromkeys(shards)


def task_state(task_id: bytes, record: TaskRecord) -> TaskState:
    """Return a record as it is in parts of a state."""
    objects = None
    if record.objects is not None:
        objects = [
            ObjectState(item.object_id, list(item.holders), list(item.sizes.items()), list(item.subscribers))
            for item in record.objects.values()
        ]
    spec = record.spec
    if type(spec) is Flushed:
        return TaskState(task_id, None, record.holder, record.dependents, objects, spec)
    return TaskState(task_id, spec, record.holder, record.dependents, objects)  # type: ignore[arg-type]


def task_record(task: TaskState) -> TaskRecord:
    """Return the record of a loaded part."""
    objects = None
    if task.objects is not None:
        objects = {
            item.object_id: ObjectRecord(
                item.object_id, dict.fromkeys(item.holders), dict(item.sizes), dict.fromkeys(item.subscribers)
            )
            for item in task.objects
        }
    return TaskRecord(task.spec or task.flushed, task.holder, task.dependents, objects)
