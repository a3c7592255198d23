"""GPUs by number: free and used parts of each.

`resources` counts GPUs; this file assigns them.  A request for a part of a GPU takes the GPU with the least sufficient
room, to keep whole GPUs whole.  A request for several takes whole ones.  So a request may have to wait although the
count suffices: two halves of two GPUs are not a GPU.

A bundle of a placement group has GPUs of its own, from reservation to end, and tasks in the bundle use only those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...wire.groups import plain_name
from ...wire.task_spec import RESOURCE_UNIT

GPU = "GPU"

# (resource, number of a GPU, how much of it in RESOURCE_UNITs): of the node's own "GPU", or of a bundle's.
Shares = tuple[tuple[str, int, int], ...]
NONE: Shares = ()
# The total, or free, part of each GPU, by number, in ascending order.
Parts = dict[int, int]


class Gpus:
    """The GPUs of a node."""

    __slots__ = ("free", "names", "total")

    def __init__(self, amount: int, names: Sequence[str] = ()) -> None:
        """Number the GPUs.  names: as in CUDA_VISIBLE_DEVICES; default: the numbers."""
        count = -(-amount // RESOURCE_UNIT)
        self.names = tuple(names) or tuple(map(str, range(count)))
        assert len(self.names) >= count, "GPUs without names"
        parts = {number: min(RESOURCE_UNIT, amount - number * RESOURCE_UNIT) for number in range(count)}
        # By resource: the node's own, without the bundles' parts; and each bundle's.  Empty: a node without GPUs.
        self.total: dict[str, Parts] = {GPU: parts} if count else {}
        self.free: dict[str, Parts] = {name: dict(parts) for name, parts in self.total.items()}

    # --- room ---

    def fits(self, request: Mapping[str, int]) -> bool:
        """Whether suitable GPUs are free, given that the counts suffice."""
        if self.free:
            for name, amount in request.items():
                if name in self.free and _find(self.free[name], amount) is None:
                    return False
        return True

    def fit_all(self, amounts: Iterable[int]) -> bool:
        """Whether all amounts fit at once, each apart from the others."""
        free = dict(self.free.get(GPU, {}))
        for amount in sorted(amounts, reverse=True):
            found = _find(free, amount)
            if found is None:
                return False
            for number, taken in found:
                free[number] -= taken
        return True

    def count_that_fits(self, request: Mapping[str, int], count_max: int) -> int:
        """Return how many such requests fit, up to `count_max`."""
        for name, amount in request.items():
            if amount and name in self.free:
                parts = self.free[name].values()
                if amount <= RESOURCE_UNIT:
                    count_max = min(count_max, sum(left // amount for left in parts))
                else:
                    whole = sum(left == RESOURCE_UNIT for left in parts)
                    count_max = min(count_max, whole // -(-amount // RESOURCE_UNIT))
        return count_max

    def usable(self) -> int:
        """Return the maximum for a single request now, outside bundles."""
        return _usable(self.free[GPU].values())

    def usable_beside(self, held: Iterable[Shares]) -> int:
        """Return the maximum for a single request if only these shares, and bundles, are in use."""
        left = dict(self.total[GPU])
        for shares in held:
            for name, number, amount in shares:
                if name == GPU:
                    left[number] -= amount
        return _usable(left.values())

    # --- taken and given back ---

    def take(self, request: Mapping[str, int]) -> Shares:
        """Take a request that fits."""
        if not self.free:
            return NONE
        shares: list[tuple[str, int, int]] = []
        for name, amount in request.items():
            if name in self.free:
                free = self.free[name]
                found = _find(free, amount)
                assert found is not None, f"{plain_name(name)} by number oversubscribed"
                for number, taken in found:
                    free[number] -= taken
                    shares.append((name, number, taken))
        return tuple(shares)

    def give(self, shares: Shares) -> None:
        """Give back shares."""
        for name, number, amount in shares:
            back = self.free[name][number] + amount
            assert back <= self.total[name][number], f"more of GPU {number} given back than there is"
            self.free[name][number] = back

    def reserve(self, shares: Shares, named: Iterable[str]) -> None:
        """Reserve taken shares for a bundle, under its GPU name among `named`."""
        for _, number, amount in sorted(shares):
            name = next(name for name in named if plain_name(name) == GPU)
            self.total[GPU][number] -= amount
            self.total.setdefault(name, {})[number] = amount
            self.free.setdefault(name, {})[number] = amount

    def release(self, named: Iterable[str]) -> None:
        """Give back the GPUs of a bundle with nothing in use."""
        for name in named:
            parts = self.free.pop(name, None)
            if parts is not None:
                assert parts == self.total.pop(name), "a bundle whose GPUs are in use is given back"
                for number, amount in parts.items():
                    self.total[GPU][number] += amount
                    self.free[GPU][number] += amount

    # --- who has what ---

    def names_of(self, shares: Shares) -> list[str] | None:
        """Return the names as in CUDA_VISIBLE_DEVICES. None: the node has no GPUs, and the variable stays unset."""
        if not self.free:
            return None
        return [self.names[number] for _, number, _ in sorted(shares, key=lambda share: share[1])]

    def check_everything(self, free: Mapping[str, int], held: Iterable[tuple[Mapping[str, int], Shares]]) -> None:
        """Assert that no GPU is oversubscribed, each share matches its request, and the rest is free.

        free: by the counts.  held: the requests and shares of all holders.
        """
        if not self.total:
            assert not self.free and not any(shares for _, shares in held), "shares of GPUs, and there are none"
            return
        taken: dict[int, int] = {}
        left = {name: dict(parts) for name, parts in self.total.items()}
        for request, shares in held:
            asked = {name: amount for name, amount in request.items() if amount and name in self.total}
            assert asked == _sums(shares), f"asked for {asked}, and has {shares}"
            cut = [amount for _, _, amount in shares if amount < RESOURCE_UNIT]
            assert len(cut) < 2, f"parts of several GPUs for one: {shares}"
            for name, number, amount in shares:
                taken[number] = taken.get(number, 0) + amount
                left[name][number] -= amount
        assert all(amount <= RESOURCE_UNIT for amount in taken.values()), f"GPUs given to too many: {taken}"
        assert left == self.free, f"GPUs do not add up: {left} is left, and {self.free} is free"
        for number in range(len(self.total.get(GPU, ()))):
            assert sum(parts.get(number, 0) for parts in self.total.values()) <= RESOURCE_UNIT, "a GPU has grown"
        for name, parts in self.free.items():
            assert sum(parts.values()) == free[name], f"{plain_name(name)} by number and by count differ"


def _find(free: Parts, amount: int) -> list[tuple[int, int]] | None:
    """Return (number, amount) of whole GPUs, and for the rest of the GPU with the least room; None: not available."""
    whole, rest = divmod(amount, RESOURCE_UNIT)
    found: list[tuple[int, int]] = []
    best = -1
    for number, left in free.items():
        if len(found) < whole and left == RESOURCE_UNIT:
            found.append((number, RESOURCE_UNIT))
        elif rest and left >= rest and (best < 0 or left < free[best]):
            best = number
    if len(found) < whole or (rest and best < 0):
        return None
    if rest:
        found.append((best, rest))
    return found


def _usable(parts: Iterable[int]) -> int:
    """Return the sum of all whole GPUs and the largest part."""
    left = list(parts)
    whole = left.count(RESOURCE_UNIT)
    return whole * RESOURCE_UNIT + max((amount for amount in left if amount < RESOURCE_UNIT), default=0)


def _sums(shares: Shares) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, _, amount in shares:
        sums[name] = sums.get(name, 0) + amount
    return sums
