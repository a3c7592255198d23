"""Public modules and names of Ray's RLlib, in the versions 1.13, 2.2, 2.9 and 2.60: a list.

`scripts/compatibility` makes the table of absent names from it, and tests/docs/test_names_of_ray.py walks it.
"""

from __future__ import annotations

__all__ = ["NAMES"]

# Modules behind `ray.`, and their names.
NAMES = {
    "rllib": "Policy SampleBatch",
    "rllib.algorithms.dqn": "DQN DQNConfig",
    "rllib.algorithms.impala": "IMPALA IMPALAConfig",
    "rllib.algorithms.ppo": "PPO PPOConfig",
    "rllib.algorithms.sac": "SAC SACConfig",
}
