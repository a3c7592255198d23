"""Optuna's TPE sampler searches: one trial at a time, the parameters are those that Optuna itself would try.

Prints:

    Optuna tried 30 points; the best one is within 0.5 of (2, -1): True
    the same points as Optuna alone: True
"""

import tempfile

import optuna

import zray as ray
from zray import tune
from zray.tune.search.optuna import OptunaSearch


def bowl(config):
    return {"loss": (config["x"] - 2) ** 2 + (config["y"] + 1) ** 2}


with tempfile.TemporaryDirectory() as folder, ray.init(num_cpus=2):
    results = tune.Tuner(
        bowl,
        param_space={"x": tune.uniform(-5, 5), "y": tune.uniform(-5, 5)},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=30,
            search_alg=OptunaSearch(seed=7),
            max_concurrent_trials=1,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(name="bowl", storage_path=folder, verbose=0),
    ).fit()
    best = results.get_best_result().config
    is_near = abs(best["x"] - 2) < 0.5 and abs(best["y"] + 1) < 0.5
    print(f"Optuna tried {len(results)} points; the best one is within 0.5 of (2, -1): {is_near}")

study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=7))
study.optimize(lambda trial: bowl({key: trial.suggest_float(key, -5, 5) for key in "xy"})["loss"], n_trials=30)
print(f"the same points as Optuna alone: {[result.config for result in results] == [t.params for t in study.trials]}")
