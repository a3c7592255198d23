"""What a node has, and what is free of it.  Amounts in RESOURCE_UNITs (ten-thousandths)."""

from __future__ import annotations

from collections.abc import Mapping

CPU = "CPU"


class Resources:
    """Total and free amounts.  Never negative, never above the total: what is taken is given back once."""

    __slots__ = ("free", "total")

    def __init__(self, total: Mapping[str, int]) -> None:
        self.total = dict(total)
        self.free = dict(total)

    def could_ever_fit(self, request: Mapping[str, int]) -> bool:
        """Whether the empty node would do."""
        return all(self.total.get(name, 0) >= amount for name, amount in request.items())

    def fits(self, request: Mapping[str, int]) -> bool:
        """Whether it would do now."""
        free = self.free
        for name, amount in request.items():
            if free.get(name, 0) < amount:
                return False
        return True

    def count_that_fits(self, request: Mapping[str, int], count_max: int) -> int:
        """How many of such requests would do now, up to `count_max`."""
        return min((self.free.get(name, 0) // amount for name, amount in request.items() if amount), default=count_max)

    def take(self, request: Mapping[str, int]) -> None:
        """Take what fits."""
        for name, amount in request.items():
            if amount:
                left = self.free[name] - amount
                assert left >= 0, f"{name} oversubscribed"
                self.free[name] = left

    def give(self, request: Mapping[str, int]) -> None:
        """Give back what was taken."""
        for name, amount in request.items():
            if amount:
                back = self.free[name] + amount
                assert back <= self.total[name], f"more {name} given back than there is"
                self.free[name] = back

    def all_free(self) -> bool:
        """Whether nothing is taken."""
        return self.free == self.total
