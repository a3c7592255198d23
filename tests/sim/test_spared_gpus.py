"""Work that needs no GPU leaves the CPUs beside the GPUs to what needs both."""

import pytest

from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Call, Create, Drop, Get, MakeGroup, Sleep, Submit, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.task_programs import nap
from zray.wire.task_spec import RESOURCE_UNIT
from zray.wire.where import Where

pytestmark = pytest.mark.sim

CPU = {"CPU": RESOURCE_UNIT}
BOTH = {"CPU": RESOURCE_UNIT, "GPU": RESOURCE_UNIT}
WORKERS = 5


@remote
class Holder:
    def answer(self):
        return 1


def holders(count, resources, where=None):
    """Actors that are there, and hold what they ask for."""
    actors = []
    for _ in range(count):
        actors.append((yield Create(Holder, (), resources=resources, where=where)))
    for actor in actors:
        yield Get((yield Call(actor, "answer")))
    return actors


def run(program, arguments, home="n1", gpu_node=False, **options):
    """The world after the program, which does not hang."""
    world = Simulator(Options(**{"seed": 1, **options}))
    if gpu_node:
        world.add_node("gpu", {"GPU": 1})
    world.run(MEETING_SECONDS)
    driver = world.start_driver(world.nodes[home], 1, program, arguments)
    assert world.run(20.0, unless=lambda: driver.is_done), "it hangs"
    return driver.result


def trainer_behind_workers(strategy, is_first, extra):
    bundles = [CPU] * WORKERS
    bundles.insert(0 if is_first else WORKERS, BOTH)
    where = Where(group=(yield MakeGroup(bundles, strategy)))
    workers = yield from holders(WORKERS, CPU, where)
    (trainer,) = yield from holders(1, BOTH, where)
    yield Drop([trainer])
    return len(workers) + len((yield from holders(extra, CPU, where)))


@pytest.mark.parametrize("is_first", [True, False], ids=["GPUs first", "GPUs last"])
@pytest.mark.parametrize(
    ("strategy", "size"), [("PACK", {"nodes": 1, "cpus": WORKERS + 1}), ("SPREAD", {"nodes": 3, "cpus": 2, "gpus": 0})]
)
@pytest.mark.parametrize("seed", range(3))
def test_workers_in_a_group_leave_room_for_its_trainer_and_use_that_room_last(strategy, size, is_first, seed):
    """With the trainer gone, one more worker has the CPU beside the GPU."""
    if size["nodes"] == 1:
        size = {**size, "gpus": 1}
    found = run(trainer_behind_workers, (strategy, is_first, 1), seed=seed, gpu_node=size["nodes"] > 1, **size)
    assert found == WORKERS + 1


def trainer_behind_tasks():
    where = Where(group=(yield MakeGroup([BOTH, *[CPU] * WORKERS])))
    refs = []
    for _ in range(WORKERS):
        refs.append((yield Submit(nap, (100.0, None), resources=CPU, where=where)))
    yield Sleep(0.5)
    yield from holders(1, BOTH, where)
    yield Drop(refs)


def test_tasks_in_a_group_leave_room_for_its_trainer():
    run(trainer_behind_tasks, (), nodes=1, cpus=WORKERS + 1, gpus=1)


def trainer_without_a_group(count):
    yield Sleep(0.5)
    yield from holders(count, CPU)
    yield from holders(1, BOTH)


@pytest.mark.parametrize("home", ["n1", "gpu"])
def test_actors_leave_the_cpus_of_nodes_with_gpus_free_while_others_have_room(home):
    """The last one has room there alone."""
    run(trainer_without_a_group, (5,), home=home, gpu_node=True, nodes=2, cpus=2)


def group_beside_gpus():
    """A group whose bundles need none."""
    yield Sleep(0.5)
    where = Where(group=(yield MakeGroup([CPU] * 4)))
    yield from holders(4, CPU, where)
    yield from holders(1, BOTH)


def test_bundles_leave_the_cpus_of_nodes_with_gpus_free_while_others_have_room():
    run(group_beside_gpus, (), nodes=2, cpus=2, gpu_node=True)
