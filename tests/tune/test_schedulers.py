"""Schedulers, in virtual time, against plain recomputations of their papers' tables."""

import math
import statistics

import numpy as np
import pytest

from zray import tune
from zray.tune.controller import Controller
from zray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    create_scheduler,
)
from zray.tune.schedulers.asha import Rung
from zray.tune.schedulers.hyperband import table
from zray.tune.schedulers.pbt import explore
from zray.tune.search.basic_variant import BasicVariantGenerator
from zray.tune.settings import Settings
from zray.tune.simulation import Point, VirtualRun
from zray.tune.stoppers import stopper_of


def experiment(scheduler, samples, length=100, capacity=4, metric="score", mode="max", stop=None, seconds=1.0):
    """A finished virtual run of trials whose score is `quality`, at every step."""
    space = {"quality": tune.uniform(0, 1)}
    searcher = BasicVariantGenerator(random_state=7)
    searcher.set_search_properties(metric, mode, space, num_samples=samples)
    settings = Settings(metric=metric, mode=mode, num_samples=samples)
    scheduler.set_search_properties(metric, mode)
    controller = Controller(settings, searcher, scheduler, stopper_of(stop))
    run = VirtualRun(controller, lambda trial: [Point({"score": trial.config["quality"]}, seconds)] * length, capacity)
    run.run()
    return run


def reached(run):
    """How many trials have reached each iteration at their end."""
    ends = [trial.iteration for trial in run.controller.get_trials()]
    return {end: ends.count(end) for end in sorted(set(ends))}


def test_fifo_runs_all_trials_to_their_end():
    run = experiment(FIFOScheduler(), 10, length=5, capacity=3)
    assert reached(run) == {5: 10}
    assert run.now == pytest.approx(math.ceil(10 / 3) * 5)


def test_formula_of_hyperband():
    assert [(s, n) for s, n, _ in table(81, 3)] == [(4, 81), (3, 34), (2, 15), (1, 8), (0, 5)]
    assert [r for _, _, r in table(81, 3)] == pytest.approx([1, 3, 9, 27, 81])


@pytest.mark.parametrize("capacity", [1, 3, 200])
def test_hyperband_gives_each_bracket_its_budget(capacity):
    run = experiment(HyperBandScheduler(max_t=81, reduction_factor=3), 81 + 34 + 15 + 8 + 5, capacity=capacity)
    expected = {}
    for s, n, r in table(81, 3):
        left = n
        for i in range(s + 1):
            kept = max(1, math.floor(math.floor(n * 3.0**-i) / 3)) if i < s else 0
            resource = round(r * 3**i)
            expected[resource] = expected.get(resource, 0) + left - kept
            left = kept
    assert reached(run) == dict(sorted(expected.items()))
    for bracket in run.controller.scheduler.brackets:
        members = [
            run.controller.trials[key] for key, own in run.controller.scheduler.bracket_of.items() if own is bracket
        ]
        best = max(members, key=lambda trial: trial.config["quality"])
        assert best.iteration == 81


def test_hyperband_decides_the_same_for_any_number_of_workers():
    runs = [experiment(HyperBandScheduler(max_t=9), 30, capacity=capacity) for capacity in (1, 2, 8)]
    ends = [{trial.trial_id: trial.iteration for trial in run.controller.get_trials()} for run in runs]
    assert ends[0] == ends[1] == ends[2]


def test_hyperband_ends_with_brackets_that_are_not_filled():
    run = experiment(HyperBandScheduler(max_t=81), 10)
    assert reached(run)[81] >= 1


