"""Pool: multiprocessing.Pool whose worker processes are actors.

Results, iterators and the cutting into chunks are those of Python's own Pool.  This module replaces its processes and
its pipes: `crew.py` gives tasks to actors.
"""

from __future__ import annotations

import multiprocessing.pool
import os
import warnings
import weakref
from collections.abc import Callable, Iterable
from multiprocessing.pool import CLOSE, RUN, TERMINATE, AsyncResult
from typing import Any

from ...api import sessions
from ...api.cluster_info import cluster_resources
from .crew import Crew

__all__ = ["AsyncResult", "Pool"]


class Pool(multiprocessing.pool.Pool):
    """Pool of worker processes, on all nodes of the cluster.

        with Pool(4, initializer=load_model) as pool:
            for result in pool.imap_unordered(work, items, chunksize=10):
                print(result)

    All methods are those of multiprocessing.Pool.  A worker that dies is replaced; the call that it ran fails with
    ActorDiedError, and calls that waited behind that run in the new one.

    Args:
        processes: number of workers.  Default: as many as the cluster has CPUs.
        initializer: function that each worker calls at its start.
        initargs: arguments of initializer.
        maxtasksperchild: number of calls, or of chunks of map, after which a worker is replaced.  Default: no limit.
        context: accepted without effect.
        ray_address: address of a cluster to join, where this program is in no session yet.
        ray_remote_args: options of the actors, as {"num_cpus": 1}.  Default: none; an actor holds no CPU then.

    Raises:
        ValueError: processes or maxtasksperchild is less than 1.
        TypeError: initializer cannot be called.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ) -> None:
        self._state = TERMINATE  # until all is there: __del__ looks
        if processes is not None and processes < 1:
            raise ValueError("Number of processes must be at least 1")
        if maxtasksperchild is not None and (not isinstance(maxtasksperchild, int) or maxtasksperchild <= 0):
            raise ValueError("maxtasksperchild must be a positive int or None")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        _join(ray_address, processes)
        self._processes = processes or max(1, int(cluster_resources().get("CPU", 1)))
        self._initializer, self._initargs = initializer, tuple(initargs)
        self._maxtasksperchild = maxtasksperchild
        self._ctx = context or multiprocessing.get_context()
        self._crew = Crew(self._processes, initializer, self._initargs, maxtasksperchild, ray_remote_args or {})
        # What the methods of Python's Pool use.
        self._pool = self._crew.workers
        self._cache = self._crew.cache
        self._taskqueue = self._crew.jobs
        self._terminate = weakref.finalize(self, self._crew.terminate)
        self._state = RUN

    def close(self) -> None:
        """Refuse further calls.  Workers end when all calls have ended."""
        if self._state == RUN:
            self._state = CLOSE
            self._crew.close()

    def terminate(self) -> None:
        """End all workers at once.  Calls that have not ended fail; tasks that they have submitted are cancelled."""
        self._state = TERMINATE
        self._terminate()

    def join(self) -> None:
        """Wait until all workers have ended.

        Raises:
            ValueError: neither close() nor terminate() was called before.
        """
        if self._state == RUN:
            raise ValueError("Pool is still running")
        self._crew.join()

    def _repopulate_pool(self) -> None:
        """Do nothing: a worker is replaced when it ends."""

    def __del__(self, _warn: Any = warnings.warn, RUN: str = RUN) -> None:
        if self._state == RUN:
            _warn(f"unclosed running multiprocessing pool {self!r}", ResourceWarning, source=self)


def _join(address: str | None, processes: int | None) -> None:
    """Join or start a session, where this process is in none."""
    if sessions.is_initialized():
        return
    if address is not None:
        sessions.init(address=address)
    elif processes is not None and not os.environ.get("ZRAY_ADDRESS"):
        sessions.init(num_cpus=processes)
    else:
        sessions.init()
