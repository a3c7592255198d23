"""Large values that many nodes want, while nodes die that give them, or links break: each comes from another holder."""

import pytest

from tests.sim.sweeps import assert_all_is_well
from zray.sim.main import run_program

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("slow_line", [1.0, 5.0])
@pytest.mark.parametrize("bandwidth", [0.0, 5e6, 50e6])
def test_many_nodes_share_values_over_slow_lines_that_break(bandwidth, slow_line):
    for seed in range(1, 4):
        line = {"bandwidth": bandwidth, "slow_line": slow_line, "gives_max": 1 + seed % 2}
        chunk_bytes = (2_000, 4_096, 16 << 10)[seed % 3]
        outcome = run_program("shared", seed=seed, nodes=4, breaks=seed % 4, chunk_bytes=chunk_bytes, **line)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("bandwidth", [5e6, 50e6])
def test_who_gives_dies_in_the_middle_of_it(bandwidth):
    for seed in range(1, 11):
        faults = {"node_kills": 1 + seed % 2, "node_kill_probability": 0.005}
        outcome = run_program("shared", seed=seed, nodes=5, bandwidth=bandwidth, chunk_bytes=4_096, **faults)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("slow_line", [1.0, 20.0])
def test_nodes_share_the_values_of_a_program_outside_while_links_break_and_nodes_die(slow_line):
    """All are sent on to the first that asks, which may be one of those."""
    for seed in range(1, 13):
        faults = {"breaks": seed % 4, "guest_cuts": seed % 3 % 2}
        if seed % 2:
            faults |= {"node_kills": 1 + seed % 4 // 2, "node_kill_probability": 0.005}
        line = {"bandwidth": 50e6, "slow_line": slow_line, "has_guest": True, "gives_max": 1 + seed % 3 % 2}
        outcome = run_program("shared", seed=seed, nodes=5, chunk_bytes=4_096, **line, **faults)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


def test_what_is_still_being_read_where_it_is_wanted_anew_does_not_wait_for_its_reader():
    """That was a blocked worker, which had been sent a task that was taken back; it waited for what took it."""
    assert_all_is_well([1700001217], nodes=2, shards=1, oneway=True, weather=True)
