"""Choice of nodes for the bundles of a placement group: pure arithmetic.

    STRICT_PACK      all on one node
    PACK             on as few nodes as a greedy choice finds
    SPREAD           on as many nodes as possible
    STRICT_SPREAD    each on a node of its own

The strategies are Ray's.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from .amounts import SAID_MAX, Amounts, in_words, is_enough, largest_node, name_of
from .groups import SPREAD, STRICT_PACK, STRICT_SPREAD

# Steps of the search after a greedy choice without a result, and the largest number of bundles with a search.
STEPS_MAX = 5_000
BUNDLES_SEARCHED_MAX = 50


class Room(Struct):
    """The free resources of a node."""

    node: str
    free: dict[str, int]
    bundles: int = 0  # bundles of this group on the node

    def take(self, amounts: Amounts, sign: int = 1) -> None:
        """Place a bundle on the node; sign=-1: undo that."""
        self.bundles += sign
        for name, amount in amounts.items():
            if amount:
                self.free[name] -= sign * amount


def plan(
    rooms: Sequence[tuple[str, Amounts]], bundles: Sequence[tuple[int, Amounts]], strategy: str, taken: Sequence[str]
) -> tuple[list[tuple[int, str]] | None, bool]:
    """(index, node) for all the bundles, or None; and, with None, whether a placement is certainly impossible.

    rooms: (node, its free resources), in the order in which equals are taken.  taken: the nodes of the group's other
    bundles.
    """
    nodes = [Room(node, dict(free), taken.count(node)) for node, free in rooms]
    if strategy == STRICT_PACK:
        return _on_one(nodes, bundles, taken)
    ordered = sorted(bundles, key=lambda item: (-_weight(item[1]), item[0]))
    chosen: list[tuple[int, str]] = []
    for index, amounts in ordered:
        able = _able(nodes, amounts, strategy)
        if not able:
            break
        able[0].take(amounts)
        chosen.append((index, able[0].node))
    else:
        return sorted(chosen), True
    if len(ordered) > BUNDLES_SEARCHED_MAX:
        return None, False
    nodes = [Room(node, dict(free), taken.count(node)) for node, free in rooms]
    steps = [STEPS_MAX]
    found = _search(nodes, ordered, strategy, steps)
    return (sorted(found) if found is not None else None), steps[0] > 0


def sum_of(bundles: Iterable[Amounts]) -> dict[str, int]:
    """The sum of the amounts of all bundles."""
    sums: dict[str, int] = {}
    for amounts in bundles:
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def why_never(totals: Mapping[str, Amounts], bundles: Sequence[tuple[int, Amounts]], strategy: str) -> str:
    """Error text for the user: the requested bundles, and the resources of those nodes."""
    asked = ", ".join(f"{{{in_words(amounts)}}}" for _, amounts in bundles[:SAID_MAX])
    if len(bundles) > SAID_MAX:
        asked += f" and {len(bundles) - SAID_MAX} more"
    wanted = f"{strategy} of {len(bundles)} bundle{'s' * (len(bundles) > 1)}: {asked}"
    if strategy == STRICT_SPREAD and len(bundles) > len(totals):
        count = f"{len(totals)} node{'s' * (len(totals) != 1)}"
        return f"it asks for {wanted}, each on a node of its own, and has {count}"
    sums = sum_of(amounts for _, amounts in bundles)
    node = largest_node(sums, totals)
    if node is None:
        return f"it asks for {wanted}, and there is no node"
    has = in_words({name: totals[node].get(name, 0) for name in sums})
    if len(totals) == 1:
        return f"it asks for {wanted}; the only node ({name_of(node)}) has {has}"
    return f"it asks for {wanted}; of {len(totals)} nodes the largest ({name_of(node)}) has {has}"


def _weight(amounts: Amounts) -> int:
    return sum(amounts.values())


def _times(free: Mapping[str, int], amounts: Amounts) -> float:
    """How many such bundles the free resources could take."""
    return min((free.get(name, 0) / amount for name, amount in amounts.items() if amount), default=0.0)


def _able(nodes: list[Room], amounts: Amounts, strategy: str) -> list[Room]:
    """The nodes that could take the bundle, the best first."""
    able = [room for room in nodes if is_enough(room.free, amounts)]
    if strategy == STRICT_SPREAD:
        able = [room for room in able if not room.bundles]
    spreads = strategy in (SPREAD, STRICT_SPREAD)
    # Pack: nodes with the most bundles of the group first.  Spread: with the fewest.  Then nodes that could take the
    # most such bundles: free memory, in bytes, says nothing about a bundle of CPUs.
    return sorted(able, key=lambda room: (room.bundles if spreads else -room.bundles, -_times(room.free, amounts)))


def _on_one(
    nodes: list[Room], bundles: Sequence[tuple[int, Amounts]], taken: Sequence[str]
) -> tuple[list[tuple[int, str]] | None, bool]:
    total = sum_of(amounts for _, amounts in bundles)
    for room in sorted(nodes, key=lambda room: -_times(room.free, total)):
        if is_enough(room.free, total) and (not taken or room.node in taken):
            return [(index, room.node) for index, _ in bundles], True
    return None, True


def _search(
    nodes: list[Room], bundles: list[tuple[int, Amounts]], strategy: str, steps: list[int]
) -> list[tuple[int, str]] | None:
    """Any possible placement, within a number of steps."""
    if not bundles:
        return []
    index, amounts = bundles[0]
    for room in _able(nodes, amounts, strategy):
        steps[0] -= 1
        if steps[0] <= 0:
            return None
        room.take(amounts)
        rest = _search(nodes, bundles[1:], strategy, steps)
        if rest is not None:
            return [(index, room.node), *rest]
        room.take(amounts, -1)
    return None
