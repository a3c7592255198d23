"""Placement constraints of a task or an actor: `.options(scheduling_strategy=...)` and `label_selector`.

Names and meanings are Ray's.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from ..ids import TASK_ID_BYTES
from .limits import Several

# Label of every node, whose value is the node's id.
NODE_ID_LABEL = "ray.io/node-id"
LABEL_CHARACTERS_MAX = 1_000
LABELS_MAX = 100

Label = Annotated[str, Meta(max_length=LABEL_CHARACTERS_MAX)]


class LabelRule(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """A rule: the label is one of the values; without values, the label exists.  `is_negated` reverses the rule."""

    key: Label
    values: Several[Label] = ()
    is_negated: bool = False


class Where(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """Constraints on the node of a task or an actor, all of which must hold.

    `node` is the id of the only permitted node.  With `is_soft`, the node is preferred while it exists.  `is_spread`
    uses one node after the other.

    `hard` lists label rules that must hold, and `soft` label rules that should hold.

    `group` is the placement group of the work, and `bundle` the index of its bundle (-1: any bundle).  With `captures`,
    children run in that group too.

    `fallbacks` are alternatives to `hard`, used while no node that meets `hard` has the requested resources.  The first
    alternative met by a node with the requested resources applies.  A global scheduler prefers a node that could start
    the work now, and takes the first rule set, `hard` included, met by such a node.
    """

    node: Label = ""
    is_soft: bool = False
    is_spread: bool = False
    hard: Several[LabelRule] = ()
    soft: Several[LabelRule] = ()
    group: Annotated[bytes, Meta(max_length=TASK_ID_BYTES)] = b""
    bundle: Annotated[int, Meta(ge=-1)] = -1
    captures: bool = False
    fallbacks: Several[Several[LabelRule]] = ()


def host_of(address: str) -> str:
    """The node's id, from the address of a role."""
    return address.partition("/")[0]


def matches(labels: Mapping[str, str], rules: Iterable[LabelRule]) -> bool:
    """True if a node with these labels meets all the rules."""
    for rule in rules:
        value = labels.get(rule.key)
        meets = value in rule.values if rule.values else value is not None
        if meets is rule.is_negated:
            return False
    return True


def rules_of(where: Where, nodes: Iterable[tuple[Mapping[str, str], bool]]) -> tuple[LabelRule, ...]:
    """The label rules that must hold.

    nodes: the labels of each node, and whether the node has the requested resources at all.
    """
    if where.fallbacks:
        known = list(nodes)
        choices = (where.hard, *where.fallbacks)
        for must_have in (True, False):
            for rules in choices:
                if any(matches(labels, rules) for labels, has in known if has or not must_have):
                    return rules
    return where.hard


def nobody_can(what: str, reason: str) -> str:
    """Error text for the user: no node can ever do the work."""
    return f"No node can ever {what}: {reason}."


def no_such_node(node: str) -> str:
    """Error text for the user: the required node does not exist."""
    return f"it may only run on node {node}, which is not in the cluster"


def no_such_labels(where: Where) -> str:
    """Error text for the user: no node has the required labels."""
    said = ", or else with ".join(rules_in_words(rules) for rules in (where.hard, *where.fallbacks))
    return f"it asks for a node with {said}, and there is none"


def rules_in_words(rules: Iterable[LabelRule]) -> str:
    """The rules as text: "disk in (ssd, nvme), no gpu"."""
    said = []
    for rule in rules:
        if rule.values:
            said.append(f"{rule.key} {'not in' if rule.is_negated else 'in'} ({', '.join(rule.values)})")
        else:
            said.append(f"{'no ' if rule.is_negated else ''}{rule.key}")
    return ", ".join(said)
