"""Values: what goes in comes out, arrays are read in place and read-only, references are ordinary objects."""

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import gc
import math
import pickle
import sys
import uuid

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zray
import zray.store.by_value  # noqa: F401  before hypothesis draws: see tests/store/conftest.py
from tests.scripts import run_script
from zray.api.sessions import require_runtime
from zray.wire.objects import InlineLimit
from zray.wire.task_spec import StoredValue

pytestmark = pytest.mark.usefixtures("session")

MEGABYTE = 1 << 20


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    pass


@dataclasses.dataclass
class Point:
    x: float
    tags: list


Pair = collections.namedtuple("Pair", "left right")


@zray.remote
def identity(value):
    return value


def twice(value):
    """`value` after a put, and after a way through a task."""
    return [zray.get(zray.put(value)), zray.get(identity.remote(value))]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**63,
        -(2**200),
        0.1,
        -0.0,
        math.inf,
        1j,
        "",
        "\u00e9\U0001f600",
        "\ud800",
        b"",
        b"\x00\xff",
        bytearray(b"ab"),
        (),
        (1, [2, (3,)], {"k": (4,)}),
        [],
        {},
        {1: "int", "1": "str", (1, 2): "tuple", None: 0, b"b": 1},
        {1, 2},
        frozenset([1]),
        range(3),
        slice(1, 2),
        Ellipsis,
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(list, a=[1]),
        collections.deque([1], maxlen=3),
        datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
        decimal.Decimal("0.10"),
        fractions.Fraction(1, 3),
        uuid.UUID(int=7),
        Colour.RED,
        Text("text"),
        Point(1.0, ["a"]),
        Pair(1, 2),
        np.float64(1.5),
        np.int8(3),
        np.str_("s"),
        np.datetime64("2020-01-01"),
        int,
        Point,
        math.sin,
    ],
    ids=lambda value: f"{type(value).__name__}-{value!r}"[:40],
)
def test_values_come_back_equal_and_of_the_same_type(value):
    for back in twice(value):
        assert back == value
        assert type(back) is type(value)
        assert repr(back) == repr(value)


def test_nan_and_large_bytes_and_strings():
    assert all(math.isnan(back) for back in twice(math.nan))
    for value in (b"x" * (3 * MEGABYTE), "y" * (3 * MEGABYTE)):
        assert all(back == value for back in twice(value))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers()), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(values)
def test_any_nested_value_comes_back(value):
    for back in twice(value):
        assert back == value
        assert repr(back) == repr(value)


