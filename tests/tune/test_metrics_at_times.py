"""Metrics that only some results have, as of an evaluation at times: the last value is the last that was reported."""

import json
import math

import pytest

from zray import tune
from zray.rllib.helpers import check_learning_achieved
from zray.tune import plots
from zray.tune.controller import Controller
from zray.tune.dry_run import recorded_best
from zray.tune.events import Capacity, Report
from zray.tune.html_tables import grid_html
from zray.tune.listing import listed
from zray.tune.outcomes import best_trial_of
from zray.tune.recorded import Recorded
from zray.tune.recorded_files import trials_of_files
from zray.tune.reporters import CLIReporter, rows, view
from zray.tune.schedulers import FIFOScheduler
from zray.tune.search.basic_variant import BasicVariantGenerator
from zray.tune.search.optuna import OptunaSearch
from zray.tune.settings import Settings
from zray.tune.trial import Trial
from zray.tune.trial_results import missing_metric

METRIC = "val/acc"


def results_of(factor):
    """Seven results, of which the third and the sixth have the metric."""
    return [
        {"loss": 1 / i, "training_iteration": i, **({"val": {"acc": factor * i, "n": 1}} if i % 3 == 0 else {})}
        for i in range(1, 8)
    ]


def evaluate_at_times(config):
    for result in results_of(config["k"]):
        tune.report(result)


@pytest.fixture
def controller(tmp_path):
    settings = Settings(path=str(tmp_path), metric=METRIC, mode="max", num_samples=2, is_strict_metric=False)
    searcher = BasicVariantGenerator()
    searcher.set_search_properties(METRIC, "max", {"k": tune.grid_search([2, 1])})
    found = Controller(settings, searcher, FIFOScheduler())
    found.handle(Capacity(0.0, 2))
    for number, factor in enumerate((2, 1)):
        for place, metrics in enumerate(results_of(factor), 1):
            trial_id = found.get_trials()[number].trial_id
            found.handle(Report(float(place), trial_id, place, metrics, 1.0, float(place)))
    return found


def test_the_controller_and_the_reporters_know_the_best_trial(controller):
    first, second = controller.get_trials()
    assert METRIC.partition("/")[0] not in first.last_result  # it stays the last result
    assert controller.best is first is rows.best_of([second, first], METRIC, "max")
    assert rows.picked([second, first], 1, METRIC, "max", by_metric=True) == [first]
    assert "best val/acc = 12 of" in view.view_of(controller, "", 9.0).best_in_words()
    columns = rows.columns_of([first], None, None, METRIC)
    assert rows.cells(first, columns)[-2:] == ["12", "0.142857"]
    reporter = CLIReporter(metric=METRIC, mode="max")
    reporter._start_time = 0.0
    assert f"Current best trial: {first.trial_id} with val/acc=12 and" in reporter._progress_str([first, second], True)


def test_results_of_files_and_commands_know_the_last_value(tmp_path):
    for number in (1, 3, 2):
        (tmp_path / f"trial_{number}").mkdir()
        lines = (json.dumps({**each, "trial_id": f"t{number}"}) + "\n" for each in results_of(number))
        (tmp_path / f"trial_{number}" / "result.json").write_text("".join(lines))
    trials, _ = trials_of_files(str(tmp_path))
    recorded = Recorded(str(tmp_path), trials, METRIC, "max", None, "")
    for scope in ("last", "all", "avg", "last-5-avg"):
        assert best_trial_of(trials, METRIC, "max", scope).name == "trial_3"
    listing = listed(recorded)
    assert [(row["trial"], row[METRIC]) for row in listing] == [("trial_3", 18), ("trial_2", 12), ("trial_1", 6)]
    assert recorded_best(recorded) == (18.0, "trial_3", 18.0)
    assert "worst val/acc = 6" in plots.page(recorded)
    assert [trial.metric_analysis[METRIC]["last"] for trial in trials] == [
        trial.latest_result["val"]["acc"] for trial in trials
    ]


