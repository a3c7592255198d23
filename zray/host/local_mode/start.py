"""The start of local mode: `zray.init(local_mode=True)`, or ZRAY_LOCAL=1 in the environment."""

from __future__ import annotations

import os
from typing import Any

from ...options.runtime_env import env_vars_of
from ...wire.scheduling import JobFacts
from ..client import interrupts
from ..process.node_processes import declared_resources, store_capacity
from .runtime import LocalRuntime, refuse_fields

VARIABLE = "ZRAY_LOCAL"


def start_local(
    *,
    num_cpus: float | None,
    num_gpus: float | None,
    resources: dict[str, float] | None,
    labels: dict[str, str] | None,
    memory: float | None,
    object_store_memory: float | None,
    namespace: str | None,
    infeasible: str,
    seed: int | None,
    runtime_env: dict[str, Any],
) -> LocalRuntime:
    """Return a runtime that runs everything in this process.

    Raises:
        NotImplementedError: a field of runtime_env that local mode does not have.
        ValueError, TypeError: a bad value.
    """
    from ...options.remote_options import checked_labels

    refuse_fields(runtime_env)
    total = declared_resources(num_cpus, num_gpus, resources, memory)
    facts = JobFacts(namespace or "", env_vars=env_vars_of(runtime_env), infeasible=infeasible, seed=seed)
    runtime = LocalRuntime(total, checked_labels(labels) or {}, store_capacity(object_store_memory), facts)
    interrupts.install()
    return runtime


def is_asked_for(local_mode: bool, address: str | None) -> bool:
    """Return whether init() starts local mode.

    Raises:
        TypeError: local_mode is no bool.
        ValueError: local mode has no address, or ZRAY_LOCAL has another value than 0 and 1.
    """
    if not isinstance(local_mode, bool):
        raise TypeError(f"local_mode must be a bool, not {type(local_mode).__name__}.")
    said = os.environ.get(VARIABLE, "")
    if said not in ("", "0", "1"):
        raise ValueError(f"{VARIABLE} must be 0 or 1, not {said!r}.")
    if not local_mode and said != "1":
        return False
    if address is not None:
        source = "local_mode=True" if local_mode else f"{VARIABLE}=1"
        raise ValueError(
            f"init(address={address!r}) joins a session, but {source} runs everything in the program: leave one out."
        )
    return True
