"""The session of this process, under the names in Ray's private modules."""

from __future__ import annotations

import logging
import sys

from ..api.actors import get_actor, kill
from ..api.decorator import remote
from ..api.objects import cancel, get, put, wait
from ..api.runtime_context import get_gpu_ids
from ..api.sessions import Context as BaseContext
from ..api.sessions import init, is_initialized, shutdown
from ..host import context

__all__ = [
    "BaseContext",
    "LOCAL_MODE",
    "RayContext",
    "SCRIPT_MODE",
    "WORKER_MODE",
    "cancel",
    "get",
    "get_actor",
    "get_gpu_ids",
    "global_worker",
    "init",
    "is_initialized",
    "kill",
    "logger",
    "put",
    "remote",
    "shutdown",
    "wait",
]

SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2
RayContext = BaseContext
logger = logging.getLogger("zray")


class GlobalWorker:
    """Facts on this process, which libraries ask for to tell the program from its workers."""

    @property
    def connected(self) -> bool:
        """Whether this process is in a session."""
        return is_initialized()

    @property
    def mode(self) -> int | None:
        """SCRIPT_MODE in a program, WORKER_MODE in a worker, LOCAL_MODE in local mode; None: in no session."""
        runtime = context.runtime
        if runtime is None:
            return None
        local = sys.modules.get("zray.host.local_mode.runtime")
        if local is not None and isinstance(runtime, local.LocalRuntime):
            return LOCAL_MODE
        return WORKER_MODE if runtime.is_worker else SCRIPT_MODE


global_worker = GlobalWorker()
