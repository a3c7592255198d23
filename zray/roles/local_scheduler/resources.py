"""What a node has, and what is free of it.  Amounts in RESOURCE_UNITs (ten-thousandths)."""

from __future__ import annotations

from collections.abc import Mapping

CPU = "CPU"


class Resources:
    """Total and free amounts.  Never negative, never above the total: what is taken is given back once."""

    __slots__ = ("free", "held", "total")

    def __init__(self, total: Mapping[str, int]) -> None:
        self.total = dict(total)
        self.free = dict(total)
        self.held: dict[str, int] = {}  # taken by actors, for as long as they live

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

    def hold(self, request: Mapping[str, int]) -> None:
        """Of what is taken: an actor has it, for as long as it lives."""
        for name, amount in request.items():
            if amount:
                self.held[name] = self.held.get(name, 0) + amount

    def hold_no_more(self, request: Mapping[str, int]) -> None:
        """The actor has ended."""
        for name, amount in request.items():
            if amount:
                self.held[name] -= amount
                if not self.held[name]:
                    del self.held[name]

    def fits_beside_actors(self, request: Mapping[str, int]) -> bool:
        """Whether it would do on a node with nothing but its actors."""
        total, held = self.total, self.held
        return all(total.get(name, 0) - held.get(name, 0) >= amount for name, amount in request.items())

    def all_free(self) -> bool:
        """Whether nothing is taken."""
        return self.free == self.total
