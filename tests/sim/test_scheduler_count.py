"""Global schedulers that come and go with the load, in worlds where their work takes time; and under all faults."""

import pytest

from tests.sim.sweeps import HALF, sweep
from zray.roles.scheduler_count import Limits
from zray.sim.costs import Costs
from zray.sim.language import Drop, Put, Submit, Wait
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.task_programs import nap

pytestmark = pytest.mark.sim

# All times are a fifth, or a twelfth, of those of production: a world of 64 nodes sends each scheduler 640 load reports
# per second.
LIMITS = Limits(report_s=0.2, up_s=2.0, down_s=5.0)
TASK_SECONDS = 0.0625
# 400 placements a second and scheduler: four nodes ask for 64, and 64 nodes for 1,024.
COSTS = {"GlobalScheduler: SpillTask": 1 / 400}
MOST = 6
# Tasks in flight: three for each node.
PHASES = ((12, 1.5), (192, 7.0), (12, 19.0))
# What the nodes can do, with any number of schedulers.
CAPACITY = 64 / TASK_SECONDS


class Load:
    """A world, and a program with as many tasks in flight as a phase says: all have a ref, and are spilled."""

    def __init__(self, least, most, *, nodes=64, phases=PHASES):
        options = Options(
            seed=1,
            nodes=nodes,
            cpus=1,
            policy="central",
            check_every=1_000,
            global_schedulers=least,
            schedulers_max=most,
        )
        self.world = Simulator(options, costs=Costs(kinds=COSTS, cores=8))
        self.world.schedulers.count_role.limits = LIMITS
        self.done = []  # when tasks were done
        self.ends = []
        self.world.run(1.0)
        at = self.begun = self.world.now
        for _, seconds in phases:
            at += seconds
            self.ends.append(at)
        driver = self.world.start_driver(self.world.nodes["n1"], 1, self.program, (phases,))
        assert self.world.run(at + 10.0, unless=lambda: driver.is_done)

    def program(self, phases):
        value = yield Put(1)
        refs = []
        for (width, _), end in zip(phases, self.ends, strict=True):
            while self.world.now < end:
                while len(refs) < width:
                    refs.append((yield Submit(nap, (TASK_SECONDS, value))))
                ready, refs = yield Wait(refs, 1, None)
                self.done += [self.world.now] * len(ready)
                yield Drop(ready)

    def rate(self, begin, end):
        """Tasks per second between two times."""
        return sum(begin <= at < end for at in self.done) / (end - begin)

    @property
    def changes(self):
        return self.world.schedulers.changes


def test_the_number_follows_a_load_of_4_64_and_4_nodes():
    adaptive = Load(1, MOST)
    four, many, again = adaptive.ends
    up = [at for at, count in adaptive.changes if at < many + 0.5]
    down = [at for at, count in adaptive.changes if at >= many + 0.5]
    counts = [count for _, count in adaptive.changes]
    assert counts == [*range(2, len(up) + 2), *range(len(up), 0, -1)] and 3 <= max(counts) <= 4
    assert four < up[0] <= four + 1.5 * LIMITS.up_s and up[1] - up[0] <= 1.5 * LIMITS.up_s
    assert all(later - sooner >= LIMITS.down_s - LIMITS.report_s for sooner, later in zip(down, down[1:], strict=False))
    assert down[-1] <= again
    assert adaptive.rate(many - 2.0, many) >= 0.95 * CAPACITY
    alone = Load(1, 1, phases=((12, 3.0),)).rate(2.0, 4.0)
    assert adaptive.rate(2.0, four) >= 0.95 * alone and adaptive.rate(again - 3.0, again) >= 0.95 * alone


def test_single_scheduler_places_too_few_for_64_nodes():
    assert Load(1, 1, phases=((192, 3.0),)).rate(2.0, 4.0) <= 0.6 * CAPACITY


def test_a_load_of_four_nodes_is_left_alone():
    assert Load(1, MOST, nodes=4, phases=((12, 12.0),)).changes == []


def test_they_come_and_go_while_programs_run():
    sweep(range(77_000_001, 77_000_001 + HALF), nodes=4, counts=True)


@pytest.mark.parametrize(
    "options",
    [
        {"schedulers": True, "deaths": True, "drains": True},
        {"schedulers": True, "cuts": True, "oneway": True, "weather": True},
        {"replicas": 2, "shards": 2, "disks": True, "crashes": True},
    ],
    ids=lambda options: ", ".join(options),
)
def test_they_come_and_go_under_faults(options):
    sweep(range(77_100_001, 77_100_001 + HALF), nodes=4, counts=True, **options)
