"""Programs in the manner of Ray's examples and users of 2019 to 2023: `tune.run`, keywords, `checkpoint_dir`.

Each takes a folder, and asserts what its authors saw.
"""

# ruff: noqa: PLC0415

import json
import os
import time

import numpy as np


def objective(step, width, height):
    return (0.1 + width * step / 100) ** (-1) + height * 0.1


def basic(folder):
    """The first example of the documentation: keywords of `tune.report`, and `best_config`."""
    from zray import tune

    def easy_objective(config):
        for step in range(config["steps"]):
            tune.report(iterations=step, mean_loss=objective(step, config["width"], config["height"]))

    analysis = tune.run(
        easy_objective,
        metric="mean_loss",
        mode="min",
        num_samples=4,
        local_dir=folder,
        config={
            "steps": 5,
            "width": tune.uniform(0, 20),
            "height": tune.uniform(-100, 100),
            "activation": tune.grid_search(["relu", "tanh"]),
        },
    )
    assert set(analysis.best_config) == {"steps", "width", "height", "activation"}
    assert len(analysis.trials) == 8 and analysis.best_result["mean_loss"] < 11
    assert len(analysis.results) == 8 and os.path.isdir(analysis.best_logdir)


def asha_by_name(folder):
    """ASHA with its own metric, `tune.choice`, and the best trial by its methods."""
    from zray import tune
    from zray.tune.schedulers import AsyncHyperBandScheduler

    def train(config):
        for step in range(16):
            tune.report(loss=config["x"] / (step + 1), accuracy=step / 16)

    scheduler = AsyncHyperBandScheduler(time_attr="training_iteration", grace_period=1, max_t=16, reduction_factor=2)
    analysis = tune.run(
        train,
        name="asynchyperband_test",
        metric="loss",
        mode="min",
        scheduler=scheduler,
        stop={"training_iteration": 16},
        resources_per_trial={"cpu": 1, "gpu": 0},
        num_samples=6,
        local_dir=folder,
        verbose=1,
        config={"x": tune.choice([1, 2, 4, 8])},
    )
    trial = analysis.get_best_trial("loss", "min", "last")
    assert trial.last_result["loss"] == analysis.best_trial.last_result["loss"]
    assert analysis.get_best_config(metric="loss", mode="min") == trial.config
    assert analysis.get_best_logdir("accuracy", mode="max")


def checkpoints_of_a_function(folder):
    """`checkpoint_dir` as an argument and as a context, restarts, and the best checkpoint."""
    from zray import tune

    def train(config, checkpoint_dir=None, data=None):
        start = 0
        if checkpoint_dir:
            with open(os.path.join(checkpoint_dir, "checkpoint")) as f:
                start = json.loads(f.read())["step"] + 1
        for step in range(start, 6):
            with tune.checkpoint_dir(step=step) as directory:
                with open(os.path.join(directory, "checkpoint"), "w") as f:
                    f.write(json.dumps({"step": step}))
            tune.report(mean_loss=float(data[step]))
            if step == 3 and not checkpoint_dir:
                raise RuntimeError("lost")

    analysis = tune.run(
        tune.with_parameters(train, data=np.array([5, 4, 1, 3, 2, 6])),
        name="restarts",
        max_failures=2,
        keep_checkpoints_num=2,
        checkpoint_score_attr="min-mean_loss",
        local_dir=folder,
        metric="mean_loss",
        mode="min",
    )
    (trial,) = analysis.trials
    assert trial.last_result["training_iteration"] == 6
    best = analysis.get_best_checkpoint(trial, metric="mean_loss", mode="min")
    with best.as_directory() if hasattr(best, "as_directory") else open(best) as directory:
        with open(os.path.join(directory, "checkpoint")) as f:
            assert json.load(f) == {"step": 2}


