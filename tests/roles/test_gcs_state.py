"""A shard's state as bytes: what is loaded says the same as what was dumped, down to the order."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire import strategies
from zray.ids import return_id
from zray.roles.gcs import GcsShard, state
from zray.roles.role import Later
from zray.wire.chain import ShardReply, ShardRequest
from zray.wire.gcs import LineageNeeded, NodeLost, ObjectLost, RebuildObject
from zray.wire.groups import (
    AttendShard,
    BundlesPrepared,
    CommitBundles,
    GiveUpGroup,
    GroupSpec,
    KeepGroup,
    LocateGroup,
    PrepareBundles,
    RegisterGroup,
    RemoveGroup,
    ReturnBundles,
    TryPlaces,
)
from zray.wire.homes import ActorAt, ActorKilled, ActorLife

TASKS = [bytes([number]) * 16 for number in range(3)]
# Statistics of one process: no state.
COUNTS = ("rejected", "unlike")
OBJECTS = [return_id(task, index) for task in TASKS for index in (1, 2, 1 << 31)]


def few_ids(node):
    """Few, so that messages speak of the same things."""
    if node.max_length == 16:
        return st.sampled_from(TASKS)
    if node.max_length == 32:
        return st.just(bytes(32))  # a digest
    return st.sampled_from(OBJECTS if node.max_length == 20 else [b"", b"x", b"\x80"])


def plain(thing):
    """All that an object holds, down to the order in its dictionaries."""
    if isinstance(thing, dict):
        return [(plain(key), plain(value)) for key, value in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [plain(item) for item in thing]
    if isinstance(thing, msgspec.Struct):
        return plain({name: getattr(thing, name) for name in thing.__struct_fields__})
    if hasattr(thing, "__dict__"):
        return plain({name: value for name, value in vars(thing).items() if name not in COUNTS})
    return thing


def tables(shard):
    """All that a shard keeps; what it counts is not state."""
    kept = {name: value for name, value in vars(shard).items() if name not in (*COUNTS, "sender", "now", "_effects")}
    # Which name an actor has is asked one by one: its order says nothing.
    kinds = {kind.__name__: type(handler).__name__ for kind, handler in shard.handlers.items()}
    return plain(kept | {"name_by_actor": sorted(shard.name_by_actor.items()), "handlers": kinds})


def turn(shard, message):
    return shard.handle("n1/local", message, 0.0) + shard.end_turn(0.0)


def test_any_state_comes_back(monkeypatch):
    monkeypatch.setitem(strategies._MAKERS, "Bytes", few_ids)
    monkeypatch.setitem(strategies._MAKERS, "Str", lambda node: st.sampled_from(["n1/local", "n2/local", "n3/local"]))
    monkeypatch.setattr(state, "PART_RECORDS_MAX", 2)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(strategies.messages(list(get_args(ShardRequest))), max_size=20), st.integers(0, 20))
    def comes_back(messages, middle):
        shard = GcsShard("gcs-0")
        for message in messages[:middle]:
            turn(shard, message)
        other = GcsShard("gcs-0")
        other.load(list(shard.dump()))
        assert tables(other) == tables(shard)
        assert list(other.dump()) == list(shard.dump())
        for message in messages[middle:]:
            assert turn(other, message) == turn(shard, message)

    comes_back()


def test_a_state_in_parts_is_that_of_its_first_moment_whatever_happens_meanwhile(monkeypatch):
    monkeypatch.setitem(strategies._MAKERS, "Bytes", few_ids)
    monkeypatch.setitem(strategies._MAKERS, "Str", lambda node: st.sampled_from(["n1/local", "n2/local", "n3/local"]))
    monkeypatch.setattr(state, "PART_RECORDS_MAX", 1)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(strategies.messages(list(get_args(ShardRequest))), max_size=30), st.integers(0, 20))
    def stays(messages, middle):
        shard = GcsShard("gcs-0")
        for message in messages[:middle]:
            turn(shard, message)
        before = list(shard.dump())
        frozen = shard.freeze()
        parts = []
        for message in messages[middle:]:
            parts += [part for part in [next(frozen.parts, None)] if part is not None]
            turn(shard, message)
        parts += frozen.parts
        frozen.close()
        assert parts == before

    stays()


def test_homes_and_groups_of_a_state_in_parts_are_those_of_its_first_moment(monkeypatch):
    """Whatever changes them: nodes that come, are asked for, and are lost; actors that move and are killed."""
    monkeypatch.setattr(state, "PART_RECORDS_MAX", 1)
    shard, nodes = GcsShard("gcs-0"), ["n1/local", "n2/local", "n3/local"]
    turn(shard, AttendShard("n1/local", True))
    for number, node in enumerate(nodes):
        spec = GroupSpec([{"CPU": 1}], "PACK", f"group {number}", "", True)
        turn(shard, RegisterGroup(TASKS[number], spec, node, nodes[0], b"job", "n1/local"))
        turn(shard, ActorAt(TASKS[number], node, ActorLife(f"{node}#1"), True, nodes[number - 1]))
    trip = shard.groups.records[TASKS[0]].trip
    changes = [
        LocateGroup(TASKS[2], "n2/local"),
        TryPlaces(TASKS[0], trip, [(0, "n1/local")]),
        BundlesPrepared(TASKS[0], trip, "n1/local", True),
        GiveUpGroup(TASKS[1], shard.groups.records[TASKS[1]].trip, "no"),
        AttendShard("n2/local", True),
        ActorAt(TASKS[0], "n1/local", ActorLife("n1/local#1"), False, ""),
        ActorKilled(TASKS[1]),
        RemoveGroup(TASKS[0], "it was removed"),
        NodeLost("n2/local", "killed"),
    ]
    for change in changes:
        before = list(shard.dump())
        frozen = shard.freeze()
        turn(shard, change)
        assert list(frozen.parts) == before, type(change)
        frozen.close()
        assert list(shard.dump()) != before, type(change)


def test_what_is_no_state_is_refused():
    for data in (b"", b"\xc1", b"\x91\x01", b"\x94\x91\x90\x90\x90\x90"):
        with pytest.raises(ValueError, match="no part"):
            GcsShard("gcs-0").load([data])


def test_a_chain_carries_all_that_a_shard_handles():
    """A new request of the shard's needs a place in ShardRequest, a new reply one in ShardReply."""
    assert set(get_args(ShardRequest)) == set(GcsShard("gcs-0").handlers) - {Later}
    orders = {RebuildObject, ObjectLost, LineageNeeded, KeepGroup, PrepareBundles, CommitBundles, ReturnBundles}
    replies = set(get_args(ShardReply)) - orders
    assert all(kind.__name__.endswith(("Reply", "ed", "Copies", "Taken")) for kind in replies)
    assert NodeLost in get_args(ShardRequest)
