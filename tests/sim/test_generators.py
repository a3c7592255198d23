"""Generators in simulated clusters with deaths: each item comes once, in its order."""

import pytest

from tests.sim.scenarios import on
from tests.sim.sweeps import MIXTURES
from zray.sim.generator_programs import ItemMaker
from zray.sim.language import Call, CallGenerator, Create, Draw, ExitActor, Find, Get, Sleep, remote
from zray.sim.main import sweep_program
from zray.sim.options import Options
from zray.sim.simulator import Simulator

pytestmark = pytest.mark.sim


# Items that are not drawn yet stay in the store, which cannot be as small as for other programs.
ROOM = {"slow lines": {"capacity": 2_000_000}}


@pytest.mark.parametrize("name", MIXTURES)
def test_each_item_comes_once_and_in_order(name):
    for seed in range(1, 21):
        outcome = sweep_program("generators", seed=seed, **{**MIXTURES[name], **ROOM.get(name, {})})
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@remote
class Lasting(ItemMaker):
    def answer(self):
        return 42


def draw_some(max_buffered, lingers=True):
    """Draw two items of the lasting actor, and leave the generator as it is."""
    while (lasting := (yield Find("lasting"))) is None:
        yield Sleep(0.1)
    stream = yield CallGenerator(lasting, "make", (100_000, 0, 0.01), max_buffered=max_buffered)
    for _ in range(2):
        yield Get((yield Draw(stream)))
    yield Sleep(1_000.0 if lingers else 0.0)


@remote
class Drawer:
    def draw(self):
        yield from draw_some(2, lingers=False)
        yield ExitActor()


@pytest.mark.parametrize("end", ["is killed", "ends", "is an actor that leaves"])
@pytest.mark.parametrize("max_buffered", [2, 0])
@pytest.mark.parametrize("home, checkpoints", [("n1", -1), ("n2", -1), ("n1", 5), ("n2", 5)])
def test_generator_of_a_lasting_actor_ends_with_the_program_that_draws(home, checkpoints, max_buffered, end):
    world = Simulator(Options(seed=1, nodes=2, delay="local"))
    world.run(0.3)

    def owner():
        lasting = yield Create(
            Lasting, name="lasting", detached=True, where=on(home), checkpoint_interval=checkpoints, max_restarts=-1
        )
        if end == "is an actor that leaves":
            yield Call((yield Create(Drawer, where=on("n1"))), "draw")
        yield Sleep(2.0)
        return (yield Get((yield Call(lasting, "answer"))))

    driver = world.start_driver(world.nodes["n1"], 1, owner, ())
    drawer = world.start_driver(world.nodes["n1"], 2, draw_some, (max_buffered,)) if "actor" not in end else None
    world.run(1.5)
    if end == "is killed":
        world.end_process(drawer, "killed by signal 9")
    elif end == "ends":
        world.end_driver(drawer)
    assert world.run(8.0, unless=lambda: driver.is_done), "the actor serves nobody"
    assert driver.result == 42
