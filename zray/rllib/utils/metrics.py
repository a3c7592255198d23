"""Keys of results, as programs import them from Ray."""

from __future__ import annotations

from ..doors import names_of

__all__ = [
    "ENV_RUNNER_RESULTS",
    "EPISODE_LEN_MEAN",
    "EPISODE_RETURN_MAX",
    "EPISODE_RETURN_MEAN",
    "EPISODE_RETURN_MIN",
    "EVALUATION_RESULTS",
    "LEARNER_RESULTS",
    "NUM_AGENT_STEPS_SAMPLED",
    "NUM_AGENT_STEPS_SAMPLED_LIFETIME",
    "NUM_ENV_STEPS_SAMPLED",
    "NUM_ENV_STEPS_SAMPLED_LIFETIME",
    "NUM_EPISODES",
    "NUM_EPISODES_LIFETIME",
]

# Modules of Ray below this one are found in its place.
__path__: list[str] = []

ENV_RUNNER_RESULTS = "env_runners"
EVALUATION_RESULTS = "evaluation"
LEARNER_RESULTS = "learners"
EPISODE_RETURN_MEAN, EPISODE_RETURN_MIN, EPISODE_RETURN_MAX = (
    f"episode_return_{each}" for each in ("mean", "min", "max")
)
EPISODE_LEN_MEAN = "episode_len_mean"
NUM_EPISODES, NUM_EPISODES_LIFETIME = "num_episodes", "num_episodes_lifetime"
NUM_ENV_STEPS_SAMPLED, NUM_ENV_STEPS_SAMPLED_LIFETIME = "num_env_steps_sampled", "num_env_steps_sampled_lifetime"
NUM_AGENT_STEPS_SAMPLED, NUM_AGENT_STEPS_SAMPLED_LIFETIME = (
    "num_agent_steps_sampled",
    "num_agent_steps_sampled_lifetime",
)

__getattr__ = names_of(__name__)
