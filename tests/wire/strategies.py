"""Hypothesis strategies made of the types that messages declare."""

import msgspec
from hypothesis import strategies as st

from zray.wire.message import Bulk
from zray.wire.shards import SlotTable

INT64_MIN, UINT64_MAX = -(1 << 63), (1 << 64) - 1


def of_type(declared):
    """Values of a declared type, and only such."""
    node = msgspec.inspect.type_info(declared)
    return _of_node(node)


def _of_node(node):
    kind = type(node).__name__.removesuffix("Type")
    return _MAKERS[kind](node)


def _integers(node):
    low = INT64_MIN if node.ge is None else node.ge
    high = UINT64_MAX if node.le is None else node.le
    return st.integers(low, high)


def _bytes(node):
    return st.binary(
        min_size=node.min_length or 0, max_size=64 if node.max_length is None else min(64, node.max_length)
    )


def _bulk(node):
    assert node.cls is Bulk
    return st.binary(max_size=64).map(Bulk)


def _collection(node):
    return st.lists(_of_node(node.item_type), max_size=3)


def _slot_table(shards):
    """A table, and what a split makes of it: each shard at birth has two slots or more, up to 128 shards."""
    table = SlotTable.at_birth(shards)
    return st.integers(0, shards - 1).map(lambda shard: table.split(shard, table.slots_of(shard)[1:]))


def _struct(node):
    """Structs compare by value; defaults are left out now and then, as senders do."""
    if node.cls is SlotTable:  # refuses values of the right types that are no table
        return st.integers(1, 128).flatmap(_slot_table)
    fields = {field.name: _of_node(field.type) for field in node.fields}
    required = {field.name: fields[field.name] for field in node.fields if field.required}
    optional = {name: strategy for name, strategy in fields.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: node.cls(**values))


_MAKERS = {
    "Bool": lambda node: st.booleans(),
    "None": lambda node: st.none(),
    "Int": _integers,
    "Float": lambda node: st.floats(allow_nan=False),
    "Str": lambda node: st.text(max_size=20),
    "Bytes": _bytes,
    "Custom": _bulk,
    "List": _collection,
    "VarTuple": lambda node: _collection(node).map(tuple),
    "Tuple": lambda node: st.tuples(*map(_of_node, node.item_types)),
    "Dict": lambda node: st.dictionaries(_of_node(node.key_type), _of_node(node.value_type), max_size=3),
    "Union": lambda node: st.one_of(*map(_of_node, node.types)),
    "Struct": _struct,
}


def messages(message_types):
    """Any message of these classes."""
    return st.sampled_from(message_types).flatmap(of_type)
