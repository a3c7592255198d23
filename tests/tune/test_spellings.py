"""Every way to report a result, at every front door, with every style of checkpoint."""

import os

import pytest

from tests.tune.ways import SPACE, STEPS, STYLES, WAYS, by_return
from zray import train, tune

pytestmark = pytest.mark.usefixtures("session")


def of_2018(function, folder):
    tune.register_trainable("way", function)
    spec = {"run": "way", "config": SPACE, "trial_resources": {"cpu": 0.5}, "max_failures": 1, "local_dir": folder}
    trials = tune.run_experiments({"every": spec}, reuse_actors=True)
    return [(trial.config, trial.last_result, trial.checkpoint and trial.checkpoint.path) for trial in trials]


def of_2020(function, folder):
    analysis = tune.run(
        function,
        name="every",
        config={**SPACE, "fails": True},
        resources_per_trial={"cpu": 0.5},
        max_failures=1,
        local_dir=folder,
        reuse_actors=True,
    )
    return [(trial.config, trial.last_result, trial.checkpoint and trial.checkpoint.path) for trial in analysis.trials]


def of_today(function, folder):
    results = tune.Tuner(
        tune.with_resources(function, {"cpu": 0.5}),
        param_space=SPACE,
        tune_config=tune.TuneConfig(reuse_actors=True),
        run_config=train.RunConfig(
            name="every", storage_path=folder, failure_config=train.FailureConfig(max_failures=1)
        ),
    ).fit()
    assert results.num_errors == 0
    return [(each.config, each.metrics, each.checkpoint and each.checkpoint.path) for each in results]


@pytest.mark.parametrize("door", [of_2018, of_2020, of_today])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_report_at_every_front_door_with_every_checkpoint(way, door, tmp_path):
    outcomes = door(way, str(tmp_path))
    assert [config["style"] for config, _, _ in outcomes] == list(STYLES)
    for config, metrics, checkpoint in outcomes:
        style = config["style"]
        assert metrics["loss"] == 1
        assert metrics["training_iteration"] == (1 if way is by_return else STEPS)
        goes_on = config["fails"] and style != "none" and way is not by_return
        assert metrics["began"] == (2 if goes_on else 0), style
        assert "checkpoint" not in metrics
        if style == "none":
            assert checkpoint is None
        elif style == "dict":
            assert tune.Checkpoint(checkpoint).to_dict() == {"step": STEPS - 1}
        else:
            assert os.path.exists(os.path.join(checkpoint, "step"))
