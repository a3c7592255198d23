"""Generators with a number of returns: what they yield, one value after the other."""

import numpy as np
import pytest

import zray

pytestmark = pytest.mark.usefixtures("session")


def test_a_generator_with_a_fixed_number_of_returns():
    @zray.remote(num_returns=3)
    def squares():
        for i in range(3):
            yield i * i

    assert zray.get(squares.remote()) == [0, 1, 4]


@pytest.mark.parametrize("size", [3, 100_000])
def test_what_a_generator_yields_is_kept_before_it_goes_on(size):
    class Refilling:
        def three(self):
            block = np.zeros(size)
            for i in range(3):
                block[:] = i
                yield block

    by_task = zray.remote(num_returns=3)(Refilling().three).remote()
    by_actor = zray.remote(Refilling).remote().three.options(num_returns=3).remote()
    for refs in (by_task, by_actor):
        assert [block.tolist()[::size] for block in zray.get(refs)] == [[0.0], [1.0], [2.0]]


@pytest.mark.parametrize("size", [1, 100_000])
def test_generator_of_too_few_values_has_those_and_an_error_for_the_others(size):
    @zray.remote(num_returns=4)
    def yields():
        yield np.zeros(size)
        yield np.ones(size)

    refs = yields.remote()
    assert [array[0] for array in zray.get(refs[:2])] == [0, 1]
    for ref in refs[2:]:
        with pytest.raises(ValueError, match="num_returns=4, but its generator yielded 2 values"):
            zray.get(ref)


def test_values_before_an_error_of_the_generator_are_there():
    @zray.remote(num_returns=3)
    def yields():
        yield zray.put(7)
        raise KeyError("second")

    first, *others = yields.remote()
    assert zray.get(zray.get(first)) == 7
    for ref in others:
        with pytest.raises(KeyError, match="second"):
            zray.get(ref)


def test_generator_without_values_raises_in_all_refs():
    @zray.remote(num_returns=2)
    def yields():
        yield from ()

    for ref in yields.remote():
        with pytest.raises(ValueError, match="yielded 0 values"):
            zray.get(ref)


def test_first_item_is_the_value_of_a_single_return():
    class Counter:
        def items(self):
            yield from range(5, 1_000_000)

    by_task = zray.remote(num_returns=1)(Counter().items).remote()
    counter = zray.remote(Counter).remote()
    by_actor = counter.items.options(num_returns=1).remote()
    assert zray.get([by_task, by_actor]) == [5, 5]
    with pytest.raises(ValueError, match="yielded 0 values"):
        zray.get(zray.remote(num_returns=1)(lambda: (yield from ())).remote())


@pytest.mark.parametrize("count", [3, 1_000_000])
def test_values_beyond_the_number_of_returns_are_dropped(count):
    """A generator without an end is not waited for."""

    @zray.remote(num_returns=2)
    def yields():
        for number in range(count):
            yield np.full(100_000, number)

    assert [int(array[0]) for array in zray.get(yields.remote())] == [0, 1]


def test_a_generator_that_raises_shows_the_line_and_none_of_ours():
    @zray.remote(num_returns=2)
    def yields():
        yield np.zeros(100_000)
        raise KeyError("no second")

    first, ref = yields.remote()
    assert zray.get(first).shape == (100_000,)
    with pytest.raises(KeyError, match="no second") as caught:
        zray.get(ref)
    assert "zray/host" not in caught.value.traceback_str


def test_a_generator_may_be_told_the_number_of_returns_by_its_call():
    @zray.remote
    def squares():
        yield from (0, 1, 4)

    @zray.remote
    class Squares:
        def squares(self):
            yield from (0, 1, 4)

    for generator in (squares, Squares.remote().squares):
        assert zray.get(generator.options(num_returns=3).remote()) == [0, 1, 4]
        assert [zray.get(ref) for ref in generator.remote()] == [0, 1, 4]
        found = zray.get(generator.options(num_returns="dynamic").remote())
        assert isinstance(found, zray.DynamicObjectRefGenerator) and len(found) == 3
        assert [zray.get(ref) for ref in found] == [0, 1, 4] and list(found) == []


def test_dynamic_generator_has_an_error_at_its_place_and_is_passed_on():
    @zray.remote(num_returns="dynamic")
    def fails():
        yield 1
        raise KeyError("no second")

    @zray.remote
    def draw(found):
        return [type(zray.get(ref)).__name__ for ref in list(found)[:1]]

    ref = fails.remote()
    first, second = zray.get(ref)
    assert zray.get(first) == 1 and zray.get(draw.remote(ref)) == ["int"]
    with pytest.raises(KeyError, match="no second"):
        zray.get(second)


def test_dynamic_generator_needs_a_generator():
    @zray.remote(num_returns="dynamic")
    def plain():
        return 1

    with pytest.raises(TypeError, match="no generator"):
        zray.get(plain.remote())
