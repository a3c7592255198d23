"""Trials that pause and take turns, parameters that a scheduler names, and what is settled before the first trial."""

import random

import pytest

from zray import tune
from zray.tune import events as ev
from zray.tune.controller import Controller
from zray.tune.experiments import Experiment, _build
from zray.tune.outcomes import best_trial_of
from zray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)
from zray.tune.search import ConcurrencyLimiter
from zray.tune.search.basic_variant import BasicVariantGenerator
from zray.tune.settings import Settings
from zray.tune.simulation import Point, VirtualRun
from zray.tune.trial import Trial, TrialState
from zray.tune.trial_results import missing_metric
from zray.tune.waits import state_in_words


class Failing(VirtualRun):
    """Trials of odd numbers fail at their third step, for good."""

    def _step(self, trial_id, delay):
        if self.controller.trials[trial_id].index % 2 and self._place[trial_id] == 2:
            self._push(delay, ev.Failed(self.now + delay, trial_id, "ValueError: no"))
        else:
            super()._step(trial_id, delay)


def experiment(scheduler, samples, length, capacity, space=None, limit=0, kind=VirtualRun, **options):
    searcher = BasicVariantGenerator(random_state=7)
    searcher = ConcurrencyLimiter(searcher, limit) if limit else searcher
    space = space or {"lr": tune.uniform(0, 1)}
    searcher.set_search_properties("score", "max", space, num_samples=samples)
    scheduler.set_search_properties("score", "max")
    settings = Settings(metric="score", mode="max", num_samples=samples, **options)
    controller = Controller(settings, searcher, scheduler)
    run = kind(controller, lambda trial: [Point({"score": trial.config.get("lr", 0.0)}, 1.0)] * length, capacity)
    run.run()
    return run


def population(**options):
    return PopulationBasedTraining(
        "training_iteration", perturbation_interval=3, hyperparam_mutations={"lr": tune.uniform(0, 1)}, **options
    )


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_population_larger_than_the_machine_advances_together(capacity):
    run = experiment(population(), 8, length=30, capacity=capacity)
    assert all(trial.iteration == 30 for trial in run.controller.get_trials())
    reached = dict.fromkeys(run.controller.trials, 0)
    for result in run.results:  # in the order of time
        reached[result.trial_id] = result.result["training_iteration"]
        # A trial goes on for one interval before it pauses; the others are at most one more behind.
        assert max(reached.values()) - min(reached.values()) <= 6
    assert run.controller.scheduler.num_perturbations > 8


@pytest.mark.parametrize(
    "scheduler",
    [population, lambda: ASHAScheduler(max_t=99, grace_period=20, reduction_factor=2, type="promotion")],
)
def test_trial_that_has_come_to_its_end_is_not_explained_by_a_former_decision(scheduler):
    run = experiment(scheduler(), 8, length=30, capacity=2)
    assert {"PAUSE"} <= {decision.action for decision in run.decisions}
    ended = [trial for trial in run.controller.get_trials() if trial.iteration == 30]
    assert ended and all(trial.state is TrialState.TERMINATED for trial in ended)
    for trial in ended:
        assert trial.reason == ""
        assert state_in_words(run.controller, trial) == "TERMINATED after 30 results: it has come to its end."


def test_trial_whose_turn_has_come_has_no_reason_to_wait():
    """The scheduler lets a paused trial run, and says no reason for that."""
    searcher = BasicVariantGenerator(random_state=7)
    searcher.set_search_properties("score", "max", {"lr": 1.0}, num_samples=2)
    controller = Controller(
        Settings(metric="score", mode="max", num_samples=2), searcher, population(metric="score", mode="max")
    )
    controller.handle(ev.Capacity(1.0, 1))
    (first,) = controller.get_trials()
    controller.handle(ev.Report(2.0, first.trial_id, 3, {"score": 1.0}, 1.0, 1.0))
    assert first.state is TrialState.PAUSED and "others take their turn" in first.reason
    controller.handle(ev.Halted(3.0, first.trial_id, 3))
    controller.handle(ev.Capacity(4.0, 2))
    assert first.state is TrialState.RUNNING and first.reason == ""


def test_trial_that_took_over_a_checkpoint_keeps_its_own_score_until_it_reports():
    """The score of the donor would outlive the network that earned it, and put all later reports at the bottom."""
    run = experiment(population(), 8, length=30, capacity=2)
    assert run.controller.scheduler.num_perturbations > 8
    for trial_id, score in run.controller.scheduler.scores.items():
        assert score in [each.result["score"] for each in run.results if each.trial_id == trial_id]


def test_population_that_fits_never_pauses():
    run = experiment(population(), 4, length=30, capacity=4)
    assert all(decision.action != "PAUSE" for decision in run.decisions)


