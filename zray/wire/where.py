"""Where a task or an actor may run, as `.options(scheduling_strategy=...)` and `label_selector` say it.

Source: FEATURES 4; names and meanings are Ray's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from ..ids import TASK_ID_BYTES
from .limits import Several

# Every node has it; the value is its id.
NODE_ID_LABEL = "ray.io/node-id"
LABEL_CHARACTERS_MAX = 1_000
LABELS_MAX = 100

Label = Annotated[str, Meta(max_length=LABEL_CHARACTERS_MAX)]


class LabelRule(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """The label is one of the values; without values: it is there at all.  is_negated: the opposite."""

    key: Label
    values: Several[Label] = ()
    is_negated: bool = False


class Where(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """All of it must hold.

    node: the id of the only one, or, if is_soft, of the one to be preferred while it is there.  is_spread: one node
    after the other.  hard, soft: rules for labels that must, or should, hold.  group: the placement group in which it
    runs; bundle: the index of its bundle, -1 for any; captures: its children run in that group too.  fallbacks: while
    no node that meets `hard` has what is asked for, the first of these that such a node meets; a global scheduler takes
    the first of all that a node meets which could start it now, if there is one.
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
    """The node's id, of its local scheduler's address."""
    return address.partition("/")[0]


def matches(labels: Mapping[str, str], rules: Iterable[LabelRule]) -> bool:
    """Whether a node with these labels meets all the rules."""
    for rule in rules:
        value = labels.get(rule.key)
        meets = value in rule.values if rule.values else value is not None
        if meets is rule.is_negated:
            return False
    return True


def rules_of(where: Where, nodes: Iterable[tuple[Mapping[str, str], bool]]) -> tuple[LabelRule, ...]:
    """Which rules for labels must hold.  nodes: the labels of each, and whether it has what is asked for at all."""
    if where.fallbacks:
        known = list(nodes)
        choices = (where.hard, *where.fallbacks)
        for must_have in (True, False):
            for rules in choices:
                if any(matches(labels, rules) for labels, has in known if has or not must_have):
                    return rules
    return where.hard


def nobody_can(what: str, reason: str) -> str:
    """For the user."""
    return f"No node can ever {what}: {reason}."


def no_such_node(node: str) -> str:
    """For the user."""
    return f"it may only run on node {node}, which is not there"


def no_such_labels(where: Where) -> str:
    """For the user."""
    said = ", or else with ".join(rules_in_words(rules) for rules in (where.hard, *where.fallbacks))
    return f"it asks for a node with {said}, and there is none"


def rules_in_words(rules: Iterable[LabelRule]) -> str:
    """ "disk in (ssd, nvme), no gpu"."""
    said = []
    for rule in rules:
        if rule.values:
            said.append(f"{rule.key} {'not in' if rule.is_negated else 'in'} ({', '.join(rule.values)})")
        else:
            said.append(f"{'no ' if rule.is_negated else ''}{rule.key}")
    return ", ".join(said)