def durable_class(folder):
    """A class with `build` that saves a dict, with fault tolerance and arguments for copies elsewhere."""
    from zray import cloudpickle, tune

    class OptimusTrainable(tune.Trainable):
        def setup(self, config):
            self.iter = 0
            self.func = np.poly1d([config["param1"], config["param2"]])

        def step(self):
            self.iter += 1
            loss = float(self.func(self.iter))
            return {"mean_loss": loss, "mean_accuracy": (2 - loss) / 2, "samples": 500}

        def save_checkpoint(self, checkpoint_dir):
            return {"func": cloudpickle.dumps(self.func), "seed": np.random.get_state(), "iter": self.iter}

        def load_checkpoint(self, checkpoint):
            self.func, self.iter = cloudpickle.loads(checkpoint["func"]), checkpoint["iter"]
            np.random.set_state(checkpoint["seed"])

    analysis = tune.run(
        OptimusTrainable,
        name="durableTrainable" + str(time.time()),
        config={
            "seed": None,
            "param1": tune.sample_from(lambda spec: np.random.exponential(0.1)),
            "param2": tune.sample_from(lambda _: np.random.rand()),
        },
        num_samples=2,
        verbose=1,
        queue_trials=True,
        max_failures=-1,
        checkpoint_freq=2,
        sync_config=tune.SyncConfig(sync_on_checkpoint=False),
        checkpoint_score_attr="training_iteration",
        stop={"training_iteration": 4},
        local_dir=folder,
    )
    assert all(trial.checkpoint is not None for trial in analysis.trials)


def pbt_with_reuse(folder):
    """Population based training of a class that resets, with an exported model."""
    from zray import tune
    from zray.tune.schedulers import PopulationBasedTraining
    from zray.tune.trial import ExportFormat

    class Benchmark(tune.Trainable):
        def setup(self, config):
            self.lr, self.accuracy = config["lr"], 0.0

        def step(self):
            self.accuracy += self.lr * (self._iteration + 1)
            return {"mean_accuracy": self.accuracy, "cur_lr": self.lr, "done": self.accuracy > 1e6}

        def save_checkpoint(self, checkpoint_dir):
            path = os.path.join(checkpoint_dir, "checkpoint")
            with open(path, "w") as file:
                json.dump({"accuracy": self.accuracy}, file)
            return checkpoint_dir

        def load_checkpoint(self, checkpoint_dir):
            with open(os.path.join(checkpoint_dir, "checkpoint")) as file:
                self.accuracy = json.load(file)["accuracy"]

        def reset_config(self, new_config):
            self.lr = new_config["lr"]
            self.config = new_config
            return True

        def _export_model(self, export_formats, export_dir):
            path = os.path.join(export_dir, "exported_models")
            with open(path, "w") as file:
                file.write(str(self.accuracy))
            return {ExportFormat.MODEL: path}

    pbt = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"lr": lambda: np.random.uniform(1e-3, 1e-1), "some_other_factor": [1, 2]},
    )
    analysis = tune.run(
        Benchmark,
        name="pbt_test",
        scheduler=pbt,
        metric="mean_accuracy",
        mode="max",
        reuse_actors=True,
        checkpoint_freq=2,
        checkpoint_at_end=True,
        verbose=False,
        stop={"training_iteration": 8},
        num_samples=4,
        export_formats=[ExportFormat.MODEL],
        local_dir=folder,
        config={"lr": 0.01, "some_other_factor": 1},
    )
    assert len(analysis.trials) == 4 and analysis.best_checkpoint is not None


def bayesian_with_points(folder):
    """A searcher with points to begin with, limited in its concurrency."""
    from zray.tune.suggest import ConcurrencyLimiter
    from zray.tune.suggest.optuna import OptunaSearch

    from zray import tune

    def train(config):
        for step in range(3):
            tune.report(iterations=step, mean_loss=objective(step, config["width"], config["height"]))

    points = [{"width": 1, "height": 2}, {"width": 10, "height": 0}]
    algo = ConcurrencyLimiter(OptunaSearch(points_to_evaluate=points), max_concurrent=2)
    analysis = tune.run(
        train,
        search_alg=algo,
        metric="mean_loss",
        mode="min",
        num_samples=4,
        local_dir=folder,
        config={"width": tune.uniform(0, 20), "height": tune.uniform(-10, 10)},
    )
    assert [trial.config["width"] for trial in analysis.trials[:2]] == [1, 10]


