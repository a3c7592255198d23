"""Results as they were reported: no callback, logger, stopper, scheduler or searcher changes those of another."""

import pytest

from zray import tune
from zray.tune import schedulers, search
from zray.tune.logger import LegacyLoggerCallback
from zray.tune.stoppers import CombinedStopper, NoopStopper
from zray.tune.trial_results import result_for

pytestmark = pytest.mark.usefixtures("session")


def spoil(result):
    """Change a result in all its depths."""
    if result and "err" in result:
        result["err"] = -100.0 - result["err"]
        result["nested"]["values"].append(1)
        result["config"]["x"] = -1
        result["spoilt"] = True


class BadCallback(tune.Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        assert "spoilt" not in result
        spoil(result)


class BadLoggerCallback(tune.logger.LoggerCallback):
    def log_trial_result(self, iteration, trial, result):
        assert "spoilt" not in result
        spoil(result)


class BadLogger(tune.logger.Logger):
    def on_result(self, result):
        assert "spoilt" not in result
        spoil(result)


class BadStopper(tune.Stopper):
    def __call__(self, trial_id, result):
        assert "spoilt" not in result
        return bool(spoil(result))

    def on_trial_complete(self, trial_id, result):
        spoil(result)


class BadScheduler(schedulers.FIFOScheduler):
    def on_trial_result(self, controller, trial, result):
        spoil(result)
        return self.CONTINUE

    def on_trial_complete(self, controller, trial, result):
        spoil(result)


class BadSearcher(search.Searcher):
    x = 0

    def suggest(self, trial_id):
        self.x += 1
        return {"x": self.x}

    def on_trial_result(self, trial_id, result):
        spoil(result)

    def on_trial_complete(self, trial_id, result=None, error=False):
        spoil(result)


def bad_function(trial_id, result):
    assert "spoilt" not in result
    spoil(result)
    return False


def train(config):
    for step in range(2):
        tune.report({"err": config["x"] + step, "nested": {"values": [0]}})


WAYS = {
    "callbacks": {"callbacks": [BadCallback(), BadLoggerCallback(), BadCallback()]},
    "loggers": {"callbacks": [LegacyLoggerCallback([BadLogger, BadLogger])]},
    "stopper": {"stop": BadStopper()},
    "function": {"stop": bad_function},
    "stoppers": {"stop": CombinedStopper(NoopStopper(), BadStopper(), BadStopper())},
    "scheduler": {"scheduler": BadScheduler()},
    "searcher": {"search_alg": BadSearcher()},
    "limited": {"search_alg": search.ConcurrencyLimiter(BadSearcher(), 2)},
    "batch": {"search_alg": search.ConcurrencyLimiter(BadSearcher(), 2, batch=True)},
}


@pytest.mark.parametrize("way", WAYS)
def test_result_is_the_one_that_was_reported(way, tmp_path):
    options = dict(WAYS[way])
    if "search_alg" not in options:
        options["config"] = {"x": tune.grid_search([1, 2])}
    else:
        options["num_samples"] = 2
    found = tune.run(train, metric="err", mode="min", storage_path=str(tmp_path), verbose=0, **options)
    assert sorted(trial.last_result["err"] for trial in found.trials) == [2, 3]
    for trial in found.trials:
        assert trial.last_result["nested"] == {"values": [0]} and "spoilt" not in trial.last_result
        assert trial.config == {"x": trial.last_result["err"] - 1} == trial.last_result["config"]
    assert found.best_config == {"x": 1}


def test_own_parts_get_the_result_itself():
    result = {"a": {"b": [1]}}
    assert result_for(schedulers.ASHAScheduler(), result) is result
    copied = result_for(BadScheduler(), result)
    assert copied == result and copied is not result and copied["a"]["b"] is not result["a"]["b"]
