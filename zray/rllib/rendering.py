"""Pictures of episodes: frames of an environment, and an animated GIF of them."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np

from .agent_groups import reset_agents, step_agents
from .env.multi_agent_env import MultiAgentEnv
from .environments import EnvContext, InvalidEnvironmentError, Limited, make_environment, name_of

__all__ = ["Filmed", "make_to_render", "play", "write_gif"]

# Frames of one file; a longer episode is thinned evenly.
FRAMES_MAX = 1_000


def make_to_render(env: Any, env_config: dict[str, Any], mode: str | None, horizon: int | None = None) -> Any:
    """An environment that draws itself.

    Args:
        mode: gymnasium's render mode, as "rgb_array" or "human"; None: it draws nothing.

    Raises:
        InvalidEnvironmentError: it has no such mode.
    """
    is_named = isinstance(env, str) and env in gymnasium.registry or getattr(env, "takes_render_mode", False)
    context = EnvContext({**env_config, "render_mode": mode} if mode and is_named else env_config)
    made = make_environment(Limited(env, horizon) if horizon else env, context)
    if mode and not is_named:
        modes = (getattr(made, "metadata", None) or {}).get("render_modes", [])
        if mode not in modes:
            made.close()
            raise InvalidEnvironmentError(
                f"Environment {name_of(env)} has no render mode {mode!r}: its metadata names {list(modes)}."
            )
        made.unwrapped.render_mode = mode
    return made


class Filmed:
    """An environment that adds a frame to a list at each reset and step.

    Args:
        env: the environment; everything else is asked of it.
        frames: the list; None: there are no frames.
    """

    def __init__(self, env: Any, frames: list[np.ndarray] | None) -> None:
        self.env, self.frames = env, frames
        self.reset, self.step = self._filming(env.reset), self._filming(env.step)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def _filming(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)  # old environments are known by the arguments of reset
        def called(*args: Any, **kwargs: Any) -> Any:
            found = method(*args, **kwargs)
            _add(self.env, self.frames)
            return found

        return called


def play(env: Any, seed: int, actions: Iterable[Any], frames: list[np.ndarray] | None = None) -> tuple[float, int]:
    """Take actions in an environment, until they or an episode ends.

    Args:
        actions: as the environment takes them; dicts by agent where there are several.

    Returns:
        The return, which is the sum over agents, and the length.
    """
    filmed, has_agents = Filmed(env, frames), isinstance(env, MultiAgentEnv)
    if has_agents:
        reset_agents(filmed, seed)
    else:
        filmed.reset(seed=seed)
    total, length = 0.0, 0
    for action in actions:
        if has_agents:
            step = step_agents(filmed, action)
            terminated, truncated, reward = step.is_terminal, step.is_truncated, 0.0
            for each in step.rewards.values():  # in this order, and without compensation, as in training
                reward += float(each)
        else:
            _, reward, terminated, truncated, _ = filmed.step(action)
        total += float(reward)
        length += 1
        if terminated or truncated:
            break
    return total, length


def _add(env: Any, frames: list[np.ndarray] | None) -> None:
    if frames is not None:
        try:
            frame = env.render()
        except gymnasium.error.DependencyNotInstalled as error:
            raise ImportError(str(error)) from error
        if frame is not None:
            frames.append(np.asarray(frame, dtype=np.uint8))


def write_gif(path: str, frames: list[np.ndarray], frames_per_second: float = 30.0) -> None:
    """Write frames as an animated GIF.

    Raises:
        ImportError: neither Pillow nor imageio is installed.
        ValueError: there are no frames.
    """
    if not frames:
        raise ValueError("The environment drew no frame: render() returned None.")
    step = -(-len(frames) // FRAMES_MAX)
    kept, seconds = frames[::step], step / frames_per_second
    if importlib.util.find_spec("PIL"):
        from PIL import Image

        first, *rest = [Image.fromarray(frame) for frame in kept]
        first.save(path, save_all=True, append_images=rest, duration=max(20, round(1000 * seconds)), loop=0)
    elif importlib.util.find_spec("imageio"):
        import imageio

        imageio.mimsave(path, kept, duration=seconds, loop=0)
    else:
        raise ImportError("A GIF needs Pillow: `pip install pillow`.")
