"""The figures of the GCS's shards: what they count, on runs that are told, and on small ones that are real."""

import pytest

from benchmarks import chain_writes, flushing
from benchmarks.chain_failover import failovers
from benchmarks.chain_reads import COUNTERS, Look, Reader, counter
from benchmarks.figures import e6, e8
from benchmarks.figures.results import MEASURED, MISSED, REACHED, SHOWN, Figure
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


def test_a_process_that_dies_for_want_of_memory_had_got_as_far_as_its_last_point():
    printed = "[0.5, [100, 2000, 1500]]\n[0.9, [200, 4000, 3000]]\n"
    found = flushing.as_result(-11, printed)
    assert (found["error"], found["records"], found["seconds"]) == ("SIGSEGV", 200, 0.9)
    assert found["points"] == [[100, 2000, 1500], [200, 4000, 3000]] and not found["rebuilt"]
    assert flushing.as_result(0, printed + '{"error": ""}\n') == {"error": ""}


FLUSHED = {"points": [(n, 30e6, 9e6) for n in range(0, 100, 5)], "records": 100, "seconds": 1.0, "flushed": 5}
FLUSHED |= {"rebuilt": True, "error": ""}
KEPT = FLUSHED | {"points": [(n, n * 1e6, n * 1e6) for n in range(0, 60, 5)], "records": 58, "rebuilt": False}
KEPT |= {"flushed": 0, "error": "MemoryError"}
GROWS, STAYS, AGAIN = "and ends with an error", "and finishes", "is run again from what the disk holds"


@pytest.mark.parametrize(
    ("kept", "flushed", "missed"),
    [
        ({}, {}, []),
        ({"error": ""}, {}, [GROWS]),  # there was memory enough: nothing is shown
        ({"points": KEPT["points"][:6]}, {}, [GROWS]),  # it ended, but not at the cap
        ({}, {"error": "MemoryError", "records": 90}, [STAYS]),
        ({}, {"points": [(n, 70e6, 9e6) for n in range(0, 100, 5)]}, [STAYS]),
        ({}, {"rebuilt": False}, [AGAIN]),
        ({}, {"flushed": 0}, [AGAIN]),  # it never left memory
    ],
)
def test_memory_that_is_used_up_is_an_error_where_nothing_is_flushed_alone(kept, flushed, missed):
    figure = Figure("E8", "a title")
    e8.judge(figure, (100, 10_000_000, 60_000_000), KEPT | kept, FLUSHED | flushed)
    found = [row.label for row in figure.rows if row.verdict == MISSED]
    assert len(found) == len(missed) and all(label.endswith(words) for label, words in zip(found, missed, strict=True))
    assert {row.verdict for row in figure.rows} <= {REACHED, SHOWN, MISSED}


@pytest.mark.slow
def test_a_shard_that_may_take_no_more_memory_goes_on_where_it_flushes():
    tasks, cap = 12_000, 12 << 20
    kept, flushed = (flushing.run_apart(tasks, limit, cap) for limit in (0, 2 << 20))
    # A library in C may not expect that there is no memory: the process ends by a signal then.
    assert kept["error"] in ("MemoryError", "SIGSEGV") and 0 < kept["records"] < tasks and not kept["rebuilt"]
    assert kept["points"][-1][1] > e8.AT_CAP * cap
    assert not flushed["error"] and flushed["records"] == tasks and flushed["rebuilt"] and flushed["flushed"] > 0


def test_writes_per_second_are_shown_without_a_limit():
    figure = Figure("E6", "a title")
    rounds = [
        {1: chain_writes.Rate(speed, 0.9, 0.5), 2: chain_writes.Rate(speed / 2, 0.8, 0.4)} for speed in (1e4, 3e4, 2e4)
    ]
    e6.add_writes(figure, rounds, "on the head", MEASURED)
    assert [(row.value, row.verdict) for row in figure.rows] == [(20_000, SHOWN), (10_000, SHOWN)]
    assert figure.plots[0].series[0].points == [(1, 20_000), (2, 10_000)]
    assert [samples.values for samples in figure.samples] == [[1e4, 3e4, 2e4], [5e3, 15e3, 1e4]]
    assert "90% of a core, the writer 50%" in figure.notes[0]


@pytest.mark.slow
def test_a_shard_of_two_replicas_is_kept_at_work_by_writes(nothing_left, monkeypatch):
    monkeypatch.setattr(chain_writes, "WARM_UP_SECONDS", 0.1)
    (found,) = chain_writes.measure([2], 0.2).values()
    assert found.writes > 100 and found.busiest > 0 and found.writer > 0
