"""Pages of metrics: updates are read at once, bounds hold, and no bytes make a reader fail."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zray.store import metric_page
from zray.store.metric_page import (
    HEADER,
    MAGIC,
    SERIES_MAX,
    Facts,
    MetricPage,
    Sums,
    entry_of,
    left_out_of,
    page_of,
    series_of,
)
from zray.store.segment import SHARED_MEMORY_FOLDER, Segment, SegmentFullError, metric_pages_of, unlink, unlink_session

SESSION = f"pagetest{os.getpid()}"
ROWS = Facts("counter", "rows", "rows read", (("kind", "a"),))
SIZES = Facts("histogram", "sizes", "", (), (0.5, 2.0))
LENGTH = Facts("gauge", "length", "")


@pytest.fixture
def page():
    made = MetricPage(SESSION)
    yield made
    made.close()
    unlink(made.name)


def content(page):
    with open(SHARED_MEMORY_FOLDER + page.name, "rb") as file:
        return file.read()


def numbers(data):
    return [found for _, found in series_of(data)]


def test_numbers_are_read_as_they_were_written(page):
    assert page.add(ROWS, (0, 2.5)) and page.add(ROWS, (0, 1.0))
    assert page.add(SIZES, (1, 1.0), (3, 0.75)) and page.add(SIZES, (2, 1.0), (3, 9.0))
    assert page.set(LENGTH, 7.0, 100.0) and page.set(LENGTH, 3.0, 101.0)
    assert numbers(content(page)) == [(3.5,), (0.0, 1.0, 1.0, 9.75), (3.0, 101.0)]
    facts = [facts for facts, _ in series_of(content(page))]
    assert facts[0] == b'["counter","rows","rows read",[["kind","a"]],[]]'
    assert os.stat(SHARED_MEMORY_FOLDER + page.name).st_mode & 0o777 == 0o600


def test_series_of_a_metric_are_bounded_and_further_updates_counted(page):
    made = [page.add(ROWS._replace(tags=(("kind", str(number)),)), (0, 1.0)) for number in range(SERIES_MAX + 3)]
    assert made == [True] * SERIES_MAX + [False] * 3
    assert page.add(LENGTH._replace(kind="counter"), (0, 1.0))  # of another metric
    assert len(numbers(content(page))) == SERIES_MAX + 1 and left_out_of(content(page)) == 3


def test_bytes_of_a_page_are_bounded(page):
    count = 0
    while page.add(Facts("counter", f"m{count}", "x" * 1_000), (0, 1.0)):
        count += 1
    assert 900 < count < 1_100 and len(content(page)) == metric_page.SIZE
    assert page.add(Facts("counter", "m0", "x" * 1_000), (0, 1.0))
    assert len(numbers(content(page))) == count and numbers(content(page))[0] == (2.0,)
    assert not page.add(ROWS._replace(description="x" * 3_000), (0, 1.0))


def test_full_machine_ends_the_series_and_not_the_process(page, monkeypatch):
    def refuse(segment, offset, length):
        raise SegmentFullError(28, "full")

    monkeypatch.setattr(Segment, "reserve", refuse)
    count = 0
    while page.add(Facts("counter", f"m{count}", "x" * 1_000), (0, 1.0)):
        count += 1
    assert 10 < count < 40 and left_out_of(content(page)) == 1


def test_closed_page_takes_no_further_series(page):
    page.add(ROWS, (0, 1.0))
    page.close()
    assert page.add(ROWS, (0, 1.0)) and not page.add(LENGTH, (0, 1.0))


def test_page_goes_with_its_session(page):
    assert metric_pages_of(SESSION) == [page.name]
    assert page.name in unlink_session(SESSION) and not metric_pages_of(SESSION)


def test_sums_keep_counters_and_histograms_and_forget_gauges(page):
    page.add(ROWS, (0, 2.0))
    page.add(SIZES, (1, 1.0), (3, 0.75))
    page.set(LENGTH, 7.0, 100.0)
    sums = Sums(1 << 20)
    sums.add(content(page))
    sums.add(sums.page())
    assert numbers(sums.page()) == [(4.0,), (0.0, 2.0, 0.0, 1.5)] and sums.left_out == 0


def test_sums_are_bounded():
    sums = Sums(1_000)
    for number in range(100):
        entry = entry_of(f'["counter","m{number:03}","",[],[]]'.encode(), (1.0,))
        sums.add(page_of([entry]))
    assert len(sums.page()) <= 1_000 and sums.left_out == 100 - len(sums.series) > 0
    assert left_out_of(sums.page()) == sums.left_out
    sums.add(page_of([entry_of(b'["counter","m000","",[],[]]', (1.0, 2.0))]))  # of another length
    assert sums.series[b'["counter","m000","",[],[]]'] == [1.0]


@given(st.binary(max_size=200))
def test_no_bytes_make_a_reader_fail(data):
    for each in (data, MAGIC + data, HEADER.pack(MAGIC, len(data), 1) + data):
        found = list(series_of(each))
        assert sum(8 * len(values) for _, values in found) <= len(each) and left_out_of(each) >= 0
        Sums(1 << 20).add(each)
