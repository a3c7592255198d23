"""The paper's figures of dispatch: the scheduler's delay, and short simulations."""

import time

import pytest

import zray
from benchmarks.figures import e11, e18, hotos_peer, hotos_simulated
from benchmarks.figures.results import ABSENT, EMULATED, MEASURED, MISSED, REACHED, SIMULATED, Figure
from benchmarks.figures.slow_dispatch import slow_nodes

DASK = "Dask's distributed 2026, in stages"


def verdicts_of(figure):
    return {row.label: row.verdict for row in figure.rows if row.needed}


def test_each_task_is_dispatched_later_and_in_order(nothing_left):
    @zray.remote
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self, before):
            self.count += 1
            return self.count

    with slow_nodes() as delay, zray.init(num_cpus=1):
        counter = Counter.remote()
        ref = counter.add.remote(None)
        zray.get(ref)
        delay.seconds = 0.05
        started = time.perf_counter()
        for _ in range(3):
            ref = counter.add.remote(ref)
            assert zray.get(ref)
        assert time.perf_counter() - started >= 0.15
        assert zray.get([counter.add.remote(None) for _ in range(20)]) == list(range(5, 25))


@pytest.mark.parametrize(("at_10_ms", "verdict"), [(24.0, REACHED), (60.0, MISSED)])
def test_ring_is_held_against_its_steps_times_the_delay(at_10_ms, verdict):
    figure = Figure("E11", "")
    ring = {0.0: [4.0, 5.0, 4.0], 1.0: [6.0], 5.0: [15.0], 10.0: [at_10_ms]}
    e11.judge_ring(figure, ring, ranks=2, kind=MEASURED)
    assert verdicts_of(figure) == {"2 ranks: ring, to T0 + 2 x delay: farthest apart": verdict}
    assert figure.plots[0].series[1].points == [(0, 4), (1, 6), (5, 14), (10, 24)]


@pytest.mark.parametrize(("late", "verdict"), [([1.04, 9.0], REACHED), ([11.0, 12.0], MISSED)])
def test_group_must_not_feel_the_delay(late, verdict):
    figure = Figure("E11", "")
    e11.judge_group(figure, {0.0: [1.0, 3.0], 10.0: late})
    assert list(verdicts_of(figure).values()) == [verdict]


@pytest.mark.parametrize(("in_stages", "verdict"), [(80.0, REACHED), (120.0, MISSED)])
def test_short_simulations_are_faster_on_zray_and_slower_in_stages(in_stages, verdict):
    figure = Figure("E18", "")
    rates = e18.Rates({e18.SERIAL: [100.0, 100.0], e18.ZRAY: [180.0, 190.0], DASK: [in_stages] * 2}, [0.01, 0.02])
    e18.judge(figure, {e18.SECONDS: rates})
    assert verdicts_of(figure) == {"2 x 7 ms: zray, to serial": REACHED, "2 x 7 ms: in stages, to serial": verdict}


def test_without_the_engine_no_verdict_rests_on_it(monkeypatch):
    monkeypatch.setenv("ZRAY_DASK_PYTHON", "false")
    with e18.dask(1, 1) as peer:
        assert peer is None
    figure = Figure("E18", "")
    rates = e18.Rates({e18.SERIAL: [100.0], e18.ZRAY: [180.0]})
    e18.judge_shape(figure, "8 x 7 ms", rates, EMULATED)
    (row,) = [row for row in figure.rows if row.verdict == ABSENT]
    assert "pip install distributed" in row.ours
    assert verdicts_of(figure) == {"8 x 7 ms: zray, to serial": REACHED}


def test_workload_runs_on_zray_and_serially(nothing_left):
    with e18.zray_session(2) as run:
        assert 0.03 <= run(2, 0.01, True, 3) < hotos_peer.serial(2, 0.05, True, 3)


def test_simulated_workload_takes_its_stages():
    alone, many = (hotos_simulated.rate(0.007, cores, 0.0004, 0.0008) for cores in (2, 32))
    assert 200 < alone < 2 / 0.008
    assert many == pytest.approx(16 * alone, rel=0.05)
    assert hotos_simulated.rate(0.007, 32, 0.0004, 0.0008, nodes=2) < many


def test_simulator_that_is_wrong_shows_no_point(monkeypatch):
    monkeypatch.setattr(e18.hotos_simulated, "rates", lambda *given: (900.0, 5_000.0, 2_000.0))
    sleeping = e18.Rates({e18.ZRAY: [700.0]}, [0.01])
    figure = Figure("E18", "")
    e18.judge_simulated(figure, sleeping, 0.0004, 0.0008)
    assert [row.verdict for row in figure.rows] == [MISSED, ABSENT]
    sleeping.by_way[e18.ZRAY] = [850.0]
    figure = Figure("E18", "")
    e18.judge_simulated(figure, sleeping, 0.0004, 0.0008)
    assert {row.kind for row in figure.rows} == {SIMULATED} and len(verdicts_of(figure)) == 2
