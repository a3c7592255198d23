"""Programs in the manner of Ray's examples and users of 2023 to today: `Tuner`, dicts, `Checkpoint.from_directory`.

Each takes a folder, and asserts what its authors saw.
"""

# ruff: noqa: PLC0415

import json
import os
import tempfile

import numpy as np


def objective(step, width, height):
    return (0.1 + width * step / 100) ** (-1) + height * 0.1


def first_steps(folder):
    """The first example of the documentation: a function that returns its score."""
    from zray import tune

    def score(config):
        return {"score": config["a"] ** 2 + config["b"]}

    tuner = tune.Tuner(
        score,
        param_space={"a": tune.grid_search([0.001, 0.01, 0.1, 1.0]), "b": tune.choice([1, 2, 3])},
        run_config=tune.RunConfig(storage_path=folder),
    )
    results = tuner.fit()
    assert results.get_best_result(metric="score", mode="min").config["a"] in (0.001, 0.01, 0.1, 1.0)


def optuna_with_asha(folder):
    """Optuna in a limiter, ASHA, a stop criterion, a dict to report."""
    from zray import tune
    from zray.tune.schedulers import AsyncHyperBandScheduler
    from zray.tune.search import ConcurrencyLimiter
    from zray.tune.search.optuna import OptunaSearch

    def easy_objective(config):
        for step in range(config["steps"]):
            tune.report({"iterations": step, "mean_loss": objective(step, config["width"], config["height"])})

    tuner = tune.Tuner(
        easy_objective,
        tune_config=tune.TuneConfig(
            metric="mean_loss",
            mode="min",
            search_alg=ConcurrencyLimiter(OptunaSearch(), max_concurrent=2),
            scheduler=AsyncHyperBandScheduler(),
            num_samples=6,
        ),
        run_config=tune.RunConfig(storage_path=folder, name="optuna", stop={"training_iteration": 8}),
        param_space={
            "steps": 10,
            "width": tune.uniform(0, 20),
            "height": tune.uniform(-100, 100),
            "activation": tune.choice(["relu", "tanh"]),
        },
    )
    results = tuner.fit()
    assert len(results) == 6 and set(results.get_best_result().config) == {"steps", "width", "height", "activation"}


def define_by_run(folder):
    """Optuna's define-by-run function, with a condition."""
    from zray import tune
    from zray.tune.search.optuna import OptunaSearch

    def define(trial):
        activation = trial.suggest_categorical("activation", ["relu", "tanh"])
        if activation == "relu":
            trial.suggest_float("mult", 1, 2)
        trial.suggest_float("width", 0, 20)
        return {"steps": 3}

    def train(config):
        for step in range(config["steps"]):
            tune.report({"mean_loss": objective(step, config["width"], 1) * config.get("mult", 1)})

    tuner = tune.Tuner(
        train,
        tune_config=tune.TuneConfig(
            search_alg=OptunaSearch(space=define, metric="mean_loss", mode="min"), num_samples=4
        ),
        run_config=tune.RunConfig(storage_path=folder),
    )
    assert all(("mult" in result.config) == (result.config["activation"] == "relu") for result in tuner.fit())


def several_objectives(folder):
    """Two metrics at once."""
    from zray import tune
    from zray.tune.search.optuna import OptunaSearch

    def train(config):
        tune.report({"loss": config["x"] ** 2, "gain": config["x"]})

    searcher = OptunaSearch(metric=["loss", "gain"], mode=["min", "max"])
    tuner = tune.Tuner(
        train,
        param_space={"x": tune.uniform(-1, 1)},
        tune_config=tune.TuneConfig(search_alg=searcher, num_samples=4),
        run_config=tune.RunConfig(storage_path=folder),
    )
    frame = [row["gain"] for row in tuner.fit().rows()]
    assert len(frame) == 4


def smart_checkpoints(folder):
    """A callback that asks a class for a checkpoint, by a key of the result."""
    from zray import tune
    from zray.tune.result import SHOULD_CHECKPOINT

    class Smart(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if result["iterations"] == 2:
                result[SHOULD_CHECKPOINT] = True

    class Optimization(tune.Trainable):
        def setup(self, config):
            self.current_step = 0

        def step(self):
            self.current_step += 1
            return {"iterations": self.current_step, "mean_loss": 1 / self.current_step}

        def save_checkpoint(self, checkpoint_dir):
            with open(os.path.join(checkpoint_dir, "checkpoint.json"), "w") as f:
                json.dump({"step": self.current_step}, f)

        def load_checkpoint(self, checkpoint):
            with open(os.path.join(checkpoint, "checkpoint.json")) as f:
                self.current_step = json.load(f)["step"]

    tuner = tune.Tuner(
        Optimization,
        run_config=tune.RunConfig(
            name="smart",
            storage_path=folder,
            stop={"training_iteration": 5},
            callbacks=[Smart()],
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=True),
        ),
        tune_config=tune.TuneConfig(metric="mean_loss", mode="min"),
    )
    (result,) = tuner.fit()
    steps = [metrics["training_iteration"] for _, metrics in result.best_checkpoints]
    assert steps == [2, 5]


