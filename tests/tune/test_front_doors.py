"""Experiments in the spellings of 2018, of 2019 to 2023, and of today."""

import json
import os

import pytest

from zray import tune

pytestmark = pytest.mark.usefixtures("session")


def quadratic(config):
    for step in range(5):
        tune.report({"loss": (config["x"] - 3) ** 2 + 1 / (step + 1)})


class Shrinking(tune.Trainable):
    def setup(self, config):
        self.x = config["x"]

    def step(self):
        self.x *= 0.9
        return {"loss": self.x**2}

    def save_checkpoint(self, folder):
        return {"x": self.x}

    def load_checkpoint(self, state):
        self.x = state["x"]


class OldShrinking(tune.Trainable):
    def _setup(self):
        self.x = self.config["x"]

    def _train(self):
        self.x *= 0.9
        return {"mean_loss": self.x**2, "timesteps_this_iter": 10}

    def _save(self, folder):
        path = os.path.join(folder, "state")
        with open(path, "w") as file:
            file.write(str(self.x))
        return path

    def _restore(self, path):
        with open(path) as file:
            self.x = float(file.read())


def test_tuner_finds_the_best_of_a_grid(tmp_path):
    results = tune.Tuner(
        quadratic,
        param_space={"x": tune.grid_search([1, 3, 5])},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(name="grid", storage_path=str(tmp_path)),
    ).fit()
    assert len(results) == 3 and results.num_terminated == 3 and results.num_errors == 0
    best = results.get_best_result()
    assert best.config == {"x": 3}
    assert best.metrics["training_iteration"] == 5
    assert [row["loss"] for row in best.rows()] == [1 / (step + 1) for step in range(5)]


def test_classes_stop_by_criterion_and_keep_checkpoints(tmp_path):
    analysis = tune.run(
        Shrinking,
        name="class",
        config={"x": tune.grid_search([1.0, 2.0])},
        stop={"training_iteration": 7},
        metric="loss",
        mode="min",
        local_dir=str(tmp_path),
        checkpoint_freq=3,
        keep_checkpoints_num=1,
        checkpoint_at_end=True,
    )
    assert analysis.best_config == {"x": 1.0}
    for trial in analysis.trials:
        assert trial.last_result["training_iteration"] == 7
        (kept,) = [name for name in os.listdir(trial.path) if name.startswith("checkpoint_")]
        restored = Shrinking({"x": 0.0})
        restored.restore(os.path.join(trial.path, kept))
        assert restored.iteration == 7
        assert restored.x == pytest.approx(trial.config["x"] * 0.9**7)


def test_experiments_of_2018_run(tmp_path):
    def my_func(config, reporter):
        i = 0
        while True:
            reporter(timesteps_total=i, mean_accuracy=i ** config["alpha"])
            i += config["beta"]

    tune.register_trainable("my_func", my_func)
    trials = tune.run_experiments(
        {
            "my_experiment": {
                "run": "my_func",
                "resources": {"cpu": 1, "gpu": 0},
                "stop": {"mean_accuracy": 100, "training_iteration": 50},
                "config": {"alpha": tune.grid_search([0.5, 1.0]), "beta": tune.grid_search([10, 20])},
                "local_dir": str(tmp_path),
            },
            "classes": {
                "run": OldShrinking,
                "stop": {"timesteps_total": 40},
                "config": {"x": 1.0},
                "repeat": 2,
                "checkpoint_freq": 2,
                "local_dir": str(tmp_path),
            },
        }
    )
    tags = [trial.experiment_tag for trial in trials[:4]]
    assert tags == ["0_alpha=0.5,beta=10", "1_alpha=1,beta=10", "2_alpha=0.5,beta=20", "3_alpha=1,beta=20"]
    assert [trial.last_result["training_iteration"] for trial in trials[:4]] == [50, 11, 50, 6]
    assert [trial.last_result["training_iteration"] for trial in trials[4:]] == [4, 4]
    assert trials[4].last_result["neg_mean_loss"] == -trials[4].last_result["mean_loss"]


def test_failed_trials_raise_after_the_rest_has_finished(tmp_path):
    def divide(config):
        return {"y": 1 / config["x"]}

    with pytest.raises(tune.TuneError, match=r"1 of 3 have failed.*division by zero"):
        tune.run(divide, name="fail", config={"x": tune.grid_search([0, 1, 2])}, local_dir=str(tmp_path))
    folders = [name for name in os.listdir(tmp_path / "fail") if os.path.isdir(tmp_path / "fail" / name)]
    assert sum(os.path.exists(tmp_path / "fail" / name / "error.txt") for name in folders) == 1
    assert sum(os.path.exists(tmp_path / "fail" / name / "result.json") for name in folders) == 2


def test_trial_that_no_node_can_hold_is_an_error(tmp_path):
    with pytest.raises(tune.TuneError, match=r"asks for \{CPU: 99\}.*has \{CPU: 2\}"):
        tune.run(quadratic, config={"x": 1}, resources_per_trial={"cpu": 99}, local_dir=str(tmp_path))


def test_decisions_are_recorded_with_their_reason(tmp_path):
    tune.run(quadratic, name="why", config={"x": 1}, stop={"training_iteration": 2}, local_dir=str(tmp_path))
    (line,) = (tmp_path / "why" / "decisions.jsonl").read_text().splitlines()
    decision = json.loads(line)
    assert decision["action"] == "STOP" and decision["iteration"] == 2
    assert decision["reason"] == "training_iteration = 2 has reached 2"


def test_columns_of_the_csv_grow(tmp_path):
    def growing(config):
        tune.report({"a": 1})
        tune.report({"a": 2, "b": {"c": 3}})

    analysis = tune.run(growing, name="csv", local_dir=str(tmp_path))
    lines = (tmp_path / "csv" / os.path.basename(analysis.trials[0].path) / "progress.csv").read_text().splitlines()
    head, first, second = (line.split(",") for line in lines)
    assert head[-1] == "b/c"
    assert len(head) == len(first) == len(second)
    assert first[-1] == "" and second[-1] == "3"


def test_metrics_of_a_trial_are_analysed(tmp_path):
    def train(config):
        for step in range(12):
            tune.report({"nested": {"v": float(step)}, "name": "text"})

    (trial,) = tune.run(train, name="analysed", local_dir=str(tmp_path), verbose=0).trials
    found = trial.metric_analysis
    assert found["nested/v"] == {
        "max": 11.0,
        "min": 0.0,
        "avg": 5.5,
        "last": 11.0,
        "last-5-avg": 9.0,
        "last-10-avg": 6.5,
    }
    assert found["training_iteration"]["last"] == 12 and "name" not in found and "done" not in found


@pytest.mark.parametrize(
    "options",
    [
        {"scheduler": tune.schedulers.ASHAScheduler(metric="loss", mode="min")},
        {"scheduler": tune.schedulers.MedianStoppingRule(metric="loss", mode="min")},
        {
            "search_alg": tune.search.BasicVariantGenerator(),
            "scheduler": tune.schedulers.ASHAScheduler("t", "loss", "min"),
        },
    ],
)
def test_best_result_is_by_the_metric_of_the_scheduler(options, tmp_path):
    def train(config):
        tune.report({"loss": config["x"], "t": 1})

    results = tune.Tuner(
        train,
        param_space={"x": tune.grid_search([3, 1, 2])},
        tune_config=tune.TuneConfig(**options),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert results.get_best_result().config == {"x": 1}
    assert results.get_best_result(mode="max").config == {"x": 3}
    with pytest.raises(ValueError, match="needs a metric and a mode"):
        results.get_best_result("t")
