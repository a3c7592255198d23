"""Pictures of episodes: frames of an environment, and an animated GIF of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from .environments import EnvContext, InvalidEnvironmentError, Limited, make_environment, name_of

__all__ = ["make_to_render", "play", "write_gif"]

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


def play(env: Any, seed: int, act: Callable[[Any], Any], frames: list[np.ndarray] | None = None) -> tuple[float, int]:
    """Play an episode.

    Args:
        act: a function of the observation that gives the action.  StopIteration ends the episode.
        frames: a list to which a frame of each step is added.

    Returns:
        The return and the length.
    """
    observation, _ = env.reset(seed=seed)
    total, length, is_over = 0.0, 0, False
    while not is_over:
        _add(env, frames)
        try:
            action = act(observation)
        except StopIteration:
            break
        observation, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        length += 1
        is_over = bool(terminated or truncated)
    _add(env, frames)
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
