"""Names of Ray AIR, which programs of 2022 and 2023 import: configurations, checkpoints, and the trial's session."""

from __future__ import annotations

from typing import Any

from ..tune import aliases

_MODULE_BY_NAME = {
    **dict.fromkeys(
        ("CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig", "SyncConfig"), "zray.tune.config"
    ),
    "Checkpoint": "zray.tune.checkpoint",
    "Result": "zray.tune.results",
}
_MODULES = ("checkpoint", "config", "result", "session")

__all__ = sorted((*_MODULE_BY_NAME, "session"))

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

    raise absent.attribute_error(__name__, name)


def __dir__() -> list[str]:
    return __all__
