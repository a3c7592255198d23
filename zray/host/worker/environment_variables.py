"""Environment variables of tasks (runtime_env), in the process that runs the tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ...wire.environment import EnvVars


def set_env_vars(env_vars: EnvVars) -> None:
    """Set the variables in order; ${NAME} stands for the former value of NAME."""
    for name, value in env_vars:
        os.environ[name] = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), value)


@contextmanager
def with_env_vars(env_vars: EnvVars) -> Iterator[None]:
    """Set the variables for a while, then restore the former values."""
    before = {name: os.environ.get(name) for name, _ in env_vars}
    set_env_vars(env_vars)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
