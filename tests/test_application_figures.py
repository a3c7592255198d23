"""The figures of the paper's applications: their models, and short runs of each."""

import statistics

import pytest

import zray
from benchmarks.figures import e13, e14, e15, e15_scaling, e17, pendulum_mpi, reproduce, rest_server
from benchmarks.figures.results import ABSENT, MISSED, REACHED, SHOWN, Figure
from benchmarks.rllib_learning import Learned
from benchmarks.timing import QUICK


def test_model_of_the_server_takes_its_time_and_answers_each_state():
    load = e13.Load("small", 400, 0.02, "")
    model = rest_server.Model(load.state_bytes // 4, load.batch_seconds)
    states = e13.np.ones((e13.BATCH, 100), dtype="float32")
    started = e13.time.perf_counter()
    actions = model.predict(states)
    assert e13.time.perf_counter() - started >= load.batch_seconds
    assert actions.shape == (e13.BATCH,)
    assert load.ceiling == 3_200


def test_server_of_rest_answers_both_ways(nothing_left):
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    load = e13.Load("small", 400, 0.001, "")
    states = e13.np.ones((e13.BATCH, 100), dtype="float32")
    with e13.rest_server(load) as port:
        for path in e13.PATHS.values():
            assert e13.clients(port, path, states, 0.05) > 0


def test_episodes_of_a_run_are_as_many_for_both_ways_and_the_same_for_a_seed():
    assert e14.lengths(4, 7) == e14.lengths(4, 7) != e14.lengths(4, 8)
    assert len(e14.lengths(4, 7)) == 3 * 4
    assert pendulum_mpi.episode(100, 1) == pendulum_mpi.episode(100, 1) < 0


def test_simulated_episodes_without_a_barrier_are_faster():
    rates = e14.simulated([3])
    assert rates["asynchronous"][0] > 1.2 * rates["bulk-synchronous"][0]


def test_barrier_costs_what_the_longest_episode_of_a_round_leaves_idle(nothing_left):
    """Sixteen sleeping episodes at a time: whatever the machine's speed."""
    rates = e14.emulated([1])
    assert rates["asynchronous"][0] > rates["bulk-synchronous"][0]


@pytest.mark.parametrize("waiting", [0.0, 0.2e-6])
def test_tree_scales_where_a_slow_driver_does_not(waiting):
    costs = e15_scaling.Costs(result=100e-6, wait=100e-6, waiting=waiting, noise=100e-6, vector=200e-6)
    tree, flat, at_once = (
        [seconds(cores, costs) for cores in e15_scaling.CORES] for seconds in e15_scaling.WAYS.values()
    )
    assert flat[-2] / flat[-1] < 1.1
    assert at_once[-2] / at_once[-1] < 1.1
    gains = [before / after for before, after in zip(tree, tree[1:], strict=False)]
    assert 1.4 < statistics.geometric_mean(gains) < 2.0


def test_driver_that_waits_for_one_of_many_gets_slower_with_more_cores():
    costs = e15_scaling.Costs(result=5e-6, wait=20e-6, waiting=0.2e-6, noise=60e-6, vector=100e-6)
    flat, at_once = (
        [e15_scaling.WAYS[name](cores, costs) for cores in (1024, 8192)] for name in list(e15_scaling.WAYS)[1:]
    )
    assert flat[1] > 2 * flat[0]
    assert at_once[1] < at_once[0] < flat[0]


def test_wait_for_one_of_some_rollouts_is_measured(nothing_left):
    assert 0 < e15_scaling.wait_seconds(8, 20) < 0.1


def test_learning_of_evolution_is_held_against_its_limits():
    curve = [(10_000, 100.0), (20_000, 480.0)]
    reached, other = Learned(curve, 2.0, True), Learned([(10_000, 90.0), (20_000, 300.0)], 40.0, False)
    runs = {way: [reached, reached] for way in e15.WAYS}
    figure = Figure("E15", "")
    e15.judge_learning(figure, runs)
    assert {row.verdict for row in figure.rows} == {REACHED, SHOWN}
    figure = Figure("E15", "")
    e15.judge_learning(figure, runs | {"2 workers, flat driver": [reached, other]})
    missed = [row.ours for row in figure.rows if row.verdict == MISSED]
    assert missed == ["1 of 2 seeds, at most 20,000 steps", "40 s", "1 of 4 curves differ from that of 1 worker"]


def test_policy_keeps_the_robot_upright_and_no_policy_does_not():
    policy, robot, fallen = e17.Policy(), e17.CartPole(1), e17.CartPole(1)
    for _ in range(1_000):
        robot.step(policy.act(robot.state), 0.005)
        fallen.step(0.0, 0.005)
    assert not robot.has_fallen
    assert fallen.has_fallen


def test_late_action_is_not_counted_and_the_robot_goes_on(start):
    @zray.remote
    class Late:
        def act(self, state):
            e17.time.sleep(0.05)
            return 0.0

    start(num_cpus=1)
    course = e17.control(Late.remote(), 0.001, 0.02)
    assert (course.on_time, course.latencies) == (0, [])
    assert course.steps == 20


@pytest.mark.slow
def test_robot_has_its_actions(nothing_left, monkeypatch):
    monkeypatch.setattr(e17, "INTERVALS_MS", (10, 30))
    figure = reproduce.run_figure("E17", QUICK)
    assert not [row for row in figure.rows if row.verdict == ABSENT]
    every_30_ms = next(row for row in figure.rows if row.label == "every 30 ms: actions on time")
    assert every_30_ms.value > 50
    upright = [row for row in figure.rows if row.label.startswith("every 10 ms: steps until")]
    assert [row.verdict for row in upright] == [REACHED]
