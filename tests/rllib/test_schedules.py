"""Schedules of the learning rate and of the factor of the entropy."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.registry import get_algorithm_class  # noqa: E402
from zray.rllib.algorithms.sac import SACPolicy  # noqa: E402
from zray.rllib.schedules import checked_schedule, value_at  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def test_value_is_linear_between_points_and_constant_beyond():
    points = [[10, 1.0], [20, 3.0], [50, 0.0]]
    steps = range(0, 70, 3)
    expected = np.interp(steps, [10, 20, 50], [1.0, 3.0, 0.0])
    assert [value_at(points, step) for step in steps] == pytest.approx(expected)


@pytest.mark.parametrize("wrong", [[], [1, 2], [[0, 1, 2]], [[5, 1.0], [5, 0.0]], [[5, 1.0], [0, 0.0]], [[0, "a"]]])
def test_wrong_schedule_says_what_one_is(wrong):
    with pytest.raises(ValueError, match="lr_schedule is a list of .steps, value. with growing steps"):
        checked_schedule("lr_schedule", wrong)


def made(name, **options):
    config = get_algorithm_class(name).get_default_config()
    config.environment("Pendulum-v1" if name == "SAC" else "CartPole-v1").training(model={"fcnet_hiddens": [4]})
    config.env_runners(num_groups=1, num_envs_per_env_runner=2, rollout_fragment_length=8)
    few = {"learning_starts": 0, "updates_per_iteration": 1, "grads_per_step": 1, "train_batch_size": 8}
    return config.update_from_dict(
        {**{key: each for key, each in few.items() if key in config}, **options}
    ).build_algo()


@pytest.mark.parametrize("name", ["PPO", "A2C", "A3C", "DQN", "SAC"])
@pytest.mark.parametrize("rate", [{"lr_schedule": [[0, 1e-2], [32, 0.0]]}, {"lr": 1e-2, "lr_decay_steps": 32}])
def test_weights_stay_where_the_learning_rate_is_0(name, rate):
    if name == "PPO":
        rate = {**rate, "train_batch_size": 16}
    algo = made(name, **rate)
    weights = [parameters(algo)]
    for _ in range(4):
        algo.train()
        weights.append(parameters(algo))
    algo.stop()
    assert weights[0] != weights[1] and weights[3] == weights[4]


def parameters(algo):
    """All parameters, of all networks."""
    modules = [algo.policy.model, *([algo.q] if isinstance(algo.policy, SACPolicy) else [])]
    return [value.detach().numpy().tobytes() for module in modules for value in module.parameters()]


@pytest.mark.parametrize("name", ["PPO", "A2C", "A3C"])
def test_factor_of_the_entropy_is_that_of_its_schedule(name):
    """A factor that vanishes behind the first rollout is the same as none from then on."""
    found = []
    for entropy in ({"entropy_coeff": 0.0}, {"entropy_coeff": 5.0}, {"entropy_coeff_schedule": [[0, 5.0], [1, 0.0]]}):
        algo = made(name, **entropy)
        algo.steps_sampled = 1
        algo.train()
        found.append(parameters(algo))
        algo.stop()
    assert found[0] == found[2] != found[1]
