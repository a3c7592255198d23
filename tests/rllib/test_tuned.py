"""Tuned options: each row names options that exist, and the algorithms learn by them."""

import pytest

import zray

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.registry import get_algorithm_class  # noqa: E402
from zray.rllib.tuned import TUNED  # noqa: E402


@pytest.mark.parametrize("name", TUNED)
def test_tuned_options_are_those_of_the_algorithm(name):
    row = TUNED[name]
    _, config = get_algorithm_class(row["run"], return_config=True)
    options = config.environment(row["env"]).update_from_dict(row["config"]).to_dict()
    for option, value in row["config"].items():
        found = options[option]
        assert found == ({**found, **value} if isinstance(value, dict) else value)
    assert set(row["stop"]) == {"episode_reward_mean", "timesteps_total"}


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["cartpole-ppo", "cartpole-a2c", "cartpole-a3c", "pendulum-sac"])
def test_algorithm_learns_by_its_row(name, nothing_left):
    torch.set_num_threads(1)
    row = TUNED[name]
    level, limit = row["stop"]["episode_reward_mean"], row["stop"]["timesteps_total"]
    every = 2_000 if row["run"] == "SAC" else 10_000
    with zray.init(num_cpus=2, log_to_driver=False):
        algo = get_algorithm_class(row["run"])(config={**row["config"], "seed": 1}, env=row["env"])
        best, due = float("-inf"), every
        while algo.steps_sampled < limit and best < level:
            algo.train()
            if algo.steps_sampled >= due:
                due += every
                best = max(best, algo.evaluate(20)["episode_reward_mean"])
        algo.stop()
    assert best >= level
