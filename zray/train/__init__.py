"""Names of Ray Train that programs with Tune import.  Trainers are absent: each says what to do instead."""

from __future__ import annotations

from typing import Any

from ..tune import aliases

_MODULE_BY_NAME = {
    **dict.fromkeys(("get_checkpoint", "get_context", "report"), "zray.tune.session"),
    **dict.fromkeys(
        ("CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig", "SyncConfig"), "zray.tune.config"
    ),
    "Checkpoint": "zray.tune.checkpoint",
    "TrainContext": "zray.air.session",
    "Result": "zray.tune.results",
}
_MODULES = ("lightgbm", "lightning", "session", "tensorflow", "torch", "trainer", "xgboost")

__all__ = sorted(_MODULE_BY_NAME)

aliases.install()


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULE_BY_NAME:
        value = getattr(import_module(_MODULE_BY_NAME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    from ..ray_names import absent

    return absent.placeholder(f"{__name__}.{name}", __name__)


def __dir__() -> list[str]:
    return __all__
