"""Programs in the manner of Ray's examples and users of 2018: `run_experiments`, reporters, `_setup` and `_train`.

Each takes a folder, and asserts what its authors saw.
"""

# ruff: noqa: PLC0415

import json
import os
import random

import numpy as np


def reporter_function(folder):
    """The first example of the documentation: a registered function with a reporter, and a grid."""
    from zray.tune import grid_search, register_trainable, run_experiments

    def my_func(config, reporter):
        i = 0
        while True:
            reporter(timesteps_total=i, mean_accuracy=i ** config["alpha"])
            i += config["beta"]

    register_trainable("my_func", my_func)
    trials = run_experiments(
        {
            "my_experiment": {
                "run": "my_func",
                "local_dir": folder,
                "resources": {"cpu": 1, "gpu": 0},
                "stop": {"mean_accuracy": 100},
                "config": {"alpha": grid_search([0.9, 1.1]), "beta": grid_search([1, 2])},
            }
        },
        verbose=False,
    )
    assert [trial.status for trial in trials] == ["TERMINATED"] * 4
    assert all(trial.last_result["mean_accuracy"] >= 100 for trial in trials)


class Sigmoid:
    """A mixin: the learning curve of Ray's examples."""

    def _setup(self, config=None):
        self.timestep = 0

    def _train(self):
        self.timestep += 1
        v = np.tanh(float(self.timestep) / self.config["width"]) * self.config["height"]
        return {"episode_reward_mean": v}

    def _save(self, checkpoint_dir):
        path = os.path.join(checkpoint_dir, "checkpoint")
        with open(path, "w") as f:
            f.write(json.dumps({"timestep": self.timestep}))
        return path

    def _restore(self, checkpoint_path):
        with open(checkpoint_path) as f:
            self.timestep = json.loads(f.read())["timestep"]


WIDTHS = {
    "width": lambda spec: 10 + int(90 * random.random()),
    "height": lambda spec: int(100 * random.random()),
}


def async_hyperband(folder):
    """A class with the asynchronous HyperBand, whose metric is a `reward_attr`."""
    from zray.tune.async_hyperband import AsyncHyperBandScheduler

    from zray import tune
    from zray.tune import Trainable, run_experiments

    class MyTrainableClass(Sigmoid, Trainable):
        pass

    tune.register_trainable("my_class", MyTrainableClass)
    ahb = AsyncHyperBandScheduler(
        time_attr="timesteps_total", reward_attr="episode_reward_mean", grace_period=5, max_t=20
    )

    class Counted(MyTrainableClass):
        def _train(self):
            return {**super()._train(), "timesteps_this_iter": 1}

    spec = {
        "run": Counted,
        "local_dir": folder,
        "stop": {"training_iteration": 12},
        "repeat": 4,
        "trial_resources": {"cpu": 1, "gpu": 0},
        "config": WIDTHS,
    }
    trials = run_experiments({"asynchyperband_test": spec}, scheduler=ahb)
    assert all(5 <= trial.last_result["training_iteration"] <= 12 for trial in trials)


def hyperband(folder):
    """HyperBand from its module of 2018, with `Experiment`."""
    from zray.tune.hyperband import HyperBandScheduler

    from zray.tune import Experiment, Trainable, run_experiments

    class MyTrainableClass(Sigmoid, Trainable):
        pass

    scheduler = HyperBandScheduler(time_attr="training_iteration", reward_attr="episode_reward_mean", max_t=9)
    exp = Experiment(
        name="hyperband_test",
        run=MyTrainableClass,
        num_samples=6,
        stop={"training_iteration": 9},
        config=WIDTHS,
        local_dir=folder,
    )
    trials = run_experiments(exp, scheduler=scheduler, verbose=False)
    assert len(trials) == 6 and max(trial.last_result["training_iteration"] for trial in trials) == 9


def pbt_of_a_class(folder):
    """Population based training of a class that returns a `TrainingResult`, with mutations by a function."""
    from zray.tune.pbt import PopulationBasedTraining

    from zray.tune import Trainable, register_trainable, run_experiments
    from zray.tune.result import TrainingResult

    class Climber(Trainable):
        def _setup(self):
            self.value = 0.0

        def _train(self):
            self.value += self.config["factor"]
            return TrainingResult(mean_accuracy=self.value, timesteps_this_iter=1)

        def _save(self, checkpoint_dir):
            path = checkpoint_dir + "/model"
            np.savetxt(path, [self.value])
            return path

        def _restore(self, path):
            self.value = float(np.loadtxt(path))

        def _stop(self):
            pass

    register_trainable("climber", Climber)
    pbt = PopulationBasedTraining(
        time_attr="training_iteration",
        reward_attr="mean_accuracy",
        perturbation_interval=2,
        hyperparam_mutations={"factor": lambda _: np.random.uniform(0, 1), "other": [1, 2, 3]},
    )
    spec = {
        "run": "climber",
        "local_dir": folder,
        "stop": {"mean_accuracy": 50, "training_iteration": 6},
        "config": {"factor": lambda spec: random.random(), "other": 1, "half": lambda spec: spec.config.factor / 2},
        "repeat": 4,
    }
    trials = run_experiments({"pbt": spec}, scheduler=pbt, verbose=False)
    assert [trial.last_result["training_iteration"] for trial in trials] == [6] * 4


