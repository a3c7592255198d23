"""Objects of a program outside of the cluster: they go over its line once, however many nodes want them."""

import random

import pytest

from tests.roles.object_desk import CHUNK, Desk
from tests.roles.test_transfers import DATA, IDS, ONE, SIZE, bytes_from, fleet_of, has_it, is_at_rest
from zray.roles.object_manager import gives
from zray.roles.object_manager.pulls import SILENCE_SECONDS
from zray.wire.objects import FreeObjects, InlineRead, ObjectChunk, PullDone, PullElsewhere, PullObject, PullRefused

NODES = [f"n{number}" for number in range(1, 8)]


@pytest.fixture(autouse=True)
def several_orders(monkeypatch):
    """An object is larger than what is asked for at a time."""
    for name in ("WINDOW_BYTES", "WINDOW_BYTES_MAX"):
        monkeypatch.setattr(f"zray.roles.object_manager.sources.{name}", 4 * CHUNK)


def fleet_with_guest(**options):
    """Nodes, and a program outside that has the object."""
    fleet = fleet_of("guest", *NODES, holders=("guest",), **options)
    fleet.desks["guest"].manager.gives.is_outside = True
    return fleet


@pytest.mark.parametrize("seed", range(20))
def test_it_gives_an_object_once(seed):
    pick = random.Random(seed)
    fleet = fleet_with_guest()
    for name in pick.sample(NODES, len(NODES)):
        fleet.fetch(name, ONE, SIZE, ["guest"])
        fleet.run(pick.choice, until=lambda: pick.random() < 0.1)
    fleet.run(pick.choice)
    assert all(has_it(fleet, name) for name in NODES) and is_at_rest(fleet)
    assert bytes_from(fleet, "guest") == SIZE


@pytest.mark.parametrize("seed", range(20))
def test_who_takes_it_for_small_is_sent_on_as_well(seed):
    pick = random.Random(seed)
    fleet = fleet_with_guest()
    for name in NODES:
        fleet.fetch(name, ONE, SIZE, ["guest"], is_small=pick.random() < 0.5)
        fleet.run(pick.choice, until=lambda: pick.random() < 0.1)
    fleet.run(pick.choice)
    assert all(has_it(fleet, name) for name in NODES) and is_at_rest(fleet)


def test_nobody_inside_is_refused_what_it_has_begun_to_take_from_one_that_is_pulling_it():
    """Whatever it asked for after its first chunk: it would have had the rest from the holder."""
    fleet = fleet_of(*NODES)
    for name in NODES[1:]:
        fleet.fetch(name, ONE, SIZE, ["n1"])
    fleet.run(random.Random(1).choice)
    assert all(has_it(fleet, name) for name in NODES[1:]) and is_at_rest(fleet)
    assert bytes_from(fleet, "n1") == 2 * SIZE
    assert not any(fleet.carried_from(name, PullRefused) for name in NODES)


def test_who_comes_later_is_sent_to_one_that_has_it_by_then():
    fleet = fleet_with_guest()
    for name in NODES:
        fleet.fetch(name, ONE, SIZE, ["guest"])
        fleet.run()
    assert all(has_it(fleet, name) for name in NODES) and is_at_rest(fleet)
    assert bytes_from(fleet, "guest") == SIZE


def test_who_comes_later_is_given_it_where_the_one_that_had_it_has_it_no_more():
    fleet = fleet_with_guest()
    fleet.fetch("n1", ONE, SIZE, ["guest"])
    fleet.run()
    fleet.free("n1", ONE)
    fleet.fetch("n2", ONE, SIZE, ["guest"])
    fleet.run()
    assert has_it(fleet, "n2") and bytes_from(fleet, "guest") == 2 * SIZE
    # And the first one too, when it wants it again.
    fleet.fetch("n1", ONE, SIZE, ["guest"])
    fleet.run()
    assert fleet.desks["n1"].bytes_of(ONE) == DATA and is_at_rest(fleet)
    assert bytes_from(fleet, "guest") == 2 * SIZE


@pytest.mark.parametrize("seed", range(60))
def test_everyone_gets_it_whoever_dies_or_lets_go_of_it_on_the_way(seed):
    pick = random.Random(seed)
    fleet = fleet_with_guest()
    for name in pick.sample(NODES, len(NODES)):
        fleet.fetch(name, ONE, SIZE, ["guest"])
        fleet.run(pick.choice, until=lambda: pick.random() < 0.1)
    gone = set()
    for victim in pick.sample(NODES, pick.randrange(1, len(NODES))):
        fleet.run(pick.choice, until=lambda: pick.random() < 0.02)
        if pick.random() < 0.5:
            fleet.lose(victim)
        else:
            fleet.free(victim, ONE)
            gone.add(victim)
    fleet.run(pick.choice)
    for name in NODES:
        assert name in fleet.lost or name in gone or has_it(fleet, name), name
    assert is_at_rest(fleet)


