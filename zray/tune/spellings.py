"""Spellings of an experiment's options since 2017, in one table, and what they mean today.

`translated` takes the options of a front door, in any spelling; `configs_of` makes today's configuration of them.
Ways to report a result are listed in `session.py`; `reward_attr` of schedulers is in `schedulers/spellings.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from .config import CheckpointConfig, FailureConfig, RunConfig, SyncConfig, TuneConfig
from .unknown import unknown_name

__all__ = ["IGNORED", "OPTIONS", "RENAMED", "checkpoint_config_of", "configs_of", "tell_ignored", "translated"]

# Options of an experiment, in the spelling of `tune.run` today.
OPTIONS = (
    "name",
    "metric",
    "mode",
    "stop",
    "time_budget_s",
    "config",
    "env",
    "resources_per_trial",
    "num_samples",
    "storage_path",
    "storage_filesystem",
    "sync_config",
    "upload_dir",
    "loggers",
    "search_alg",
    "scheduler",
    "checkpoint_config",
    "num_to_keep",
    "checkpoint_score_attribute",
    "checkpoint_frequency",
    "checkpoint_at_end",
    "verbose",
    "progress_reporter",
    "log_to_file",
    "trial_name_creator",
    "trial_dirname_creator",
    "chdir_to_trial_dir",
    "max_failures",
    "fail_fast",
    "restore",
    "resume",
    "reuse_actors",
    "raise_on_failed_trial",
    "callbacks",
    "max_concurrent_trials",
    "seed",
)

# Former spelling: the one of today.  Of two spellings of one option, the former counts: today's has a default.
RENAMED = {
    "repeat": "num_samples",  # 2017
    "resources": "resources_per_trial",  # 2017
    "trial_resources": "resources_per_trial",  # 2018
    "local_dir": "storage_path",  # until 2023
    "checkpoint_freq": "checkpoint_frequency",
    "keep_checkpoints_num": "num_to_keep",
    "checkpoint_score_attr": "checkpoint_score_attribute",
    "param_space": "config",  # the name in Tuner
}

# Options of former years that change nothing here: the reason, and whether a program that gives one is told.
IGNORED: dict[str, tuple[str, bool]] = {
    "sync_to_driver": ("checkpoints are in the experiment's folder when a report returns", False),
    "sync_to_cloud": ("name the folder as storage_path", True),
    "sync_function": ("name the folder as storage_path", True),
    "export_formats": ("save the model in a checkpoint", True),
    "resume_config": ("resume says which trials go on", True),
    "custom_loggers": ("pass callbacks=[...]", True),
    "global_checkpoint_period": ("each event is in the journal before it acts", False),
    "queue_trials": ("trials wait for their resources", False),
    "trial_executor": ("trials run in actors", True),
    "ray_auto_init": ("a session starts when none runs", False),
    "with_server": ("the state is in the experiment's folder", True),
    "server_port": ("the state is in the experiment's folder", True),
    "_remote": ("the experiment runs in the program", True),
}


def tell_ignored(place: str, name: str, value: Any, depth: int = 3) -> None:
    """Warn a program about an option of IGNORED, unless the option asks for the usual behaviour.

    Args:
        place: the front door.
        name, value: of the option.
        depth: calls between the program and the warning.
    """
    reason, is_told = IGNORED[name]
    if value and is_told:
        warnings.warn(f"{place}: {name} has no effect here: {reason}.", stacklevel=depth)


def translated(
    given: Mapping[str, Any], place: str, kind: str, error: type[Exception], *, extra: Iterable[str] = ()
) -> dict[str, Any]:
    """The options of an experiment in the spelling of today.

    Args:
        given: options in any spelling.  None means that an option is not given.
        place, kind: of the front door, for its errors.
        error: the class of the error.
        extra: further names that the front door has.

    Raises:
        error: an unknown name.
    """
    known = (*OPTIONS, *RENAMED, *IGNORED, *extra)
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            raise error(unknown_name(place, kind, key, (*extra, *OPTIONS, *RENAMED)))
        if key in IGNORED:
            tell_ignored(place, key, value, 5)
            continue
        if value is None:
            continue
        if key in RENAMED and value:
            found[RENAMED[key]] = value
        else:
            found.setdefault(RENAMED.get(key, key), value)
    return found


def configs_of(options: Mapping[str, Any]) -> tuple[dict[str, Any], TuneConfig, RunConfig]:
    """The search space, TuneConfig and RunConfig of translated options."""
    space = options.get("config") or {}
    if "env" in options:  # 2017: beside the configuration
        space = {**space, "env": options["env"]}
    tune_keys = ("metric", "mode", "search_alg", "scheduler", "num_samples", "max_concurrent_trials", "time_budget_s")
    name_keys = ("reuse_actors", "trial_name_creator", "trial_dirname_creator", "chdir_to_trial_dir", "seed")
    run_keys = ("name", "storage_path", "storage_filesystem", "verbose", "stop", "progress_reporter", "log_to_file")
    callbacks = options.get("callbacks")
    if options.get("loggers"):  # until 2020
        from .logger import LegacyLoggerCallback

        callbacks = [*(callbacks or ()), LegacyLoggerCallback(options["loggers"])]
    return (
        space,
        TuneConfig(**{key: options[key] for key in (*tune_keys, *name_keys) if key in options}),
        RunConfig(
            **{key: options[key] for key in run_keys if key in options},
            callbacks=callbacks,
            sync_config=options.get("sync_config") or SyncConfig(upload_dir=options.get("upload_dir")),
            failure_config=FailureConfig(options.get("max_failures", 0), options.get("fail_fast", False)),
            checkpoint_config=checkpoint_config_of(options),
        ),
    )


def checkpoint_config_of(options: Mapping[str, Any]) -> CheckpointConfig:
    """The options of checkpoints: those of 2019 beside the configuration of today."""
    saving = options.get("checkpoint_config") or CheckpointConfig()
    score, order = saving.checkpoint_score_attribute, saving.checkpoint_score_order
    old_score = options.get("checkpoint_score_attribute")
    if old_score:  # "min-loss": the smallest loss
        score, order = old_score.removeprefix("min-"), "min" if old_score.startswith("min-") else "max"
    return CheckpointConfig(
        options.get("num_to_keep") or saving.num_to_keep,
        score,
        order,
        options.get("checkpoint_frequency") or saving.checkpoint_frequency,
        options.get("checkpoint_at_end") or saving.checkpoint_at_end,
    )
