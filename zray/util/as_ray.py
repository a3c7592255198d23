"""Programs written for Ray, run unchanged: after install(), `import ray` means zray."""

from ..ray_imports import install, is_installed

__all__ = ["install", "is_installed"]
