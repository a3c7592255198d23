"""Objects between nodes: pulled in chunks, resumed elsewhere, given on along a tree."""

import random

import pytest

from tests.roles.object_desk import CHUNK, Desk, Fleet
from zray.roles.object_manager import gives
from zray.roles.object_manager.pulls import SILENCE_SECONDS
from zray.roles.object_manager.sources import WINDOW_BYTES_MAX
from zray.wire.message import Bulk
from zray.wire.objects import (
    FetchFailed,
    FetchObject,
    FreeObjects,
    InlineRead,
    ObjectChunk,
    ObjectFetched,
    ObjectInline,
    PullDone,
    PullElsewhere,
    PullObject,
    PullRefused,
    ReadInline,
    StopFetching,
)
from zray.wire.task_spec import StoredValue

IDS = [bytes([number]) * 20 for number in range(1, 9)]
ONE = IDS[0]
CHUNKS = 12
SIZE = (CHUNKS - 1) * CHUNK + 100
DATA = random.Random(1).randbytes(SIZE)


def fleet_of(*names, holders=("n1",), **options):
    """Nodes, of which some have the object."""
    fleet = Fleet(names, **options)
    for name in holders:
        fleet.desks[name].store(ONE, DATA)
    return fleet


def has_it(fleet, name):
    """The object has arrived there, as it is."""
    (fetched,) = fleet.fetched[name]
    assert type(fetched) is ObjectFetched
    return fleet.desks[name].bytes_of(ONE) == DATA


def bytes_from(fleet, name):
    """How much has arrived from there, anywhere."""
    return sum(len(message.data) for message in fleet.carried_from(name, ObjectChunk))


def is_at_rest(fleet):
    """No slot, ticket, credit or range is kept for what is over."""
    for name, desk in fleet.desks.items():
        if name in fleet.lost:
            continue
        manager = desk.manager
        assert not manager.pulls.coming and not manager.pulls.windows.by_source and not manager.copying
        assert not manager.gives.by_object and not manager.gives.ending and not manager.gives.reading
        assert not manager.retired
    return True


@pytest.mark.parametrize("size", [1, CHUNK, CHUNK + 1, 50_000])
def test_an_object_arrives_chunk_by_chunk(size):
    fleet = Fleet(["n1", "n2"])
    fleet.desks["n1"].store(ONE, DATA[:size])
    fleet.fetch("n2", ONE, size, ["n1"])
    fleet.run()
    assert fleet.desks["n2"].bytes_of(ONE) == DATA[:size]
    assert bytes_from(fleet, "n1") == size
    assert is_at_rest(fleet)


