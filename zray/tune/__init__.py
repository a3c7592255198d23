"""Tune: hyper-parameter search, in Ray's spellings since 2017."""

from __future__ import annotations

from typing import Any

_MODULE_BY_NAME = {
    **dict.fromkeys(
        (
            "choice",
            "grid_search",
            "lograndint",
            "loguniform",
            "qlograndint",
            "qloguniform",
            "qrandint",
            "qrandn",
            "quniform",
            "randint",
            "randn",
            "sample_from",
            "uniform",
        ),
        "spaces",
    ),
    **dict.fromkeys(
        (
            "checkpoint_dir",
            "get_checkpoint",
            "get_context",
            "get_trial_dir",
            "get_trial_id",
            "get_trial_name",
            "get_trial_resources",
            "report",
        ),
        "session",
    ),
    **dict.fromkeys(
        ("CheckpointConfig", "FailureConfig", "ResumeConfig", "RunConfig", "SyncConfig", "TuneConfig"), "config"
    ),
    **dict.fromkeys(("ExperimentAnalysis", "Result", "ResultGrid"), "results"),
    **dict.fromkeys(("register_env", "register_trainable"), "registry"),
    **dict.fromkeys(("PlacementGroupFactory", "with_resources"), "resources"),
    **dict.fromkeys(("CLIReporter", "JupyterNotebookReporter", "ProgressReporter"), "reporters"),
    "Callback": "callback",
    "Experiment": "experiments",
    "run": "tune_run",
    "run_experiments": "experiments",
    "Checkpoint": "checkpoint",
    "Stopper": "stoppers",
    "Trainable": "trainable",
    "TuneError": "errors",
    "Tuner": "tuner",
}

__all__ = sorted(_MODULE_BY_NAME)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _MODULE_BY_NAME:
        from .. import absent

        raise absent.attribute_error(__name__, name)
    value = getattr(import_module(f".{_MODULE_BY_NAME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