@pytest.mark.parametrize(
    ("results", "latest"),
    [
        ([{"a": 1}, {"a": 2}], {"a": 2}),
        ([{"a": 1}, {"b": 2}, {"b": 3}], {"a": 1, "b": 3}),
        ([{"a": 1}, {"a": None}], {"a": 1}),
        ([{"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {}], {"a": {"x": 1, "y": 3}}),
        ([{"a": {"x": 1}}, {"a": 5}, {"b": 1}], {"a": 5, "b": 1}),
        ([{"a": 5}, {}, {"a": {"x": 1}}, {}], {"a": {"x": 1}}),
        ([{"a": 1}, {"a": math.inf}], {"a": math.inf}),
    ],
)
def test_values_that_a_result_lacks_stay(results, latest):
    trial = Trial("t", "f", {}, {})
    for result in results:
        trial.take(dict(result))
    assert trial.latest_result == latest
    assert trial.last_result == results[-1]


def test_results_and_analyses_find_the_best_trial(session, tmp_path):
    run = tune.RunConfig(name="e", storage_path=str(tmp_path), verbose=0)
    results = tune.Tuner(evaluate_at_times, param_space={"k": tune.grid_search([1, 3])}, run_config=run).fit()
    assert results.get_best_result(METRIC, "max").config == {"k": 3}
    for analysis in (tune.ExperimentAnalysis(str(tmp_path / "e")), tune.ExperimentAnalysis(results._experiment)):
        assert analysis.get_best_config(METRIC, "max") == {"k": 3}
        assert analysis.get_best_logdir(METRIC, "max") == results[1].path
    assert "<td>18</td>" in grid_html(results)
    with pytest.raises(RuntimeError, match="No trial has reported 'val/loss'"):
        results.get_best_result("val/loss", "max")


def test_a_check_of_learning_takes_the_last_evaluation():
    trial = Trial("t", "f", {}, {})
    for result in ({"evaluation": {"episode_reward_mean": 5.0}}, {"episode_reward_mean": 1.0}):
        trial.take(result)
    trials = [trial]
    check_learning_achieved(trials, 5.0, evaluation=True)
    with pytest.raises(ValueError, match=r"1\.0"):
        check_learning_achieved(trials, 5.0)


def test_a_first_result_without_the_metric_is_an_error_that_names_the_switch():
    assert "TUNE_DISABLE_STRICT_METRIC_CHECKING=1" in missing_metric({"loss": 1}, {"TuneConfig": METRIC})


@pytest.mark.parametrize("options", [{}, {"max_failures": 1}])
@pytest.mark.parametrize("scheduler", ["fifo", "asha", "hyperband", "medianstopping", "pbt"])
def test_the_metric_may_come_later_where_the_program_says_so(session, tmp_path, monkeypatch, scheduler, options):
    monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
    more = {"hyperparam_mutations": {"k": [1, 3]}, "require_attrs": False} if scheduler == "pbt" else {}
    run = {"config": {"k": tune.grid_search([1, 3])}, "name": "e", "storage_path": str(tmp_path), "verbose": 0}
    chosen = tune.create_scheduler(scheduler, **more)
    analysis = tune.run(evaluate_at_times, scheduler=chosen, metric=METRIC, mode="max", **run, **options)
    assert analysis.best_config == {"k": 3} and len(analysis.best_dataframe) == 7
    monkeypatch.delenv("TUNE_DISABLE_STRICT_METRIC_CHECKING")
    analysis = tune.run(evaluate_at_times, metric=METRIC, mode="max", resume=True, **run)  # as in the first run
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"] * 2


def test_the_metric_may_come_later_in_an_experiment_of_a_searcher(session, tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
    analysis = tune.run(
        evaluate_at_times,
        config={"k": tune.randint(1, 4)},
        search_alg=(search := OptunaSearch(metric=METRIC, mode="max", seed=1)),
        num_samples=3,
        storage_path=str(tmp_path),
        verbose=0,
    )
    assert analysis.get_best_config(METRIC, "max")["k"] == max(trial.config["k"] for trial in analysis.trials)
    # Seven results each: the last one lacks the metric, and the search learns the one before.
    assert [each.value for each in search.study.trials] == [6 * trial.config["k"] for trial in analysis.trials]