def test_hyperband_takes_results_beyond_a_rung():
    scheduler = HyperBandScheduler(max_t=20, time_attr="time")
    searcher = BasicVariantGenerator(random_state=1)
    searcher.set_search_properties("score", "max", {"quality": tune.uniform(0, 1)}, num_samples=25)
    scheduler.set_search_properties("score", "max")
    controller = Controller(Settings(metric="score", mode="max", num_samples=25), searcher, scheduler)

    def curve(trial):
        stride = 1 + trial.index % 7
        return [Point({"score": trial.config["quality"], "time": stride * (k + 1)}, 1.0) for k in range(40)]

    VirtualRun(controller, curve, 3).run()
    assert all(trial.is_over for trial in controller.get_trials())


def test_asha_stops_by_the_percentile_of_those_before():
    run = experiment(ASHAScheduler(max_t=16, grace_period=1, reduction_factor=4), 40, capacity=1)
    # One worker: trials come one after the other, and the decision can be recomputed.
    rungs = {1: [], 4: []}
    for trial in run.controller.get_trials():
        end = 16
        for rung, scores in rungs.items():
            cut = np.percentile(scores, 75) if scores else None
            scores.append(trial.config["quality"])
            if cut is not None and trial.config["quality"] < cut:
                end = rung
                break
        assert trial.iteration == end
    reasons = [decision.reason for decision in run.decisions if decision.action == "STOP"]
    assert any(reason.startswith("stopped at training_iteration 1: score = 0.") for reason in reasons)


@pytest.mark.parametrize("eta", [1.5, 2, 3, 4])
def test_cut_of_a_rung_is_the_quantile_of_its_scores(eta):
    rung = Rung(1)
    assert rung.cut(eta) is None
    rng = np.random.default_rng(0)
    scores = [*rng.normal(size=30), math.nan, 2.0, 2.0, -math.inf, *rng.integers(-2, 2, 20)]
    for place, score in enumerate(scores):
        rung.add(str(place), float(score))
        finite = np.where(np.isfinite(scores), scores, np.nan)[: place + 1]  # what is not finite has no place
        expected = np.nanpercentile(finite, (1 - 1 / eta) * 100, method="linear")
        assert rung.cut(eta) == pytest.approx(expected)
    ranked = sorted(range(len(scores)), key=lambda place: (math.isnan(scores[place]), -scores[place]))
    assert rung.promotable(eta) == [str(place) for place in ranked[: int(len(scores) / eta)]]


