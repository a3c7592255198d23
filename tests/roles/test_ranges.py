"""Ranges of the arena against a dumb version that marks each unit of 64 bytes."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zray.roles.object_manager.ranges import ALIGNMENT, PAGE, PAGE_ALIGN_BYTES, Ranges, aligned

CAPACITY = 1 << 20
SIZES = st.one_of(
    st.integers(0, 300), st.integers(1, 20_000), st.sampled_from([PAGE_ALIGN_BYTES - 1, PAGE_ALIGN_BYTES, 200_001])
)


class RangesMachine(RuleBasedStateMachine):
    """Taken ranges, and which units have pages."""

    def __init__(self):
        super().__init__()
        self.ranges = Ranges(CAPACITY)
        self.taken = {}  # offset -> size
        self.top_before = 0

    def _take(self, offset, size):
        assert offset % ALIGNMENT == 0
        if aligned(size) >= PAGE_ALIGN_BYTES:
            assert offset % PAGE == 0
        assert 0 <= offset
        assert offset + aligned(size) <= CAPACITY
        for other, other_size in self.taken.items():
            assert offset + aligned(size) <= other or other + aligned(other_size) <= offset, "two ranges overlap"
        self.taken[offset] = size

    @rule(size=SIZES)
    def take(self, size):
        offset = self.ranges.take_warm(size)
        if offset is not None:
            assert offset + aligned(size) <= self.ranges.top, "warm, but above what has pages"
            self._take(offset, size)

    @rule(size=SIZES, share=st.sampled_from([1.0, 1.0, 0.0, 0.5]))
    def extend(self, size, share):
        top = self.ranges.top
        extended = self.ranges.extend(size)
        if extended is None:
            assert top + aligned(size) > CAPACITY - PAGE
            return
        offset, warm = extended
        assert warm == max(0, top - offset)
        self._take(offset, size)
        if share < 1.0:  # the pages could not all be had
            reserved = min(aligned(size), warm + int(share * aligned(size)) // PAGE * PAGE)
            self.ranges.retract(offset, size, reserved)
            del self.taken[offset]

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def free(self, data):
        offset = data.draw(st.sampled_from(sorted(self.taken)))
        self.ranges.free(offset, self.taken.pop(offset))

    @invariant()
    def adds_up(self):
        self.ranges.check_everything()
        assert self.ranges.used_bytes == sum(aligned(size) for size in self.taken.values())

    def teardown(self):
        for offset, size in self.taken.items():
            self.ranges.free(offset, size)
        self.ranges.check_everything()
        # All is one free range, or nothing.
        assert list(self.ranges.size_by_start.items()) in ([], [(0, self.ranges.top)])


RangesMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
TestRanges = RangesMachine.TestCase


def test_the_warmest_fitting_range_is_taken():
    ranges = Ranges(CAPACITY)
    offsets = [ranges.extend(1_000)[0] for _ in range(5)]
    ranges.free(offsets[1], 1_000)
    ranges.free(offsets[3], 1_000)
    assert ranges.take_warm(1_000) == offsets[3]
    assert ranges.take_warm(1_000) == offsets[1]
    assert ranges.take_warm(1_000) is None


def test_a_full_arena_says_so():
    ranges = Ranges(4_096)
    assert ranges.extend(4_096) == (0, 0)
    assert ranges.extend(1) is None
    assert ranges.take_warm(1) is None


def test_a_gap_before_a_page_is_not_lost():
    """A large range begins on a page: what is free between it and the ranges below stays free."""
    ranges = Ranges(CAPACITY)
    small, _ = ranges.extend(100)
    ranges.free(small, 100)
    ranges.extend(PAGE_ALIGN_BYTES)
    ranges.check_everything()


@pytest.mark.parametrize("size", [0, 1, 64, 65, PAGE_ALIGN_BYTES])
def test_sizes_are_rounded_up(size):
    assert aligned(size) >= max(1, size)
    assert aligned(size) % ALIGNMENT == 0
