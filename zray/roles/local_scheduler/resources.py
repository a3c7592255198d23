"""What a node has, and what is free of it.  Amounts in RESOURCE_UNITs (ten-thousandths)."""

from __future__ import annotations

from collections.abc import Mapping

from ...wire.groups import plain_name

CPU = "CPU"


def cpu_of(amounts: Mapping[str, int]) -> dict[str, int]:
    """What of it is CPU, which is lent out while its task waits: the node's own, or a bundle's."""
    own = amounts.get(CPU)
    if own:
        return {CPU: own}
    return {name: amount for name, amount in amounts.items() if amount and plain_name(name) == CPU}


class Resources:
    """Total and free amounts.  Never negative, never above the total: what is taken is given back once."""

    __slots__ = ("free", "held", "reserved", "total")

    def __init__(self, total: Mapping[str, int]) -> None:
        self.total = dict(total)
        self.free = dict(total)
        self.held: dict[str, int] = {}  # taken by actors, for as long as they live, and by bundles
        self.reserved: dict[str, int] = {}  # by bundles; of bundles, by what borrows of them

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

    def reserve(self, amounts: Mapping[str, int], named: Mapping[str, int]) -> None:
        """Take it for a bundle, in which it is there again under names of the bundle's own."""
        self.take(amounts)
        self.hold(amounts)
        for name, amount in amounts.items():
            if amount:
                self.reserved[name] = self.reserved.get(name, 0) + amount
        self.total.update(named)
        self.free.update(named)

    def release(self, amounts: Mapping[str, int], named: Mapping[str, int]) -> None:
        """The bundle, of which nothing is in use, is given back."""
        for name, amount in named.items():
            left = self.free.pop(name)
            assert left == amount, f"a bundle whose {name!r} is in use is given back"
            del self.total[name]
        for name, amount in amounts.items():
            if amount:
                self.reserved[name] -= amount
                if not self.reserved[name]:
                    del self.reserved[name]
        self.hold_no_more(amounts)
        self.give(amounts)

    def borrow(self, name: str, bundle_name: str, amount: int) -> None:
        """So much of what a bundle has, and does not use, is the node's for a while; a negative amount goes back."""
        for of, change in ((name, -amount), (bundle_name, amount)):
            self.free[of] -= change
            assert self.free[of] >= 0, f"{of!r} oversubscribed"
            self.reserved[of] = self.reserved.get(of, 0) + change
            if not self.reserved[of]:
                del self.reserved[of]

    def fits_beside_actors(self, request: Mapping[str, int]) -> bool:
        """Whether it would do on a node with nothing but its actors."""
        total, held = self.total, self.held
        return all(total.get(name, 0) - held.get(name, 0) >= amount for name, amount in request.items())

    def all_free(self) -> bool:
        """Whether nothing is taken, but by bundles."""
        return all(self.free[name] == total - self.reserved.get(name, 0) for name, total in self.total.items())
