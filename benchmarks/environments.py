"""Figures of tasks in an environment with packages. The package is made on the spot: no network is needed."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

from .timing import Effort, samples


def make_wheel(folder: str) -> str:
    """A package with one module; its path."""
    path, info = Path(folder) / "measured-1.0-py3-none-any.whl", "measured-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("measured.py", "VALUE = 1\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: measured\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return str(path)


def task_in(ray: ModuleType, wheel: str) -> Any:
    """A remote function in the environment."""

    def value() -> int:
        import measured  # type: ignore[import-not-found]

        return int(measured.VALUE)

    return ray.remote(value).options(runtime_env={"pip": ["--no-index", wheel]})


def environment_tasks(ray: ModuleType, effort: Effort) -> dict[str, float]:
    """The installation, then the first task of a session in it (s), then one task after the other (us)."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("ZRAY_ENV_CACHE")
        os.environ["ZRAY_ENV_CACHE"] = os.path.join(folder, "cache")
        wheel, found = make_wheel(folder), {}
        try:
            for name in ("environment_installed", "environment_first_task"):
                ray.init(num_cpus=2)
                ray.get(ray.remote(lambda: 1).remote())  # the session itself is ready
                task, begun = task_in(ray, wheel), time.perf_counter()
                ray.get(task.remote())
                found[name] = time.perf_counter() - begun
                if name == "environment_first_task":
                    warm = samples(lambda task=task: ray.get(task.remote()), effort, at_least=200)  # type: ignore[misc]
                    found["environment_task_p50"] = statistics.median(warm) * 1e6
                ray.shutdown()
        finally:
            ray.shutdown()
            if before is None:
                del os.environ["ZRAY_ENV_CACHE"]
            else:
                os.environ["ZRAY_ENV_CACHE"] = before
    return found


FRESH_WORKLOADS = [environment_tasks]
