"""The ring of actor calls on emulated machines and in the simulator, for the paper's figures of allreduce and SGD."""

import pytest

from benchmarks.figures import e10, namespaces, on_four_nodes, ring_emulated
from benchmarks.figures.net_node import nodes_on
from benchmarks.figures.results import ABSENT, MISSED, REACHED, Figure
from benchmarks.figures.ring_measured import GROUP, ONE_STREAM, RING
from benchmarks.figures.ring_simulated import Costs, bound, milliseconds
from benchmarks.figures.slow_dispatch import slow_nodes
from benchmarks.timing import QUICK

COSTS = Costs(hop=1e-4, latency=2e-4, byte=4e-10)
MPI = "OpenMPI 5.0.11, TCP"
SIZE = 24_000_000
LINE = 1e8


def verdicts_of(figure):
    return {row.label: row.verdict for row in figure.rows if row.needed}


def found_of(ranks, mbit=1_000.0, **by_way):
    names = {"ring": RING, "stream": ONE_STREAM, "group": GROUP, "mpi": MPI}
    shape = ring_emulated.Shape(ranks, 1_000, (SIZE,))
    return ring_emulated.Found(shape, mbit, LINE, 0.97, {names[way]: [{SIZE: time}] for way, time in by_way.items()})


@pytest.mark.parametrize("ranks", [2, 4])
def test_simulated_ring_waits_for_each_step_of_the_delay(ranks):
    at_once, late = (milliseconds(ranks, 1_000_000, 0.0, COSTS, delay=delay) for delay in (0.0, 0.01))
    assert late - at_once == pytest.approx(20 * (ranks - 1), rel=0.01)


def test_simulated_ring_is_near_the_bound_and_not_below():
    times = [milliseconds(4, SIZE, LINE, COSTS, pieces=pieces) / bound(4, SIZE, LINE) for pieces in (1, 4)]
    assert 1 < times[1] < times[0] < 1.6


def test_emulated_ring_is_held_against_the_bound_one_stream_and_mpi():
    figure = Figure("E10", "")
    ring_emulated.judge(figure, found_of(2, mbit=500.0, ring=470.0, stream=450.0, group=500.0, mpi=600.0))
    what = "24 MB, 2 ranks, 500 Mbit/s a link (halved: cores 97% busy)"
    assert verdicts_of(figure) == {
        f"{what}: {RING}, to the bound of 240 ms": REACHED,
        f"{what}: {GROUP}, to the bound of 240 ms": MISSED,
        f"{what}: {RING}, to {ONE_STREAM}": MISSED,
        f"{what}: {RING}, to {MPI}": REACHED,
    }


def test_simulator_that_does_not_predict_emulated_rings_shows_no_point():
    own = milliseconds(4, SIZE, LINE, COSTS, pieces=4)
    figure = Figure("E10", "")
    assert e10.gate(figure, [found_of(4, ring=own * 1.1, stream=own * 9)], COSTS) == [RING]
    assert [row.verdict for row in figure.rows] == [REACHED, MISSED, ABSENT]
    figure = Figure("E10", "")
    assert e10.gate(figure, [], COSTS) == []
    assert [row.verdict for row in figure.rows] == [ABSENT]


def test_simulated_delay_is_shown_where_it_is_predicted():
    own = {delay: 50 + 6 * delay for delay in (0.0, 1.0, 5.0, 10.0)}
    figure = Figure("E11", "")
    on_four_nodes.simulated_delays(figure, own | {10.0: 300.0}, LINE, COSTS)
    assert [row.verdict for row in figure.rows] == [MISSED, ABSENT]


def test_sgd_without_overlap_must_be_visibly_slower():
    names = on_four_nodes.GROUP, on_four_nodes.NO_OVERLAP, on_four_nodes.SERVERS
    for without, verdict in ((90.0, REACHED), (99.0, MISSED)):
        figure = Figure("E12", "")
        on_four_nodes.judge_sgd(figure, dict(zip(names, ([100.0, 100.0], [without] * 2, [80.0]), strict=True)))
        assert list(verdicts_of(figure).values()) == [verdict]


def test_where_no_network_can_be_made_the_report_says_why(monkeypatch):
    monkeypatch.setattr(namespaces.shutil, "which", lambda tool: None if tool == "tc" else tool)
    for measure in (ring_emulated.measure, on_four_nodes.delays, on_four_nodes.sgd):
        figure = Figure("E10", "")
        measure(figure, QUICK)
        (row,) = figure.rows
        assert row.verdict == ABSENT and "need tc" in row.ours


@pytest.mark.slow
def test_nodes_on_emulated_machines_carry_out_orders(nothing_left):
    try:
        with (
            slow_nodes() as delay,
            namespaces.network(2, 1_000) as links,
            nodes_on(links, delay.path) as nodes,
        ):
            size, least = 5_000_000, bound(2, 5_000_000, links.bytes_per_second)
            at_once = nodes.by_size("ring", [size], 1, 1)[size]
            delay.seconds = 0.1
            assert nodes.by_size("ring", [1_000], 1, 1)[1_000] >= 200
            assert ring_emulated.with_sockets(links, [size])[size] > 0.8 * least
            assert at_once > 0.8 * least
    except NotImplementedError as error:
        pytest.skip(str(error))
