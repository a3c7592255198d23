"""The session of a trial, as programs of 2022 and 2023 use it: `session.report({"loss": loss})`."""

from __future__ import annotations

from typing import Any

from ..tune.session import (
    TuneContext,
    get_checkpoint,
    get_context,
    get_trial_dir,
    get_trial_id,
    get_trial_name,
    get_trial_resources,
    report,
)

__all__ = [
    "get_checkpoint",
    "get_context",
    "get_experiment_name",
    "get_local_rank",
    "get_local_world_size",
    "get_node_rank",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "get_world_rank",
    "get_world_size",
    "report",
]

TrainContext = TuneContext

_CONTEXT = TuneContext()
get_experiment_name = _CONTEXT.get_experiment_name
get_world_size = _CONTEXT.get_world_size
get_world_rank = _CONTEXT.get_world_rank
get_local_rank = _CONTEXT.get_local_rank
get_local_world_size = _CONTEXT.get_local_world_size
get_node_rank = _CONTEXT.get_node_rank


def __getattr__(name: str) -> Any:
    from ..ray_names import absent

    return absent.placeholder(f"zray.train.{name}", __name__)
