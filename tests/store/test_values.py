"""Values to bytes and back (docs/design/storage.md)."""

from __future__ import annotations

import collections
import datetime
import decimal
import functools
import gc
import math
import pickle
import subprocess
import sys
import threading
import types
import weakref

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zray import object_ref
from zray.exceptions import DeserializationError, OufOfBandObjectRefSerializationException, SerializationError
from zray.object_ref import ObjectRef
from zray.store.functions import deserialize_function, serialize_function
from zray.store.layout import placed
from zray.store.values import (
    deregister_serializer,
    deserialize,
    is_error,
    register_serializer,
    serialize,
    to_bytes,
    write_into,
)


def round_trip(value):
    serialized = serialize(value)
    data = to_bytes(serialized)
    assert len(data) == serialized.size
    assert not is_error(data)
    return deserialize(data)


def through_array(value):
    """As a value lies in shared memory."""
    serialized = serialize(value)
    memory = numpy.full(serialized.size + 64, 0xAA, numpy.uint8)
    write_into(serialized, memory[: serialized.size])
    assert (memory[serialized.size :] == 0xAA).all()
    data = numpy.frombuffer(memoryview(memory), numpy.uint8, serialized.size)
    data.flags.writeable = False
    return deserialize(data)


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.text()
    | st.text(st.characters(categories=["Cs"]), max_size=3) | st.complex_numbers()
)  # fmt: skip
hashable = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(hashable, inner)
        | st.dictionaries(st.text(), inner)
        | st.sets(hashable)
        | st.binary().map(bytearray)
    ),
    max_leaves=30,
)


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right) or (left != left and right != right)
    if isinstance(left, complex):
        return same(left.real, right.real) and same(left.imag, right.imag)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(
            same(key, other) for key, other in zip(left, right, strict=True)
        ) and all(map(same, left.values(), right.values()))  # fmt: skip
    return left == right


@settings(deadline=None, max_examples=300)
@given(values)
def test_every_value_comes_back_with_its_exact_types(value):
    assert same(round_trip(value), value)
    assert same(through_array(value), value)


class Text(str):
    pass


class Number(int):
    pass


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        Text("a"), Number(3), Point(1, 2), [Text("a")], (Number(1),), {"a": Text("b")}, {Text("a"): 1},
        {1: 2},
        2**63, 2**64, -(2**63), -(2**63) - 1, 2**200, [2**70], ("\ud800",), collections.OrderedDict(a=1),
        datetime.datetime(2020, 1, 1), b"x" * 100_000, "y" * 100_000, bytearray(b"z" * 100_000), range(3),
        list(range(17)), tuple(range(100_000)), {str(i): i for i in range(17)}, [[1], (2,)], Ellipsis, int,
        numpy.float64(1.5), (numpy.int8(1),), frozenset([1]),
    ],
    ids=lambda value: repr(value)[:20].encode("ascii", "backslashreplace").decode(),
)  # fmt: skip
def test_exact_types_survive(value):
    for back in (round_trip(value), through_array(value)):
        assert type(back) is type(value)
        assert back == value
        if isinstance(value, (list, tuple)):
            assert [type(part) for part in back] == [type(part) for part in value]


ARRAYS = [
    numpy.arange(10),
    numpy.arange(12.0).reshape(3, 4),
    numpy.arange(12.0).reshape(3, 4).T,
    numpy.arange(24).reshape(2, 3, 4)[:, ::-1, ::2],
    numpy.array(3.5),
    numpy.zeros((0, 3)),
    numpy.zeros(0),
    numpy.array(["a", "bcd"]),
    numpy.array([b"a", b"bcd"]),
    numpy.array(["2020-01-01"], dtype="M8[ns]"),
    numpy.array([1], dtype="m8[s]"),
    numpy.array([1, 2], dtype=">i4"),
    numpy.array([True, False]),
    numpy.array([1 + 2j]),
    numpy.zeros(256, numpy.int8),
    numpy.zeros((256, 1), numpy.float16),
    numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    numpy.random.default_rng(1).random((300, 200)),
    numpy.asfortranarray(numpy.random.default_rng(1).random((300, 200))),
    numpy.random.default_rng(1).random((300, 400))[::2, ::3],
    numpy.arange(0, 100_000, dtype="M8[s]"),
    numpy.broadcast_to(numpy.arange(5), (4000, 5)),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
@pytest.mark.parametrize("way", [round_trip, through_array])
@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: {"a": [a]}], ids=["bare", "nested"])
def test_arrays_come_back_equal_and_read_only(array, way, wrap):
    back = way(wrap(array))
    back = back if isinstance(back, numpy.ndarray) else back["a"][0]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    numpy.testing.assert_array_equal(back, array)
    assert not back.flags.writeable or not back.size
    if back.size:
        with pytest.raises(ValueError):
            back.flags.writeable = True
    assert back.flags.aligned


