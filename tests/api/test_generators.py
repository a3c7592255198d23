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


@pytest.mark.parametrize("count", [1, 3, 1_000_000])
def test_a_generator_of_another_number_of_values(count):
    """Nothing of what it had yielded stays in the object store; one without an end is not waited for."""

    @zray.remote(num_returns=2)
    def yields():
        for _ in range(count):
            yield np.zeros(100_000)

    for ref in yields.remote():
        with pytest.raises(ValueError, match=r"num_returns=2, but its generator yield(s more|ed 1 values)"):
            zray.get(ref)


def test_a_generator_that_raises_shows_the_line_and_none_of_ours():
    @zray.remote(num_returns=2)
    def yields():
        yield np.zeros(100_000)
        raise KeyError("no second")

    for ref in yields.remote():
        with pytest.raises(KeyError, match="no second") as caught:
            zray.get(ref)
        assert "zray/host" not in caught.value.traceback_str


def test_an_async_generator_as_a_method_is_refused_each_time():
    """Not only when its class is looked at first."""

    @zray.remote
    class Squares:
        async def squares(self):
            yield 1

    for _ in range(2):
        with pytest.raises(NotImplementedError, match="async generators of actors"):
            Squares.remote()


def test_a_generator_may_be_told_the_number_of_returns_by_its_call():
    """Ray's streaming generators are missing: without a number it says so, and runs nothing."""

    @zray.remote
    def squares():
        yield from (0, 1, 4)

    @zray.remote
    class Squares:
        def squares(self):
            yield from (0, 1, 4)

    for generator in (squares, Squares.remote().squares):
        assert zray.get(generator.options(num_returns=3).remote()) == [0, 1, 4]
        with pytest.raises(NotImplementedError, match="num_returns=n"):
            generator.remote()
        with pytest.raises(NotImplementedError, match=r"num_returns='dynamic'.*return a list of refs"):
            generator.options(num_returns="dynamic").remote()
