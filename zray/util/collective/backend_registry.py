"""Registry of backends, under Ray's names: zray has one, for tensors of CPUs."""

from __future__ import annotations

from typing import Any, NoReturn

from .group import Group
from .types import Backend


class BackendRegistry:
    """Backends by name, in upper case."""

    def __init__(self) -> None:
        self._classes: dict[str, type[Group]] = {Backend.GLOO.upper(): Group, Backend.TORCH_GLOO.upper(): Group}

    def list_backends(self) -> list[str]:
        """List the names of all backends."""
        return list(self._classes)

    def get(self, name: str) -> type[Group]:
        """Return the class of a backend's groups.

        Raises:
            ValueError: there is no backend of that name.
        """
        try:
            return self._classes[name.upper()]
        except KeyError:
            raise ValueError(f"Backend {name.upper()} not registered.  There are {', '.join(self._classes)}.") from None

    def check(self, name: str) -> bool:
        """Whether groups of a backend can be made."""
        return name.upper() in self._classes


_registry = BackendRegistry()


def get_backend_registry() -> BackendRegistry:
    """Return the registry of this process."""
    return _registry


def is_registered_collective_backend(name: str) -> bool:
    """Whether there is a backend of that name."""
    return _registry.check(name)


def register_collective_backend(name: str, group_cls: Any) -> NoReturn:
    """Refusal of backends of programs.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"Backend {name!r} cannot be registered: zray has groups of its own only.  Give backend='gloo', or call the "
        "other library in the actors."
    )