def test_object_arrays_are_carried():
    back = round_trip(numpy.array([1, "a", None], dtype=object))
    assert back.tolist() == [1, "a", None]


@pytest.mark.parametrize("shape", [(300, 300), (3, 4), (2, 3, 4)])
def test_fortran_order_is_kept(shape):
    array = numpy.asfortranarray(numpy.arange(numpy.prod(shape), dtype=float).reshape(shape))
    back = round_trip(array)
    assert (back == array).all() and back.flags.f_contiguous and not back.flags.c_contiguous


def test_large_buffers_are_not_copied_and_lie_aligned():
    """Buffers are aligned to 64 bytes, and get returns views."""
    value = {"a": numpy.arange(5000.0), "b": [numpy.arange(3), numpy.arange(100_000)]}
    serialized = serialize(value)
    assert len(serialized.buffers) == 3
    assert numpy.shares_memory(numpy.frombuffer(serialized.buffers[0], numpy.uint8), value["a"])
    assert [begin % 64 for begin, buffer in placed(serialized) if buffer.nbytes >= 4096] == [0, 0]
    assert serialize(numpy.arange(100_000)).inband.__len__() % 64 == 0


@pytest.mark.parametrize("value", [numpy.arange(100_000), {"a": numpy.arange(3)}, numpy.arange(3)])
def test_the_last_array_made_from_shared_memory_keeps_it(value):
    """The pin follows the array that the user holds."""
    serialized = serialize(value)
    memory = numpy.empty(serialized.size, numpy.uint8)
    write_into(serialized, memory)
    data = numpy.frombuffer(memoryview(memory), numpy.uint8)
    data.flags.writeable = False
    fired = []
    pin = weakref.ref(data, fired.append)
    back = deserialize(data)
    del data
    back = back["a"] if isinstance(back, dict) else back
    view = back[1:].reshape(-1, 1).T
    del back
    gc.collect()
    assert pin() is not None and not fired
    half = memoryview(view[0, :1])
    del view
    assert not fired
    del half
    assert fired


def test_bytes_from_shared_memory_keep_nothing():
    serialized = serialize(b"x" * 100_000)
    memory = numpy.empty(serialized.size, numpy.uint8)
    write_into(serialized, memory)
    back = deserialize(memory)
    memory[:] = 0
    assert back == b"x" * 100_000


@pytest.mark.parametrize("size", [100, 300_000, (8 << 20) + 12_345])
def test_large_copies_are_exact(size):
    value = numpy.random.default_rng(0).integers(0, 255, size, numpy.uint8)
    numpy.testing.assert_array_equal(through_array(value), value)


def test_a_view_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        write_into(serialize(numpy.zeros(100_000)), memoryview(bytearray(10)))


def refs(count):
    return [ObjectRef(bytes([n]) * 20) for n in range(count)]


def test_refs_inside_are_collected_once_in_order():
    a, b, c = refs(3)
    serialized = serialize({"x": [b, a], "y": (b, {"z": c}), "f": lambda: a})
    assert serialized.contained == (b.id, a.id, c.id)
    assert serialize(a).contained == (a.id,)
    assert serialize([c]).contained == (c.id,)
    assert serialize((1, 2)).contained == ()


def test_restoring_a_ref_tells_the_runtime(monkeypatch):
    told = []
    monkeypatch.setattr(object_ref, "on_restore", told.append)
    (ref,) = refs(1)
    assert deserialize(to_bytes(serialize([ref]))) == [ref]
    assert told == [ref.id]


class Swallows:
    """A class that tries to pickle its parts, and drops those that fail."""

    def __init__(self, part):
        self.part = part

    def __getstate__(self):
        try:
            return {"part": pickle.dumps(self.part)}
        except Exception:
            return {"part": None}

    def __setstate__(self, state):
        self.part = state["part"] and pickle.loads(state["part"])


def test_a_ref_is_seen_behind_code_that_swallows_errors():
    (ref,) = refs(1)
    serialized = serialize(Swallows(ref))
    assert serialized.contained == (ref.id,)
    assert deserialize(to_bytes(serialized)).part == ref


def test_a_ref_cannot_be_pickled_elsewhere():
    with pytest.raises(OufOfBandObjectRefSerializationException, match="zray.put"):
        pickle.dumps(refs(1))
    serialize(refs(1))
    with pytest.raises(OufOfBandObjectRefSerializationException):
        pickle.dumps(refs(1))


