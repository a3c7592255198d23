"""Episodes under way in environments whose pickle holds no state: they are played again when the pickle is read.

Environments of MuJoCo, ale-py and Box2D are pickled by `EzPickle`, which keeps the arguments of the constructor.  The
seed of the episode and its actions lead to the same state again.
"""

from __future__ import annotations

import copy
from typing import Any

from gymnasium.utils import EzPickle

__all__ = ["ACTIONS_MAX", "is_stateless", "play_again"]

# Of one episode that are kept: an action takes about 100 bytes.  Episodes of Atari games end within 27,000.
ACTIONS_MAX = 100_000


def is_stateless(env: Any) -> bool:
    """Whether the pickle of an environment holds the arguments of its constructor alone."""
    return isinstance(getattr(env, "unwrapped", env), EzPickle)


def play_again(env: Any, seed: int, actions: list[Any]) -> None:
    """Bring an unpickled environment to its former state.

    The wrappers keep what the pickle says: one that counts over episodes counts no step twice.

    Args:
        seed: of the episode's reset.
        actions: of the episode so far.
    """
    chain = [env]
    while getattr(chain[-1], "env", None) is not None:
        chain.append(chain[-1].env)
    known = {id(each): each for each in chain}  # what wrappers refer to is not copied
    wrappers = chain[:-1]
    states = [copy.deepcopy(vars(each), dict(known)) for each in wrappers]
    env.reset(seed=seed)
    for action in actions:
        env.step(action)
    for wrapper, state in zip(wrappers, states, strict=True):
        vars(wrapper).update(state)
