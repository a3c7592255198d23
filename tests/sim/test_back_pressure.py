"""A shard that does nothing holds back the processes whose nodes have much to say to it; and they go on with it."""

import pytest

from zray.roles.gcs import client
from zray.roles.work_effects import HoldBack
from zray.sim.actor_programs import Counter
from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Create, Drop, Sleep
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.wire import link
from zray.wire.session import Ack, GetStatus

pytestmark = pytest.mark.sim

PENDING_MAX, IN_FLIGHT_BYTES_MAX = 20, 1_000
COUNT = 300


def make_and_drop(count):
    """An actor each, of which the shard is told twice at least."""
    for number in range(count):
        counter = yield Create(Counter, (number,))
        yield Drop([counter])
        yield Sleep(1e-3)
    return count


def test_what_waits_for_a_shard_is_bounded(monkeypatch):
    monkeypatch.setattr(client, "PENDING_MAX", PENDING_MAX)
    monkeypatch.setattr(link, "IN_FLIGHT_BYTES_MAX", IN_FLIGHT_BYTES_MAX)
    monkeypatch.setattr(link, "ACKNOWLEDGE_BYTES", IN_FLIGHT_BYTES_MAX)
    world = Simulator(Options(seed=1, nodes=2, replicas=1))
    world.run(MEETING_SECONDS)
    (host,) = world.shards.hosts.values()
    (chain,) = [role for role in world.nodes["n1"].roles.values() if type(role) is client.ChainClient]
    driver = world.start_driver(world.nodes["n1"], 1, make_and_drop, (COUNT,))
    world.faults.freeze(host, 1.0)
    waiting = []
    for _ in range(9):
        world.run(world.now + 0.1)
        waiting.append(len(chain.pending))
    # It said some 50 bytes per actor while nobody acknowledged that.
    assert PENDING_MAX < waiting[0] == waiting[-1] < PENDING_MAX + 2 * IN_FLIGHT_BYTES_MAX // 50
    assert not driver.is_done
    assert world.run(world.now + 5.0, unless=lambda: driver.is_done and not chain.pending)
    assert driver.result == COUNT


def test_who_is_held_back_is_heard_and_goes_on_when_told():
    here, there = link.Link(), link.Link()
    assert not here.hold(True)
    for number in range(2 * link.ACKNOWLEDGE_FRAMES):
        (heard,) = here.unpack(there.pack([GetStatus(number)]))
        assert heard.request == number and not here.owes_acknowledgement
    there.unpack(here.pack([Ack()]))
    assert there.peer_acknowledged == 0 and there.in_flight_bytes
    assert here.hold(False)
    there.unpack(here.pack([Ack()]))
    assert not there.in_flight_bytes and not here.hold(False)


def test_processes_go_on_when_no_chain_wants_them_held_back():
    world = Simulator(Options(seed=1, nodes=2, replicas=1, shards=2))
    world.run(MEETING_SECONDS)
    node = world.nodes["n1"]
    first, second = [role for role in node.roles.values() if type(role) is client.ChainClient]
    world.start_driver(node, 1, make_and_drop, (1,))
    for role, is_held, are_held in ((first, True, True), (second, True, True), (first, False, True)):
        node._perform_all(role, [HoldBack(is_held)])
        assert {line.ends["n1"].link.is_held for line in node.connections.values()} == {are_held}
    node._perform_all(second, [HoldBack(False)])
    assert {line.ends["n1"].link.is_held for line in node.connections.values()} == {False}
