"""Metrics at a node: living processes are read, ended ones added up, and the node adds what it knows."""

import os

import pytest

from zray.host.node import metric_pages as module
from zray.host.node.metric_pages import MetricPages
from zray.store.metric_page import Facts, MetricPage, series_of
from zray.store.segment import metric_pages_of, unlink_session

SESSION = f"pages{os.getpid()}"
ROWS, LENGTH = Facts("counter", "rows", ""), Facts("gauge", "length", "")


@pytest.fixture
def pages():
    yield MetricPages(SESSION)
    unlink_session(SESSION)


def page(pid, count, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid)
        made = MetricPage(SESSION)
    made.add(ROWS, (0, float(count)))
    made.set(LENGTH, float(count), 1.0)
    made.close()
    return made


def read(pages, name, **counts):
    found, _ = pages.read(1 << 30, "n1", counts, (3, 4))
    return [numbers for data in found for facts, numbers in series_of(data) if f'"{name}"'.encode() in facts]


def test_counters_of_ended_processes_stay_and_their_gauges_go(pages, monkeypatch):
    kept = page(11, 3, monkeypatch), page(12, 2, monkeypatch)
    assert sorted(read(pages, "rows")) == [(2.0,), (3.0,)] and len(read(pages, "length")) == 2
    pages.process_ended(11)
    assert metric_pages_of(SESSION) == [kept[1].name]
    assert sorted(read(pages, "rows")) == [(2.0,), (3.0,)] and read(pages, "length") == [(2.0, 1.0)]
    pages.process_ended(12)
    pages.process_ended(13)  # without a page
    assert read(pages, "rows") == [(5.0,)] and not read(pages, "length") and not metric_pages_of(SESSION)


def test_node_adds_what_it_knows(pages):
    assert read(pages, "zray_node_tasks_ended", finished=7) == [(7.0,)]
    assert read(pages, "shared_memory", store_used_bytes=5)[0][0] == 5.0
    assert read(pages, "disk", spill_file_bytes=5, overflow_bytes=6)[0][0] == 11.0
    assert [read(pages, f"zray_node_mem_{name}_bytes")[0][0] for name in ("used", "total")] == [3.0, 4.0]
    (busy, _), (again, _) = read(pages, "zray_node_cpu_percent") + read(pages, "zray_node_cpu_percent")
    assert 0 < busy <= 100 and 0 <= again <= 100


def test_machine_without_times_of_processors_has_none(pages, monkeypatch):
    def refuse(*arguments, **options):
        raise FileNotFoundError

    monkeypatch.setattr(module, "open", refuse, raising=False)
    assert read(pages, "zray_node_cpu_percent")[0][0] == 0.0


def test_answer_has_at_most_so_many_bytes(pages, monkeypatch):
    made = [page(pid, 1, monkeypatch) for pid in (1, 2, 3)]
    own = sum(map(len, pages.read(1 << 30, "n1", {}, (3, 4))[0][:2]))
    size = len(pages.read(1 << 30, "n1", {}, (3, 4))[0][-1])
    found, left_out = pages.read(own + 2 * size, "n1", {}, (3, 4))
    assert made and len(found) == 4 and left_out == 1
    assert pages.read(0, "n1", {}, (3, 4)) == ([], 5)
