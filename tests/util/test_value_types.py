"""Types of values from their first bytes: what `zray memory` and `list_objects` show without unpickling."""

import collections
import dataclasses
import fractions
import json
import subprocess
import sys

import numpy as np
import pytest

import zray
from tests.gates import until
from zray.store.values import serialize
from zray.util.state import list_objects
from zray.util.value_types import type_of
from zray.wire.listing import HEAD_BYTES


@dataclasses.dataclass
class Point:
    data: object = None

    def __reduce__(self):
        return trap, (self.data,)


def trap(data):
    raise AssertionError("a value was unpickled")


def head_of(value):
    found = serialize(value)
    return (bytes(found.inband) + b"".join(map(bytes, found.buffers)))[:HEAD_BYTES]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.ones((3, 4)), "array float64 3 x 4"),
        (np.asfortranarray(np.ones((300, 400), np.float32)), "array float32 300 x 400"),
        (np.zeros(5, bool), "array bool 5"),
        (np.zeros(5, ">i2"), "array int16 5"),
        (np.array(["ab"]), "array <U2 1"),
        (np.array(1.0), "array float64"),
        (b"x", "bytes"),
        (b"x" * 10_000_000, "bytes"),
        ("text", "str"),
        ("text" * 100, "str"),
        (7, "int"),
        (-1, "int"),
        (2**40, "int"),
        (1.5, "float"),
        (None, "None"),
        (True, "bool"),
        ([1, 2], "list"),
        ((1, 2), "tuple"),
        ({"a": 1}, "dict"),
        ({"a": np.ones(100_000)}, "pickle of dict"),
        ([object()], "pickle of list"),
        ({1, 2}, "pickle of set"),
        (fractions.Fraction(1, 3), "pickle of fractions.Fraction"),
        (collections.Counter("abc"), "pickle of collections.Counter"),
        (Point(), f"pickle of {__name__}.trap"),
    ],
)
def test_first_bytes_tell_the_type(value, words):
    assert type_of(head_of(value)) == words


def test_any_bytes_have_a_text():
    random = np.random.default_rng(1)
    for tag in range(256):
        for length in (0, 1, 3, 8, 40):
            assert isinstance(type_of(bytes([tag]) + random.bytes(length)), str)
    for value in (np.ones((3, 4)), fractions.Fraction(1, 3), {"a": np.ones(100_000)}, "text"):
        head = head_of(value)
        assert all(isinstance(type_of(head[:length]), str) for length in range(len(head)))
    assert type_of(b"") == ""


def test_values_of_all_nodes_have_types_and_none_is_unpickled(cluster):
    cluster.connect()
    refs = [
        zray.put(np.ones((1000, 500), np.float32)),
        zray.put(Point(np.ones(500_000))),
        zray.remote(scheduling_strategy="SPREAD")(lambda: np.ones(700_000)).remote(),
        zray.put(b"x" * 500_000),
    ]
    zray.wait(refs, num_returns=4, fetch_local=False)
    expected = ["array float32 1000 x 500", f"pickle of {__name__}.trap", "array float64 700000", "bytes"]

    def types():
        found = {row.object_id: row.value_type for row in list_objects() if row.value_type}
        return [found.get(ref.hex()) for ref in refs]

    until(lambda: types() == expected)
    command = [sys.executable, "-m", "zray.cli.main", "memory", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    shown = {row["object_id"]: row["value_type"] for row in json.loads(done.stdout)["objects"] if row["value_type"]}
    assert [shown[ref.hex()] for ref in refs] == expected
