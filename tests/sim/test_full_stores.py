"""Clusters whose stores have no room for all that a task takes."""

import pytest

from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Call, Create, Drop, Submit, remote
from zray.sim.object_programs import make_big
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.task_programs import nap, outcome
from zray.sim.values import Big
from zray.wire.where import Where

pytestmark = pytest.mark.sim

CAPACITY, SIZE, COUNT = 65_536, 10_000, 5  # so many from each of two nodes: twice as many have no room on a third
HERE, THERE = Where(node="n2"), (Where(node="n3"), Where(node="n4"))


@remote
def count_of(*values):
    return sum(isinstance(value, Big) for value in values)


@remote
class Eater:
    def count(self, *values):
        return len(values)


def made():
    values = []
    for where in THERE:
        for number in range(COUNT):
            values.append((yield Submit(make_big, (number, SIZE), where=where)))
    return values


def takes_too_much(is_call):
    values = yield from made()
    if is_call:
        actor = yield Create(Eater, where=HERE)
        too_much = yield Call(actor, "count", tuple(values))
    else:
        late = yield Submit(nap, (60.0, 1), where=THERE[1])
        too_much = yield Submit(count_of, (*values, late), where=HERE)
    failed = yield from outcome(too_much)
    yield Drop(values)
    enough = yield Submit(count_of, tuple((yield from made())[:COUNT]), where=HERE)
    return failed, (yield from outcome(enough))


@pytest.mark.parametrize("is_call", [False, True], ids=["task", "call"])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_an_error_after_one_wait_for_all_of_it(seed, is_call):
    """What is not made yet is not waited for; and there is room for another one then."""
    world = Simulator(Options(seed=seed, nodes=4, cpus=2, capacity=CAPACITY))
    world.run(MEETING_SECONDS)
    driver = world.start_driver(world.nodes["n1"], 1, takes_too_much, (is_call,))
    assert world.run(world.now + 60.0, unless=lambda: driver.is_done), "it hangs"
    failed, count = driver.result
    assert failed.kind == "ObjectStoreFullError" and count == COUNT
    assert world.now - MEETING_SECONDS < 7.0