def test_functions_and_local_classes_travel():
    class Local:
        def __init__(self, x):
            self.x = x

    assert round_trip(lambda x: x + 1)(2) == 3
    assert round_trip([Local(5)])[0].x == 5
    (ref,) = refs(1)
    code, contained = serialize_function(lambda: (ref, math.pi))
    assert contained == (ref.id,)
    assert deserialize_function(code)() == (ref, math.pi)


def test_main_classes_are_sent_by_value():
    script = (
        "import sys; from zray.store.values import *\n"
        "class A:\n    def f(self): return 7\n"
        "sys.stdout.buffer.write(to_bytes(serialize({'a': A()})))"
    )
    data = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=30).stdout
    assert deserialize(data)["a"].f() == 7


def test_a_value_is_serialized_while_another_thread_imports_cloudpickle(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle.cloudpickle", types.ModuleType("cloudpickle.cloudpickle"))
    assert deserialize(to_bytes(serialize(decimal.Decimal(7)))) == 7


class Held:
    def __init__(self):
        self.log = {"deep": [threading.Lock()]}


@pytest.mark.parametrize("wrap", [lambda held: held, lambda held: [1, held], lambda held: lambda: held])
def test_what_cannot_be_pickled_is_named(wrap):
    with pytest.raises(SerializationError, match=r"\.log -> \['deep'\] -> \[0\].*lock.*Hint") as caught:
        serialize(wrap(Held()))
    assert isinstance(caught.value, TypeError)


def test_the_path_goes_through_closures():
    lock = threading.Lock()

    def f():
        return lock

    with pytest.raises(SerializationError, match="f -> closure 'lock'"):
        serialize_function(f)


def test_deep_and_cyclic_values_end_in_an_error_or_work():
    cyclic: list = []
    cyclic.append(cyclic)
    back = round_trip(cyclic)
    assert back[0] is back
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SerializationError):
        serialize(deep)


class Explodes:
    def __reduce__(self):
        return _explode, ()


def _explode():
    raise KeyError("gone")


def test_what_cannot_be_unpickled_says_so():
    with pytest.raises(DeserializationError, match="KeyError"):
        deserialize(to_bytes(serialize(Explodes())))
    for data in (b"\x81", b"\x84\x00", b"\xc1", b"\x80\x05", b"\xdf"):
        with pytest.raises(DeserializationError):
            deserialize(data)


class Foreign:
    def __init__(self):
        self.lock = threading.Lock()


def test_registered_serializers_are_used():
    register_serializer(Foreign, serializer=lambda value: 5, deserializer=lambda data: ("foreign", data))
    try:
        assert round_trip([Foreign()]) == [("foreign", 5)]
    finally:
        deregister_serializer(Foreign)
    with pytest.raises(SerializationError):
        serialize(Foreign())


def test_zray_imports_nothing_heavy():
    script = (
        "import sys, zray.object_ref, zray.exceptions, zray.store.segment, zray.store.sweeper\n"
        "heavy = {'numpy', 'asyncio', 'pickle', 'cloudpickle', 'traceback'} & set(sys.modules)\n"
        "assert not heavy - {'traceback'}, heavy\n"
        "import zray.store.values, zray.store.arguments, zray.store.errors, zray.store.arena\n"
        "from zray.store.values import *\n"
        "assert deserialize(to_bytes(serialize({'a': (1, 2)}))) == {'a': (1, 2)}\n"
        "assert not {'numpy', 'asyncio', 'cloudpickle'} & set(sys.modules)\n"
        "import numpy\n"
        "assert deserialize(to_bytes(serialize(numpy.arange(3)))).tolist() == [0, 1, 2]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


@functools.cache
def cached_here(n):
    return n


CACHES = """
import functools

@functools.lru_cache(maxsize=7)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

class Holder:
    def __init__(self):
        self.count = 0

    @functools.cached_property
    def number(self):
        self.count += 1
        return self.count

    @functools.cache
    def method(self):
        return self.number
"""


def test_what_functools_caches_in_a_program_comes_along():
    """No worker has the program's __main__, by whose name cloudpickle knows a cache; before 3.12 one has a lock."""
    program = {"__name__": "__main__"}
    exec(CACHES, program)
    assert program["fibonacci"](30) == 832_040
    fibonacci, holder = round_trip(program["fibonacci"]), round_trip(program["Holder"])()
    assert fibonacci.cache_parameters() == {"maxsize": 7, "typed": False} and not fibonacci.cache_info().currsize
    assert fibonacci(30) == 832_040 and fibonacci.cache_info().misses == 31
    assert (holder.number, holder.number, holder.method()) == (1, 1, 1)
    assert round_trip(cached_here) is cached_here