@pytest.mark.parametrize("is_synchronous", [False, True])
@pytest.mark.parametrize(("capacity", "limit", "size"), [(3, 0, 3), (2, 6, 6), (1, 4, 4), (4, 2, 2)])
def test_population_without_end_of_samples_is_the_trials_at_once(capacity, limit, size, is_synchronous):
    scheduler = population(synch=is_synchronous)
    run = experiment(scheduler, -1, 30, capacity, max_concurrent=limit, time_budget_s=400.0)
    assert scheduler.num_perturbations > 8
    begun, ended = set(), set()
    for result in run.results:  # in the order of time
        begun.add(result.trial_id)
        ended |= {result.trial_id} if result.result["training_iteration"] == 30 else set()
        assert len(begun - ended) <= size
    assert len(ended) > size


@pytest.mark.parametrize("capacity", [1, 2])
def test_paused_trials_go_on_before_new_ones_where_samples_have_no_end(capacity):
    run = experiment(Pausing(), -1, length=5, capacity=capacity, time_budget_s=50.0)
    assert sum(trial.iteration == 5 for trial in run.controller.get_trials()) >= 8


@pytest.mark.parametrize("kind", [VirtualRun, Failing])
@pytest.mark.parametrize("samples", [9, 14, 20])
def test_brackets_larger_than_the_machine_advance_by_pauses_as_on_a_large_one(samples, kind):
    def bracketed(capacity):
        return experiment(HyperBandScheduler(max_t=9), samples, 9, capacity, kind=kind)

    large = bracketed(100)
    ends = [(trial.iteration, trial.state) for trial in large.controller.get_trials()]
    assert max(ends)[0] == 9 and len({iteration for iteration, _ in ends}) > 2
    for capacity in (1, 2):
        run = bracketed(capacity)
        assert [(trial.iteration, trial.state) for trial in run.controller.get_trials()] == ends
        assert run.steps == large.steps  # no step is done twice


@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("scheduler", [lambda: HyperBandScheduler(max_t=9), lambda: population(synch=True)])
def test_paused_trials_go_on_when_the_searcher_waits_for_their_results(scheduler, limit):
    run = experiment(scheduler(), 10, length=9, capacity=2, limit=limit)
    ends = [trial.iteration for trial in run.controller.get_trials()]
    assert len(ends) == 10 and max(ends) == 9
    assert all(trial.state is TrialState.TERMINATED for trial in run.controller.get_trials())


def test_paused_trials_wait_while_there_is_no_node():
    searcher = BasicVariantGenerator(random_state=7)
    searcher.set_search_properties("score", "max", {"lr": 1.0}, num_samples=2)
    scheduler = population(synch=True, metric="score", mode="max")
    controller = Controller(Settings(metric="score", mode="max", num_samples=2), searcher, scheduler)
    controller.handle(ev.Capacity(1.0, 2))
    first, second = controller.get_trials()
    controller.handle(ev.Report(2.0, first.trial_id, 3, {"score": 1.0}, 1.0, 1.0))
    controller.handle(ev.Report(2.0, second.trial_id, 3, {"score": 2.0}, 1.0, 1.0))
    controller.handle(ev.Capacity(3.0, 0))
    for trial in (first, second):
        controller.handle(ev.Halted(4.0, trial.trial_id, 3))
    assert first.state is second.state is TrialState.PAUSED
    controller.handle(ev.Capacity(5.0, 1))
    assert TrialState.RUNNING in (first.state, second.state)


def test_population_without_end_of_samples_goes_on_with_those_that_wait():
    controller = Controller(Settings(num_samples=-1), BasicVariantGenerator(), population(metric="score", mode="max"))
    waiting = Trial("t", "f", {}, {})
    controller.scheduler.on_trial_add(controller, waiting)
    controller.trials["t"] = controller.waiting["t"] = waiting
    assert controller.scheduler.choose_trial_to_run(controller) is waiting


class Pausing(FIFOScheduler):
    """A scheduler of the program: each trial pauses at every second result."""

    def on_trial_result(self, controller, trial, result):
        return self.PAUSE if result["training_iteration"] % 2 == 0 else self.CONTINUE


class Speechless(FIFOScheduler):
    """A scheduler of the program that pauses, lets go on, and stops, without a reason."""

    def on_trial_result(self, controller, trial, result):
        for other in controller.get_trials():
            controller.unpause(other)
        return {2: self.PAUSE, 3: self.STOP}.get(result["training_iteration"], self.CONTINUE)


