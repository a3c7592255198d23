"""joblib over zray: scikit-learn and other programs on joblib use the CPUs of the whole cluster.

from zray.util.joblib import register_zray

register_zray()
with joblib.parallel_config("zray"):
    search.fit(X, y)
"""

from __future__ import annotations

__all__ = ["register_ray", "register_zray"]

NAMES = ("zray", "ray")


def register_zray() -> None:
    """Make "zray" and "ray" names of joblib's backends: `with joblib.parallel_config("zray"):`.

    Both take `n_jobs`, with all CPUs of the cluster as the default, and `ray_remote_args`, options of the tasks.

    Raises:
        ImportError: joblib is not installed.
    """
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError as error:
        raise ImportError("register_zray() needs joblib, which is not installed here: pip install joblib.") from error
    from .joblib_backend import ZrayBackend

    for name in NAMES:
        register_parallel_backend(name, ZrayBackend)


def register_ray() -> None:
    """Do what register_zray does, under Ray's name.

    Raises:
        ImportError: joblib is not installed.
    """
    register_zray()
