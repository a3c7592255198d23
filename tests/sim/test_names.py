"""Names of actors, over several shards: all of them are found, whoever dies among the replicas."""

import pytest

from zray.sim.actor_programs import Counter
from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Call, Create, FindNames, Get, Kill
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.wire.where import Where

pytestmark = pytest.mark.sim

NAMES = [f"actor {number}" for number in range(8)]


def make_and_list(names):
    """(the names before, with all of them, and without one of this node that was killed)"""
    before = yield FindNames()
    counters = []
    for name in names:
        counters.append((yield Create(Counter, (0,), name=name, where=Where(node="n2"))))
    refs = []
    for counter in counters:
        refs.append((yield Call(counter, "add", ("driver", 1))))
    yield Get(refs)
    with_all = yield FindNames()
    yield Kill(counters[0])
    return before, with_all, (yield FindNames())


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("faults", [{}, {"spares": 1, "member_kills": 5, "member_kill_probability": 0.02}], ids=str)
@pytest.mark.parametrize("shards, replicas", [(1, 1), (3, 1), (3, 2)])
def test_all_shards_say_which_names_there_are(shards, replicas, faults, seed):
    world = Simulator(Options(seed=seed, nodes=3, shards=shards, replicas=replicas + bool(faults), **faults))
    world.run(MEETING_SECONDS)
    driver = world.start_driver(world.nodes["n2"], 1, make_and_list, (NAMES,))
    assert world.run(100.0, unless=lambda: driver.is_done), "it waits for ever"
    assert driver.result == ([], NAMES, NAMES[1:])
    world.end_driver(driver)
    world.run(world.now + 5.0)
    world.checkers.at_rest()
