"""Evaluation: episodes that are played for their returns alone, in an environment of their own.

The environment is that of the training, with its `env_config` and `horizon`, or as `evaluation_config` says.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .environments import EnvContext, InvalidEnvironmentError, Limited, make_environment, name_of
from .lives import RESTARTS_MAX, close_all
from .spellings import logger, once, translated

__all__ = ["Player", "add_policies", "evaluated", "options_of_evaluation", "summary"]

# Options that `evaluation_config` may change.
EVALUATED = ("env", "env_config", "horizon", "explore", "seed", "policy_mapping_fn")
# The seed of the first episode's reset, where `evaluation_config` gives none; those of training are drawn.
FIRST_SEED = 1_000_000


def summary(returns: list[float], lengths: list[int]) -> dict[str, Any]:
    """The numbers of episodes, in the spellings of 2018 and, under "env_runners", of today; NaN: there are none."""
    found = {}
    for key, values in (("episode_reward", returns), ("episode_len", lengths)):
        found[f"{key}_mean"] = float(np.mean(values)) if values else np.nan
        found[f"{key}_min"] = float(np.min(values)) if values else np.nan
        found[f"{key}_max"] = float(np.max(values)) if values else np.nan
    today = {name.replace("reward", "return"): value for name, value in found.items()}
    flat = {name: value for name, value in found.items() if name not in ("episode_len_min", "episode_len_max")}
    histories = {"episode_reward": list(returns), "episode_lengths": list(lengths)}
    return {**flat, "hist_stats": histories, "env_runners": today}


def add_policies(result: dict[str, Any], returns: Mapping[str, list[float]]) -> None:
    """Add the returns of policies over agents and episodes to a result, in the spellings of all years.

    Args:
        result: with the numbers of `summary`.
        returns: by policy, one for each of its agents in each episode.
    """
    for key, reduce in (("mean", np.mean), ("min", np.min), ("max", np.max)):
        result[f"policy_reward_{key}"] = {name: float(reduce(values)) for name, values in returns.items()}
    result["hist_stats"].update({f"policy_{name}_reward": list(values) for name, values in returns.items()})
    result["env_runners"]["module_episode_returns_mean"] = dict(result["policy_reward_mean"])


def options_of_evaluation(config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The options of an evaluation: those of the training, with what `evaluation_config` changes.

    Args:
        config: the options of the algorithm.
        kind: the algorithm's name.
    """
    given = config["evaluation_config"] or {}
    given = getattr(given, "options", given)
    own = translated(given, config, "evaluation_config", kind)
    for name in own:
        if name not in EVALUATED and own[name] != config.get(name):
            once(f"evaluation_config[{name!r}]", f"an evaluation reads {', '.join(EVALUATED)}")
    env_config = {**config["env_config"], **(own.get("env_config") or {})}
    if own.get("seed", FIRST_SEED) is None:
        del own["seed"]
    return {**config, "explore": False, "seed": FIRST_SEED, **own, "env_config": env_config}


class Player:
    """The policy of an algorithm, which plays episodes.

    Args:
        policy: with the method `act_with`.
        explores: whether actions are drawn.
        rng: draws them.
    """

    def __init__(self, policy: Any, explores: bool, rng: np.random.Generator) -> None:
        self.policy, self.explores, self.rng = policy, explores, rng

    def play(self, env: Any, seed: int, is_late: Callable[[], bool]) -> tuple[float, int] | None:
        """Return and length of an episode.

        Args:
            is_late: asked at each step; True: None is returned, and the episode is given up.
        """
        observation, _ = env.reset(seed=seed)
        total, length, is_over, state = 0.0, 0, False, self.policy.get_initial_state()
        while not is_over:
            action, state, _ = self.policy.act_with(observation, state, self.explores, self.rng)
            observation, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            length += 1
            is_over = bool(terminated or truncated)
            if not is_over and is_late():
                return None
        return total, length


def evaluated(
    player: Any, env: Any, options: Mapping[str, Any], count: int | None = None, num_workers: int = 0
) -> dict[str, Any]:
    """Play episodes, and sum them up.

    Args:
        player: plays one of them.
        env: what `make_environment` takes.
        options: of the evaluation.
        count: episodes; None: as `evaluation_duration` says.
        num_workers: the processes of the algorithm, for the context of the environment.
    """
    unit = options["evaluation_duration_unit"] if count is None else "episodes"
    wanted = count or options["evaluation_duration"]
    seconds = options["evaluation_sample_timeout_s"]
    horizon = options["horizon"]
    limited, failed = Limited(env, horizon) if horizon else env, 0
    context = EnvContext(options["env_config"], num_workers=num_workers)
    made = make_environment(limited, context)
    returns: list[float] = []
    lengths: list[int] = []
    in_vain = 0  # failures since the last episode
    try:
        while (len(returns) if unit == "episodes" else sum(lengths)) < wanted:
            last = math.inf if seconds is None else time.monotonic() + seconds
            seed = options["seed"] + len(returns) + failed
            try:
                found = player.play(made, seed, lambda last=last: time.monotonic() > last)
            except Exception as error:
                if not options.get("restart_failed_sub_environments"):
                    raise
                failed, in_vain = failed + 1, in_vain + 1
                text = f"{type(error).__name__}: {error}, in the evaluation, environment {name_of(env)}, seed {seed}."
                if in_vain > RESTARTS_MAX:
                    raise InvalidEnvironmentError(text) from error
                # The same seed and actions may fail in the same way: the next episode has another one.
                logger.warning("The environment of the evaluation is made anew, and its episode is left out: %s", text)
                close_all([made], name_of(env))
                made = make_environment(limited, context.copy_with_overrides(num_restarts=failed))
                continue
            if found is None:
                logger.warning(
                    "Evaluation stopped after %d episodes: the next one has not ended within "
                    "evaluation_sample_timeout_s=%s seconds.  Give horizon, the most steps of an episode.",
                    len(returns),
                    seconds,
                )
                break
            in_vain = 0
            returns.append(found[0])
            lengths.append(found[1])
    finally:
        close_all([made], name_of(env))
    result = summary(returns, lengths)
    counts = {"num_episodes": len(returns), "num_env_steps_sampled": sum(lengths)}
    result["env_runners"].update(counts)
    returns_of = getattr(player, "returns", None)
    if returns_of is not None:  # of several policies
        add_policies(result, returns_of)
    return {**result, **counts, "episodes": len(returns), "episodes_this_iter": len(returns)}
