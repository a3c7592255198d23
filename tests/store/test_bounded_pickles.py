"""Pickles with a limit of bytes and of time."""

import threading

import numpy as np
import pytest

from zray.object_ref import ObjectRef
from zray.store.bounded_pickles import Budget, OverLimit, pickled_within
from zray.store.values import deserialize_writable, to_bytes

SECONDS = 60.0
REF = ObjectRef(b"r" * 20)


def back(value, size=1 << 20):
    return deserialize_writable(to_bytes(pickled_within(value, Budget(size, SECONDS))))


def test_value_comes_back_with_arrays_that_can_be_written_as_before():
    fixed = np.arange(1_000)
    fixed.setflags(write=False)
    one, two, same = back([np.arange(1_000), fixed, "text"])
    assert (one == two).all() and same == "text"
    assert one.flags.writeable and not two.flags.writeable


def test_class_of_a_program_comes_back_without_its_module():
    class Local:
        def double(self):
            return 2 * self.number

    value = Local()
    value.number = 4
    assert back(value).double() == 8


def test_refs_inside_are_named():
    assert pickled_within({"key": [REF]}, Budget(1_000, SECONDS)).contained == (REF.id,)


@pytest.mark.parametrize(
    "value",
    [np.zeros(20_000), b"x" * 150_000, list(range(100_000)), [str(number) * 50 for number in range(2_000)]],
    ids=["array", "bytes", "numbers", "texts"],
)
def test_value_beyond_the_limit_of_bytes_is_refused(value):
    budget = Budget(100_000, SECONDS)
    with pytest.raises(OverLimit, match="more than 100,000 bytes"):
        pickled_within(value, budget)
    assert budget.left == 100_000  # the next value has all of it


def test_pickles_share_a_budget():
    budget = Budget(100_000, SECONDS)
    pickled_within(np.zeros(10_000), budget)
    with pytest.raises(OverLimit):
        pickled_within(np.zeros(10_000), budget)
    pickled_within(np.zeros(1_000), budget)


def test_pickle_beyond_the_limit_of_time_is_refused():
    with pytest.raises(OverLimit, match="takes more than -1 s"):
        pickled_within([object() for _ in range(10)], Budget(1 << 20, -1))


def test_value_without_a_pickle_is_an_error_of_its_own():
    with pytest.raises(TypeError, match="lock"):
        pickled_within([threading.Lock()], Budget(1 << 20, SECONDS))
