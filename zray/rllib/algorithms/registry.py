"""Algorithms by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...tune.unknown import nearest

__all__ = ["get_agent_class", "get_algorithm_class", "get_trainer_class"]

_MODULES = {
    "A2C": "a2c",
    "A3C": "a3c",
    "DQN": "dqn",
    "ES": "es",
    "PPO": "ppo",
    "SAC": "sac",
}


def modules() -> dict[str, str]:
    """The modules of algorithms, by the algorithm's name."""
    return _MODULES


def get_algorithm_class(alg: str, return_config: bool = False) -> Any:
    """The class of an algorithm.

    Raises:
        ValueError: no algorithm has the name.
        NotImplementedError: Ray has an algorithm of this name, and zray has not.
    """
    if alg not in _MODULES:
        from ...ray_names import absent

        row = absent.row_of(f"zray.rllib.algorithms.{alg}")
        if row:
            raise absent.not_built(absent.NAMES, row, f"the algorithm {alg}")
        meant = nearest(str(alg), _MODULES)
        raise ValueError(f"No algorithm is called {alg!r}.{meant}  The names are: {', '.join(_MODULES)}.")
    found = getattr(import_module(f"zray.rllib.algorithms.{_MODULES[alg]}"), alg)
    return (found, found.config_class()) if return_config else found


# Former names.
get_trainer_class = get_agent_class = get_algorithm_class
