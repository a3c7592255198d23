"""RLlib: reinforcement learning on torch and gymnasium, in Ray's spellings."""

from typing import Any


def __getattr__(name: str) -> Any:
    from .. import absent

    raise absent.attribute_error(__name__, name)
