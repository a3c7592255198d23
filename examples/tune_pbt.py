"""Population based training on its paper's toy: two workers, of which each can improve one half of the objective only.

The objective is 1.2 - (t0^2 + t1^2).  A worker follows h0 and h1, which are (1, 0) and (0, 1).  Alone, each gets stuck
at 0.4.  With exploitation, the worse one goes on from the better one's weights in the other direction.

Prints:

    without exploitation: 0.39
    with exploitation:    1.20
"""

import tempfile

import zray as ray
from zray import tune
from zray.tune.schedulers import PopulationBasedTraining


class Worker(tune.Trainable):
    def setup(self, config):
        self.t = [0.9, 0.9]
        self.h = [config["h0"], config["h1"]]

    def step(self):
        self.t = [t - 0.02 * h * t for t, h in zip(self.t, self.h, strict=True)]
        return {"q": 1.2 - sum(t**2 for t in self.t)}

    def save_checkpoint(self, folder):
        return {"t": self.t}

    def load_checkpoint(self, state):
        self.t = state["t"]


def other_direction(config):
    return {"h0": config["h1"], "h1": config["h0"]}


def best_of_two(interval, folder):
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=interval,
        custom_explore_fn=other_direction,
        quantile_fraction=0.5,
        synch=True,
    )
    results = tune.Tuner(
        Worker,
        param_space={"h0": tune.grid_search([1, 0]), "h1": tune.sample_from(lambda spec: 1 - spec.config.h0)},
        tune_config=tune.TuneConfig(metric="q", mode="max", scheduler=scheduler, reuse_actors=True),
        run_config=tune.RunConfig(
            name=f"every{interval}", storage_path=folder, stop={"training_iteration": 300}, verbose=0
        ),
    ).fit()
    return results.get_best_result().metrics["q"]


with tempfile.TemporaryDirectory() as folder, ray.init(num_cpus=2):
    print(f"without exploitation: {best_of_two(1000, folder):.2f}")
    print(f"with exploitation:    {best_of_two(20, folder):.2f}")
