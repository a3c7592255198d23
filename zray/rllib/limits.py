"""Limits of options: the kind and the range of each number, in one table."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from .batches import FLOAT_MAX
from .ranges import COUNT, NUMBER, OPTIONAL, SHARE, SIZE, Range, check
from .schedules import check_points
from .spellings import common_defaults, once

__all__ = ["LIMITS", "check_limits", "check_numbers", "level_of", "say_unread"]

LIMITS: dict[str, Range] = {
    **dict.fromkeys(("num_groups", "num_envs_per_env_runner", "rollout_fragment_length", "minibatch_size"), COUNT),
    **dict.fromkeys(("num_epochs", "capacity", "updates_per_iteration", "grads_per_step", "n_step"), COUNT),
    **dict.fromkeys(("evaluation_duration", "metrics_num_episodes_for_smoothing", "episodes_per_batch"), COUNT),
    **dict.fromkeys(("noise_size", "report_length"), COUNT),
    **dict.fromkeys(("num_env_runners", "num_replay_buffer_shards", "evaluation_interval"), SIZE),
    **dict.fromkeys(("train_batch_size", "horizon", "seed"), Range(0, is_whole=True, is_optional=True)),
    **dict.fromkeys(("gamma", "lambda_", "tau", "eval_prob", "momentum"), SHARE),
    **dict.fromkeys(("vf_loss_coeff", "kl_coeff", "kl_target", "learning_starts", "num_gpus", "clip_param"), NUMBER),
    **dict.fromkeys(("min_sample_timesteps_per_iteration", "target_network_update_freq"), NUMBER),
    **dict.fromkeys(("num_cpus_per_env_runner", "num_gpus_per_env_runner"), NUMBER),
    **dict.fromkeys(("prioritized_alpha", "prioritized_beta", "l2_coeff", "action_noise_std", "stepsize"), NUMBER),
    **dict.fromkeys(("grad_clip", "vf_clip_param", "lr_decay_steps", "sample_timeout_s"), OPTIONAL),
    **dict.fromkeys(("evaluation_sample_timeout_s", "training_intensity", "alpha_lr"), OPTIONAL),
    **dict.fromkeys(("initial_alpha", "noise_stdev"), Range(0, is_open=True)),
    "lr": NUMBER,
    "entropy_coeff": Range(),
    "alpha": Range(0, others=("auto",)),
    "target_entropy": Range(others=("auto",)),
    "top_directions": Range(1, is_whole=True, is_optional=True),
    "fan_in": Range(2, is_whole=True),
}
# Names of the levels of a logger.
LEVELS = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL")
# The bound of rewards: finite in 32 bits.
CLIP = Range(0, FLOAT_MAX)
# Options that are schedules, and the range of their values.
SCHEDULES = {"lr_schedule": NUMBER, "entropy_coeff_schedule": Range(), "epsilon": SHARE}


def check_numbers(options: Mapping[str, Any], name: str) -> None:
    """Compare the numbers among options with their limits.

    Args:
        options: those of an algorithm, in today's names.
        name: of their owner, for messages.

    Raises:
        TypeError: an option is of another kind.
        ValueError: a number is out of its range.
    """
    for option, limit in SCHEDULES.items():
        if options.get(option) is not None or (option == "epsilon" and option in options):
            check_points(f"The option {option!r} of {name}", options[option], limit, is_number_too=option == "epsilon")
    for option, limit in LIMITS.items():
        if option in options:
            own = limit
            if option == "lr" and "stepsize" in options:
                own = OPTIONAL  # ES has `stepsize` in the place of a None
            elif option == "train_batch_size" and "capacity" in options:
                own = COUNT  # drawn from a replay memory, and no number of rollouts
            elif option == "train_batch_size" and "episodes_per_batch" not in options:
                own = Range(1, is_whole=True, is_optional=True)  # ES alone knows a batch of any number of steps
            check(f"The option {option!r} of {name}", options[option], own)


def level_of(value: Any) -> int:
    """The number of a level of the logger.

    Raises:
        ValueError: `logging` has no such level.
    """
    if value is None or type(value) is int:
        return logging.WARNING if value is None else int(value)
    name = str(value).upper()
    if name not in LEVELS:
        names = ", ".join(f'"{level}"' for level in LEVELS)
        raise ValueError(f"The option log_level is one of {names}, or a number of `logging`, not {value!r}.")
    return int(getattr(logging, name))


def check_limits(options: Mapping[str, Any], name: str) -> None:
    """Compare options with their limits, and the layers of `model`.

    Args:
        options: those of an algorithm, in today's names.
        name: of the configuration, for messages.

    Raises:
        TypeError: an option is of another kind.
        ValueError: a number is out of its range.
    """
    check_numbers(options, name)
    level_of(options.get("log_level"))
    if (preferred := options.get("preprocessor_pref")) not in ("deepmind", "rllib", None):
        raise ValueError(f'The option preprocessor_pref is "deepmind", "rllib" or None, not {preferred!r}.')
    clip = options.get("clip_rewards")
    if clip is not None and not isinstance(clip, bool):
        check(f"The option 'clip_rewards' of {name} is True, for the signs of rewards, or", clip, CLIP)
    if isinstance(evaluation := options.get("evaluation_config"), Mapping):
        check_numbers(evaluation, f"evaluation_config of {name}")
    model = options["model"]
    if not isinstance(model, Mapping):
        raise TypeError(f"The option 'model' of {name} is a dict, such as {{'use_lstm': True}}, not {model!r}.")
    for key in ("fcnet_hiddens", "post_fcnet_hiddens"):
        hidden = model.get(key) or []
        if not isinstance(hidden, (list, tuple)):
            raise TypeError(f"model[{key!r}] of {name} is a list of units, such as [64, 64], not {hidden!r}.")
        for units in hidden:
            check(f"A layer of model[{key!r}] of {name}", units, COUNT)
    for key in ("lstm_cell_size", "max_seq_len", "dim"):
        if model.get(key) is not None:
            check(f"model[{key!r}] of {name}", model[key], COUNT)


def say_unread(options: Mapping[str, Any], defaults: Mapping[str, Any], unread: Mapping[str, str]) -> None:
    """Say once of each option that the algorithm does not read, and that has not its default.

    Args:
        options: those of an algorithm, in today's names.
        defaults: those of the algorithm's own, beside the common ones.
        unread: why the algorithm does not read an option, by name.
    """
    if options.get("explore") is False:
        reason = "training draws its actions all the same, and compute_single_action does not"
        once("explore", reason, "changes no rollout of the training")
    of_all = {**common_defaults(), **defaults}
    for name, reason in unread.items():
        value = options.get(name, of_all[name])  # absent in checkpoints of the time before an option
        if value != of_all[name] and (value or of_all[name]):
            once(name, reason)
