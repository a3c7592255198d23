"""One object for many nodes, over lines that carry so many bytes a second: a tree, not a queue.

From a program outside of the cluster, whose line may be slow, it comes once.
"""

import math
import statistics

import pytest

from zray.sim.cuts import GUEST
from zray.sim.language import Get, Put, Sleep, Submit, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.values import Big
from zray.wire.task_spec import RESOURCE_UNIT

pytestmark = pytest.mark.sim

SIZE = 1 << 20
BANDWIDTH = 10 << 20
TRANSFER_SECONDS = SIZE / BANDWIDTH
COPIES_MAX = 2


@remote
def look_at(big, seconds):
    yield Sleep(seconds)
    return big.fill


def to_all(count):
    """A task on each of the other nodes (only one of them has room there), which takes what lies on this one."""
    big = yield Put(Big(7, SIZE))
    resources = {"CPU": RESOURCE_UNIT, "room": RESOURCE_UNIT}
    refs = []
    for _ in range(count):
        refs.append((yield Submit(look_at, (big, 5.0), resources=resources)))
    return (yield Get(refs))


def broadcast(nodes, seed=1, home="n1", **options):
    """A world in which it begins."""
    line = {"delay": "even", "bandwidth": BANDWIDTH, "chunk_bytes": 4096}
    world = Simulator(Options(seed=seed, nodes=nodes, check_every=10, has_guest=home == GUEST, **line, **options))
    world.run(0.5)
    driver = world.start_driver(world.nodes[home], 1, to_all, (nodes - 1,))
    managers = [node.manager for name, node in world.nodes.items() if home == "n1" or name != "n1"]
    assert world.run(2.0, unless=lambda: any(manager.pulls.coming for manager in managers))
    return world, driver, managers


def have_it(managers):
    return all(manager.objects and not manager.pulls.coming for manager in managers)


def transfer_times(nodes, seed):
    """How long it takes, in times that one copy takes."""
    world, driver, managers = broadcast(nodes, seed)
    begun = world.now
    most = 0

    def is_done():
        nonlocal most
        slots = [len(give.slots) for manager in managers for give in manager.gives.by_object.values()]
        most = max(most, *slots, 0)
        return have_it(managers)

    assert world.run(begun + 20.0, unless=is_done)
    taken = (world.now - begun) / TRANSFER_SECONDS
    assert most <= COPIES_MAX
    assert world.run(world.now + 20.0, unless=lambda: driver.is_done)
    assert driver.result == [7] * (nodes - 1)
    return taken


@pytest.mark.parametrize("nodes", [2, 4, 8, 16, 32])
def test_it_takes_a_number_of_transfer_times_that_grows_with_the_logarithm_of_the_nodes(nodes):
    """Which holder is asked is chance: a tree may be an unlucky one, with a longer branch."""
    times = [transfer_times(nodes, seed) for seed in range(1, 6)]
    assert statistics.median(times) <= 1.5 + 0.5 * math.log2(nodes), times
    assert max(times) <= 2.0 + math.log2(nodes), times


def test_the_first_holder_sends_few_copies_however_many_want_one():
    world, _, managers = broadcast(24)
    line = world.nodes["n1"]
    before = line.line_is_free_at
    assert world.run(world.now + 20.0, unless=lambda: have_it(managers))
    busy_seconds = line.line_is_free_at - before
    assert busy_seconds < (COPIES_MAX + 2) * TRANSFER_SECONDS


def bytes_from(world, role):
    """Of each frame from there that arrives from now on."""
    sent, note = [], world.trace.frame

    def frame(when, source, target, data):
        if source == role:
            sent.append(len(data))
        note(when, source, target, data)

    world.trace.frame = frame
    return sent


@pytest.mark.parametrize("slow_line", [1.0, 10.0, 40.0])
@pytest.mark.parametrize("nodes", [3, 4, 8])
def test_a_program_outside_sends_one_copy_however_many_want_one(nodes, slow_line, monkeypatch):
    """And all have it soon after the first one has: nobody waits for a second copy over that line.  The slowest takes
    4 s, as long as one that says nothing may."""
    for name in ("WINDOW_BYTES", "WINDOW_BYTES_MAX"):  # an object is larger than what is asked for at a time
        monkeypatch.setattr(f"zray.roles.object_manager.sources.{name}", SIZE // 4)
    for seed in range(1, 4):
        world, driver, managers = broadcast(nodes, seed, GUEST, slow_line=slow_line)
        begun, sent = world.now, bytes_from(world, f"{GUEST}/objects")
        assert world.run(begun + 60.0, unless=lambda managers=managers: have_it(managers))
        assert SIZE < sum(sent) < 1.1 * SIZE
        most = 1.2 * slow_line + 1.5 + 0.5 * math.log2(nodes)
        assert (world.now - begun) / TRANSFER_SECONDS < most
        assert world.run(world.now + 60.0, unless=lambda driver=driver: driver.is_done)
        assert driver.result == [7] * (nodes - 1)


@remote
def make_for_the_other(size):
    yield Sleep(0.0)
    return Big(3, size)


def exchange():
    """A value goes from this node to the other one, and a moment later another one comes from there."""
    resources = {"CPU": RESOURCE_UNIT, "room": RESOURCE_UNIT}
    made = yield Submit(make_for_the_other, (SIZE,), resources=resources)
    yield Sleep(1.0)
    big = yield Put(Big(7, SIZE))
    looked = yield Submit(look_at, (big, 0.0), resources=resources)
    yield Sleep(0.03)
    value = yield Get([made])
    return value[0].fill, (yield Get([looked]))


def test_two_nodes_that_exchange_values_do_not_take_turns():
    """A request is not held back by what its sender gives: it overtakes the chunks on the sender's own line."""
    line = {"delay": "even", "bandwidth": BANDWIDTH, "chunk_bytes": 4096}
    world = Simulator(Options(seed=1, nodes=2, check_every=10, **line))
    world.run(0.5)
    driver = world.start_driver(world.nodes["n1"], 1, exchange, ())
    first, second = (world.nodes[name].manager for name in ("n1", "n2"))
    assert world.run(5.0, unless=lambda: second.pulls.coming)
    begun = world.now
    assert world.run(world.now + 5.0, unless=lambda: first.pulls.coming)
    assert second.pulls.coming, "the first value has come before the second was asked for"
    assert world.run(world.now + 5.0, unless=lambda: not first.pulls.coming and not second.pulls.coming)
    assert world.now - begun < 1.5 * TRANSFER_SECONDS
    assert world.run(world.now + 5.0, unless=lambda: driver.is_done)
    assert driver.result == (3, [7])
