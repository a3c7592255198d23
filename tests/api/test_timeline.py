"""The timeline of a session: rows, slices and arrows of a Chrome trace, also of processes that were killed."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

import zray
from tests.api.trace_import import errors_of
from tests.gates import Gate, forever, until
from zray.api.timeline import trace_text
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from zray.util.state import list_tasks


@zray.remote
def make(size):
    with zray.profile("fill"):
        return np.ones(size)


@zray.remote
def total(*parts):
    return float(sum(part.sum() for part in parts))


@zray.remote
def stay_until(gate):
    gate.wait()
    return np.ones(1)


@zray.remote
def first_of(part):
    return part


@zray.remote
def fail():
    raise OSError("no such part")


@zray.remote
class Keeper:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return os.getpid()

    def stay_until(self, gate):
        gate.wait()


@zray.remote
class Server:
    async def meet(self, others):
        import asyncio

        self.present = getattr(self, "present", 0) + 1
        while self.present < others:
            await asyncio.sleep(0.001)


def slices(trace, name):
    return [event for event in trace if event["ph"] == "X" and event["name"] == name]


def rows(trace):
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace
        if event["ph"] == "M" and event["name"] == "thread_name"
    }


def assert_sound(trace):
    """The rules that Perfetto needs: whole numbers, nested slices, arrows with two ends on slices."""
    assert not errors_of(trace_text(trace))
    by_row = {}
    for event in trace:
        assert type(event["pid"]) is int and type(event["tid"]) is int and event["tid"] != event["pid"]
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            by_row.setdefault((event["pid"], event["tid"]), []).append(event)
    assert by_row.keys() <= rows(trace).keys()
    for events in by_row.values():
        open_ends = []
        assert events == sorted(events, key=lambda event: (event["ts"], -event["dur"]))
        for event in events:
            while open_ends and open_ends[-1] <= event["ts"] + 1e-6:
                open_ends.pop()
            end = event["ts"] + event["dur"]
            assert not open_ends or end <= open_ends[-1] + 1e-6, event
            open_ends.append(end)
    starts = {event["id"]: event for event in trace if event["ph"] == "s"}
    ends = {event["id"]: event for event in trace if event["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) == sum(event["ph"] == "s" for event in trace)
    for number, end in ends.items():
        start = starts[number]
        assert end["bp"] == "e" and end["ts"] >= start["ts"]
        assert (end["name"], end["cat"]) == (start["name"], start["cat"])
        for event in (start, end):
            around = by_row[event["pid"], event["tid"]]
            assert any(each["ts"] <= event["ts"] <= each["ts"] + each["dur"] + 1e-6 for each in around)


def test_tasks_phases_spans_and_arrows_are_shown(start):
    start(num_cpus=2)
    parts = [make.remote(500_000) for _ in range(4)]
    assert zray.get(total.remote(*parts)) == 2e6
    trace = zray.timeline()
    assert_sound(trace)
    (sum_,) = slices(trace, "task::total")
    assert sum_["args"]["outcome"] == "FINISHED"
    made = slices(trace, "task::make")
    assert len(made) == 4 and len(slices(trace, "fill")) == 4
    assert {event["args"]["task_id"] for event in slices(trace, "fill")} == {event["args"]["task_id"] for event in made}
    assert slices(trace, "task:store_outputs")
    assert slices(trace, "ray.get") and sum(event["args"]["count"] for event in slices(trace, "submit_task")) == 5
    arrows = Counter(event["name"] for event in trace if event["ph"] == "s")
    assert arrows == {"dep": 4, "submit": 5}
    assert all(event["ts"] + event["dur"] <= sum_["ts"] + sum_["dur"] for event in made)
    names = rows(trace)
    assert names[sum_["pid"], sum_["tid"]].startswith("worker ")
    driver = slices(trace, "ray.get")[0]
    assert names[driver["pid"], driver["tid"]].startswith("driver ")


def test_waits_at_the_node_are_slices_of_its_rows_and_in_the_arguments_of_runs(start, gate):
    start(num_cpus=1)
    first = stay_until.remote(gate)
    others = [make.remote(number) for number in range(1, 4)]
    last = total.remote(first_of.remote(first))
    until(lambda: len(list_tasks()) == 6)  # the node has them
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 0.1)
    gate.open()
    zray.get([*others, last])
    trace = zray.timeline()
    assert_sound(trace)
    runs = slices(trace, "task::make")
    assert all(run["args"]["waits_ms"]["queue"] >= 100 for run in runs)
    (for_argument,) = slices(trace, "task::first_of")
    assert for_argument["args"]["waits_ms"]["arguments"] >= 100
    queued = slices(trace, "wait:queue")
    assert sum(event["args"]["count"] for event in queued if event["args"]["func_or_class_name"] == "make") == 3
    (argument,) = [each for each in slices(trace, "wait:arguments") if each["args"]["func_or_class_name"] == "first_of"]
    assert argument["args"]["task_id"] == for_argument["args"]["task_id"] and argument["dur"] >= 100_000
    assert all(rows(trace)[event["pid"], event["tid"]].startswith("node waits (pid ") for event in queued)


def test_waits_in_the_process_are_slices_of_its_rows_and_in_the_arguments_of_runs(start, gate):
    start(num_cpus=1)
    keeper = Keeper.remote()
    zray.get(keeper.add.remote())
    calls = [keeper.stay_until.remote(gate) for _ in range(3)]
    until(lambda: any(task.state == "RUNNING" for task in list_tasks()))
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 0.1)
    gate.open()
    zray.get(calls)
    trace = zray.timeline()
    assert_sound(trace)
    runs = {run["args"]["task_id"]: run for run in slices(trace, "task::Keeper.stay_until")}
    waits = {wait["args"]["task_id"]: wait for wait in slices(trace, "wait:process")}
    last = calls[-1].task_id().hex()
    assert runs[last]["args"]["waits_ms"]["process"] >= 100
    assert waits[last]["args"]["func_or_class_name"] == "Keeper.stay_until" and waits[last]["dur"] >= 100_000
    assert waits[last]["ts"] + waits[last]["dur"] == pytest.approx(runs[last]["ts"], abs=1)
    names = rows(trace)
    row, own = (names[each["pid"], each["tid"]] for each in (waits[last], runs[last]))
    assert row.startswith(f"{own} [waits ")


def test_way_of_an_argument_between_nodes_is_shown(cluster):
    cluster.connect()
    nodes = [node["NodeID"] for node in zray.nodes() if node["Resources"].get("CPU")]
    there, here = (NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes)
    part = make.options(scheduling_strategy=there).remote(30_000_000)
    zray.wait([part], fetch_local=False)
    assert zray.get(total.options(scheduling_strategy=here).remote(part)) == 3e7
    trace = zray.timeline()
    assert_sound(trace)
    (fetch,) = [event for event in slices(trace, "fetch") if event["args"]["bytes"] > 200_000_000]
    (run,) = slices(trace, "task::total")
    assert fetch["pid"] == run["pid"] and fetch["ts"] + fetch["dur"] <= run["ts"]
    waits = run["args"]["waits_ms"]
    assert 10 <= waits["fetch"] <= waits["arguments"] and waits["fetch"] <= fetch["dur"] / 1000 + 1


def test_short_waits_have_no_records(start):
    start(num_cpus=1)
    zray.get(make.remote(1))
    for _ in range(20):
        zray.get(make.remote(1))
    waits = [event["args"].get("waits_ms") for event in slices(zray.timeline(), "task::make")]
    assert waits.count(None) >= 15  # a busy machine may have some


def test_look_that_does_not_wait_has_no_record(start, gate):
    start(num_cpus=1)
    running = stay_until.remote(gate)
    for _ in range(5):
        assert zray.wait([running], timeout=0) == ([], [running])
    assert not slices(zray.timeline(), "ray.wait")
    assert zray.wait([running], timeout=0.001) == ([], [running])
    assert len(slices(zray.timeline(), "ray.wait")) == 1
    gate.open()


def test_failed_task_is_marked_with_its_error(start):
    start(num_cpus=1)
    with pytest.raises(OSError, match="no such part"):
        zray.get(fail.remote())
    (event,) = slices(zray.timeline(), "task::fail")
    assert (event["args"]["outcome"], event["args"]["error"], event["cname"]) == ("FAILED", "OSError", "terrible")


def test_calls_of_an_actor_have_its_row(start):
    start(num_cpus=1)
    keeper = Keeper.remote()
    pid = zray.get([keeper.add.remote() for _ in range(3)])[0]
    trace = zray.timeline()
    assert_sound(trace)
    calls = slices(trace, "task::Keeper.add")
    (made,) = slices(trace, "task::Keeper")
    assert len(calls) == 3 and {event["tid"] for event in calls} == {made["tid"]}
    assert rows(trace)[made["pid"], made["tid"]] == f"Keeper (pid {pid})"


def test_calls_at_the_same_time_have_rows_of_their_own(start):
    start(num_cpus=1)
    server = Server.remote()
    zray.get([server.meet.remote(3) for _ in range(3)])
    trace = zray.timeline()
    assert_sound(trace)
    assert len({event["tid"] for event in slices(trace, "task::Server.meet")}) == 3


def test_calls_of_hosted_actors_are_shown_in_rows_of_their_process(start):
    start(num_cpus=1)
    actors = [Keeper.options(hosted=True).remote(), Server.options(hosted=True).remote()]
    pid = zray.get([actors[0].add.remote(), actors[1].meet.remote(1)])[0]
    trace = zray.timeline()
    assert_sound(trace)
    names = rows(trace)
    for name in ("task::Keeper.add", "task::Server.meet", "task::Keeper", "task::Server"):
        (event,) = slices(trace, name)
        assert f"(pid {pid})" in names[event["pid"], event["tid"]]


def test_records_of_a_killed_process_are_kept(start):
    start(num_cpus=1)
    keeper = Keeper.remote()
    os.kill(zray.get(keeper.add.remote()), signal.SIGKILL)
    with pytest.raises(zray.exceptions.ActorDiedError):
        zray.get(keeper.add.remote())
    assert len(slices(zray.timeline(), "task::Keeper.add")) == 1


def test_file_is_the_same_trace(start, tmp_path):
    start(num_cpus=1)
    zray.get(make.remote(10))
    assert zray.timeline(str(tmp_path / "t.json")) is None
    assert zray.timeline(tmp_path / "t.json.gz") is None
    plain = json.loads((tmp_path / "t.json").read_text())
    packed = json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))
    assert len(slices(plain, "task::make")) == len(slices(packed, "task::make")) == 1
    with pytest.raises(FileNotFoundError):
        zray.timeline(str(tmp_path / "none" / "t.json"))


def test_tasks_of_all_nodes_are_shown(cluster):
    cluster.connect()
    zray.get([make.options(scheduling_strategy="SPREAD").remote(10) for _ in range(8)])
    trace = zray.timeline()
    assert_sound(trace)
    made = slices(trace, "task::make")
    assert len(made) == 8 and len({event["pid"] for event in made}) == 2


def test_spans_are_of_the_thread_and_a_decorator_works(start):
    start(num_cpus=1)

    @zray.profile("prepare")
    def prepare():
        with zray.profile("inner"):
            return 1

    assert prepare() + prepare() == 2
    trace = zray.timeline()
    assert_sound(trace)
    assert len(slices(trace, "prepare")) == len(slices(trace, "inner")) == 2
    for name in ("", None):
        with pytest.raises(ValueError, match="name of a span"):
            zray.profile(name)


def test_variable_switches_the_recording_off(tmp_path):
    code = (
        "import zray, os\n"
        "zray.init(num_cpus=1)\n"
        "zray.get(zray.remote(lambda: 1).remote())\n"
        "assert not [e for e in zray.timeline() if e['ph'] == 'X']\n"
        "assert not [n for n in os.listdir('/dev/shm') if f'{os.getpid()}' in n and 'events' in n]\n"
        "print('none')"
    )
    env = {**os.environ, "ZRAY_EVENTS": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "none\n", done.stderr


def test_spans_outside_of_sessions_and_in_local_mode_do_nothing(nothing_left):
    with zray.profile("alone"):
        pass
    with zray.init(local_mode=True):
        with zray.profile("local"):
            assert zray.get(total.remote(np.ones(3))) == 3.0
        with pytest.raises(NotImplementedError, match="local_mode"):
            zray.timeline()


@zray.remote
def stay(gate):
    gate.open()
    forever()


@zray.remote
class Async:
    async def stay(self, gate):
        import asyncio

        gate.open()
        await asyncio.Event().wait()


@pytest.mark.parametrize("kind", ["task", "async call", "time limit"])
def test_run_that_is_cancelled_is_told_from_one_that_fails(start, gate, kind):
    start(num_cpus=1)
    if kind == "async call":
        actor = Async.remote()
        ref = actor.stay.remote(gate)
    else:
        ref = stay.options(timeout=0.2 if kind == "time limit" else None).remote(gate)
    gate.wait()
    if kind != "time limit":
        zray.cancel(ref)
    with pytest.raises((zray.exceptions.TaskCancelledError, zray.exceptions.TaskTimeoutError)):
        zray.get(ref)
    (event,) = [event for event in zray.timeline() if event["ph"] == "X" and event["name"].endswith("stay")]
    assert event["args"]["outcome"] == ("FAILED" if kind == "time limit" else "CANCELLED")
    said = {"task": "TaskCancelledError", "async call": "CancelledError", "time limit": "TaskTimeoutError"}
    assert event["args"]["error"] == said[kind]


@zray.remote
def stay_with_a_span(gate):
    with zray.profile("look around"):
        pass
    gate.wait()


@zray.remote(max_retries=1, retry_exceptions=True)
def stay_after_a_failure(mark, gate):
    if not mark.is_open():
        mark.open()
        raise OSError("not yet")
    gate.wait()


def test_tasks_and_calls_that_run_are_shown_up_to_the_look(start, tmp_path):
    gate, mark = Gate(tmp_path / "gate"), Gate(tmp_path / "mark")
    start(num_cpus=3)
    keeper = Keeper.remote()
    zray.get([make.remote(1), keeper.add.remote()])
    runs = [stay_with_a_span.remote(gate), stay_after_a_failure.remote(mark, gate), keeper.stay_until.remote(gate)]
    ids = {ref.task_id().hex() for ref in runs}
    names = ("task::stay_with_a_span", "task::stay_after_a_failure", "task::Keeper.stay_until")

    def running():
        """How many of the runs that have not ended have lasted 50 ms or more."""
        return sum((row.run_ms or 0) >= 50 and row.task_id in ids for row in list_tasks())

    until(lambda: running() == 3)
    trace = zray.timeline()
    assert_sound(trace)
    for name in names:
        *before, run = slices(trace, name)
        assert run["args"]["outcome"] == "RUNNING" and run["args"]["task_id"] in ids and run["dur"] >= 50_000
        assert run["args"].get("attempt_number", 0) == len(before) == (name == names[1])
    (span,) = slices(trace, "look around")
    (around,) = slices(trace, names[0])
    assert around["ts"] <= span["ts"] and (around["pid"], around["tid"]) == (span["pid"], span["tid"])
    end = max(each["ts"] + each["dur"] for each in trace if each["ph"] == "X")
    assert around["ts"] + around["dur"] == pytest.approx(end, abs=1)
    gate.open()
    zray.get(runs)
    trace = zray.timeline()
    assert_sound(trace)
    assert [len(slices(trace, name)) for name in names] == [1, 2, 1]
    assert {slices(trace, name)[-1]["args"]["outcome"] for name in names} == {"FINISHED"}
