"""Tune: hyper-parameter search, in Ray's spellings since 2017."""

from __future__ import annotations

from typing import Any

from . import aliases

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
            "TuneContext",
            "checkpoint_dir",
            "get_checkpoint",
            "get_context",
            "get_trial_dir",
            "get_trial_id",
            "get_trial_name",
            "get_trial_resources",
            "is_session_enabled",
            "report",
        ),
        "session",
    ),
    **dict.fromkeys(
        (
            "CheckpointConfig",
            "FailureConfig",
            "ResumeConfig",
            "RunConfig",
            "ScalingConfig",
            "SyncConfig",
            "TuneConfig",
        ),
        "config",
    ),
    **dict.fromkeys(("Analysis", "ExperimentAnalysis", "Result", "ResultGrid"), "results"),
    **dict.fromkeys(("register_env", "register_trainable"), "registry"),
    **dict.fromkeys(("PlacementGroupFactory", "with_resources"), "resources"),
    **dict.fromkeys(("CLIReporter", "JupyterNotebookReporter", "ProgressReporter"), "reporters"),
    **dict.fromkeys(
        (
            "CombinedStopper",
            "ExperimentPlateauStopper",
            "FunctionStopper",
            "MaximumIterationStopper",
            "NoopStopper",
            "Stopper",
            "TimeoutStopper",
            "TrialPlateauStopper",
        ),
        "stoppers",
    ),
    "Callback": "callback",
    "ExportFormat": "trial",
    "TrainingResult": "result",
    "create_scheduler": "schedulers",
    "create_searcher": "search",
    "function": "functions",
    "with_parameters": "parameters",
    "Experiment": "experiments",
    "run": "tune_run",
    "run_experiments": "experiments",
    "Checkpoint": "checkpoint",
    "Trainable": "trainable",
    "TuneError": "errors",
    "Tuner": "tuner",
}

# Modules that are attributes without an import of their own.
_MODULES = (
    "analysis",
    "callback",
    "experiment",
    "integration",
    "logger",
    "progress_reporter",
    "registry",
    "result",
    "result_grid",
    "schedulers",
    "search",
    "stopper",
    "suggest",
    "track",
    "trainable",
    "tune_config",
    "tuner",
    "utils",
)

__all__ = sorted(_MODULE_BY_NAME)

aliases.install()


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        try:
            return import_module(f".{name}", __name__)
        except ModuleNotFoundError as error:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {error}") from error
    if name not in _MODULE_BY_NAME:
        from ..ray_names import absent

        raise absent.attribute_error(__name__, name)
    value = getattr(import_module(f".{_MODULE_BY_NAME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
