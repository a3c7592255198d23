"""Schedules: options whose value depends on the steps that were sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .ranges import Range, in_words

__all__ = [
    "add_learners",
    "check_points",
    "checked_schedule",
    "entropy_coeff_at",
    "restore_optimizer",
    "set_learning_rate",
    "value_at",
]


def checked_schedule(name: str, schedule: Any) -> list[list[float]]:
    """A schedule as a list of [steps, value].

    Raises:
        ValueError: it is something else, or the steps do not grow.
    """
    are_pairs = isinstance(schedule, (list, tuple)) and all(
        isinstance(point, (list, tuple)) and len(point) == 2 and all(map(Range().is_number, point))
        for point in schedule
    )
    steps = [point[0] for point in schedule] if are_pairs else []
    if not steps or any(before >= after for before, after in zip(steps, steps[1:], strict=False)):
        raise ValueError(f"{name} is a list of [steps, value] with growing steps, not {schedule!r}.")
    return [[int(step), float(value)] for step, value in schedule]


def check_points(subject: str, schedule: Any, values: Range, *, is_number_too: bool = False) -> None:
    """Compare the points of a schedule with the ranges of steps and values.

    Args:
        subject: of the message, as "The option 'epsilon' of DQNConfig".
        schedule: [steps, value] of each point; the steps may be equal, where the value jumps.
        values: the range of each value.
        is_number_too: whether a number may stand for a schedule: for the message.

    Raises:
        ValueError: a point is outside of the ranges, or the steps fall.
    """
    points = list(schedule) if isinstance(schedule, (list, tuple)) else []
    are_pairs = bool(points) and all(isinstance(each, (list, tuple)) and len(each) == 2 for each in points)
    steps = Range(0)
    if are_pairs and all(
        steps.is_number(at) and steps.holds(at) and values.is_number(value) and values.holds(value)
        for at, value in points
    ):
        if all(before[0] <= after[0] for before, after in zip(points, points[1:], strict=False)):
            return
    if is_number_too:
        text = f"{in_words(values)}, or a schedule [[steps, value], ...] of such"
        if len(points) == 1 and are_pairs and values.is_number(points[0][1]):
            schedule = points[0][1]  # a number was given
    else:
        text = f"a schedule [[steps, value], ...], each value {in_words(values)}"
    raise ValueError(f"{subject} is {text} with steps that do not fall, not {schedule!r}.")


def value_at(schedule: Sequence[Sequence[float]], steps: int) -> float:
    """The value of a schedule: linear between its points, and constant before the first and behind the last one.

    Args:
        schedule: [steps, value] of each point.
        steps: sampled so far.
    """
    if steps >= schedule[-1][0]:
        return float(schedule[-1][1])
    for (first, start), (last, end) in zip(schedule, schedule[1:], strict=False):
        if steps < last:
            part = max(0.0, (steps - first) / (last - first))
            return float(start + part * (end - start))
    raise AssertionError("The last point is behind all steps.")


def set_learning_rate(optimizer: Any, config: Mapping[str, Any], steps: int) -> None:
    """Give an optimiser of torch the learning rate of now.

    Args:
        optimizer: its `lr` stays where the options have no schedule.
        config: `lr_schedule`; or `lr`, which goes down to 0 linearly in `lr_decay_steps`.
        steps: sampled so far.
    """
    if config.get("lr_schedule"):
        rate = value_at(config["lr_schedule"], steps)
    elif config.get("lr_decay_steps"):
        rate = config["lr"] * max(0.0, 1.0 - steps / config["lr_decay_steps"])
    else:
        return
    for group in optimizer.param_groups:
        group["lr"] = rate


def restore_optimizer(optimizer: Any, state: dict[str, Any]) -> None:
    """Give an optimiser of torch its moments back; options such as `lr` stay those of this algorithm.

    A configuration that has changed since the checkpoint, as by PBT, acts from the restore on.

    Args:
        optimizer: made from the options of this algorithm.
        state: `optimizer.state_dict()` of the checkpoint.
    """
    options = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, own in zip(optimizer.param_groups, options, strict=True):
        group.update(own)


def entropy_coeff_at(config: Mapping[str, Any], steps: int) -> float:
    """The factor of the entropy: that of `entropy_coeff_schedule`, or else `entropy_coeff`."""
    if config.get("entropy_coeff_schedule"):
        return value_at(config["entropy_coeff_schedule"], steps)
    return float(config["entropy_coeff"])


def _with_rate(metrics: Any, learner: Any) -> dict[str, Any]:
    """Metrics of a learner with the learning rate of the last update, where the learner has an optimiser."""
    optimizer = getattr(learner, "optimizer", None) or getattr(learner, "actor_optimizer", None)
    groups = getattr(optimizer, "param_groups", None)
    return {**metrics, **({"cur_lr": float(groups[0]["lr"])} if groups else {})}


def add_learners(result: dict[str, Any], algorithm: Any) -> None:
    """Give the metrics of learners in a result the learning rate, and the places that Ray's programs read.

    Args:
        result: its `info` has the metrics, those of several policies by policy.
        algorithm: with the optimisers.
    """
    info = result["info"]
    members = getattr(algorithm, "members", None)
    if members is None:
        found = _with_rate(info["learner"], algorithm)
        own = _of_model(algorithm.policy)
        result["learners"] = {"default_policy": {**found, **own}}
        info["learner"] = {**found, "default_policy": {"learner_stats": found, **own}}
        return
    result["learners"] = {
        name: _with_rate(each, members.get(name)) if isinstance(each, Mapping) else each
        for name, each in info["learner"].items()
    }
    info["learner"] = {
        name: {**each, "learner_stats": each} if isinstance(each, Mapping) else each
        for name, each in result["learners"].items()
    }
    for name, each in result["learners"].items():
        if name in members and isinstance(each, Mapping) and (own := _of_model(members[name].policy)):
            result["learners"][name] = {**each, **own}
            info["learner"][name].update(own)


def _of_model(policy: Any) -> dict[str, Any]:
    """Return the `metrics` of a TorchModelV2 of the program, under "model"; empty: the model has none."""
    from zray.tune.metrics import as_number

    from .models.modelv2 import ModelV2

    model = getattr(getattr(policy, "model", None), "inner", None)
    found = model.metrics() if isinstance(model, ModelV2) else None
    if not found:
        return {}
    numbers = {name: as_number(value) for name, value in found.items()}
    return {"model": {name: found[name] if value is None else value for name, value in numbers.items()}}
