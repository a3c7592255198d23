"""Processes that are kept for the next trial let go of resources that a waiting trial needs."""

import pytest

import zray
from tests.gates import nothing_is_held, until
from zray import tune
from zray.tune import runner

pytestmark = pytest.mark.usefixtures("session")


class Sized(tune.Trainable):
    """A class whose trials ask for one or two of the two CPUs."""

    @classmethod
    def default_resource_request(cls, config):
        return tune.PlacementGroupFactory([{"CPU": config["cpus"]}])

    def step(self):
        return {"cpus": self.config["cpus"], "done": self._iteration == 1}

    def reset_config(self, config):
        return self.config["can_reset"]


def fit(trainable, folder, space, **options):
    config = tune.TuneConfig(reuse_actors=True, **options)
    run_config = tune.RunConfig(storage_path=str(folder), name="reused", verbose=0)
    results = tune.Tuner(trainable, param_space=space, tune_config=config, run_config=run_config).fit()
    assert not results.errors
    until(nothing_is_held)
    return results


@pytest.mark.parametrize("can_reset", [True, False])
@pytest.mark.parametrize("amounts", [[1, 2], [2, 1]])
def test_trials_of_a_class_that_ask_for_different_resources_all_run(amounts, can_reset, tmp_path):
    space = {"cpus": tune.grid_search(amounts), "can_reset": can_reset}
    results = fit(Sized, tmp_path, space, num_samples=2)
    assert [result.metrics["cpus"] for result in results] == amounts * 2


def test_trials_of_a_function_that_ask_for_different_resources_all_run(tmp_path):
    train = tune.with_resources(lambda config: {"cpus": config["cpus"]}, lambda config: {"cpu": config["cpus"]})
    results = fit(train, tmp_path, {"cpus": tune.grid_search([1, 2, 1, 2])})
    assert [result.metrics["cpus"] for result in results] == [1, 2, 1, 2]


def test_bundles_of_different_numbers_all_run(tmp_path):
    train = tune.with_resources(
        lambda config: {"bundles": config["bundles"]},
        lambda config: tune.PlacementGroupFactory([{"CPU": 1}] * config["bundles"]),
    )
    results = fit(train, tmp_path, {"bundles": tune.grid_search([1, 2, 1, 2])})
    assert [result.metrics["bundles"] for result in results] == [1, 2, 1, 2]


@pytest.mark.parametrize("is_known", [True, False])
def test_process_waits_for_no_idle_one_where_others_hold_the_rest(is_known, tmp_path, monkeypatch):
    """An actor of the user holds one of two CPUs: the second trial's process waits beside those that are used again.

    is_known: whether zray can say what the process waits for.
    """
    monkeypatch.setattr(runner, "NODES_SECONDS", 0.1)
    monkeypatch.setattr(runner, "WAIT_SECONDS", 0.1)
    if not is_known:
        monkeypatch.setattr(runner, "reason_of", lambda text: "")

    @zray.remote(num_cpus=1)
    class Holder:
        def holds(self):
            return True

    holder = Holder.remote()
    assert zray.get(holder.holds.remote())
    space = {"x": tune.grid_search([1, 2, 3])}
    config = tune.TuneConfig(reuse_actors=True)
    run_config = tune.RunConfig(storage_path=str(tmp_path), name="beside", verbose=0)
    results = tune.Tuner(
        lambda config: {"x": config["x"]}, param_space=space, tune_config=config, run_config=run_config
    )
    assert [result.metrics["x"] for result in results.fit()] == [1, 2, 3]
    del holder


def marks_of_threads(config):
    """The thread of a trial, and what the trials before have set in its context and for torch."""
    import contextvars
    import sys
    import threading

    if config["torch"]:
        import torch
    sys.modules.setdefault("kept", threading.local())
    kept = sys.modules["kept"]
    kept.variable = getattr(kept, "variable", None) or contextvars.ContextVar("mark", default=0)
    context, kept_mark = kept.variable.get(), getattr(kept, "mark", 0)
    kept.variable.set(1)
    kept.mark = kept_mark + 1
    modes = torch.is_grad_enabled() if config["torch"] else True
    if config["torch"]:
        torch.set_grad_enabled(False)
    return {"context": context, "threads": kept_mark, "modes": modes, "name": threading.current_thread().name}


@pytest.mark.parametrize("uses_torch", [False, True])
def test_trial_finds_no_context_and_no_modes_of_the_trial_before(uses_torch, tmp_path):
    if uses_torch:
        pytest.importorskip("torch")
    results = fit(marks_of_threads, tmp_path, {"torch": uses_torch}, num_samples=4, max_concurrent_trials=1)
    found = [result.metrics for result in results]
    assert all(each["context"] == 0 and each["modes"] and each["name"] == "trial" for each in found)
    # A thread costs a quarter of a short trial: one is kept where it has no modes.
    assert [each["threads"] for each in found] == [0, 0, 0, 0] if uses_torch else [0, 1, 2, 3]
