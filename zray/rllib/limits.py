"""Limits of options: the kind and the range of each number, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from .spellings import common_defaults, once

__all__ = ["LIMITS", "check_limits", "say_unread"]


class Limit(NamedTuple):
    """The kind and the range of a number.

    least, most: the range; None: any.  is_whole: whether it is an integer.  is_optional: whether it may be None.
    others: texts that stand for a number.
    """

    least: float | None = None
    most: float | None = None
    is_whole: bool = False
    is_optional: bool = False
    others: tuple[str, ...] = ()


_COUNT = Limit(1, is_whole=True)
_SIZE = Limit(0, is_whole=True)
_SHARE = Limit(0, 1)
_NUMBER = Limit(0)
_OPTIONAL = Limit(0, is_optional=True)

LIMITS: dict[str, Limit] = {
    **dict.fromkeys(("num_groups", "num_envs_per_env_runner", "rollout_fragment_length", "minibatch_size"), _COUNT),
    **dict.fromkeys(("num_epochs", "capacity", "updates_per_iteration", "grads_per_step", "n_step"), _COUNT),
    **dict.fromkeys(("evaluation_duration", "metrics_num_episodes_for_smoothing"), _COUNT),
    **dict.fromkeys(("num_env_runners", "num_replay_buffer_shards", "evaluation_interval", "seed"), _SIZE),
    **dict.fromkeys(("train_batch_size", "horizon"), Limit(0, is_whole=True, is_optional=True)),
    **dict.fromkeys(("gamma", "lambda_", "tau"), _SHARE),
    **dict.fromkeys(("vf_loss_coeff", "kl_coeff", "kl_target", "learning_starts", "num_gpus"), _NUMBER),
    **dict.fromkeys(("min_sample_timesteps_per_iteration", "target_network_update_freq", "clip_param"), _NUMBER),
    **dict.fromkeys(("grad_clip", "vf_clip_param", "lr_decay_steps", "sample_timeout_s"), _OPTIONAL),
    **dict.fromkeys(("evaluation_sample_timeout_s", "training_intensity"), _OPTIONAL),
    "lr": _NUMBER,
    "entropy_coeff": Limit(),
    "alpha": Limit(0, others=("auto",)),
    "target_entropy": Limit(others=("auto",)),
}


def check_limits(options: Mapping[str, Any], name: str) -> None:
    """Compare options with their limits, and the layers of `model`.

    Args:
        options: those of an algorithm, in today's names.
        name: of the configuration, for messages.

    Raises:
        TypeError: an option is of another kind.
        ValueError: a number is out of its range.
    """
    for option, limit in LIMITS.items():
        if option in options:
            # ES has `stepsize` in the place of a None.
            own = _OPTIONAL if option == "lr" and "stepsize" in options else limit
            _check(f"The option {option!r} of {name}", options[option], own)
    model = options["model"]
    if not isinstance(model, Mapping):
        raise TypeError(f"The option 'model' of {name} is a dict, such as {{'use_lstm': True}}, not {model!r}.")
    hidden = model.get("fcnet_hiddens", [])
    if not isinstance(hidden, (list, tuple)):
        raise TypeError(f"model['fcnet_hiddens'] of {name} is a list of units, such as [64, 64], not {hidden!r}.")
    for units in hidden:
        _check(f"A layer of model['fcnet_hiddens'] of {name}", units, _COUNT)


def say_unread(options: Mapping[str, Any], defaults: Mapping[str, Any], unread: Mapping[str, str]) -> None:
    """Say once of each option that the algorithm does not read, and that has not its default.

    Args:
        options: those of an algorithm, in today's names.
        defaults: those of the algorithm's own, beside the common ones.
        unread: why the algorithm does not read an option, by name.
    """
    of_all = {**common_defaults(), **defaults}
    for name, reason in unread.items():
        value = options.get(name, of_all[name])  # absent in checkpoints of the time before an option
        if value != of_all[name] and (value or of_all[name]):
            once(name, reason)


def _check(subject: str, value: Any, limit: Limit) -> None:
    if value is None and limit.is_optional or isinstance(value, str) and value in limit.others:
        return
    kind = "an integer" if limit.is_whole else "a number"
    others = "".join(f" or {other!r}" for other in limit.others) + (" or None" if limit.is_optional else "")
    if isinstance(value, bool) or not isinstance(value, Integral if limit.is_whole else Real):
        raise TypeError(f"{subject} is {kind}{others}, not {value!r}.")
    is_low = limit.least is not None and value < limit.least  # type: ignore[operator]
    if is_low or limit.most is not None and value > limit.most:  # type: ignore[operator]
        most = "" if limit.most is None else f" and at most {limit.most:g}"
        raise ValueError(f"{subject} is {kind}{others}, at least {limit.least:g}{most}, not {value!r}.")
