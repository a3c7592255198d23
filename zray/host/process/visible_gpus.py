"""GPUs by name: those that a process may use (CUDA_VISIBLE_DEVICES), of which a node hands out some to each task."""

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
# Each has a name on its node, and a node says them one by one: no machine has as many.
GPUS_MAX = 1_024
# A UUID, of a part of one ("MIG-..."), has some 60.
NAME_CHARACTERS_MAX = 200


def visible() -> list[str]:
    """What this process's environment names: numbers or UUIDs.  Behind -1 CUDA sees nothing."""
    names: list[str] = []
    for name in os.environ.get(VISIBLE, "").split(","):
        if name.strip() in ("", "-1", "NoDevFiles"):
            break
        names.append(name.strip())
    return names


def detected() -> int:
    """The number of GPUs that this process may use, without a look into any driver's library.

    CUDA_VISIBLE_DEVICES decides where it is set.  Otherwise the device files of NVIDIA's driver are counted: a
    container has those of its own GPUs only.  A GPU that is split into parts (MIG) is one, and `num_gpus` declares its
    parts.
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
    """A node may have so many: those that its environment names; where that names none, numbers will do.

    Raises:
        ValueError: it names fewer, or what is no name, or no node can have so many.
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
    """To what this process runs from now on, and to the processes that it starts."""
    os.environ[VISIBLE] = ",".join(gpus)


@contextmanager
def shown_inside(executor: TaskExecutor, spec: TaskSpec) -> Iterator[None]:
    """A task that runs inside the wait of another one has GPUs of its own."""
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
    """Those of the task or actor that this process runs; in a program, those that it may use."""
    executor: TaskExecutor | None = getattr(runtime, "executor", None)
    return visible() if executor is None else list(executor.gpus or ())
