"""Amounts of resources (RESOURCE_UNITs by name): comparison with the nodes' resources, and texts for users."""

from collections.abc import Mapping

from .groups import plain_name
from .task_spec import RESOURCE_UNIT

Amounts = Mapping[str, int]
# Resources of each node that nobody declares: the size of its object store in bytes, which nobody requests; and one of
# each name that identifies the node.
STORE_MEMORY = "object_store_memory"
NODE_PREFIX = "node:"
HEAD_NODE = f"{NODE_PREFIX}__internal_head__"
# Names of a request that stand in one sentence.
SAID_MAX = 8


def is_enough(total: Amounts, request: Amounts) -> bool:
    """True if a node with all of `total` could meet the request."""
    return all(total.get(name, 0) >= amount for name, amount in request.items())


def number(amount: int) -> str:
    """A number of units as text: "0.5" for 5,000 units."""
    return f"{amount / RESOURCE_UNIT:g}"


def _said(name: str, amount: int) -> str:
    if name == "memory":
        return f"{amount // RESOURCE_UNIT:,} bytes of memory"
    return f"{number(amount)} {name}"


def in_bytes(size: float) -> str:
    """A number of bytes as text: "53.69 GB", "12.0 MB" or "1 B"."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,.0f} B"


def in_words(amounts: Amounts) -> str:
    """A list of amounts as text: "2 CPU, 1 disk, 1,000 bytes of memory"."""
    said = [_said(plain_name(name), amount) for name, amount in list(amounts.items())[:SAID_MAX]]
    if len(amounts) > SAID_MAX:
        said.append(f"and {len(amounts) - SAID_MAX} more")
    return ", ".join(said) or "nothing"


def why_nowhere(request: Amounts, totals: Mapping[str, Amounts]) -> str:
    """The requested amounts, and the amounts of the largest of those nodes, which comes nearest."""
    asked = f"it asks for {in_words(request)}"
    node = largest_node(request, totals)
    if node is None:
        return f"{asked}, and there is no node"
    has = {name: totals[node].get(name, 0) for name in request}
    return f"{asked}; the largest node ({name_of(node)}) has {in_words(has)}"


def init_arguments(request: Amounts, total: Amounts) -> str:
    """The call of init() for a session that has what `total` lacks of a request."""
    lacking = {name: amount for name, amount in request.items() if total.get(name, 0) < amount}
    said = [f"num_{name.lower()}s={number(lacking.pop(name))}" for name in ("CPU", "GPU") if name in lacking]
    if "memory" in lacking:
        said.append(f"_memory={lacking.pop('memory') // RESOURCE_UNIT}")
    if lacking:
        amounts = ", ".join(f"{name!r}: {number(amount)}" for name, amount in lacking.items())
        said.append(f"resources={{{amounts}}}")
    return f"zray.init({', '.join(said)})"


def largest_node(request: Amounts, totals: Mapping[str, Amounts]) -> str | None:
    """The node with the largest share of the requested amounts; the first of equals."""

    def share(node: str) -> float:
        return sum(min(1.0, totals[node].get(name, 0) / amount) for name, amount in request.items() if amount)

    return max(totals, key=share, default=None)


def name_of(address: str) -> str:
    """The short name of a node, from the beginning of its id: "9f31c0de" of `9f31c0de.../local`."""
    return address.partition("/")[0][:8]