def torch_with_checkpoints(folder):
    """A network of torch whose state is saved in a folder, with PBT and a restart."""
    import torch

    from zray import tune
    from zray.tune import Checkpoint
    from zray.tune.schedulers import PopulationBasedTraining

    def train(config):
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
        step = 1
        checkpoint = tune.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as directory:
                state = torch.load(os.path.join(directory, "checkpoint.pt"))
            model.load_state_dict(state["model"])
            step = state["step"] + 1
        while step <= 6:
            loss = model(torch.ones(4, 2)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metrics = {"mean_accuracy": -loss.item(), "lr": config["lr"], "step": step}
            if step % 2 == 0:
                with tempfile.TemporaryDirectory() as directory:
                    path = os.path.join(directory, "checkpoint.pt")
                    torch.save({"step": step, "model": model.state_dict()}, path)
                    tune.report(metrics, checkpoint=Checkpoint.from_directory(directory))
            else:
                tune.report(metrics)
            step += 1

    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        metric="mean_accuracy",
        mode="max",
        hyperparam_mutations={"lr": tune.uniform(0.001, 1), "momentum": [0.8, 0.9, 0.99]},
    )
    tuner = tune.Tuner(
        train,
        run_config=tune.RunConfig(
            name="pbt",
            storage_path=folder,
            stop={"training_iteration": 6},
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_score_attribute="mean_accuracy", checkpoint_score_order="max", num_to_keep=4
            ),
        ),
        tune_config=tune.TuneConfig(scheduler=scheduler, num_samples=3, reuse_actors=True),
        param_space={"lr": tune.uniform(0.001, 1), "momentum": tune.uniform(0.001, 1)},
    )
    best = tuner.fit().get_best_result(metric="mean_accuracy", mode="max")
    with best.checkpoint.as_directory() as directory:
        # A trial that took over the checkpoint of one behind it repeats steps, so that its last step may be below 6.
        assert torch.load(os.path.join(directory, "checkpoint.pt"))["step"] == best.metrics["step"]


def restored_from_a_path(folder):
    """Errored trials that are run again by `Tuner.restore`, as the guide to fault tolerance does it."""
    from zray import tune

    flag = os.path.join(folder, "flag")

    def train(config):
        if config["id"] == 1 and not os.path.exists(config["flag"]):
            raise RuntimeError("the machine has no licence")
        tune.report({"id": config["id"]})

    space = {"id": tune.grid_search([0, 1, 2]), "flag": flag}
    run_config = tune.RunConfig(name="restored", storage_path=folder)
    results = tune.Tuner(train, param_space=space, run_config=run_config).fit()
    assert results.num_errors == 1 and "licence" in str(results.errors[0])
    with open(flag, "w"):
        pass
    path = os.path.join(folder, "restored")
    assert tune.Tuner.can_restore(path)
    tuner = tune.Tuner.restore(path, trainable=train, resume_errored=True, param_space=space)
    assert [result.metrics["id"] for result in tuner.fit()] == [0, 1, 2]


def sklearn_grid(folder):
    """A search over an estimator of scikit-learn with the data put once."""
    from sklearn.datasets import load_iris
    from sklearn.model_selection import cross_val_score
    from sklearn.svm import SVC

    from zray import tune

    def train(config, data):
        x, y = data
        for c in (0.01, 0.1, 1.0):
            score = cross_val_score(SVC(kernel=config["kernel"], C=c), x, y, cv=3).mean()
            tune.report({"score": float(score), "c": c})

    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(train, data=load_iris(return_X_y=True)), {"cpu": 0.5}),
        param_space={"kernel": tune.grid_search(["linear", "rbf"])},
        tune_config=tune.TuneConfig(metric="score", mode="max", max_concurrent_trials=2),
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    )
    best = tuner.fit().get_best_result(scope="all")
    assert best.metrics["score"] > 0.9


def stoppers_and_budgets(folder):
    """A stopper of the program, a time budget, `num_samples=-1`."""
    from zray import tune

    class After(tune.Stopper):
        def __init__(self):
            self.seen = 0

        def __call__(self, trial_id, result):
            self.seen += 1
            return result["training_iteration"] >= 2

        def stop_all(self):
            return self.seen >= 10

    def train(config):
        for step in range(10):
            tune.report({"value": step})

    tuner = tune.Tuner(
        train,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(num_samples=-1, time_budget_s=30, metric="value", mode="max"),
        run_config=tune.RunConfig(storage_path=folder, stop=After(), failure_config=tune.FailureConfig(fail_fast=True)),
    )
    assert 5 <= len(tuner.fit()) <= 8


def context_and_names(folder):
    """What a trial asks of its context, with names and folders of the program."""
    from zray import tune

    def train(config):
        context = tune.get_context()
        tune.report(
            {
                "id": context.get_trial_id(),
                "name": context.get_trial_name(),
                "dir": context.get_trial_dir(),
                "resources": context.get_trial_resources().required_resources,
                "experiment": context.get_experiment_name(),
                "array": np.float32(0.5),
            }
        )

    tuner = tune.Tuner(
        train,
        param_space={"x": tune.grid_search([1, 2])},
        tune_config=tune.TuneConfig(
            trial_name_creator=lambda trial: f"t_{trial.config['x']}",
            trial_dirname_creator=lambda trial: f"d_{trial.config['x']}",
        ),
        run_config=tune.RunConfig(name="context", storage_path=folder),
    )
    for result in tuner.fit():
        metrics = result.metrics
        assert metrics["name"] == f"t_{result.config['x']}" and metrics["dir"] == result.path
        assert os.path.basename(result.path) == f"d_{result.config['x']}"
        assert metrics["experiment"] == "context" and metrics["resources"] == {"CPU": 1} and metrics["array"] == 0.5


PROGRAMS = (
    first_steps,
    optuna_with_asha,
    define_by_run,
    several_objectives,
    smart_checkpoints,
    torch_with_checkpoints,
    restored_from_a_path,
    sklearn_grid,
    stoppers_and_budgets,
    context_and_names,
)