ARRAYS = [
    np.arange(10),
    np.zeros(0),
    np.array(3.0),
    np.arange(12).reshape(3, 4).T,
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(100)[::7],
    np.array(["a", "bcd"]),
    np.array([None, {"a": 1}], dtype=object),
    np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
    np.arange(5, dtype=">i4"),
    np.ones(1_000_000),
    np.ones((500, 1000), dtype=np.float32).T,
    np.array([True, False]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.kind}{array.shape}")
def test_arrays_come_back_equal_with_their_type_and_read_only(array):
    for back in twice(array):
        assert type(back) is np.ndarray
        assert back.dtype == array.dtype and back.shape == array.shape
        assert np.array_equal(back, array)
        if array.dtype != object:
            assert not back.flags.writeable


def test_arrays_inside_containers():
    value = {"weights": [np.arange(1_000_000.0), np.arange(3)], "name": "net"}
    back = zray.get(zray.put(value))
    assert back["name"] == "net"
    assert all(np.array_equal(x, y) for x, y in zip(back["weights"], value["weights"], strict=True))


def test_a_large_array_is_read_in_place():
    ref = zray.put(np.ones(10 * MEGABYTE // 8))
    first, second = zray.get(ref), zray.get([ref])[0]
    assert np.shares_memory(first, second)
    assert first.ctypes.data % 64 == 0


def test_a_put_is_a_copy():
    for size in (10, 1_000_000):
        array = np.zeros(size)
        ref = zray.put(array)
        array[0] = 1.0
        assert zray.get(ref)[0] == 0.0


def test_an_argument_is_what_it_was_at_the_call(gate):
    @zray.remote
    def total(values, gate):
        gate.wait()
        return sum(values)

    values = [1, 2, 3]
    ref = total.remote(values, gate)
    values.append(100)
    gate.open()
    assert zray.get(ref) == 6


def test_an_array_outlives_its_reference():
    array = zray.get(zray.put(np.full(MEGABYTE, 7, dtype=np.uint8)))
    part = array[1000:2000]
    del array
    gc.collect()
    for value in range(20):
        zray.put(np.full(MEGABYTE, value, dtype=np.uint8))
    assert (part == 7).all()


def test_a_changed_value_changes_nobody_elses():
    ref = zray.put({"list": [1]})
    zray.get(ref)["list"].append(2)
    assert zray.get(ref) == {"list": [1]}
    assert zray.get(identity.remote(ref)) == {"list": [1]}


def test_writing_into_an_array_raises():
    array = zray.get(zray.put(np.zeros(1_000_000)))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0


def test_writing_into_an_argument_says_which_one_and_what_to_do():
    @zray.remote
    def scale(weights):
        weights *= 2

    with pytest.raises(ValueError, match="read-only") as caught:
        zray.get(scale.remote(zray.put(np.zeros(1_000_000))))
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert "weights" in text and "copy" in text


def test_writing_into_an_attribute_of_an_actor_says_which_one():
    @zray.remote
    class Model:
        def train(self, weights):
            self.weights = weights["layer"]
            self.weights -= 0.5

    failing = Model.remote().train.remote({"layer": np.zeros(1_000_000)})
    with pytest.raises(ValueError, match="read-only") as caught:
        zray.get(failing)
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert sys.version_info < (3, 11) or "self.weights = self.weights.copy()" in text


def test_a_writable_copy_can_be_asked_for():
    ref = zray.put(np.zeros(1_000_000))
    array = zray.get(ref, writable=True)
    array[0] = 1.0
    assert zray.get(ref)[0] == 0.0

    @zray.remote(writable=True)
    def scale(weights):
        weights += 2
        return weights[0]

    assert zray.get(scale.remote(ref)) == 2.0


def test_pickle_five_buffers_travel_out_of_band():
    class Image:
        def __init__(self, pixels):
            self.pixels = pixels

    ref = zray.put(Image(np.ones((1000, 1000))))
    first, second = zray.get(ref), zray.get(ref)
    assert np.shares_memory(first.pixels, second.pixels)


def test_get_keeps_the_order_and_takes_repeats():
    first, second = zray.put(1), zray.put(2)
    assert zray.get([second, first, second]) == [2, 1, 2]
    assert zray.get([]) == []
    assert zray.get(object_refs=[first]) == [1]


@pytest.mark.parametrize("wrong", [1, "text", None, [1], {"a": 1}], ids=str)
def test_get_refuses_what_is_no_reference(wrong):
    with pytest.raises((TypeError, ValueError)):
        zray.get(wrong)


def test_put_refuses_a_reference():
    with pytest.raises(TypeError):
        zray.put(zray.put(1))


def test_get_with_a_timeout(gate):
    @zray.remote
    def wait_at(gate):
        gate.wait()
        return 1

    ref = wait_at.remote(gate)
    for timeout in (0, 0.05):
        with pytest.raises(TimeoutError) as caught:
            zray.get(ref, timeout=timeout)
        assert isinstance(caught.value, zray.exceptions.GetTimeoutError)
    gate.open()
    assert zray.get(ref, timeout=20) == 1
    assert zray.get(ref, timeout=0) == 1


def test_references_are_hashable_comparable_and_named():
    ref, other = zray.put(1), zray.put(1)
    (same,) = zray.get(zray.put([ref]))
    assert ref == same and hash(ref) == hash(same)
    assert ref != other and ref != ref.hex()
    assert {ref: "a"}[same] == "a" and len({ref, same, other}) == 2
    assert ref.hex() in repr(ref) and len(bytes.fromhex(ref.hex())) == len(ref.binary())


def test_the_references_of_a_task_name_it():
    first, second = identity.options(num_returns=2).remote((1, 2))
    assert first.task_id() == second.task_id()
    assert first != second


def test_a_reference_as_a_concurrent_future_and_awaited(gate):
    assert zray.put(3).future().result(timeout=20) == 3

    async def both():
        one = zray.put(1)
        return await one, await asyncio.gather(identity.remote(2), asyncio.shield(identity.remote(3)))

    assert asyncio.run(both()) == (1, [2, 3])


def test_an_awaited_failure_is_raised_and_a_late_one_times_out(gate):
    @zray.remote
    def fail():
        raise KeyError("missing")

    @zray.remote
    def wait_at():
        gate.wait()
        return "late"

    async def main():
        with pytest.raises(KeyError):
            await fail.remote()
        late = wait_at.remote()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(late), timeout=0.05)
        gate.open()
        return await late

    assert asyncio.run(main()) == "late"


def test_a_reference_pickled_behind_our_back_is_refused():
    with pytest.raises(zray.exceptions.OufOfBandObjectRefSerializationException):
        pickle.dumps(zray.put(1))


def test_more_than_the_store_holds_is_an_error_and_not_a_signal(tmp_path):
    """Pages are reserved before they are written to."""
    result = run_script(
        tmp_path,
        """
        import numpy as np
        import zray as ray
        ray.init(num_cpus=1, object_store_memory=64 << 20, object_spilling_directory="")
        kept = ray.put(np.ones(10 << 17))
        try:
            ray.put(np.ones(200 << 17))
        except ray.exceptions.ObjectStoreFullError as error:
            print("full", "can never fit" in str(error))
        print(ray.get(kept).sum() == 10 << 17, ray.get(ray.put(np.ones(20 << 17))).size == 20 << 17)
        """,
    )
    assert result.stdout.splitlines() == ["full True", "True True"], result.stderr


def test_a_value_that_cannot_be_pickled_is_named(tmp_path):
    import threading

    class Holder:
        def __init__(self):
            self.inner = {"guard": threading.Lock()}

    with pytest.raises(TypeError, match="guard"):
        zray.put(Holder())
    assert zray.get(zray.put(1)) == 1


@zray.remote
def doubled(text):
    return 2 * text


def test_with_too_many_small_values_on_the_node_they_are_in_the_arena(monkeypatch):
    """The node says so (InlineLimit); a program does not notice."""
    runtime = require_runtime()
    client, usual = runtime.client, runtime.inline_bytes_max
    before = zray.put(b"a" * 5_000)
    try:
        client.handle(InlineLimit(1024))
        ref = zray.put(b"b" * 5_000)
        assert type(client.values[before.id]) is bytes and type(client.values[ref.id]) is StoredValue
        assert zray.get([before, ref]) == [b"a" * 5_000, b"b" * 5_000]
        spec_sizes = []
        submit = runtime.submit
        monkeypatch.setattr(
            runtime, "submit", lambda spec, count: spec_sizes.append(len(spec.args)) or submit(spec, count)
        )
        assert zray.get(doubled.remote("c" * 5_000)) == "c" * 10_000
        assert spec_sizes and max(spec_sizes) < 1024
    finally:
        client.handle(InlineLimit(usual))
    assert type(client.values[zray.put(b"d" * 5_000).id]) is bytes
