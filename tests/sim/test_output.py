"""What simulated workers print reaches their drivers, whatever dies meanwhile."""

import pytest

from tests.sim.sweeps import assert_all_is_well
from zray.sim import main
from zray.sim.options import Wanted, options_of
from zray.sim.simulator import Simulator

pytestmark = pytest.mark.sim


@pytest.mark.parametrize(
    "wanted", [Wanted(nodes=3), Wanted(nodes=3, deaths=True), Wanted(nodes=4, drains=True, replicas=2)]
)
@pytest.mark.parametrize("seed", range(720_000, 720_004))
def test_each_line_reaches_the_driver_once_and_in_order(seed, wanted):
    options = options_of(seed, wanted)
    options.prints = True
    outcome = main.run_options(options)
    assert not outcome.error, outcome.error


def test_lines_of_other_nodes_are_among_them():
    options = options_of(720_000, Wanted(nodes=3))
    options.prints, options.programs = True, ("spread",)
    world = Simulator(options)
    main._run(world)
    assert any(line for kept in world.output.kept.values() for line in kept)


def test_output_of_nodes_that_only_the_head_cannot_hear_takes_as_long_as_their_verdict():
    """Which a head that hears of nobody gives only after a minute: it may be the one that is cut off."""
    assert_all_is_well([2000001683], nodes=3, deaths=True)
