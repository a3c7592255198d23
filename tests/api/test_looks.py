"""Questions of programs that look at a session, beside lists: use of nodes, recorded runs, the end of the session."""

import os
import select
import time

import pytest

import zray
from tests.gates import until
from zray.util import state
from zray.util.node_usage import node_usage
from zray.util.recorded_runs import recorded_runs
from zray.util.session_end import end_descriptor
from zray.util.why import why

KEYS = set(
    "resources cpu_percent mem_used_bytes mem_total_bytes store_bytes disk_bytes store_capacity_bytes store_objects "
    "workers tasks tasks_ready tasks_ended".split()
)


@pytest.fixture
def session(start):
    return start(num_cpus=2)


@zray.remote
def work(number):
    return number


@zray.remote
def fail():
    raise OSError("no such file")


@zray.remote
def wait(gate):
    gate.wait()


def test_use_of_each_node(session, gate):
    refs = [wait.remote(gate) for _ in range(3)]
    value = zray.put(bytes(1 << 20))
    ((node_id, usage),) = until(lambda: [item for item in node_usage().items() if item[1]["tasks"] == 3])
    assert node_id == zray.nodes()[0]["NodeID"] and set(usage) == KEYS
    assert usage["store_bytes"] >= 1 << 20 and 0 <= usage["cpu_percent"] <= 100
    assert 0 < usage["mem_used_bytes"] < usage["mem_total_bytes"] and usage["disk_bytes"] == 0
    assert not [name for name in usage["resources"] if name.startswith("node:")]
    gate.open()
    zray.get(refs)
    del value


def test_runs_of_all_processes_are_columns(session):
    before = time.time()
    zray.get([work.remote(number) for number in range(200)])
    with pytest.raises(zray.exceptions.RayTaskError):
        zray.get(fail.options(max_retries=0).remote())
    runs = recorded_runs()
    columns = runs.columns
    assert len({len(column) for column in columns.values()}) == 1 and runs.left_out == 0
    number = runs.names.index("work")
    mine = (columns["name"] == number) & (columns["begin"] > before - 1)
    assert mine.sum() == 200 and (columns["end"] >= columns["begin"]).all()
    assert columns["end"].max() <= time.time() + 1
    assert set(columns["outcome"][columns["name"] == runs.names.index("fail")].tolist()) == {1}
    listed = {row.task_id for row in state.list_tasks(filters=[("name", "=", "work")], limit=10_000)}
    assert listed <= {task_id.tobytes().hex() for task_id in columns["task_id"]}
    pids = {runs.tracks[track].pid for track in columns["track"][mine].tolist()}
    assert pids <= {row.pid for row in state.list_workers()}


def test_running_task_says_since_when(session, gate):
    ref = wait.remote(gate)
    row = until(lambda: next(iter(state.list_tasks(filters=[("run_ms", ">", 0)])), None))
    assert row.state == "RUNNING" and row.name == "wait"
    (detailed,) = state.list_tasks(filters=[("task_id", "=", row.task_id)], detail=True)
    assert abs(detailed.start_time_ms + detailed.run_ms - 1_000 * time.time()) < 5_000
    assert detailed.end_time_ms is None
    gate.open()
    zray.get(ref)
    assert state.get_task(row.task_id).run_ms is None


def test_descriptor_is_readable_once_the_session_has_ended(start):
    start(num_cpus=1)
    descriptor = end_descriptor()
    try:
        assert not select.select([descriptor], [], [], 0)[0]
        zray.shutdown()
        assert select.select([descriptor], [], [], 20)[0]
    finally:
        os.close(descriptor)


def test_local_mode_has_none_of_it(start):
    start(local_mode=True)
    for ask in (node_usage, recorded_runs, end_descriptor):
        with pytest.raises(NotImplementedError, match="local_mode"):
            ask()


def test_tasks_behind_10_000_others_are_listed_counted_and_found(session, gate):
    with pytest.raises(OSError):
        zray.get(fail.options(max_retries=0).remote())
    running = [wait.remote(gate) for _ in range(2)]
    until(lambda: len(state.list_tasks(filters=[("state", "=", "RUNNING")])) == 2)
    waiting = [work.remote(number) for number in range(10_000)]
    last = work.options(name="last").remote(0)
    until(lambda: state.list_tasks(filters=[("name", "=", "last")]))
    assert [task.name for task in state.list_tasks(filters=[("state", "=", "FAILED")])] == ["fail"]
    assert len(state.list_tasks(limit=20_000)) == 10_004
    assert state.get_task(last.task_id().hex()).name == "last"
    counts = state.summarize_tasks()["cluster"]["summary"]
    assert sum(counts["work"]["state_counts"].values()) == 10_000
    assert why()[0].startswith("10,003 tasks have not ended: ")
    gate.open()
    zray.get([*running, *waiting, last])


@pytest.mark.parametrize("value", ["long", "nan", None])
def test_filter_that_compares_with_no_number_is_refused(session, value):
    with pytest.raises(ValueError, match=f"^> compares numbers: run_ms>{value} has none"):
        state.list_tasks(filters=[("run_ms", ">", value)])
    assert state.list_tasks(filters=[("run_ms", ">", "1e3")]) == []
