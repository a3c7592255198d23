"""Nodes that leave in order, several at once: nothing that was put on them is lost."""

import pytest

from zray.roles.effects import DrainOrdered
from zray.roles.local_scheduler import drain
from zray.roles.replica_effects import MachineIsFree
from zray.sim.language import Get, Put, Sleep, Submit, remote
from zray.sim.main import run_program, run_seed
from zray.sim.options import Options, Wanted
from zray.sim.simulator import Simulator
from zray.sim.values import Big
from zray.wire.where import Where

pytestmark = pytest.mark.sim

SIZE = 4_000


@remote
def put_each(fills):
    refs = []
    for fill in fills:
        refs.append((yield Put(Big(fill, SIZE))))
    return refs


def have_leave(world, names):
    for name in names:
        world.faults.troubled.add(name)
        world.heads.node.arrive("host", world.heads.monitor.address, DrainOrdered(f"{name}/local", 0.0))


def put_on(world, names, count):
    """A driver that has values put on these, has them leave, and looks when they have."""

    def program():
        tasks = []
        for number, name in enumerate(names):
            fills = range(number * count, (number + 1) * count)
            tasks.append((yield Submit(put_each, (list(fills),), where=Where(node=name))))
        refs = [ref for found in (yield Get(tasks)) for ref in found]
        world.call_later(0.0, have_leave, world, names)
        while world.nodes.keys() & set(names):
            yield Sleep(0.01)
        return [value.fill for value in (yield Get(refs))]

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(60.0, unless=lambda: driver.is_done), f"left: {list(world.nodes)}"
    return driver.result


@pytest.mark.parametrize("seed", range(1, 11))
@pytest.mark.parametrize("nodes", [3, 5])
def test_all_nodes_but_the_head_leave_at_once(nodes, seed):
    """None counts on a copy that another one of them is to have."""
    world = Simulator(Options(seed=seed, nodes=nodes, cpus=1))
    world.run(0.3)
    assert put_on(world, [name for name in world.nodes if name != "n1"], 3) == list(range(3 * (nodes - 1)))


@pytest.mark.parametrize("seed", range(1, 6))
def test_who_was_to_have_it_is_lost(seed, monkeypatch):
    """What others wait for their turn is no reason to forget the one that has to be asked for again."""
    monkeypatch.setattr(drain, "MOVING_MAX", 1)
    world = Simulator(Options(seed=seed, nodes=4, cpus=1))
    world.run(0.3)
    took = drain.Taking.on_take_copies

    def die_of_the_second(taking, message):
        node = world.homes[taking.node.address]
        if node.name in ("n3", "n4") and message.objects and "n3" in world.nodes and "n4" in world.nodes:
            world.faults.kill_node(node, "is killed")
        else:
            took(taking, message)

    monkeypatch.setattr(drain.Taking, "on_take_copies", die_of_the_second)
    assert put_on(world, ["n2"], 9) == list(range(9))


@pytest.mark.parametrize("seed", range(1, 6))
def test_one_that_is_done_looks_again_when_another_one_dies(seed):
    """It still waits for its replicas to be moved, and now has the only copies."""
    world = Simulator(Options(seed=seed, nodes=4, cpus=1))
    world.run(0.3)
    monitor = world.heads.monitor
    monitor.hosting = "hosting"  # which there is none of: nobody says that a machine is free
    leaving = world.nodes["n2"].scheduler.drain

    def kill_those_with_copies():
        if not leaving.is_done:
            world.call_later(0.01, kill_those_with_copies)
            return
        for name in ("n3", "n4"):
            world.faults.kill_node(world.nodes[name], "is killed")
        world.call_later(5.0, world.heads.node.arrive, "hosting", monitor.address, MachineIsFree("n2/local"))

    world.call_later(0.01, kill_those_with_copies)
    assert put_on(world, ["n2"], 9) == list(range(9))


def test_an_answer_that_is_made_again_where_its_call_is_held_back_need_not_be_moved():
    """The node waited for a copy elsewhere, and who was to take one for the call that was to give it."""
    options = {"node_kills": 1, "node_kill_probability": 0.002, "node_drains": 1}
    outcome = run_program("hoard", seed=138, nodes=4, cpus=1, **options)
    assert not outcome.error, outcome.error


def test_calls_that_are_held_back_go_on_where_what_they_take_fills_the_only_store_that_is_left():
    """The node waited for room there for its objects, and that for the answers of the calls."""
    asked = {"deaths": True, "drains": True, "groups": True, "crashes": True, "oneway": True, "schedulers": True}
    outcome = run_seed(970008612, Wanted(nodes=4, shards=4, replicas=3, tight=True, weather=True, **asked))
    assert not outcome.error, outcome.error
