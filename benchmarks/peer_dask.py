"""Dask distributed under the few names of Ray's API that the workloads use: a local cluster of processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributed import Client, LocalCluster
from distributed import wait as wait_for

state: dict[str, Any] = {}


class Remote:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def remote(self, *args: Any) -> Any:
        return state["client"].submit(self.function, *args, pure=False)


class Method:
    def __init__(self, actor: Any, name: str) -> None:
        self.call = getattr(actor, name)

    def remote(self, *args: Any) -> Any:
        return self.call(*args)


class Handle:
    """An actor whose methods are called by `.remote`."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def __getattr__(self, name: str) -> Method:
        return Method(self.actor, name)


class RemoteClass:
    def __init__(self, cls: type) -> None:
        self.cls = cls

    def remote(self, *args: Any) -> Handle:
        return Handle(state["client"].submit(self.cls, *args, actor=True, pure=False).result())


def init(num_cpus: int = 2, **options: Any) -> None:
    cluster = LocalCluster(n_workers=num_cpus, threads_per_worker=1, processes=True, dashboard_address=None)
    state["cluster"], state["client"] = cluster, Client(cluster)


def is_initialized() -> bool:
    return bool(state)


def shutdown() -> None:
    if state:
        state.pop("client").close()
        state.pop("cluster").close()


def remote(thing: Any) -> Any:
    return RemoteClass(thing) if isinstance(thing, type) else Remote(thing)


def put(value: Any) -> Any:
    return state["client"].scatter(value, hash=False)


def get(refs: Any) -> Any:
    if not isinstance(refs, list):
        return refs.result()
    if refs and not hasattr(refs[0], "key"):  # an actor's calls
        return [ref.result() for ref in refs]
    return state["client"].gather(refs)


def wait(refs: list[Any]) -> tuple[list[Any], list[Any]]:
    """The first ref that is done, and the rest."""
    done = next(iter(wait_for(refs, return_when="FIRST_COMPLETED").done))
    return [done], [ref for ref in refs if ref is not done]
