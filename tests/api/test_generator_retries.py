"""Generators that are run again: the items agree with those of the first attempt, or an error says where not."""

import os

import numpy as np
import pytest

import zray
from tests.gates import Tally, until
from zray.exceptions import GeneratorRetryError

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("session")]


def attempt_of(folder):
    """Count the attempts that begin, from 1."""
    number = len(os.listdir(folder)) + 1
    open(os.path.join(folder, str(number)), "w").close()
    return number


@zray.remote(max_retries=2)
def numbers(folder, first, second, wait_for):
    """Yield the items of an attempt; the first attempt dies behind them, once all were drawn."""
    is_first = attempt_of(folder) == 1
    yield from first if is_first else second
    if is_first:
        while not os.path.exists(wait_for):
            pass
        os._exit(1)


def draw(refs, count):
    return [zray.get(next(refs)) for _ in range(count)]


@pytest.fixture
def paths(tmp_path):
    folder = tmp_path / "attempts"
    folder.mkdir()
    return str(folder), str(tmp_path / "drawn")


def test_equal_items_are_joined(paths):
    folder, drawn = paths
    refs = numbers.remote(folder, [0, 1, 2], [0, 1, 2, 3], drawn)
    assert draw(refs, 3) == [0, 1, 2]
    open(drawn, "w").close()
    assert [zray.get(ref) for ref in refs] == [3]


def test_other_items_are_an_error_that_names_the_first_one(paths):
    folder, drawn = paths
    refs = numbers.remote(folder, [0, 1, 2], [0, 7, 2, 3], drawn)
    kept = [next(refs) for _ in range(3)]
    open(drawn, "w").close()
    assert zray.get(next(refs)) == 3
    with pytest.raises(GeneratorRetryError, match="Generator numbers was run again, and item 1 differs"):
        zray.get(next(refs))
    assert zray.get(kept) == [0, 1, 2]


def test_fewer_items_are_an_error(paths):
    folder, drawn = paths
    refs = numbers.remote(folder, [0, 1, 2, 3], [0, 1], drawn)
    assert draw(refs, 4) == [0, 1, 2, 3]
    open(drawn, "w").close()
    with pytest.raises(GeneratorRetryError, match="it yielded 2 items, and an earlier attempt 4"):
        zray.get(next(refs))


def test_other_items_are_accepted_by_a_generator_that_is_not_deterministic(paths):
    folder, drawn = paths
    refs = numbers.options(deterministic=False).remote(folder, [0, 1, 2], [5, 6, 7, 8], drawn)
    assert draw(refs, 3) == [0, 1, 2]
    open(drawn, "w").close()
    assert [zray.get(ref) for ref in refs] == [8]


def test_large_items_are_counted(paths):
    folder, drawn = paths
    large = [np.full(50_000, number) for number in range(3)]
    refs = numbers.remote(folder, large, large[:2], drawn)
    assert [int(array[0]) for array in draw(refs, 3)] == [0, 1, 2]
    open(drawn, "w").close()
    with pytest.raises(GeneratorRetryError, match="it yielded 2 items"):
        zray.get(next(refs))


def test_retry_for_an_exception_is_compared_too(tmp_path):
    folder = str(tmp_path)

    @zray.remote(max_retries=1, retry_exceptions=True)
    def fails_once():
        number = attempt_of(folder)
        yield number
        if number == 1:
            raise KeyError("first")

    refs = fails_once.remote()
    first = next(refs)
    with pytest.raises(GeneratorRetryError, match="item 0 differs"):
        zray.get(next(refs))
    assert zray.get(first) == 1


def items_of(folder, count):
    for number in range(count):
        Tally(folder).visit()
        yield number


@zray.remote
class Maker:
    def items(self, folder, count):
        yield from items_of(folder, count)


@zray.remote(max_retries=1)
def reader(made_by, folder, marks, most, drawn):
    """Draw all items; the first run dies when some were drawn and no more are made."""
    is_first = attempt_of(marks) == 1
    refs = made_by.options(max_buffered=most or None).remote(folder, 20)
    found = [zray.get(next(refs)) for _ in range(drawn)]
    if is_first:
        until(lambda: Tally(folder).count() >= (drawn + most if most else 20))
        os._exit(1)
    return found + [zray.get(ref) for ref in refs]


@pytest.mark.parametrize("drawn", [0, 3])
@pytest.mark.parametrize("most", [0, 2])
@pytest.mark.parametrize("maker", ["task", "actor", "recoverable actor"])
def test_reader_that_is_run_again_draws_all_items(tmp_path, maker, most, drawn):
    options = {"checkpoint_interval": 3} if maker == "recoverable actor" else {}
    made_by = zray.remote(items_of) if maker == "task" else Maker.options(**options).remote().items
    (tmp_path / "marks").mkdir()
    found = reader.remote(made_by, str(tmp_path / "yields"), str(tmp_path / "marks"), most, drawn)
    assert zray.get(found) == list(range(20))
