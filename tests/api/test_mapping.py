"""zray.util.map and map_unordered: chunks, order, bounds and errors."""

import itertools

import pytest

import zray
from tests.gates import until
from zray.util import map as zray_map
from zray.util import map_unordered

pytestmark = pytest.mark.usefixtures("session")


def square(value):
    return value * value


@zray.remote(name="square of its own")
def remote_square(value):
    return value * value


@zray.remote
def wait(gate):
    gate.wait()


@pytest.mark.parametrize("function", [square, remote_square])
@pytest.mark.parametrize("chunksize", [1, 3, 1_000])
def test_map_gives_results_in_order(function, chunksize):
    assert list(zray_map(function, range(2_000), chunksize=chunksize)) == [value * value for value in range(2_000)]
    assert list(zray_map(function, [], chunksize=chunksize)) == []


def test_map_takes_what_can_be_called():
    assert list(zray_map(str, [1, 2])) == ["1", "2"]
    assert list(zray_map("abc".count, "abcd", chunksize=3)) == [1, 1, 1, 0]


def test_map_takes_endless_items():
    drawn = []
    results = zray_map(square, (drawn.append(value) or value for value in itertools.count()), chunksize=2)
    assert [next(results) for _ in range(100)] == [value * value for value in range(100)]
    assert len(drawn) < 10_000


@pytest.mark.parametrize("chunksize", [1, 2])
def test_ref_among_the_items_stands_for_its_value(chunksize):
    assert list(zray_map(square, [zray.put(3), 4], chunksize=chunksize)) == [9, 16]


def test_error_comes_behind_the_results_before_it():
    results = zray_map(lambda value: 1 // value, [1, 1, 0])
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_chunks_have_the_options_of_the_function():
    with pytest.raises(zray.exceptions.TaskError, match="square of its own"):
        list(zray_map(remote_square, [None, None], chunksize=2))


def test_map_unordered_gives_values_as_they_come(gate):
    results = map_unordered(wait, [gate] + [OPEN] * 5)
    assert [next(results) for _ in range(5)] == [None] * 5
    gate.open()
    assert list(results) == [None]


class Open:
    def wait(self):
        pass


OPEN = Open()


def test_map_unordered_bounds_what_is_under_way():
    drawn = []
    items = (drawn.append(value) or value for value in range(50))
    results = map_unordered(remote_square, items, backpressure_size=4, chunk_size=2)
    first = next(results)
    assert len(drawn) <= 6
    assert sorted([first, *results]) == [value * value for value in range(50)]
    assert sorted(map_unordered(remote_square, range(5), backpressure_size=None)) == [0, 1, 4, 9, 16]


def test_map_unordered_may_yield_refs():
    assert zray.get(list(map_unordered(remote_square, [3], yield_obj_refs=True))) == [9]


def test_map_unordered_takes_a_method_of_an_actor():
    @zray.remote
    class Counter:
        def add(self, value):
            return value + 1

    assert sorted(map_unordered(Counter.remote().add, range(5))) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: zray_map(square, [1], chunksize=0), ValueError),
        (lambda: zray_map(square, [1], chunksize=1.5), TypeError),
        (lambda: map_unordered(remote_square, [1], backpressure_size=0), ValueError),
        (lambda: map_unordered(remote_square, [1], backpressure_size=2, chunk_size=3), ValueError),
        (lambda: map_unordered(square, [1]), TypeError),
        (lambda: map_unordered(remote_square, [1], unknown=1), TypeError),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(call, error):
    with pytest.raises(error):
        call()


def test_results_do_not_hold_their_refs():
    results = zray_map(square, range(100))
    assert next(results) == 0
    del results
    until(lambda: zray.available_resources().get("CPU") == 2)
