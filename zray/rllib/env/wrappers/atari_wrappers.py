"""Atari games as policies read them: preprocessed, and frames stacked, by the wrappers of gymnasium.

Mnih et al., "Human-level control through deep reinforcement learning", Nature 518 (2015), methods: each action lasts 4
frames; an image is the largest of the last 2 frames, grey, of 84x84 pixels; an observation is the last 4 images.  A
game begins with up to 30 actions without effect.  A game is one episode, with all its lives.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TimeLimit, TransformObservation

from ....on_import import shadows

__all__ = ["FireResetEnv", "is_atari", "wrap_atari_for_new_api_stack", "wrap_deepmind"]

FRAMES = 4  # that an action lasts, and that are stacked
STEPS_MAX = 108_000  # of an episode, in Ray


class FireResetEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A game that begins with the action FIRE, if available: Breakout does not start by itself.

    Args:
        env: an environment of ale-py, whose observations may be wrapped.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.fires = is_atari(env) and "FIRE" in env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """A new game, behind its first action."""
        found = self.env.reset(**options)
        if self.fires:
            action = self.env.unwrapped.get_action_meanings().index("FIRE")  # type: ignore[attr-defined]
            observation, _, terminated, truncated, info = self.env.step(action)
            if not (terminated or truncated):
                return observation, info
            found = self.env.reset(**options)
        return found


def is_atari(env: Any) -> bool:
    """Whether an environment is a game of ale-py."""
    return hasattr(getattr(env, "unwrapped", env), "ale")


def channels_last(frames: np.ndarray) -> np.ndarray:
    """Stacked images with the channels on the last axis."""
    return np.moveaxis(frames, 0, -1)


def wrap_deepmind(
    env: gymnasium.Env[Any, Any],
    dim: int = 84,
    framestack: bool | int = True,
    noframeskip: bool = True,
    frame_skip: int = FRAMES,
) -> gymnasium.Env[Any, Any]:
    """A game with images of `dim` x `dim` x frames, in numbers of 8 bits.

    Args:
        env: a game of ale-py, made with `frameskip=1`.
        dim: pixels of a side.
        framestack: images of an observation; True: 4; False: 1.
        noframeskip: False: the game skips frames by itself.
        frame_skip: frames that an action lasts.

    Raises:
        gymnasium.error.DependencyNotInstalled: OpenCV is not installed; it comes with `zray[atari]`.
        ValueError: the game skips frames by itself, and noframeskip is True.

    Example:
        env = wrap_deepmind(gymnasium.make("ALE/Pong-v5", frameskip=1))
    """
    skip = frame_skip if noframeskip else 1
    made: Any = FireResetEnv(AtariPreprocessing(env, screen_size=dim, frame_skip=skip))
    count = FRAMES if framestack is True else int(framestack) or 1
    space = gymnasium.spaces.Box(0, 255, (dim, dim, count), np.uint8)
    return TransformObservation(FrameStackObservation(made, count), channels_last, space)


def wrap_atari_for_new_api_stack(
    env: gymnasium.Env[Any, Any], dim: int = 64, frameskip: int = FRAMES, framestack: int | None = None
) -> gymnasium.Env[Any, Any]:
    """A game as `wrap_deepmind` has it, of 108,000 frames at most, with the arguments of Ray's new API stack.

    Args:
        env: a game of ale-py, made with `frameskip=1`.
        dim: pixels of a side.
        frameskip: frames that an action lasts.
        framestack: images of an observation; None: 1.
    """
    return wrap_deepmind(TimeLimit(env, STEPS_MAX), dim, framestack or False, True, frameskip)


shadows.name_absent(__name__)