@pytest.mark.parametrize("is_small", [True, False])
def test_those_that_were_sent_to_one_that_stalls_come_back_and_have_what_they_got_there(is_small):
    fleet = fleet_with_guest()
    fleet.fetch("n1", ONE, SIZE, ["guest"])
    fleet.run(until=lambda: fleet.desks["n1"].manager.pulls.coming[ONE].here >= 2)
    others = NODES[1:4]
    for name in others:
        fleet.fetch(name, ONE, SIZE, ["guest"], is_small=is_small)
    while any(fleet.mail.get(pair) for pair in fleet.mail if pair != ("guest", "n1")) or any(
        desk.outcomes for desk in fleet.desks.values()
    ):
        fleet.step(next(move for move in fleet.moves() if move != ("mail", ("guest", "n1"))))
    held, fleet.mail["guest", "n1"] = fleet.mail["guest", "n1"], []
    assert not any(fleet.fetched.get(name) for name in others)
    for _ in range(8):  # one that waits for a slot may be sent on to another such
        for name in others:
            desk = fleet.desks[name]
            desk.now += SILENCE_SECONDS
            for timer in [desk.timers.pop() for _ in range(len(desk.timers))]:
                fleet.tell(name, "timer", timer)
        fleet.run()
    assert all(has_it(fleet, name) for name in others)
    fleet.mail["guest", "n1"] = held
    fleet.run()
    assert has_it(fleet, "n1") and is_at_rest(fleet)
    # One copy to the first, and what was missing to the second; the third waited for that one.
    assert bytes_from(fleet, "guest") <= 3 * SIZE


def guest_desk(size=SIZE, capacity=1 << 20):
    desk = Desk(capacity=capacity, name="guest", is_outside=True)
    desk.store(ONE, bytes(size))
    return desk


def answers(desk, puller, *order):
    """To an order for it."""
    desk.tell(f"{puller}/objects", PullObject(ONE, *order))
    return desk.tell("guest/local", InlineRead(ONE, f"{puller}/objects", None))


def is_given(sent):
    """A chunk, and nothing else."""
    return [type(message) for _, message in sent] == [ObjectChunk]


def test_who_has_waited_for_a_slot_is_sent_on_to_the_one_that_has_it_now():
    desk = guest_desk()
    answers(desk, "n1", 1, 0, CHUNK)
    assert answers(desk, "n2", 2, 0, CHUNK) == [("n2/objects", PullElsewhere(ONE, 2, "n1/objects"))]
    assert is_given(answers(desk, "n2", 3, 0, CHUNK, True))  # it comes back
    assert answers(desk, "n3", 4, 0, CHUNK, True) == []  # it waits
    sent = desk.tell("n2/objects", PullDone(ONE, 3, True))
    assert sent == [("n3/objects", PullElsewhere(ONE, 4, "n2/objects"))]
    # And is given it after all, should nothing come of that.
    assert is_given(answers(desk, "n3", 5, 0, CHUNK, True))
    for puller, ticket in (("n1", 1), ("n3", 5)):
        desk.tell(f"{puller}/objects", PullDone(ONE, ticket))
    desk.tell("guest/local", FreeObjects([ONE]))
    assert not desk.manager.gives.by_object and not desk.manager.gives.given


def test_nobody_is_sent_on_to_one_whose_own_line_is_slow():
    desk = guest_desk(gives.PACED_BYTES_MIN, 4 << 20)
    for puller, seconds in (("n1", 8.0), ("n2", 1.0)):
        answers(desk, puller, 1, 0, CHUNK)
        desk.now += seconds
        desk.tell(f"{puller}/objects", PullDone(ONE, 1, True))
        desk.tell("monitor", FreeObjects([ONE]))
        desk.store(IDS[2], b"x")
        desk.store(ONE, bytes(gives.PACED_BYTES_MIN))
    answers(desk, "n1", 3, 0, CHUNK)
    assert is_given(answers(desk, "n2", 3, 0, CHUNK))  # not behind the slow one
    assert answers(desk, "n3", 3, 0, CHUNK)[0] == ("n3/objects", PullElsewhere(ONE, 3, "n2/objects"))
