"""Dask on zray: graphs of all kinds, large values, errors, and dask's own collections."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import zray
from tests.gates import Tally, forever, nothing_is_held, until

dask = pytest.importorskip("dask")
from zray.util.dask import (  # noqa: E402
    disable_dask_on_ray,
    enable_dask_on_ray,
    ray_dask_get,
    ray_dask_get_sync,
)

pytestmark = [pytest.mark.usefixtures("session"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

GETS = [ray_dask_get, ray_dask_get_sync]


def add(*values):
    return sum(values)


def identify(*values):
    return os.getpid()


def fail(value):
    raise KeyError(value)


def tree(leaves):
    """Graph that adds numbers in pairs, and its last key."""
    graph = {("leaf", index): (add, index, 1) for index in range(leaves)}
    level = list(graph)
    while len(level) > 1:
        pairs = list(zip(level[::2], level[1::2], strict=True))
        graph.update({("sum", *pair): (add, *pair) for pair in pairs})
        level = [("sum", *pair) for pair in pairs]
    return graph, level[0]


@pytest.mark.parametrize("get", GETS)
def test_graph_is_computed(get):
    graph = {"a": 1, "b": (add, "a", 2), "c": "b", "d": (add, "a", "b", (add, "c", "c")), "unused": (fail, 1)}
    assert get(graph, "d") == 10
    assert get(graph, ["d", ["c", "a"], []]) == (10, (3, 1), ())


def test_many_short_tasks_are_few_tasks_of_zray():
    graph, last = tree(2_048)
    assert ray_dask_get(graph, last) == sum(range(2_048)) + 2_048
    graph["pids"] = (list, [(identify, key) for key in list(graph)[:10]])
    assert os.getpid() not in ray_dask_get(graph, "pids")


def test_long_chain_is_computed():
    graph = {"0": (add, 0)} | {f"{index}": (add, f"{index - 1}", 1) for index in range(1, 300)}
    assert ray_dask_get(graph, "299") == 299


def test_large_values_stay_in_the_store(monkeypatch):
    fetched = []
    get = zray.api.objects.get
    monkeypatch.setattr("zray.util.dask_run.objects.get", lambda refs: fetched.append(get(refs)) or fetched[-1])
    graph = {"large": (np.ones, 100_000), "data": np.ones(100_000), "twice": (np.add, "large", "data")}
    graph["sum"] = (float, (np.sum, "twice"))
    assert ray_dask_get(graph, "sum") == 200_000.0
    assert all(not isinstance(value, np.ndarray) for bundle in fetched for value in bundle)
    (found,) = ray_dask_get(graph, ["twice"])
    assert found.sum() == 200_000


def test_persisted_values_are_refs_that_later_graphs_use():
    found = ray_dask_get({"a": (add, 1, 2), "b": (np.ones, 100_000)}, ["a", "b"], ray_persist=True)
    assert all(isinstance(ref, zray.ObjectRef) for ref in found)
    later = {"a": found[0], "b": found[1], "c": (add, "a", (np.sum, "b"))}
    assert ray_dask_get(later, "c") == 100_003


def test_error_is_that_of_the_task():
    with pytest.raises(KeyError, match="7"):
        ray_dask_get({"a": (fail, 7), "b": (add, "a")}, "b")
    with pytest.raises(KeyError, match="missing"):
        ray_dask_get({"a": (add, 1)}, "missing")
    with pytest.raises(ValueError, match="cycle"):
        ray_dask_get({"a": (add, "b"), "b": (add, "a")}, "a")


def wait(folder):
    Tally(folder).visit()
    forever()


def fail_beside(folder):
    until(lambda: Tally(folder).count() == 1)
    raise KeyError("bad")


def test_error_cancels_what_runs(tmp_path):
    graph = {"a": (wait, tmp_path), "b": (fail_beside, tmp_path), "c": (add, "a", "b")}
    with pytest.raises(KeyError, match="bad"):
        ray_dask_get(graph, "c")
    until(nothing_is_held)


def test_ctrl_c_cancels_what_runs(tmp_path):
    def interrupt():
        until(lambda: Tally(tmp_path).count() == 1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ray_dask_get({"a": (wait, tmp_path)}, "a")
    thread.join()
    until(nothing_is_held)


def test_progress_bar_changes_nothing_about_errors(tmp_path):
    graph = {"a": (wait, tmp_path), "b": (fail_beside, tmp_path), "c": (add, "a", "b")}
    with dask.callbacks.Callback(), pytest.raises(KeyError, match="bad"):
        ray_dask_get(graph, "c")
    until(nothing_is_held)


@pytest.mark.parametrize("get", GETS)
def test_delayed_functions_run_in_workers(get):
    total = dask.delayed(add)(*[dask.delayed(add)(value, 1) for value in range(20)])
    assert total.compute(scheduler=get) == sum(range(21))
    assert dask.delayed(identify)().compute(scheduler=get) != os.getpid()


def test_options_are_those_of_the_tasks():
    assert ray_dask_get({"a": (add, 1)}, "a", ray_remote_args={"num_cpus": 2}, num_workers=1) == 1


def test_callbacks_of_dask_are_called():
    from dask.callbacks import Callback

    seen = []
    with Callback(pretask=lambda key, *rest: seen.append(key)):
        assert ray_dask_get({"a": (add, 1, 2), "b": (add, "a")}, ["b", "a"]) == (3, 3)
    assert sorted(seen) == ["a", "b"]


def test_scheduler_is_the_default_where_it_is_enabled():
    where = dask.delayed(identify)
    try:
        with enable_dask_on_ray():
            assert dask.config.get("scheduler") is ray_dask_get
            assert where().compute() != os.getpid()
        assert dask.config.get("scheduler", None) is None
        enable_dask_on_ray()
        assert where().compute() != os.getpid()
    finally:
        disable_dask_on_ray()
    assert where().compute() == os.getpid()


def test_arrays_and_frames_are_computed():
    array = pytest.importorskip("dask.array")
    frame = pytest.importorskip("dask.dataframe")
    import pandas

    table = pandas.DataFrame({"name": list("ab") * 500, "value": range(1_000)})
    with enable_dask_on_ray():
        values = array.arange(100_000, chunks=20_000)
        assert int((values * 2).sum().compute()) == 2 * sum(range(100_000))
        found = frame.from_pandas(table, npartitions=4).groupby("name").value.sum().compute()
    assert found.to_dict() == table.groupby("name").value.sum().to_dict()


def test_missing_dask_is_named():
    script = "import sys; sys.modules['dask'] = None\nfrom zray.util.dask import ray_dask_get; ray_dask_get({}, [])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "ImportError: Dask on zray needs dask 2024.12" in result.stderr