def sessions_of_air(folder):
    """`session.report` with an AIR checkpoint, under `Tuner` from `ray.air`."""
    from zray.air.config import FailureConfig, RunConfig

    from zray import air, tune
    from zray.air import Checkpoint, session

    def train(config):
        loaded = session.get_checkpoint()
        start = loaded.to_dict()["epoch"] + 1 if loaded else 0
        for epoch in range(start, 4):
            checkpoint = Checkpoint.from_dict({"epoch": epoch, "model": np.ones(3)})
            session.report({"loss": config["lr"] / (epoch + 1), "epoch": epoch}, checkpoint=checkpoint)

    tuner = tune.Tuner(
        tune.with_resources(train, resources={"cpu": 1}),
        param_space={"lr": tune.loguniform(1e-4, 1e-1)},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=2),
        run_config=RunConfig(
            name="air",
            local_dir=folder,
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=air.CheckpointConfig(num_to_keep=1),
        ),
    )
    result = tuner.fit().get_best_result()
    assert result.checkpoint.to_dict()["epoch"] == 3 and result.metrics["epoch"] == 3
    assert result.log_dir is not None


def callbacks_and_reporter(folder):
    """A table of chosen columns, a callback, a stopper, output in files, and frames of pandas."""
    import pytest
    from zray.tune.stopper import TrialPlateauStopper

    from zray import tune
    from zray.tune import Callback, CLIReporter
    from zray.tune.logger import LoggerCallback

    pytest.importorskip("pandas")
    seen = []

    class Mine(Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            seen.append(result["mean_loss"])

    class Lines(LoggerCallback):
        def log_trial_end(self, trial, failed=False):
            seen.append(trial.trial_id)

    def train(config):
        for step in range(50):
            print("step", step)
            tune.report(mean_loss=max(1.0, 5 - step) * config["x"])

    reporter = CLIReporter(parameter_columns=["x"], metric_columns=["mean_loss", "training_iteration"])
    reporter.add_metric_column("time_total_s")
    analysis = tune.run(
        train,
        config={"x": tune.grid_search([1, 2])},
        callbacks=[Mine(), Lines()],
        stop=TrialPlateauStopper("mean_loss", std=0.01, num_results=4, grace_period=4),
        progress_reporter=reporter,
        log_to_file=True,
        local_dir=folder,
        name="callbacks",
        fail_fast=True,
    )
    assert len(seen) > 8
    frame = analysis.dataframe(metric="mean_loss", mode="min")
    assert list(frame["config/x"]) == [1, 2] and set(analysis.trial_dataframes) == {t.trial_id for t in analysis.trials}
    assert "training_iteration" in analysis.results_df.columns
    with open(os.path.join(analysis.trials[0].logdir, "stdout")) as file:
        assert file.readline() == "step 0\n"


def resumed_by_name(folder):
    """An experiment that goes on: `resume=True`, and an analysis from the folder alone."""
    from zray import tune
    from zray.tune import Analysis, ExperimentAnalysis

    def train(config):
        for step in range(3):
            tune.report(score=config["x"] * step)

    arguments = {"name": "again", "local_dir": folder, "config": {"x": tune.grid_search([1, 2, 3])}}
    first = tune.run(train, **arguments)
    second = tune.run(train, resume=True, **arguments)
    assert [trial.trial_id for trial in first.trials] == [trial.trial_id for trial in second.trials]
    loaded = ExperimentAnalysis(os.path.join(folder, "again"))
    assert loaded.get_best_config("score", "max") == {"x": 3}
    assert Analysis(os.path.join(folder, "again")).get_all_configs()


def placement_groups_and_actors(folder):
    """A trial that starts an actor within its placement group."""
    import zray as ray
    from zray import tune

    @ray.remote(num_cpus=1)
    class Counter:
        def up(self):
            return 1

    def train(config):
        counter = Counter.remote()
        tune.report(count=ray.get(counter.up.remote()), dir=tune.get_trial_dir(), name=tune.get_trial_name())

    analysis = tune.run(
        train,
        resources_per_trial=tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}]),
        num_samples=2,
        local_dir=folder,
        trial_name_creator=lambda trial: f"named_{trial.trial_id}",
    )
    assert [trial.last_result["count"] for trial in analysis.trials] == [1, 1]
    assert all(trial.last_result["name"].startswith("named_") for trial in analysis.trials)


PROGRAMS = (
    basic,
    asha_by_name,
    checkpoints_of_a_function,
    durable_class,
    pbt_with_reuse,
    bayesian_with_points,
    sessions_of_air,
    callbacks_and_reporter,
    resumed_by_name,
    placement_groups_and_actors,
)
