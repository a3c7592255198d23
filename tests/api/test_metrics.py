"""Metrics of all processes of a session: counted once each, also of processes that were killed."""

import os
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families

import zray
from tests.gates import until
from tests.leftovers import segments
from zray.api.metrics import metric_page, recorded_metrics
from zray.util import prometheus
from zray.util.metrics import Counter, Gauge, Histogram


@zray.remote
def count(number):
    Counter("rows", "rows read", tag_keys=("parity",)).inc(number, {"parity": "odd" if number % 2 else "even"})


@zray.remote(max_retries=0)
def count_and_die(number):
    Counter("rows", "rows read", tag_keys=("parity",)).inc(number, {"parity": "odd"})
    os.kill(os.getpid(), signal.SIGKILL)


@zray.remote
class Reader:
    def __init__(self):
        self.seconds = Histogram("seconds", "time of a read", boundaries=[0.1, 1, 10])
        self.length = Gauge("length")

    def read(self, *numbers):
        for number in numbers:
            self.seconds.observe(number)
            self.length.set(number)
        return os.getpid()


def samples():
    """Values by the name of the sample and its labels, as Prometheus' own parser reads them."""
    text = prometheus.text_of(prometheus.collected()).decode()
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    values = {(sample.name, *sorted(sample.labels.items())): sample.value for sample in found}
    assert len(values) == len(found)  # no series twice
    return values


def total(values, name):
    return sum(value for (found, *_), value in values.items() if found == name)


def test_counters_of_tasks_are_added_up(start):
    start(num_cpus=2)
    zray.get([count.remote(number) for number in range(1, 11)])
    found = samples()
    assert found["ray_rows_total", ("parity", "odd")] == 25 and found["ray_rows_total", ("parity", "even")] == 30
    assert found["zray_tasks", ("name", "count"), ("state", "FINISHED")] == 10
    assert total(found, "zray_node_tasks_ended_total") == 10
    # A worker whose tasks another one took has its CPU until it has said that it began none of them.
    until(lambda: samples()["zray_resources", ("name", "CPU"), ("state", "AVAILABLE")] == 2)
    assert total(found, "zray_node_workers") >= 1 and total(found, "zray_metrics_left_out") == 0


def test_killed_worker_loses_nothing_that_it_counted(start):
    start(num_cpus=1)
    zray.get(count.remote(1))
    with pytest.raises(zray.exceptions.WorkerCrashedError):
        zray.get(count_and_die.remote(4))
    zray.get(count.remote(3))
    assert samples()["ray_rows_total", ("parity", "odd")] == 8


def test_histogram_is_cumulative_and_stays_and_a_gauge_goes_with_its_actor(start):
    start(num_cpus=1)
    reader = Reader.remote()
    pid = zray.get(reader.read.remote(0.05, 0.1, 0.5, 7, 99))
    buckets = {"0.1": 2, "1.0": 3, "10.0": 4, "+Inf": 5}
    found = samples()
    assert {end: found["ray_seconds_bucket", ("le", end)] for end in buckets} == buckets
    assert (found["ray_seconds_count",], found["ray_seconds_sum",]) == (5, pytest.approx(106.65))
    assert found["ray_length",] == 99
    assert found["zray_actors", ("name", "Reader"), ("state", "ALIVE")] == 1
    os.kill(pid, signal.SIGKILL)
    until(lambda: ("ray_length",) not in samples())
    assert samples()["ray_seconds_bucket", ("le", "+Inf")] == 5


def test_last_setting_of_a_gauge_is_shown(start):
    start(num_cpus=2)
    readers = [Reader.remote() for _ in range(2)]
    for reader, number in zip((*readers, readers[0]), (5, 9, 3), strict=True):
        zray.get(reader.read.remote(number))
    assert samples()["ray_length",] == 3


def test_processes_of_all_nodes_are_counted(cluster):
    cluster.connect()
    zray.get([count.options(scheduling_strategy="SPREAD").remote(1) for _ in range(8)])
    Counter("rows", "rows read", tag_keys=("parity",)).inc(2, {"parity": "odd"})
    found = samples()
    assert found["ray_rows_total", ("parity", "odd")] == 10
    nodes = [dict(labels)["node"] for name, *labels in found if name == "zray_node_mem_total_bytes"]
    assert len(nodes) >= 3
    ended = [value for (name, *_), value in found.items() if name == "zray_node_tasks_ended_total"]
    assert sum(value > 0 for value in ended) >= 2


