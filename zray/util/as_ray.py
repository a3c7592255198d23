"""Programs written for Ray, run unchanged: after install(), `import ray` means zray."""

from ..host import context
from ..ray_names import ray_imports
from ..ray_names.ray_imports import is_installed

__all__ = ["install", "is_installed"]


def install() -> None:
    """Make `import ray` mean zray, in this process, in its child processes, and in the workers of its session.

        from zray.util import as_ray

        as_ray.install()
        import ray  # is zray

    A second call does nothing.  `zray.__version__` is the version of Ray from then on, since both are one module.

    Raises:
        RuntimeError: another module `ray` is imported already, or a session was started before the call.
    """
    ray_imports.install(context.runtime)
