"""What goes on for long leaves nothing behind while it does: tables grow with what lives, not with time."""

import pytest

from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Call, Create, Drop, Get, Keep, MakeGroup, RemoveGroup, Sleep, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.wire.task_spec import RESOURCE_UNIT

pytestmark = pytest.mark.sim

ROUNDS = 50


@remote
class GroupMaker:
    """Makes placement groups, one after the other."""

    def make_and_remove(self):
        group = yield MakeGroup([{"CPU": RESOURCE_UNIT}], "PACK")
        yield Sleep(0.02)
        yield RemoveGroup(group)


def make_many(count):
    maker = yield Create(GroupMaker, ())
    for _ in range(count):
        ref = yield Call(maker, "make_and_remove", ())
        yield Get(ref)
        yield Drop([ref])
        yield Sleep(0.01)


@remote
class Asker:
    """It recovers, and has another one asked."""

    def __init__(self, other):
        self.other = other

    def begin(self):
        yield Keep(self.other)

    def ask(self, which):
        return (yield Get((yield Call(self.other, "say", (which,), max_retries=-1))))


@remote
class Teller:
    """Says it again."""

    def say(self, which):
        return which


def ask_often(count):
    options = {"max_restarts": -1, "checkpoint_interval": 0}
    teller = yield Create(Teller, (), resources={"room": RESOURCE_UNIT}, **options)
    asker = yield Create(Asker, (teller,), resources={"room": RESOURCE_UNIT}, **options)
    for number in range(count):
        ref = yield Call(asker, "ask", (number,), max_retries=-1, readonly=True)
        assert (yield Get(ref)) == number
        yield Drop([ref])
    yield Drop([teller, asker])


def most_of(count, nodes, program):
    """The most that `count` says of any node's scheduler, each 10 ms while the program runs."""
    world = Simulator(Options(seed=1, nodes=nodes))
    world.run(MEETING_SECONDS)
    driver = world.start_driver(world.nodes["n1"], 1, program, (ROUNDS,))
    most = 0
    while not driver.is_done:
        assert world.now < 60, "it hangs"
        world.run(world.now + 0.01, unless=lambda: driver.is_done)
        most = max(most, *(count(node.scheduler) for node in world.nodes.values()), 0)
    return most


def test_what_readonly_calls_have_called_is_forgotten_by_the_guardian_too():
    def noted_calls(scheduler):
        return max((guard.copy.journal.nested.count for guard in scheduler.guards.guarded.values()), default=0)

    assert 0 < most_of(noted_calls, 3, ask_often) < 5


@pytest.mark.parametrize("nodes", [1, 2])
def test_groups_that_an_actor_has_made_and_removed_are_forgotten(nodes):
    def kept_groups(scheduler):
        keeping = scheduler.keeping
        return max(len(keeping.maker), *(len(groups) for groups in keeping.of_actors.values()), 0)

    assert 0 < most_of(kept_groups, nodes, make_many) < 5