def test_decision_without_a_reason_names_the_scheduler():
    run = experiment(Speechless(), 3, length=5, capacity=1)
    reasons = {decision.action: decision.reason for decision in run.decisions}
    assert reasons == {
        "PAUSE": "Speechless has paused it, and gives no reason",
        "UNPAUSE": "Speechless lets it go on, and gives no reason",
        "STOP": "Speechless has stopped it, and gives no reason",
    }
    words = {state_in_words(run.controller, trial) for trial in run.controller.get_trials()}
    assert words == {"TERMINATED after 3 results: Speechless has stopped it, and gives no reason."}


@pytest.mark.parametrize("capacity", [1, 2])
def test_trials_that_a_scheduler_of_the_program_pauses_go_on_when_they_are_next(capacity):
    run = experiment(Pausing(), 3, length=5, capacity=capacity)
    trials = run.controller.get_trials()
    assert [trial.iteration for trial in trials] == [5, 5, 5] and all(trial.starts == 3 for trial in trials)
    assert all(trial.state is TrialState.TERMINATED for trial in trials)
    begun = list(dict.fromkeys(result.trial_id for result in run.results))
    first_again = next(
        place for place, each in enumerate(run.results)
        if each.trial_id == begun[0] and each.result["training_iteration"] == 3
    )  # fmt: skip
    if capacity == 1:  # new trials come first, then the paused ones in their order
        assert {each.trial_id for each in run.results[:first_again]} == set(begun)


def test_parameters_that_only_the_mutations_name_are_drawn_and_recorded():
    mutations = {
        "lr": tune.uniform(0, 1), "bs": [16, 32], "f": lambda: random.random(), "opt": {"mom": tune.uniform(0.8, 0.99)}
    }  # fmt: skip
    scheduler = PopulationBasedTraining("training_iteration", perturbation_interval=2, hyperparam_mutations=mutations)
    run = experiment(scheduler, 3, 1, 3, space={"lr": tune.uniform(2, 3), "opt": {"name": "sgd"}})
    for trial in run.controller.get_trials():
        assert trial.config["bs"] in (16, 32) and 0 <= trial.config["f"] <= 1 and trial.config["lr"] >= 2
        assert trial.config["opt"]["name"] == "sgd" and 0.8 <= trial.config["opt"]["mom"] <= 0.99
        assert {"bs", "f", "opt/mom"} <= set(trial.chosen)
    assert len({trial.config["f"] for trial in run.controller.get_trials()}) == 3
    again = Controller(run.controller.settings, BasicVariantGenerator(random_state=7), population())
    again.replayed = {event.trial_id: event for event in run.controller.events}
    again.searcher.set_search_properties("score", "max", {"lr": tune.uniform(2, 3)}, num_samples=3)
    again.capacity = 3
    again._fill()
    assert [trial.config for trial in again.get_trials()] == [trial.config for trial in run.controller.get_trials()]


def tuner(path, **options):
    config = tune.TuneConfig(**options)
    return tune.Tuner(lambda config: 1.0, tune_config=config, run_config=tune.RunConfig(storage_path=str(path)))


def test_metric_without_mode_is_an_error_before_the_first_trial(tmp_path):
    with pytest.raises(ValueError, match=r"The metric 'loss' has no mode.*mode=\"min\""):
        tuner(tmp_path, metric="loss")
    found = tuner(tmp_path, metric="loss", scheduler=ASHAScheduler(mode="min"))._experiment
    assert found.settings.mode == "min"


def test_mode_alone_is_that_of_the_bare_number(tmp_path):
    found = tuner(tmp_path, mode="max", scheduler=ASHAScheduler())._experiment
    assert found.settings.metric == found.scheduler.metric == "_metric" and found.scheduler.mode == "max"
    assert missing_metric({"loss": 1.0}, {"TuneConfig": "_metric"}) == ""
    assert tuner(tmp_path, mode="max", scheduler=ASHAScheduler(metric="acc"))._experiment.scheduler.metric == "acc"


@pytest.mark.parametrize("make", [ASHAScheduler, MedianStoppingRule])
def test_schedulers_of_2018_compare_the_mean_reward(make, tmp_path):
    spec = Experiment("e", lambda config, reporter: None, local_dir=str(tmp_path))
    scheduler = _build(spec, make(time_attr="timesteps_total"), None, {}).scheduler
    assert (scheduler.metric, scheduler.mode) == ("episode_reward_mean", "max")
    named = _build(spec, make(time_attr="timesteps_total", reward_attr="acc"), None, {}).scheduler
    assert named.metric == "acc"


def test_only_trial_is_the_best_without_a_metric():
    trial = Trial("t", "f", {}, {})
    assert best_trial_of([trial], None, None) is trial
    with pytest.raises(ValueError, match="needs a metric and a mode"):
        best_trial_of([trial, trial], None, None)