def test_several_chunks_are_under_way_at_a_time():
    fleet = fleet_of("n1", "n2")
    fleet.fetch("n2", ONE, SIZE, ["n1"])
    fleet.run(until=lambda: fleet.carried_from("n2", PullObject))
    # As many as have pages yet.
    assert [len(message.data) // CHUNK for message in fleet.mail["n1", "n2"]] == [1, 1, 1, 1]
    fleet.run()
    assert has_it(fleet, "n2")
    # Those that lie together come in one piece, but for the first ones.
    assert max(len(message.data) for message in fleet.carried_from("n1", ObjectChunk)) >= 2 * CHUNK


def test_what_is_under_way_is_bounded_in_bytes(monkeypatch):
    for name in ("WINDOW_BYTES", "WINDOW_BYTES_MAX"):
        monkeypatch.setattr(f"zray.roles.object_manager.sources.{name}", 5 * CHUNK)
    fleet = fleet_of("n1", "n2")
    for number in (1, 2):
        fleet.desks["n1"].store(IDS[number], DATA)
    pick = random.Random(3)
    windows = fleet.desks["n2"].manager.pulls.windows
    most = 0
    for number in range(3):
        fleet.fetch("n2", IDS[number], SIZE, ["n1"])
    while moves := fleet.moves():
        fleet.step(pick.choice(moves))
        most = max(most, *(window.asked for window in windows.by_source.values()), 0)
    # A pull that has nothing under way may always ask for one chunk: none starves.
    assert 4 * CHUNK < most <= 7 * CHUNK
    assert all(fleet.desks["n2"].bytes_of(IDS[number]) == DATA for number in range(3))


def test_what_has_come_and_is_not_copied_yet_is_bounded_with_what_is_under_way(monkeypatch):
    """Or a node whose copies are slow would keep whole objects in frames."""
    monkeypatch.setattr("zray.roles.object_manager.sources.WINDOWS_BYTES_MAX", 4 * CHUNK)
    fleet = fleet_of("n1", "n2", "n3", holders=("n1", "n3"))
    fleet.desks["n3"].store(IDS[1], DATA)
    manager = fleet.desks["n2"].manager
    windows, most = manager.pulls.windows, 0
    fleet.fetch("n2", IDS[0], SIZE, ["n1"])
    fleet.fetch("n2", IDS[1], SIZE, ["n3"])
    while moves := fleet.moves():
        fleet.step(moves[0])  # all mail first: nothing is copied while something comes
        most = max(most, windows.total + windows.copying)
        assert all(count <= count_max for _, count, count_max in manager.bounds())
    assert 4 * CHUNK <= most <= 6 * CHUNK and not windows.copying
    assert all(fleet.desks["n2"].bytes_of(IDS[number]) == DATA for number in range(2))
    assert is_at_rest(fleet)


def test_a_small_value_arrives_inline():
    fleet = Fleet(["n1", "n2"])
    fleet.inline[ONE] = b"abc"
    fleet.fetch("n2", ONE, 3, ["n1"], is_small=True)
    fleet.run()
    assert fleet.fetched["n2"] == [ObjectFetched(ONE, b"abc")]
    assert [type(message) for _, _, message in fleet.carried] == [PullObject, ObjectInline]
    assert is_at_rest(fleet)


def test_what_is_not_as_small_as_was_said_arrives_all_the_same():
    fleet = fleet_of("n1", "n2")
    fleet.fetch("n2", ONE, 3, ["n1"], is_small=True)
    fleet.run()
    assert has_it(fleet, "n2") and is_at_rest(fleet)


def test_what_is_smaller_than_was_said_arrives_all_the_same():
    fleet = Fleet(["n1", "n2"])
    fleet.inline[ONE] = b"abc"
    fleet.fetch("n2", ONE, SIZE, ["n1"])
    fleet.run()
    assert fleet.fetched["n2"] == [ObjectFetched(ONE, b"abc")]
    assert is_at_rest(fleet) and not fleet.desks["n2"].manager.objects


@pytest.mark.parametrize("is_small", [True, False])
def test_an_object_that_no_holder_has_fails_in_words(is_small):
    fleet = Fleet(["n1", "n2", "n3"])
    fleet.fetch("n2", ONE, SIZE, ["n1", "n3"], is_small=is_small)
    fleet.run()
    (failed,) = fleet.fetched["n2"]
    assert failed == FetchFailed(ONE, "no node has it") and is_at_rest(fleet)


@pytest.mark.parametrize("is_small", [True, False])
def test_a_copy_that_is_being_read_outlives_another_one_that_does_not_come(is_small):
    """It was let go of, and wanted again: its bytes stay until the local scheduler says that nobody reads them."""
    desk = Desk(name="n2")
    desk.store(ONE, b"x" * SIZE)
    sent = desk.tell("n2/local", FetchObject(ONE, SIZE, ["n1/local"], is_small))
    sent += desk.tell("n2/local", StopFetching(ONE))
    assert [type(message) for target, message in sent if target == "n2/local"] == [FetchFailed]
    assert ONE in desk.manager.objects
    desk.tell("n2/local", FreeObjects([ONE]))
    assert not desk.manager.objects and not desk.manager.ranges.used_bytes


def test_a_small_value_that_comes_leaves_a_copy_that_is_being_read():
    desk = Desk(name="n2")
    desk.store(ONE, b"x" * SIZE)
    ((_, order),) = desk.tell("n2/local", FetchObject(ONE, SIZE, ["n1/local"], True))
    desk.tell("n1/objects", ObjectInline(ONE, order.ticket, b"abc"))
    assert desk.bytes_of(ONE) == b"x" * SIZE


def test_the_refs_inside_come_along():
    fleet = fleet_of("n1", "n2", "n3")
    fleet.contained = lambda message: (IDS[5],)
    for name in ("n2", "n3"):
        fleet.fetch(name, ONE, SIZE, ["n1"])
        fleet.fetch(name, ONE, SIZE, ["n1"])  # a second order is the first one
    fleet.run(random.Random(1).choice)
    assert [fleet.fetched[name][0].contained for name in ("n2", "n3")] == [(IDS[5],)] * 2
    assert all(len(fleet.fetched[name]) == 1 for name in ("n2", "n3"))


def test_an_object_being_written_is_not_given():
    desk = Desk()
    desk.allocate(ONE, 100)
    desk.tell("n2/objects", PullObject(ONE, 1, 0, 100))
    assert desk.tell("n1/local", InlineRead(ONE, "n2/objects", None)) == [("n2/objects", PullRefused(ONE, 1))]


def test_all_orders_of_a_puller_are_served_when_the_object_was_restored():
    desk = Desk()
    orders = [PullObject(ONE, 1, 0, CHUNK), PullObject(ONE, 1, CHUNK, 2 * CHUNK), PullObject(ONE, 1, 3 * CHUNK, SIZE)]
    asked = [sent for order in orders for sent in desk.tell("n2/objects", order)]
    assert asked == [("n1/local", ReadInline(ONE, "n2/objects"))]
    desk.store(ONE, DATA)
    sent = desk.tell("n1/local", InlineRead(ONE, "n2/objects", None)) + desk.tell_all_outcomes()
    chunks = [message for _, message in sent if type(message) is ObjectChunk]
    assert b"".join(bytes(chunk.data.data) for chunk in sorted(chunks, key=lambda chunk: chunk.offset)) == DATA


# --- chunks that are none ---


def waiting(size=SIZE):
    """A node that has asked for chunks, and the ticket."""
    desk = Desk(name="n2")
    desk.tell("n2/local", fetch_order(size))
    desk.tell_outcome()
    ((_, order),) = desk.tell_outcome()  # the first pages are there, for four chunks
    return desk, order.ticket


def fetch_order(size):
    from zray.wire.objects import FetchObject

    return FetchObject(ONE, size, ["n1/local"])


def chunk(ticket, index, data=None, size=SIZE, offset=None):
    start = index * CHUNK if offset is None else offset
    return ObjectChunk(ONE, ticket, size, start, Bulk(DATA[start : start + CHUNK] if data is None else data))


def test_repeated_late_and_foreign_chunks_change_nothing():
    desk, ticket = waiting()
    desk.tell("n1/objects", chunk(ticket, 0))
    before = bytes(desk.manager.pulls.coming[ONE].chunks)
    for sender, message in (
        ("n1/objects", chunk(ticket, 0)),  # twice, while it is being written
        ("n3/objects", chunk(ticket, 1)),  # nobody has asked that one
        ("n1/objects", chunk(ticket - 1, 1)),  # an old ticket
        ("n1/objects", chunk(ticket, CHUNKS - 1)),  # not asked for yet
        ("n1/objects", ObjectChunk(IDS[1], ticket, SIZE, 0, Bulk(b"x" * CHUNK))),
        ("n1/objects", PullRefused(ONE, ticket - 1)),
        ("n3/objects", PullRefused(ONE, ticket)),
        ("n3/objects", PullElsewhere(ONE, ticket, "n4/objects")),
        ("n3/objects", ObjectInline(ONE, ticket, b"x")),
        ("n1/objects", PullDone(ONE, ticket)),
    ):
        assert desk.tell(sender, message) == []
        assert bytes(desk.manager.pulls.coming[ONE].chunks) == before
    desk.tell_all_outcomes()
    desk.tell("n1/objects", chunk(ticket, 0))  # and once more
    assert not desk.outcomes and desk.manager.pulls.coming[ONE].here == 1


@pytest.mark.parametrize("data", [b"", DATA[:100], DATA[: CHUNK + 1], DATA], ids=len)
def test_a_source_whose_chunks_are_too_short_or_too_long_is_left(data):
    desk, ticket = waiting()
    sent = desk.tell("n1/objects", chunk(ticket, 0, data))
    desk.tell_all_outcomes()
    assert sent == [("n1/objects", PullDone(ONE, ticket)), ("n2/local", FetchFailed(ONE, "no node has it"))]
    assert not desk.manager.ranges.used_bytes


def test_an_object_that_was_made_anew_and_has_another_size_is_asked_for_anew():
    desk, ticket = waiting()
    desk.tell("n1/objects", chunk(ticket, 0))
    sent = desk.tell("n1/objects", chunk(ticket, 1, size=SIZE + 1))
    assert [type(message) for _, message in sent] == [PullDone, FetchFailed]
    assert desk.manager.ranges.used_bytes  # the first chunk is still being written
    desk.tell_all_outcomes()
    assert not desk.manager.ranges.used_bytes


# --- holders that are lost, refuse, or fall silent ---


@pytest.mark.parametrize("seed", range(10))
def test_a_transfer_goes_on_where_it_stopped_when_its_source_is_lost(seed, monkeypatch):
    pick = random.Random(seed)
    monkeypatch.setattr(gives, "PIECE_CHUNKS", pick.choice((1, 2)))
    fleet = fleet_of("n1", "n2", "n3", holders=("n1", "n3"))
    fleet.fetch("n2", ONE, SIZE, ["n1", "n3"])
    pull = fleet.desks["n2"].manager.pulls.coming[ONE]
    fleet.run(pick.choice, until=lambda: pull.here >= 5)
    first = pull.source.partition("/")[0]
    other = {"n1": "n3", "n3": "n1"}[first]
    fleet.lose(first)
    fleet.run(pick.choice)
    assert has_it(fleet, "n2")
    assert 0 < bytes_from(fleet, first) and bytes_from(fleet, first) + bytes_from(fleet, other) == SIZE
    assert is_at_rest(fleet)


def test_a_transfer_goes_on_where_it_stopped_when_its_source_has_it_no_more():
    fleet = fleet_of("n1", "n2", "n3", holders=("n1", "n3"))
    fleet.fetch("n2", ONE, SIZE, ["n1", "n3"])
    pull = fleet.desks["n2"].manager.pulls.coming[ONE]
    fleet.run(until=lambda: pull.here)
    fleet.free(pull.source.partition("/")[0], ONE)
    fleet.run()
    assert has_it(fleet, "n2") and is_at_rest(fleet)


def test_a_source_that_falls_silent_is_left_for_another():
    fleet = fleet_of("n1", "n2", "n3", holders=("n1", "n3"))
    fleet.fetch("n2", ONE, SIZE, ["n1", "n3"])
    desk = fleet.desks["n2"]
    pull = desk.manager.pulls.coming[ONE]
    fleet.run(until=lambda: pull.here)
    silent = pull.source.partition("/")[0]
    held, fleet.mail[silent, "n2"] = fleet.mail[silent, "n2"], []
    desk.now += SILENCE_SECONDS
    fleet.tell("n2", "timer", desk.timers.pop())
    fleet.run()
    assert has_it(fleet, "n2")
    fleet.mail[silent, "n2"] = held + fleet.mail[silent, "n2"]
    fleet.run()
    assert len(fleet.fetched["n2"]) == 1 and is_at_rest(fleet)


def test_who_has_a_chunk_or_is_pulled_from_takes_whole_copies_only():
    """So that no two nodes ever wait for each other's chunks."""
    for is_attached, is_giving in ((False, False), (True, False), (False, True)):
        desk, ticket = waiting()
        if is_attached:
            desk.tell("n1/objects", chunk(ticket, 0))
        if is_giving:
            desk.tell("n3/objects", PullObject(ONE, 1, 0, CHUNK))
        desk.manager.pulls.coming[ONE].sources.append("n4/objects")
        sent = [message for target, message in desk.tell("n1/objects", PullRefused(ONE, ticket)) if target[:2] == "n4"]
        assert [order.whole_only for order in sent] == [is_attached or is_giving]
        # And who takes whole copies only gets nothing from one that is still pulling it.
        desk = Desk(name="n2")
        desk.tell("n2/local", fetch_order(SIZE))
        desk.tell_all_outcomes()
        assert desk.tell("n3/objects", PullObject(ONE, 5, 0, CHUNK, True)) == [("n3/objects", PullRefused(ONE, 5))]


def test_the_only_source_is_waited_for():
    fleet = fleet_of("n1", "n2")
    fleet.fetch("n2", ONE, SIZE, ["n1"])
    desk = fleet.desks["n2"]
    for _ in range(3):
        desk.now += SILENCE_SECONDS
        fleet.tell("n2", "timer", desk.timers.pop())
    fleet.run()
    assert has_it(fleet, "n2")
    fleet.tell("n2", "timer", desk.timers.pop())
    assert not desk.timers  # nothing is coming any more


# --- bytes stay as they are while others read them ---


def test_a_range_is_nobody_elses_until_the_last_one_who_pulls_from_it_has_said_so():
    fleet = fleet_of("n1", "n2", capacity=1 << 18)
    fleet.fetch("n2", ONE, SIZE, ["n1"])
    fleet.run(until=lambda: fleet.carried_from("n2", PullObject))
    source = fleet.desks["n1"]
    place = source.manager.objects[ONE].place
    fleet.free("n1", ONE)
    assert not source.manager.objects and source.manager.ranges.used_bytes
    # A writer who needs that room has to wait.
    fleet.post("n1", source.allocate(IDS[1], SIZE))
    assert IDS[1] not in source.manager.objects
    fleet.run()
    assert source.manager.objects[IDS[1]].place == StoredValue(0, place.offset, SIZE)
    assert [type(message) for message in fleet.fetched["n2"]] == [FetchFailed]


def test_a_range_that_chunks_are_written_into_is_nobody_elses():
    desk, ticket = waiting()
    desk.tell_all_outcomes()  # all its pages are there
    desk.tell("n1/objects", chunk(ticket, 0))
    desk.tell("n2/local", FreeObjects([ONE]))
    assert desk.manager.ranges.used_bytes and not desk.manager.pulls.coming
    assert desk.tell("n3/objects", chunk(ticket, 1)) == []
    desk.tell_all_outcomes()
    assert not desk.manager.ranges.used_bytes


# --- one object for many ---


def test_no_more_than_so_many_pull_from_one_at_a_time_and_others_are_sent_on():
    fleet = fleet_of(*(f"n{number}" for number in range(1, 8)))
    for number in range(2, 8):
        fleet.fetch(f"n{number}", ONE, SIZE, ["n1"])
    pick = random.Random(5)
    while moves := fleet.moves():
        fleet.step(pick.choice(moves))
        assert all(
            len(give.slots) <= 2 for desk in fleet.desks.values() for give in desk.manager.gives.by_object.values()
        )
    assert all(has_it(fleet, f"n{number}") for number in range(2, 8))
    assert fleet.carried_from("n1", PullElsewhere)
    # Who is pulling it gives it on.
    givers = {source for source, _, message in fleet.carried if type(message) is ObjectChunk}
    assert len(givers) > 1
    assert is_at_rest(fleet)


@pytest.mark.parametrize("seed", range(60))
def test_everyone_gets_it_whoever_dies_on_the_way(seed, monkeypatch):
    """As long as one that had it from the beginning is left."""
    pick = random.Random(seed)
    monkeypatch.setattr(gives, "PIECE_CHUNKS", pick.choice((1, 3, 8)))
    names = [f"n{number}" for number in range(1, pick.randrange(4, 12))]
    holders = names[: pick.randrange(1, 4)]
    fleet = fleet_of(*names, holders=holders)
    pullers = names[len(holders) :]
    order = pick.sample(pullers, len(pullers))
    victims = pick.sample([*holders[1:], *pullers], pick.randrange(0, max(1, len(pullers))))
    for name in order:
        fleet.fetch(name, ONE, SIZE, pick.sample(holders, len(holders)))
        fleet.run(pick.choice, until=lambda: pick.random() < 0.1)
    for victim in victims:
        fleet.run(pick.choice, until=lambda: pick.random() < 0.02)
        if pick.random() < 0.7:
            fleet.lose(victim)
        elif victim in holders:
            fleet.free(victim, ONE)
            fleet.post(victim, fleet.desks[victim].store(IDS[1], b"x" * SIZE))  # there, if the range is free
    fleet.run(pick.choice)
    for name in pullers:
        if name not in fleet.lost:
            assert has_it(fleet, name), f"{name} of {names}, lost {sorted(fleet.lost)}"
    assert is_at_rest(fleet)


def test_timers_of_a_node_that_fetches_nothing_end():
    desk = Desk(name="n2")
    desk.tell("n2/local", fetch_order(SIZE))
    desk.tell_all_outcomes()
    desk.tell("n2/local", StopFetching(ONE))
    assert desk.timer("Patience.leave_silent") == [] and not desk.timers


def test_one_order_never_asks_for_more_than_a_window():
    """Whatever it says: so much may be read at once, on one message's word."""
    desk = Desk(capacity=64 << 20)
    desk.store(ONE, bytes(32 << 20))
    sent = desk.tell("n2/objects", PullObject(ONE, 1, CHUNK, 1 << 62))
    assert sum(len(message.data) for _, message in sent) == WINDOW_BYTES_MAX
    desk.tell("n2/objects", PullDone(ONE, 1))
