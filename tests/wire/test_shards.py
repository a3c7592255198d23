"""The mapping of ids to shards: one for all roles, by slots; an id moves with its slot, and in no other way."""

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scripts import ROOT
from zray.exceptions import ProtocolError
from zray.host.process.node_processes import PROCESSES_MAX
from zray.ids import return_id
from zray.roles.gcs.keeping import Keeping
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.local_scheduler.addresses import Addresses
from zray.wire.codec import Envelope, decode, encode
from zray.wire.gcs import LineageNeeded, RecordTasks
from zray.wire.shards import SHARDS_MAX, SLOTS_MAX, SlotTable

IDS = [bytes(number * factor % 256 for factor in range(1, 17)) for number in range(1, 200)]
COUNTS = (1, 2, 3, 4, 5, 7, 8, 64)


def number_of(any_id, shards):
    return SlotTable.at_birth(shards).owner(any_id)


def test_the_numbers_are_what_records_on_disk_follow():
    assert [number_of(IDS[0], count) for count in COUNTS] == [0, 0, 1, 0, 0, 4, 0, 16]
    assert [number_of(IDS[-1], count) for count in COUNTS] == [0, 0, 1, 0, 1, 3, 0, 48]


def test_an_id_begins_at_the_shard_of_its_remainder_by_their_number():
    for count in range(1, 2 * SLOTS_MAX):
        table = SlotTable.at_birth(count)
        assert table.epoch == 0 and table.shards == count and table.in_use() == tuple(range(count))
        assert len(table.owners) <= max(SLOTS_MAX, count)
        for task_id in IDS[::20]:
            assert table.owner(task_id) == int.from_bytes(task_id[6:16], "big") % count
            assert table.owners[table.slot(task_id)] == table.owner(task_id)


def test_a_task_and_its_returns_are_of_one_shard():
    for count in COUNTS:
        for task_id in IDS:
            assert {number_of(return_id(task_id, index), count) for index in range(3)} == {number_of(task_id, count)}


def test_all_roles_agree():
    for count in COUNTS:
        shards = [f"gcs-{number}" for number in range(count)]
        local = Addresses("objects", ["global"], shards, "monitor")
        placing, keeping = GlobalScheduler("global", shards), Keeping(0, count)
        for task_id in IDS:
            number = number_of(task_id, count)
            assert local.shard_of(task_id) == shards[number] == placing._shard_of(task_id)
            assert keeping.shard_of(task_id) == number


def test_no_other_module_computes_a_shard():
    remainder = re.compile(r"\[6:16\].*%|%\s*len\(.*(shards|owners)\)")
    found = [
        str(path.relative_to(ROOT))
        for folder in ("roles", "wire", "host", "store", "sim", "api")
        for path in sorted((ROOT / "zray" / folder).rglob("*.py"))
        if remainder.search(path.read_text())
    ]
    assert found == ["zray/wire/shards.py"]


def changes(data, table):
    """Draw the arguments of a change that the table allows, as ("split" or "merge", arguments); None: there is none."""
    can_split = [shard for shard in table.in_use() if len(table.slots_of(shard)) > 1]
    kinds = ["split"] * bool(can_split) + ["merge"] * (len(table.in_use()) > 1)
    if not kinds:
        return None
    kind = data.draw(st.sampled_from(kinds))
    if kind == "split":
        shard = data.draw(st.sampled_from(can_split))
        own = table.slots_of(shard)
        return kind, (shard, data.draw(st.sets(st.sampled_from(own), min_size=1, max_size=len(own) - 1)))
    return kind, data.draw(st.permutations(table.in_use()))[:2]


@given(st.data(), st.integers(1, 9), st.lists(st.binary(min_size=16, max_size=20), min_size=1, max_size=30))
@settings(max_examples=150, deadline=None)
def test_only_ids_of_moved_slots_change_their_owner(data, count, ids):
    table = SlotTable.at_birth(count)
    slots = [table.slot(any_id) for any_id in ids]
    for _ in range(data.draw(st.integers(1, 12))):
        change = changes(data, table)
        if change is None:
            return
        kind, arguments = change
        moved = arguments[1] if kind == "split" else table.slots_of(arguments[0])
        owner = table.shards if kind == "split" else arguments[1]
        before, kept = table, msgspec.to_builtins(table)
        table = getattr(before, kind)(*arguments)
        assert msgspec.to_builtins(before) == kept, "a table has changed"
        assert table.epoch == before.epoch + 1 and table.shards == before.shards + (kind == "split")
        assert [table.slot(any_id) for any_id in ids] == slots, "an id has another slot"
        for any_id, slot in zip(ids, slots, strict=True):
            assert table.owner(any_id) == (owner if slot in moved else before.owner(any_id))
        owned = [slot for shard in table.in_use() for slot in table.slots_of(shard)]
        assert sorted(owned) == list(range(len(table.owners))), "a slot without an owner, or with two"
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(table), type=SlotTable) == table


def test_a_shard_that_was_merged_never_has_its_number_given_to_another():
    table = SlotTable.at_birth(1).split(0, range(100)).merge(1, 0).split(0, range(9))
    assert table.in_use() == (0, 2) and table.slots_of(2) == tuple(range(9)) and table.shards == 3 and table.epoch == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.split(0, []),
        lambda table: table.split(0, table.slots_of(0)),
        lambda table: table.split(0, [0, 1]),
        lambda table: table.split(2, [0]),
        lambda table: table.merge(0, 0),
        lambda table: table.merge(0, 2),
        lambda table: table.merge(2, 0),
        lambda _: SlotTable((), 0, 1),
        lambda _: SlotTable((0, 1), 0, 1),
    ],
)
def test_a_change_that_is_none_is_refused(change):
    with pytest.raises(ValueError, match="slots"):
        change(SlotTable.at_birth(2))


def test_bytes_that_are_no_table_are_refused():
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(((0, 3), 0, 2)), type=SlotTable)


@pytest.mark.parametrize("kind", [RecordTasks, LineageNeeded])
def test_a_message_about_more_shards_than_any_cluster_has_is_refused(kind):
    """A table is made of the number: a large one would take all memory."""
    fields = {"node": "n1/local", "specs": [], "request": 0}
    if kind is LineageNeeded:
        fields = {"source": 0, "target": 1, "number": 1, "needed": [], "freed": []}
    for shards, is_good in ((PROCESSES_MAX, True), (SHARDS_MAX, True), (SHARDS_MAX + 1, False), (1 << 60, False)):
        frame = encode(Envelope(1, 1, 0, [kind(**fields, shards=shards)]))
        if is_good:
            assert decode(frame).messages[0].shards == shards
        else:
            with pytest.raises(ProtocolError, match="Expected `int`"):
                decode(frame)
