"""GPUs by name: those visible to a process (CUDA_VISIBLE_DEVICES), which a node assigns to tasks."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...roles.task_executor import TaskExecutor
    from ...wire.task_spec import TaskSpec
    from ..client.runtime import Runtime

VISIBLE = "CUDA_VISIBLE_DEVICES"
DEVICES = "/dev"
# Each has a name on its node, sent one by one: no machine has as many.
GPUS_MAX = 1_024
# A UUID of a part ("MIG-...") has some 60.
NAME_CHARACTERS_MAX = 200


def visible() -> list[str]:
    """Return the numbers or UUIDs in this process's environment.  CUDA ignores all names behind -1."""
    names: list[str] = []
    for name in os.environ.get(VISIBLE, "").split(","):
        if name.strip() in ("", "-1", "NoDevFiles"):
            break
        names.append(name.strip())
    return names


def detected() -> int:
    """Return the number of GPUs visible to this process, without any driver's library.

    CUDA_VISIBLE_DEVICES decides if set.  Otherwise the device files of NVIDIA's driver are counted: a container has
    only the files of its own GPUs.  A GPU split into parts (MIG) counts once, and `num_gpus` declares its parts.
    """
    if VISIBLE in os.environ:
        return min(sum(1 for _ in itertools.takewhile(_is_name, visible())), GPUS_MAX)
    try:
        names = os.listdir(DEVICES)
    except OSError:
        return 0
    return min(sum(re.fullmatch(r"nvidia\d+", name) is not None for name in names), GPUS_MAX)


def _is_name(name: str) -> bool:
    return len(name) <= NAME_CHARACTERS_MAX and name.isprintable()


def check_declared(count: int) -> None:
    """Check that a node may have so many GPUs: the environment names enough of them, or none at all.

    Raises:
        ValueError: the environment names fewer, or an invalid name, or no node can have so many.
    """
    if count > GPUS_MAX:
        raise ValueError(f"num_gpus={count} is more than a node can have: {GPUS_MAX:,}.")
    names = visible()
    for name in names[:count]:
        if not _is_name(name):
            raise ValueError(f"{VISIBLE} has {name[:NAME_CHARACTERS_MAX]!r}, which is no name of a GPU.")
    if 0 < len(names) < count:
        raise ValueError(f"num_gpus={count}, and {VISIBLE} names {len(names)}: {','.join(names)}.")


def show(gpus: list[str]) -> None:
    """Set the visible GPUs for this process and its later children."""
    os.environ[VISIBLE] = ",".join(gpus)


@contextmanager
def shown_inside(executor: TaskExecutor, spec: TaskSpec) -> Iterator[None]:
    """Give a task inside the wait of another task its own GPUs."""
    outer, before = executor.gpus, os.environ.get(VISIBLE)
    executor.gpus = executor.gpus_inside(spec)
    if executor.gpus is outer:
        yield
        return
    show(executor.gpus or [])
    try:
        yield
    finally:
        executor.gpus = outer
        os.environ.pop(VISIBLE, None)
        if before is not None:
            os.environ[VISIBLE] = before


def of_current(runtime: Runtime | None) -> list[str]:
    """Return the GPUs of the task or actor in this process; in a program, the visible ones."""
    executor: TaskExecutor | None = getattr(runtime, "executor", None)
    return visible() if executor is None else list(executor.gpus or ())
