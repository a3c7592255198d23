"""Arguments of calls."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zray.exceptions import DeserializationError
from zray.object_ref import ObjectRef
from zray.store.arguments import NO_ARGUMENTS, argument_of_dep, deserialize_arguments, serialize_arguments
from zray.store.values import deserialize, to_bytes

REFS = [ObjectRef(bytes([n]) * 20) for n in range(40)]
parts = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
    st.sampled_from(REFS), st.lists(st.integers() | st.sampled_from(REFS)), st.tuples(st.integers()),
    st.dictionaries(st.text(), st.none()),
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.lists(parts), st.dictionaries(st.text(), parts))
def test_arguments_come_back_with_deps_in_place(args, kwargs):
    arguments = serialize_arguments(tuple(args), kwargs)
    back_args, back_kwargs = deserialize_arguments(arguments.payload, [("value", id) for id in arguments.deps])
    told = lambda value: ("value", value.id) if type(value) is ObjectRef else value  # noqa: E731
    assert list(back_args) == [told(value) for value in args]
    assert [type(part) for part in back_args] == [type(told(value)) for value in args]
    assert back_kwargs == {name: told(value) for name, value in kwargs.items()}
    everything = [*args, *kwargs.values()]
    deps = dict.fromkeys(value.id for value in everything if type(value) is ObjectRef)
    holds = dict.fromkeys(
        part.id for value in everything if type(value) is list for part in value if type(part) is ObjectRef
    )
    assert arguments.deps == tuple(deps)
    assert arguments.holds == tuple(holds)
    places = {}
    for place, value in [*enumerate(args), *kwargs.items()]:
        if type(value) is ObjectRef:
            places.setdefault(value.id, place)
    assert [argument_of_dep(arguments.payload, index) for index in range(len(deps))] == [places[dep] for dep in deps]
    assert argument_of_dep(arguments.payload, len(deps)) is None


def test_no_arguments_take_no_bytes():
    assert serialize_arguments((), {}) is NO_ARGUMENTS
    assert deserialize_arguments(b"", []) == ([], {})


def test_a_call_with_many_refs():
    arguments = serialize_arguments(tuple(REFS), {})
    assert deserialize_arguments(arguments.payload, list(range(40))) == (list(range(40)), {})


class Store:
    def __init__(self):
        self.put_values = []

    def put(self, serialized):
        self.put_values.append(deserialize(to_bytes(serialized)))
        return bytes([100 + len(self.put_values)]) * 20


@pytest.mark.parametrize("large", ["x" * 200_000, b"x" * 200_000, numpy.zeros(200_000), list(range(90_000))])
def test_large_arguments_are_put(large):
    store = Store()
    arguments = serialize_arguments((1, large, REFS[0]), {"again": large, "small": 2}, put=store.put)
    assert len(store.put_values) == 1
    assert arguments.deps == (REFS[0].id, bytes([101]) * 20)
    assert len(arguments.payload) < 1000
    args, kwargs = deserialize_arguments(arguments.payload, ["ref", "large"])
    assert (args, kwargs) == ([1, "large", "ref"], {"again": "large", "small": 2})


def test_many_middling_arguments_are_put_until_the_rest_is_small():
    store = Store()
    arguments = serialize_arguments(tuple(b"%d" % n * 20_000 for n in range(10)), {}, put=store.put)
    assert len(arguments.payload) <= 100 * 1024
    assert 3 <= len(store.put_values) <= 8


def test_without_put_everything_is_inline():
    for value in ("x" * 200_000, numpy.zeros(200_000)):
        payload = serialize_arguments((value,), {}).payload
        assert len(payload) > 200_000
        numpy.testing.assert_array_equal(deserialize_arguments(payload, [])[0][0], value)


def test_array_arguments_are_read_only():
    (array,), _ = deserialize_arguments(serialize_arguments((numpy.arange(5),), {}).payload, [])
    assert not array.flags.writeable


def test_broken_payloads_are_told():
    for payload in (b"\xff", b"\x88", b"\x91", b"\x90"[:1] * 2):
        with pytest.raises(DeserializationError):
            deserialize_arguments(payload, [])
