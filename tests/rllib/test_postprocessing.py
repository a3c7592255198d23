"""Advantages in Ray's spelling, for the steps of one episode, beside those of rollouts."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.evaluation.postprocessing import Postprocessing, compute_advantages, discount_cumsum  # noqa: E402

from zray.rllib.advantages import generalized_advantages  # noqa: E402
from zray.rllib.policy.sample_batch import SampleBatch  # noqa: E402

REWARDS, VALUES = np.array([1.0, 2.0, -1.0, 4.0]), np.array([0.5, 0.0, 1.5, 2.0])


def batch(**more):
    return SampleBatch(rewards=REWARDS.copy(), vf_preds=VALUES.copy(), **more)


@pytest.mark.parametrize(("last", "is_terminal"), [(0.0, True), (3.0, False)])
@pytest.mark.parametrize("lambda_", [1.0, 0.5])
def test_advantages_of_an_episode_are_those_of_a_rollout(last, is_terminal, lambda_):
    found = compute_advantages(batch(), last, gamma=0.9, lambda_=lambda_)
    after, ends = np.append(VALUES[1:], last), np.array([0.0, 0.0, 0.0, 1.0])
    columns = [each[:, np.newaxis] for each in (REWARDS, VALUES, after, ends * is_terminal, ends)]
    advantages, targets = generalized_advantages(*columns, 0.9, lambda_)
    assert np.allclose(found[Postprocessing.ADVANTAGES], advantages[:, 0], atol=1e-6)
    assert np.allclose(found["value_targets"], targets[:, 0], atol=1e-6)
    assert found["advantages"].dtype == found["value_targets"].dtype == np.float32


def test_returns_without_gae_are_discounted_sums():
    returns = discount_cumsum(np.append(REWARDS, 3.0), 0.5)[:-1]
    assert np.allclose(returns, [1 + 1 - 0.25 + 0.5 + 3 / 16, 2 - 0.5 + 1 + 3 / 8, -1 + 2 + 3 / 4, 4 + 1.5])
    found = compute_advantages(batch(), 3.0, 0.5, use_gae=False)
    assert np.allclose(found["advantages"], returns - VALUES) and np.allclose(found["value_targets"], returns)
    found = compute_advantages({"r": REWARDS}, 3.0, 0.5, use_gae=False, use_critic=False, rewards="r")
    assert np.allclose(found["advantages"], returns) and not found["value_targets"].any()


def test_gae_without_values_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match="GAE takes the column 'vf_preds' of values, and .* use_gae=False"):
        compute_advantages({"rewards": REWARDS}, 0.0)
    with pytest.raises(ValueError, match="use_critic=True"):
        compute_advantages(batch(), 0.0, use_critic=False)
