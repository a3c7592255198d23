"""Dask on zray: dask's collections and delayed functions run as tasks.

    from zray.util.dask import enable_dask_on_ray

    with enable_dask_on_ray():
        print(frame.groupby("name").mean().compute())

`x.compute(scheduler=ray_dask_get)` runs a single computation so.
"""

from __future__ import annotations

from typing import Any

from ..on_import import shadows
from ..ray_names import absent

__all__ = ["RayDaskCallback", "disable_dask_on_ray", "enable_dask_on_ray", "ray_dask_get", "ray_dask_get_sync"]


def ray_dask_get(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Scheduler of dask that runs a graph as tasks: `x.compute(scheduler=ray_dask_get)`.

    Short dask tasks are joined to one task of zray.  Large results stay in the object store between dask tasks.

    Args:
        dsk: the graph.
        keys: a key, or lists of keys, also nested.
        kwargs: num_workers, the number of tasks at a time (default: the CPUs of the cluster); ray_persist, which gives
            refs in place of values (default: False); ray_remote_args, options of the tasks (default: none).  Others
            have no effect.

    Returns:
        Values in the form of keys.

    Raises:
        ImportError: dask is not installed, or older than 2024.12.
        TaskError: a dask task raised; the error is also an instance of the user's class.
    """
    return _get(dsk, keys, kwargs)


def ray_dask_get_sync(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Scheduler of dask that runs one dask task at a time, for debugging.  Arguments are those of ray_dask_get.

    Args:
        dsk: the graph.
        keys: a key, or lists of keys, also nested.
        kwargs: as for ray_dask_get.
    """
    return _get(dsk, keys, {**kwargs, "num_workers": 1}, joins_tasks=False)


def _get(dsk: Any, keys: Any, options: dict[str, Any], *, joins_tasks: bool = True) -> Any:
    try:
        from .dask_run import run
    except ImportError as error:
        raise ImportError("Dask on zray needs dask 2024.12 or later: pip install dask.") from error
    return run(
        dsk,
        keys,
        workers=options.get("num_workers"),
        persists=bool(options.get("ray_persist")),
        options=options.get("ray_remote_args") or {},
        joins_tasks=joins_tasks,
    )


def enable_dask_on_ray(shuffle: str | None = "tasks", use_shuffle_optimization: bool | None = True) -> Any:
    """Make ray_dask_get the scheduler of all dask computations; as a context, of those inside of it.

        with enable_dask_on_ray():
            frame.sum().compute()

    Args:
        shuffle: method of shuffles of data frames, as dask names it.  Default: "tasks".
        use_shuffle_optimization: accepted without effect.

    Raises:
        ImportError: dask is not installed.
    """
    import dask

    return dask.config.set({"scheduler": ray_dask_get, "dataframe.shuffle.method": shuffle})


def disable_dask_on_ray() -> Any:
    """Make dask's own schedulers the default again.

    Raises:
        ImportError: dask is not installed.
    """
    import dask

    return dask.config.set({"scheduler": None, "dataframe.shuffle.method": None})


class RayDaskCallback:
    """Ray's callback around dask tasks, missing in zray so far.

    Args:
        callbacks, named: functions of Ray's programs.

    Raises:
        NotImplementedError: always; says what to do instead.
    """

    def __init__(self, *callbacks: Any, **named: Any) -> None:
        raise absent.not_built(absent.NAMES, "zray.util.dask.RayDaskCallback")


shadows.name_absent(__name__)