def keras_callback(folder):
    """A callback of a training library that holds the reporter."""
    from zray import tune

    class TuneCallback:
        def __init__(self, reporter):
            self.reporter, self.iteration = reporter, 0

        def on_epoch_end(self, logs):
            self.iteration += 1
            self.reporter(timesteps_total=self.iteration, done=1 if logs["acc"] > 0.9 else 0, mean_accuracy=logs["acc"])

    def train_mnist(cfg, reporter):
        callback = TuneCallback(reporter)
        for epoch in range(100):
            callback.on_epoch_end({"acc": 1 - cfg["dropout"] ** (epoch + 1)})

    tune.register_trainable("train_mnist", train_mnist)
    trials = tune.run_experiments(
        {
            "exp": {
                "run": "train_mnist",
                "local_dir": folder,
                "stop": {"mean_accuracy": 0.99, "timesteps_total": 30},
                "config": {"dropout": lambda spec: np.random.uniform(0.3, 0.7)},
                "num_samples": 2,
            }
        },
        verbose=0,
    )
    assert all(trial.last_result["mean_accuracy"] > 0.9 for trial in trials)


def median_stopping_of_two_experiments(folder):
    """Two experiments at once under one rule."""
    from zray.tune.median_stopping_rule import MedianStoppingRule

    from zray.tune import run_experiments

    def train(config, reporter):
        for step in range(1, 8):
            reporter(timesteps_total=step, neg_mean_loss=-config["x"] / step)

    rule = MedianStoppingRule(time_attr="timesteps_total", reward_attr="neg_mean_loss", grace_period=2)
    spec = {"run": train, "local_dir": folder, "config": {"x": {"grid_search": [1, 2, 8]}}}
    trials = run_experiments({"one": spec, "two": spec}, scheduler=rule)
    assert len(trials) == 6


def evaluated_expressions(folder):
    """A specification as it stands in a file: `eval`, and a grid as a dict."""
    import subprocess
    import sys

    path = os.path.join(folder, "tuned.yaml")
    with open(path, "w") as file:
        file.write(
            "expression:\n  run: my_trainable\n  stop: {training_iteration: 2}\n  local_dir: " + folder + "\n"
            "  config:\n    x: {grid_search: [1, 2]}\n    y: {eval: 3 * 4}\n"
        )
    program = (
        "import sys; from zray import tune; from zray.cli.main import main\n"
        "tune.register_trainable('my_trainable', lambda config: [tune.report(loss=config['x'] + config['y'])\n"
        "                                                         for _ in range(3)] and None)\n"
        f"sys.argv = ['zray', 'tune', 'run', {path!r}]\nsys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def files_of_trials(folder):
    """A look at the files of trials, as notebooks of 2018 do it."""
    import csv

    from zray.tune import grid_search, run_experiments

    def train(config, reporter):
        for step in range(3):
            reporter(timesteps_total=10 * (step + 1), mean_loss=config["lr"] / (step + 1), info={"grad": step})

    spec = {"run": train, "local_dir": folder, "config": {"lr": grid_search([0.1, 0.01])}}
    for trial in run_experiments({"files": spec}, verbose=0):
        with open(os.path.join(trial.logdir, "progress.csv")) as file:
            rows = list(csv.DictReader(file))
        with open(os.path.join(trial.logdir, "result.json")) as file:
            results = [json.loads(line) for line in file]
        with open(os.path.join(trial.logdir, "params.json")) as file:
            assert json.load(file) == trial.config
        assert [float(row["mean_loss"]) for row in rows] == [result["mean_loss"] for result in results]
        assert [result["neg_mean_loss"] for result in results] == [-result["mean_loss"] for result in results]
        assert rows[-1]["info/grad"] == "2" and results[-1]["timesteps_this_iter"] == 10


def own_logger_and_names(folder):
    """A logger class and a function for names, in an `Experiment`."""
    from zray import tune
    from zray.tune import Experiment, Trainable, run_experiments
    from zray.tune.logger import DEFAULT_LOGGERS

    class TestLogger(tune.logger.Logger):
        def on_result(self, result):
            with open(os.path.join(self.logdir, "own.txt"), "a") as file:
                file.write(f"{result['training_iteration']} {self.config['width']}\n")

    class MyTrainableClass(Sigmoid, Trainable):
        pass

    exp = Experiment(
        name="hyperband_test",
        run=MyTrainableClass,
        num_samples=1,
        trial_name_creator=tune.function(lambda trial: f"{trial.trainable_name}_{trial.trial_id}_123"),
        loggers=[*DEFAULT_LOGGERS, TestLogger],
        stop={"training_iteration": 2},
        config={"width": tune.sample_from(lambda spec: 10), "height": 5},
        local_dir=folder,
    )
    (trial,) = run_experiments(exp)
    assert str(trial).endswith("_123")
    with open(os.path.join(trial.logdir, "own.txt")) as file:
        assert file.read() == "1 10\n2 10\n"


def restored_and_checkpointed(folder):
    """A class that saves after each two steps, and a second experiment that starts from its checkpoint."""
    from zray.tune import Trainable, register_trainable, run_experiments

    class MyTrainableClass(Sigmoid, Trainable):
        pass

    register_trainable("mine", MyTrainableClass)
    config = {"width": 10, "height": 50}
    first = {"run": "mine", "stop": {"training_iteration": 4}, "checkpoint_freq": 2, "config": config}
    (trial,) = run_experiments({"first": {**first, "local_dir": folder, "max_failures": 2}})
    (checkpoint,) = [path for path in trial.checkpoints if path.iteration == 4]
    second = {"run": "mine", "stop": {"training_iteration": 6}, "restore": checkpoint.path, "config": config}
    (trial,) = run_experiments({"second": {**second, "local_dir": folder}})
    assert trial.last_result["training_iteration"] == 6
    assert len(trial.last_result) > 5


PROGRAMS = (
    reporter_function,
    async_hyperband,
    hyperband,
    pbt_of_a_class,
    keras_callback,
    median_stopping_of_two_experiments,
    evaluated_expressions,
    files_of_trials,
    own_logger_and_names,
    restored_and_checkpointed,
)