def test_series_of_a_metric_are_bounded_and_a_line_says_so(start, capfd):
    start(num_cpus=1)
    counter = Counter("ids", tag_keys=("id",))
    for number in range(1_005):
        counter.inc(1, {"id": str(number)})
    found = samples()
    assert total(found, "ray_ids_total") == 1_000
    assert found["zray_metrics_left_out", ("metric", "(in processes)")] == 5
    lines = [line for line in capfd.readouterr().err.splitlines() if "'ids'" in line]
    assert len(lines) == 1 and "fewer values" in lines[0] and counter.value({"id": "1004"}) == 1


def test_series_of_several_processes_are_bounded_together(start):
    start(num_cpus=2)

    @zray.remote
    def many(first):
        counter = Counter("ids", tag_keys=("id",))
        for number in range(first, first + 600):
            counter.inc(1, {"id": str(number)})

    zray.get([many.remote(0), many.remote(600)])
    found = samples()
    assert total(found, "ray_ids_total") == 1_000
    left_out = {key: value for key, value in found.items() if key[0] == "zray_metrics_left_out" and value}
    assert sum(left_out.values()) == 200


def test_metric_that_differs_from_an_earlier_one_is_left_out(start):
    start(num_cpus=1)
    Counter("a").inc(2)
    Gauge("a").set(7)
    Gauge("a_total").set(8)
    Histogram("b", boundaries=[1]).observe(2)
    Histogram("b", boundaries=[2]).observe(2)
    Gauge("c", tag_keys=("text",)).set(1, {"text": "x" * 200})
    Gauge("d", 'line\n"two" \\', tag_keys=("text", "other")).set(1, {"text": 'a"\n\\\udc80'})
    found = samples()
    assert found["ray_a_total",] == 2 and found["ray_b_count",] == 1
    assert found["zray_metrics_left_out", ("metric", "ray_a")] == 1
    assert found["zray_metrics_left_out", ("metric", "ray_b")] == 1
    assert found["zray_metrics_left_out", ("metric", "ray_c")] == 1
    (labels,) = [dict(labels) for name, *labels in found if name == "ray_d"]
    assert labels["text"].startswith('a"\n\\')


@pytest.mark.parametrize("name", ["", "1a", "a b", "a-b", "é", "a\n", "x" * 201])
def test_name_that_prometheus_refuses_is_an_error(name):
    with pytest.raises(ValueError, match="name"):
        Counter(name)


@pytest.mark.parametrize("tag", ["", "1a", "a b", "__a", "a\n"])
def test_tag_that_prometheus_refuses_is_an_error(tag):
    with pytest.raises(ValueError, match="no tag"):
        Gauge("a", tag_keys=(tag,))


def test_values_of_wrong_types_are_errors_and_change_nothing(start):
    start(num_cpus=1)
    with pytest.raises(ValueError, match="le"):
        Histogram("a", boundaries=[1], tag_keys=("le",))
    with pytest.raises(ValueError, match="at most 100"):
        Histogram("a", boundaries=[*range(1, 102)])
    with pytest.raises(TypeError):
        Counter(5)
    for call in (
        lambda: Counter("a").inc("x"),
        lambda: Histogram("a", boundaries=[1]).observe("x"),
        lambda: Gauge("a").set(None),
        lambda: Counter("a", tag_keys=("b",)).inc(1, {"b": 2}),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
    assert not [facts for facts, _ in recorded_metrics().series if facts.name.startswith("ray_")]


def test_program_without_metrics_has_no_page(start):
    start(num_cpus=1)
    before = segments()
    zray.get(zray.remote(lambda: 1).remote())
    assert not [name for name in segments() - before if "metrics" in name]


def test_values_outside_of_sessions_and_in_local_mode_are_the_process_s_alone(nothing_left):
    counter = Counter("alone")
    counter.inc()
    assert metric_page() is None
    with zray.init(local_mode=True):
        counter.inc()
        with pytest.raises(NotImplementedError, match="local_mode"):
            recorded_metrics()
    assert counter.value() == 2


def test_next_session_begins_at_nothing(nothing_left):
    counter = Counter("again")
    for number in (1, 2):
        with zray.init(num_cpus=1):
            counter.inc(number)
            assert samples()["ray_again_total",] == number
    assert not [name for name in segments() if "metrics" in name]


def test_machine_without_memory_for_a_page_goes_on_without(start, monkeypatch):
    from zray.store import metric_page as module

    def refuse(name, size):
        raise OSError(28, "full")

    start(num_cpus=1)
    monkeypatch.setattr(module.Segment, "create", refuse)
    counter = Counter("a")
    counter.inc()
    assert counter.value() == 1 and metric_page() is None


def test_program_that_joins_again_and_again_is_counted_each_time(cluster):
    for number in range(1, 11):
        cluster.connect()
        Counter("visits").inc()
        assert samples()["ray_visits_total",] == number
        zray.shutdown()
