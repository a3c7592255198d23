"""A table that forgets: of what was put in, the last so many stay."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

# Nodes that are lost are remembered, the last so many: what they had said arrives long before as many others are lost,
# and nobody lets them in again.
LOST_MAX = 10_000

Key = TypeVar("Key")
Value = TypeVar("Value")


class Latest(dict[Key, Value]):
    """A dictionary of at most `count_max` entries: beyond that, whatever is new has the oldest forgotten.

    For what is of use for a while after it is over, where nobody says how long.  What is known already keeps its age.
    """

    __slots__ = ("count_max",)
    LASTING = {"entries": (len, "count_max")}

    def __init__(self, count_max: int, known: Mapping[Key, Value] = MappingProxyType({})) -> None:
        super().__init__()
        self.count_max = count_max
        for key, value in known.items():
            self[key] = value

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self.count_max:
            del self[next(iter(self))]