def test_asha_promotes_the_top_of_each_rung():
    eta, R = 3, 27
    run = experiment(ASHAScheduler(max_t=R, grace_period=1, reduction_factor=eta, type="promotion"), 27, capacity=1)
    ends = sorted((trial.iteration for trial in run.controller.get_trials()), reverse=True)
    # Algorithm 2 with one worker, plainly.
    rungs = [{}, {}, {}]
    promoted = [set(), set(), set()]
    qualities = [trial.config["quality"] for trial in run.controller.get_trials()]
    end = {}
    waiting = list(range(27))
    while True:
        job = None
        for k in (2, 1, 0):
            top = sorted(rungs[k], key=lambda i: -rungs[k][i])[: len(rungs[k]) // eta]
            able = [i for i in top if i not in promoted[k]]
            if able:
                job = (able[0], k + 1)
                promoted[k].add(able[0])
                break
        if job is None:
            if not waiting:
                break
            job = (waiting.pop(0), 0)
        i, k = job
        end[i] = eta**k
        if k < 3:
            rungs[k][i] = qualities[i]
    assert ends == sorted(end.values(), reverse=True)
    assert [trial.iteration for trial in run.controller.get_trials()] == [end[i] for i in range(27)]


def test_asha_takes_a_third_of_the_time():
    full = experiment(FIFOScheduler(), 50, length=81).busy_seconds
    assert experiment(ASHAScheduler(max_t=81, reduction_factor=3), 50, length=81).busy_seconds < full / 3


def test_median_rule_follows_its_definition():
    run = experiment(
        MedianStoppingRule(time_attr="training_iteration", grace_period=3, min_samples_required=2), 12, 10, 1
    )
    averages = []
    for trial in run.controller.get_trials():
        quality = trial.config["quality"]
        # Constant curves: each average is the quality; trials that stopped early have no value at later steps.
        ends = [end for end, _ in averages]
        expected = 10
        for t in range(3, 11):
            others = [other for end, other in averages if end >= t]
            if len(others) >= 2 and quality < statistics.median(others):
                expected = t
                break
        assert trial.iteration == expected, (trial, ends)
        averages.append((trial.iteration, quality))


def test_explore_stays_within_its_domains():
    rng = np.random.default_rng(0)
    mutations = {
        "lr": tune.loguniform(1e-4, 1e-1),
        "layers": [1, 2, 3],
        "units": tune.randint(10, 20),
        "nested": {"x": lambda: 5.0},
    }
    config = {"lr": 0.09, "layers": 3, "units": 19, "nested": {"x": 1.0}, "fixed": "f"}
    for _ in range(200):
        config, changes = explore(config, mutations, 0.25, (1.2, 0.8), rng)
        assert 1e-4 <= config["lr"] <= 1e-1 and config["layers"] in (1, 2, 3)
        assert isinstance(config["units"], int) and 10 <= config["units"] < 20
        assert config["fixed"] == "f" and len(changes) == 4


@pytest.mark.parametrize("synch", [False, True])
def test_pbt_moves_the_bottom_to_the_top(synch):
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=5,
        hyperparam_mutations={"quality": tune.uniform(0, 1)},
        resample_probability=0.0,
        synch=synch,
    )
    run = experiment(scheduler, 8, length=40, capacity=8 if not synch else 3)
    assert scheduler.num_perturbations > 0
    assert all(trial.iteration == 40 for trial in run.controller.get_trials())
    exploits = [decision for decision in run.decisions if decision.action == "EXPLOIT"]
    assert len(exploits) == scheduler.num_perturbations
    assert "goes on from" in exploits[0].reason


def test_synchronous_pbt_is_the_same_for_any_number_of_workers():
    def run(capacity):
        scheduler = PopulationBasedTraining(
            time_attr="training_iteration",
            perturbation_interval=5,
            hyperparam_mutations={"quality": tune.uniform(0, 1)},
            synch=True,
        )
        done = experiment(scheduler, 6, length=20, capacity=capacity)
        return [trial.config for trial in done.controller.get_trials()]

    assert run(1) == run(2) == run(8)


@pytest.mark.parametrize(
    "scheduler",
    [
        ASHAScheduler(max_t=9, reduction_factor=3),
        ASHAScheduler(max_t=9, reduction_factor=3, type="promotion"),
        HyperBandScheduler(max_t=9, reduction_factor=3),
        MedianStoppingRule("training_iteration", grace_period=2, min_samples_required=2),
        MedianStoppingRule("training_iteration", grace_period=2, min_samples_required=2, hard_stop=False),
        PopulationBasedTraining(
            "training_iteration",
            perturbation_interval=2,
            hyperparam_mutations={"quality": tune.uniform(0, 1)},
            synch=True,
        ),
    ],
    ids=["asha", "asha promotion", "hyperband", "median", "median pausing", "pbt synch"],
)
def test_each_decision_has_a_reason(scheduler):
    run = experiment(scheduler, 9, length=9, capacity=2)
    assert run.decisions and [each for each in run.decisions if not each.reason] == []


@pytest.mark.parametrize("name", ["fifo", "asha", "hyperband", "median_stopping_rule"])
def test_schedulers_have_names(name):
    assert create_scheduler(name).CONTINUE == "CONTINUE"


def test_scheduler_without_metric_is_an_error():
    with pytest.raises(ValueError, match="needs a metric and a mode"):
        ASHAScheduler().require_metric()


def test_reward_attr_of_2018_is_a_metric_to_maximise():
    scheduler = HyperBandScheduler(time_attr="timesteps_total", reward_attr="mean_accuracy", max_t=100)
    assert (scheduler.metric, scheduler.mode) == ("mean_accuracy", "max")
