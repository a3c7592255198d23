"""The program of the blog post of 2018 that announced Tune: a grid of two parameters, and a function with a reporter.

As printed there, it ends at `mean_accuracy` 100 only, which some of the six trials reach after 10^10 steps: a number of
iterations stands beside it here.  The results are in a folder of this program, not in ~/ray_results.

Prints:

    my_func_0_alpha=0.2,beta=1: TERMINATED after 50 iterations, mean_accuracy 2.18
    my_func_1_alpha=0.4,beta=1: TERMINATED after 50 iterations, mean_accuracy 4.74
    my_func_2_alpha=0.6,beta=1: TERMINATED after 50 iterations, mean_accuracy 10.33
    my_func_3_alpha=0.2,beta=2: TERMINATED after 50 iterations, mean_accuracy 2.50
    my_func_4_alpha=0.4,beta=2: TERMINATED after 50 iterations, mean_accuracy 6.26
    my_func_5_alpha=0.6,beta=2: TERMINATED after 50 iterations, mean_accuracy 15.66
"""

import tempfile

import zray as ray
from zray.tune import grid_search, register_trainable, run_experiments


def my_func(config, reporter):
    import time

    i = 0
    while True:
        reporter(timesteps_total=i, mean_accuracy=(i ** config["alpha"]))
        i += config["beta"]
        time.sleep(0.001)


register_trainable("my_func", my_func)

with tempfile.TemporaryDirectory() as folder, ray.init(num_cpus=2):
    trials = run_experiments(
        {
            "my_experiment": {
                "run": "my_func",
                "resources": {"cpu": 1, "gpu": 0},
                "stop": {"mean_accuracy": 100, "training_iteration": 50},
                "config": {
                    "alpha": grid_search([0.2, 0.4, 0.6]),
                    "beta": grid_search([1, 2]),
                },
                "local_dir": folder,
            }
        },
        verbose=0,
    )
    for trial in trials:
        result = trial.last_result
        name = f"{trial.trainable_name}_{trial.experiment_tag}"
        print(
            f"{name}: {trial.status} after {result['training_iteration']} iterations, "
            f"mean_accuracy {result['mean_accuracy']:.2f}"
        )
