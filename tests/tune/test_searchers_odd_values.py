"""Searchers and results whose metric is no finite number: a failed trial for the searcher, and for it alone."""

import json
import math
from types import SimpleNamespace

import pytest

from zray import tune
from zray.tune.search import AskTellSearch, ConcurrencyLimiter, Repeater, Searcher
from zray.tune.search.hyperopt import HyperOptSearch

ODD = ["diverged", None, [1.0], {"a": 1.0}, math.nan, math.inf, -math.inf, 10**400]
SPACE = {"x": tune.uniform(0, 1)}

each_odd = pytest.mark.parametrize("value", ODD, ids=lambda value: str(value)[:8])
each_mode = pytest.mark.parametrize("mode", ["min", "max"])


def optuna_search(**options):
    pytest.importorskip("optuna", reason="optuna is not installed here")
    from zray.tune.search.optuna import OptunaSearch

    return OptunaSearch(SPACE, **{"metric": "loss", "mode": "min", "seed": 1, **options})


def states(searcher):
    return [trial.state.name for trial in searcher.study.trials]


class Teller(Searcher):
    """A searcher that notes what it is told."""

    def __init__(self, metric="loss"):
        super().__init__(metric, "min")
        self.told = []

    def suggest(self, trial_id):
        return {"x": 1.0}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.told.append((result, error))


class Optimizer:
    def __init__(self):
        self.told = []

    def ask(self):
        return {"x": 1.0}

    def tell(self, point, value):
        self.told.append(value)


def repeated(metric, values, key=None):
    """Calls that a searcher gets about repetitions with these values."""
    searcher = Repeater(Teller(metric), len(values))
    for index, value in enumerate(values):
        searcher.suggest(str(index))
        result = value if key is None else {key: value}
        searcher.on_trial_complete(str(index), result=result)
    (told,) = searcher.searcher.told
    return told


@each_odd
@each_mode
def test_optuna_takes_a_trial_without_a_number_as_failed(value, mode):
    searcher = optuna_search(mode=mode)
    for name, loss in (("a", value), ("b", 0.5)):
        searcher.suggest(name)
        searcher.on_trial_complete(name, result={"loss": loss})
    assert states(searcher) == ["FAIL", "COMPLETE"]
    assert searcher.study.best_value == 0.5
    searcher.suggest("c")


@each_odd
def test_optuna_takes_a_trial_with_one_number_of_two_as_failed(value):
    searcher = optuna_search(metric=["loss", "cost"], mode=["min", "max"])
    searcher.suggest("a")
    searcher.on_trial_complete("a", result={"loss": 1.0, "cost": value})
    assert states(searcher) == ["FAIL"]


@each_odd
def test_optuna_has_no_step_without_a_number(value):
    searcher = optuna_search()
    searcher.suggest("a")
    for step, loss in enumerate((value, 0.5), 1):
        searcher.on_trial_result("a", {"loss": loss, "training_iteration": step})
    assert searcher.study.trials[0].intermediate_values == {2: 0.5}


def test_optuna_starts_with_the_finite_numbers_of_an_earlier_experiment(tmp_path):
    for number, losses in enumerate([[0.75, "diverged"], [0.5, -math.inf], [math.nan, 0.25]]):
        (tmp_path / str(number)).mkdir()
        results = [{"loss": loss, "training_iteration": step, "config": {"x": 0.5}} for step, loss in enumerate(losses)]
        (tmp_path / str(number) / "result.json").write_text("".join(f"{json.dumps(result)}\n" for result in results))
    searcher = optuna_search(points_from=str(tmp_path))
    (trial,) = searcher.study.trials
    assert trial.value == 0.25 and trial.intermediate_values == {1: 0.25}


def test_optuna_through_a_limit_takes_such_trials_as_failed():
    searcher = optuna_search()
    limit = ConcurrencyLimiter(searcher, 2, batch=True)
    for name in "ab":
        limit.suggest(name)
    limit.on_trial_complete("a", result={"loss": "diverged"})
    limit.on_trial_complete("b", result={"loss": -math.inf})
    assert states(searcher) == ["FAIL", "FAIL"]


@each_odd
@each_mode
def test_optimizer_is_told_finite_numbers_alone(value, mode):
    optimizer = Optimizer()
    searcher = AskTellSearch(optimizer, "loss", mode)
    for name, loss in (("a", value), ("b", 0.5)):
        searcher.suggest(name)
        searcher.on_trial_complete(name, result={"loss": loss})
    assert optimizer.told == [0.5 if mode == "min" else -0.5]


@each_odd
@each_mode
def test_hyperopt_takes_a_trial_without_a_number_as_failed(value, mode, monkeypatch):
    states = SimpleNamespace(JOB_STATE_ERROR=3, JOB_STATE_DONE=2, STATUS_FAIL="fail", STATUS_OK="ok")
    monkeypatch.setattr("zray.tune.search.hyperopt._hyperopt", lambda: states)
    searcher = HyperOptSearch(SPACE, "loss", mode)
    documents = [{"tid": 0}, {"tid": 1}]
    searcher._ids = {"a": 0, "b": 1}
    searcher._trials = SimpleNamespace(trials=documents, refresh=lambda: None)
    for name, loss in (("a", value), ("b", 0.5)):
        searcher.on_trial_complete(name, result={"loss": loss})
    assert documents[0] == {"tid": 0, "state": 3, "result": {"status": "fail"}}
    assert documents[1]["result"] == {"loss": 0.5 if mode == "min" else -0.5, "status": "ok"}


@each_odd
def test_repetition_without_a_number_is_left_out_of_the_mean(value):
    assert repeated("loss", [1.0, value, 2.0], "loss") == ({"loss": 1.5}, False)


@each_odd
def test_repetitions_without_any_number_are_an_error(value):
    assert repeated("loss", [value, value], "loss") == (None, True)


def test_mean_of_large_numbers_is_a_number():
    assert repeated("loss", [1e308, 1e308], "loss") == ({"loss": 1e308}, False)


def test_mean_of_a_nested_metric_is_told():
    assert repeated("eval/loss", [{"eval": {"loss": 1.0}}, {"eval/loss": 2.0}]) == ({"eval/loss": 1.5}, False)


def test_means_of_several_metrics_are_told():
    results = [{"loss": 1.0, "cost": 4.0}, {"loss": 2.0, "cost": 8.0}, {"loss": 9.0, "cost": math.nan}]
    assert repeated(["loss", "cost"], results) == ({"loss": 1.5, "cost": 6.0}, False)


def test_experiment_goes_on_after_a_text_in_place_of_a_number(session, tmp_path):
    searcher = optuna_search(points_to_evaluate=[{"x": x} for x in (0.25, 0.5, 0.75, 1.0)])

    def train(config):
        tune.report({"loss": "diverged" if config["x"] == 0.25 else config["x"]})

    tuner = tune.Tuner(
        train,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=4, search_alg=searcher),
        run_config=tune.RunConfig(name="text", storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert results.num_errors == 0
    assert {result.config["x"]: result.metrics["loss"] for result in results} == {
        0.25: "diverged",
        0.5: 0.5,
        0.75: 0.75,
        1.0: 1.0,
    }
    assert results.get_best_result().config == {"x": 0.5}
    assert sorted(states(searcher)) == ["COMPLETE", "COMPLETE", "COMPLETE", "FAIL"]
