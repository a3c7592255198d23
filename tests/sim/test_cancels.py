"""Programs that cancel, in simulated clusters with deaths: each task has its value or TaskCancelledError."""

import pytest

from tests.sim.scenarios import Tally, on
from tests.sim.sweeps import MIXTURES
from zray.sim.language import Call, Cancel, Create, Get, Sleep, remote
from zray.sim.main import sweep_program
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.task_programs import outcome as outcome_of

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_tasks_that_run_longer_than_they_may_end_and_the_others_do_not(options):
    for seed in range(1, 11):
        outcome = sweep_program("time_limits", seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_tasks_that_have_not_begun_are_cancelled_and_the_others_run(options):
    for seed in range(1, 11):
        outcome = sweep_program("futures", seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("program", ["tree", "chain", "deep", "fan_in", "returns", "borrowed", "refs_inside"])
@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_no_task_that_others_want_is_cancelled_as_unreferenced(options, program):
    for seed in range(1, 4):
        outcome = sweep_program(program, seed=seed, cancels_unreferenced=True, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_cancelled_tasks_end_and_the_others_are_not_disturbed(options):
    for seed in range(1, 21):
        outcome = sweep_program("cancels", seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@remote
class SlowTally(Tally):
    """Counts calls that take a while."""

    def add(self, number):
        yield Sleep(1.0)
        self.count += number
        return self.count


@pytest.mark.parametrize("end", ["its process dies", "its node dies", "nothing dies"])
@pytest.mark.parametrize("interval", [3, 100])
def test_call_that_has_not_begun_ends_at_once_and_its_actors_replay_drops_it(interval, end):
    world = Simulator(Options(seed=1, nodes=4, delay="local", replicas=2))
    world.run(0.3)
    times = []

    def program():
        actor = yield Create(SlowTally, where=on("n2"), checkpoint_interval=interval, max_restarts=-1)
        yield Get((yield Call(actor, "save")))
        calls = []
        for number in (1, 10, 100, 1000, 10_000):
            calls.append((yield Call(actor, "add", (number,), max_retries=-1)))
        yield Sleep(0.5)
        yield Cancel(calls[1])
        began = world.now
        found = [(yield from outcome_of(calls[1])).kind]
        times.append(world.now - began)
        yield Get(calls[3])
        times.append("dies")
        found += yield Get([calls[0], *calls[2:]])
        return [*found, (yield Get((yield Call(actor, "save", (), max_retries=-1))))]

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(20.0, unless=lambda: len(times) == 2)
    if end == "its process dies":
        home = world.nodes["n2"]
        (actor,) = home.scheduler.calls.actors.values()
        world.end_process(home.processes[actor.worker.address], "killed by signal 9")
    elif end == "its node dies":
        world.faults.kill_node(world.nodes["n2"], "is killed")
    assert world.run(60.0, unless=lambda: driver.is_done)
    assert driver.result == ["TaskCancelledError", 1, 101, 1101, 11_101, 11_101]
    assert times[0] < 0.1
