"""A node's resources, total and free.  Amounts in RESOURCE_UNITs (ten-thousandths)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...wire.groups import plain_name
from .gpus import GPU, NONE, Gpus, Shares

CPU = "CPU"


def cpu_of(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the CPU part of the amounts, lent while the task waits: the node's own CPUs, or a bundle's."""
    own = amounts.get(CPU)
    if own:
        return {CPU: own}
    return {name: amount for name, amount in amounts.items() if amount and plain_name(name) == CPU}


class Resources:
    """Total and free amounts, never negative, never above the total: each taken amount is given back once."""

    __slots__ = ("free", "gpus", "held", "reserved", "total")

    def __init__(self, total: Mapping[str, int], gpu_names: Sequence[str] = ()) -> None:
        self.total = dict(total)
        self.free = dict(total)
        self.gpus = Gpus(total.get(GPU, 0), gpu_names)
        self.held: dict[str, int] = {}  # taken by actors, for as long as they live, and by bundles
        self.reserved: dict[str, int] = {}  # by bundles

    def could_ever_fit(self, request: Mapping[str, int]) -> bool:
        """Whether the empty node would do."""
        return all(self.total.get(name, 0) >= amount for name, amount in request.items())

    def fits(self, request: Mapping[str, int]) -> bool:
        """Whether the request fits now."""
        free = self.free
        for name, amount in request.items():
            if free.get(name, 0) < amount:
                return False
        return self.gpus.fits(request)

    def lacking(self, request: Mapping[str, int]) -> list[str]:
        """Return the names of resources now lacking for the request."""
        free, gpus = self.free, self.gpus
        return [key for key, amount in request.items() if free.get(key, 0) < amount or not gpus.fits({key: amount})]

    def count_that_fits(self, request: Mapping[str, int], count_max: int) -> int:
        """Return how many such requests fit now, up to `count_max`."""
        counts = (self.free.get(name, 0) // amount for name, amount in request.items() if amount)
        return self.gpus.count_that_fits(request, min(counts, default=count_max))

    def take(self, request: Mapping[str, int]) -> Shares:
        """Take a request that fits."""
        for name, amount in request.items():
            if amount:
                left = self.free[name] - amount
                assert left >= 0, f"{name} oversubscribed"
                self.free[name] = left
        return self.gpus.take(request)

    def give(self, request: Mapping[str, int], shares: Shares = NONE) -> None:
        """Give back a request."""
        self.gpus.give(shares)
        for name, amount in request.items():
            if amount:
                back = self.free[name] + amount
                assert back <= self.total[name], f"more {name} given back than there is"
                self.free[name] = back

    def hold(self, request: Mapping[str, int]) -> None:
        """Mark taken amounts as held by an actor for its lifetime."""
        for name, amount in request.items():
            if amount:
                self.held[name] = self.held.get(name, 0) + amount

    def hold_no_more(self, request: Mapping[str, int]) -> None:
        """Release the amounts held by an ended actor."""
        for name, amount in request.items():
            if amount:
                self.held[name] -= amount
                if not self.held[name]:
                    del self.held[name]

    def reserve(self, amounts: Mapping[str, int], named: Mapping[str, int]) -> None:
        """Take amounts for a bundle, and add them under the bundle's own names."""
        self.gpus.reserve(self.take(amounts), named)
        self.hold(amounts)
        for name, amount in amounts.items():
            if amount:
                self.reserved[name] = self.reserved.get(name, 0) + amount
        self.total.update(named)
        self.free.update(named)

    def release(self, amounts: Mapping[str, int], named: Mapping[str, int]) -> None:
        """Give back a bundle with nothing in use."""
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
        self.gpus.release(named)
        self.give(amounts)

    def fits_beside_actors(self, request: Mapping[str, int], gpus_of_actors: Iterable[Shares]) -> bool:
        """Whether the request would fit if only actors used the node."""
        held = self.held_by(self.held, gpus_of_actors) if request.get(GPU) else self.held
        return all(self.total.get(name, 0) - held.get(name, 0) >= amount for name, amount in request.items())

    def held_by(self, held: Mapping[str, int], gpus_of_actors: Iterable[Shares]) -> dict[str, int]:
        """Return `held` plus unusable parts of GPUs; the rest is the maximum for a single request."""
        held = dict(held)
        if self.gpus.free:
            unusable = self.total[GPU] - self.gpus.usable_beside(gpus_of_actors)
            if unusable > held.get(GPU, 0):
                held[GPU] = unusable
        return held

    def free_for_one(self) -> dict[str, int]:
        """Return the free amounts, without parts of GPUs that no single request could use together."""
        return {**self.free, GPU: self.gpus.usable()} if self.gpus.free else self.free

    def all_free(self) -> bool:
        """Whether nothing is taken, but by bundles."""
        return all(self.free[name] == total - self.reserved.get(name, 0) for name, total in self.total.items())
