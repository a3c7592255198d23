"""The figures of the GCS's shards: what they count, on runs that are told, and on small ones that are real."""

import pytest

from benchmarks.chain_failover import failovers
from benchmarks.chain_reads import COUNTERS, Look, Reader, counter
from zray.wire.gcs import ObjectLocated

TAIL = {"tail": -1}


def read(reader, *values):
    """How often it has found that a counter went backwards, after such answers of all counters by turns."""
    for value in values:
        (question,) = reader.handle("asker", Look(), 0.0)
        assert reader.handle("asker", Look(), 0.0) == []  # one at a time
        reader.handle("shard", ObjectLocated(question.message.object_id, value, []), 0.0)
    return reader.backwards


def test_a_counter_that_goes_backwards_is_noticed():
    reader = Reader("reader", "shard", lambda: COUNTERS)
    values = [number + 2 * COUNTERS for number in range(1, COUNTERS + 1)]
    assert read(reader, *values) == 0
    assert read(reader, *values) == 0  # as it was
    assert read(reader, values[0] + 1, values[1] - 1) == 1
    assert read(reader, *[value + COUNTERS for value in values]) == 1


def test_a_counter_that_is_older_than_what_was_acknowledged_before_is_noticed():
    reader = Reader("reader", "shard", lambda: 2 * COUNTERS)
    assert read(reader, COUNTERS + 1) == 0  # the first one was set to that
    assert read(reader, 2) == 1


def test_nobody_reads_counters_that_may_not_be_there_yet():
    reader = Reader("reader", "shard", lambda: COUNTERS - 1)
    assert reader.handle("asker", Look(), 0.0) == []


def test_each_write_sets_one_counter():
    assert len({counter(number) for number in range(10 * COUNTERS)}) == COUNTERS


@pytest.mark.slow
def test_while_a_tail_is_killed_clients_read_and_nothing_is_lost(nothing_left):
    found = failovers(1, victims=TAIL)
    assert (found.lost, found.backwards) == (0, 0)
    assert found.reads > 20 and found.acknowledged > 20 and len(found.silences["tail"]) == 1
