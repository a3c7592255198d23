"""Atari ids: which they are, and the games behind them, preprocessed by default."""

from __future__ import annotations

import importlib
import importlib.util
import re
from typing import Any

import gymnasium

from .environments import EnvContext, InvalidEnvironmentError

__all__ = ["Game", "environment_of", "is_atari_id", "load"]

INSTALL = "pip install 'zray[atari]'"
_LOOKS_LIKE = re.compile(r"^ALE/|(NoFrameskip|Deterministic)-v\d+$")


def load(name: str) -> str:
    """The id of gymnasium for a name, where ale-py is imported first: only then gymnasium knows the games.

    Raises:
        InvalidEnvironmentError: the id is an Atari game, and ale-py is not installed.
    """
    name = name.removeprefix("ale_py:")
    if name not in gymnasium.registry and re.search(r"-v\d+$", name):
        if importlib.util.find_spec("ale_py") is not None:
            importlib.import_module("ale_py")
        elif _LOOKS_LIKE.search(name):
            raise InvalidEnvironmentError(f"Environment {name} needs ale-py, which brings the games: {INSTALL}")
    return name


def is_atari_id(env: Any) -> bool:
    """Whether an environment is the id of a game of ale-py, with images."""
    from zray.tune.registry import environment_creator

    if not isinstance(env, str) or environment_creator(env) is not None:
        return False
    spec = gymnasium.registry.get(load(env))
    return spec is not None and str(spec.entry_point).startswith("ale_py") and spec.kwargs.get("obs_type") != "ram"


class Game:
    """A function that makes an Atari game, preprocessed as in the DQN paper.

    Args:
        name: id of the game.
        dim: pixels of a side.
        framestack: images of an observation; True: 4; False: 1.
    """

    takes_render_mode = True

    def __init__(self, name: str, dim: int = 84, framestack: bool | int = True) -> None:
        self.__name__, self.dim, self.framestack = name, dim, framestack

    def __call__(self, context: EnvContext) -> gymnasium.Env[Any, Any]:
        """The game.  `frameskip` of the env_config is the number of frames that an action lasts."""
        name = load(self.__name__)
        from ale_py import ALEInterface, LoggerMode

        from .env.wrappers.atari_wrappers import FRAMES, wrap_deepmind

        ALEInterface.setLoggerMode(LoggerMode.Error)  # else each process prints a banner
        options = {**context, "frameskip": 1}
        made = gymnasium.make(name, **options)
        return wrap_deepmind(made, self.dim, self.framestack, True, int(context.get("frameskip", FRAMES)))


def environment_of(config: dict[str, Any]) -> Any:
    """The environment of a configuration: an Atari id is preprocessed, unless the configuration says otherwise."""
    env = config["env"]
    if config["preprocessor_pref"] != "deepmind" or "obs_type" in config["env_config"] or not is_atari_id(env):
        return env
    model = config["model"]
    return Game(env, model.get("dim") or 84, model.get("framestack", True))
