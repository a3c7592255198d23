"""Environments of tasks, under the name by which programs written for Ray find them."""

from .options.runtime_env import RuntimeEnv, RuntimeEnvConfig

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]
