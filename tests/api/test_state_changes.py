"""Changes of state in event records: who records them, and who shows them."""

import json
import os
import re
import subprocess
import sys

import pytest

import zray
from tests.api.test_timeline import assert_sound, rows
from tests.gates import until
from tests.scripts import ROOT, environment
from zray.api.chrome_trace import trace_of
from zray.api.run_records import read_run
from zray.api.state_changes import changes_of
from zray.api.timeline import recorded_rings
from zray.exceptions import RayActorError
from zray.store.event_ring import Event, Kind, Outcome, RingContent
from zray.util import state
from zray.util.placement_group import placement_group, remove_placement_group
from zray.util.why import why
from zray.wire.events import State, Thing


@zray.remote
def work(number):
    return number


@zray.remote(max_restarts=1)
class Fragile:
    def pid(self):
        return os.getpid()

    def fall(self):
        os._exit(3)


def changes(kind=None):
    """The recorded changes of state of a kind."""
    return [change for change in changes_of(recorded_rings("a test")[0]) if kind in (None, change.kind)]


def states(kind):
    """The states of each thing of a kind, in order."""
    found = {}
    for change in changes(kind):
        found.setdefault(change.id, []).append(change.state)
    return [*found.values()]


def test_restart_and_end_of_an_actor_are_recorded_with_the_processes_and_reasons(start):
    start(num_cpus=1)
    actor = Fragile.remote()
    first = zray.get(actor.pid.remote())
    with pytest.raises(RayActorError):
        zray.get(actor.fall.remote())
    second = zray.get(actor.pid.remote())
    zray.kill(actor)
    until(lambda: changes("actor")[-1].state == "DEAD")
    *_, last = found = changes("actor")
    order = ["PENDING", "STARTING", "ALIVE", "RESTARTING", "STARTING", "ALIVE", "DEAD"]
    assert [change.state for change in found] == order
    assert {change.name for change in found} == {"Fragile"} and {change.id for change in found} == {
        actor._actor_id.hex()
    }
    assert [change.pid for change in found if change.state == "ALIVE"] == [first, second]
    assert "was killed by kill()" in last.reason and last.is_final
    (death,) = [change for change in changes("worker") if change.pid == first and change.state == "DEAD"]
    assert death.reason == "exited with code 3"


def test_program_group_and_node_are_recorded(start):
    start(num_cpus=1)
    group = placement_group([{"CPU": 1}], name="pair")
    zray.get(group.ready())
    remove_placement_group(group)
    until(lambda: states("placement group") == [["PENDING", "CREATED", "REMOVED"]])
    assert {change.name for change in changes("placement group")} == {"pair"}
    (job,) = changes("job")
    assert (job.state, job.pid, job.id) == ("RUNNING", os.getpid(), zray.get_runtime_context().get_job_id())
    (node,) = changes("node")
    assert (node.id, node.state) == (zray.get_runtime_context().get_node_id(), "ALIVE")


def test_tasks_make_no_such_records(start):
    start(num_cpus=1)
    zray.get(work.remote(0))
    until(lambda: [*states("worker")] == [["STARTING", "ALIVE"]])
    before = changes()
    zray.get([work.remote(number) for number in range(2_000)])
    assert changes() == before


def test_timeline_shows_changes_as_instants_of_rows_of_their_own(start):
    start(num_cpus=1)
    actor = Fragile.remote()
    zray.get(actor.pid.remote())
    trace = zray.timeline()
    assert_sound(trace)
    instants = [event for event in trace if event["ph"] == "i"]
    names, titles = [event["name"] for event in instants], rows(trace)
    assert "actor Fragile: ALIVE" in names and "worker 1: ALIVE" in names
    assert {titles[event["pid"], event["tid"]] for event in instants} == {
        "states of nodes",
        "states of workers",
        "states of jobs",
        "states of actors",
    }
    assert not {(event["pid"], event["tid"]) for event in instants} & {
        (event["pid"], event["tid"]) for event in trace if event["ph"] == "X"
    }
    (alive,) = [event for event in instants if event["name"] == "actor Fragile: ALIVE"]
    assert alive["args"]["pid"] == zray.get(actor.pid.remote()) and alive["args"]["id"] == actor._actor_id.hex()


def test_lists_with_detail_have_times_and_states(start):
    start(num_cpus=1)
    actor = Fragile.remote()
    pid = zray.get(actor.pid.remote())
    (worker,) = state.list_workers(detail=True, filters=[("pid", "=", pid)])
    assert [*worker.states_ms] == ["STARTING", "ALIVE"] and worker.end_time_ms is None
    zray.kill(actor)
    until(lambda: states("actor")[0][-1] == "DEAD")
    (row,) = state.list_actors(detail=True)
    assert [*row.states_ms] == ["PENDING", "STARTING", "ALIVE", "DEAD"]
    assert row.start_time_ms == row.states_ms["PENDING"] <= row.end_time_ms == row.states_ms["DEAD"]
    assert "was killed by kill()" in row.end_reason
    (job,), (node,) = state.list_jobs(detail=True), state.list_nodes(detail=True)
    assert job.end_time_ms is None and job.start_time_ms >= node.start_time_ms > 1e12
    assert "states_ms" not in state.list_actors()[0]


def test_local_mode_lists_without_times(start):
    start(local_mode=True)
    assert "states_ms" not in state.list_nodes(detail=True)[0]


def test_record_of_a_run_and_its_report_have_them(start, tmp_path):
    path = tmp_path / "run.zrec"
    start(num_cpus=1, record=str(path))
    actor = Fragile.remote()
    zray.get(actor.pid.remote())
    zray.kill(actor)
    until(lambda: changes("actor")[-1].state == "DEAD")
    zray.shutdown()
    found = [change.state for change in changes_of(read_run(path).rings) if change.kind == "actor"]
    assert found == ["PENDING", "STARTING", "ALIVE", "DEAD"]
    page = tmp_path / "report.html"
    command = [sys.executable, "-m", "cli.main", "report", path, "--output", page]
    subprocess.run(command, env=environment(), cwd=ROOT, check=True, timeout=60)
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', page.read_text(), re.DOTALL).group(1))
    ends = [row for row in data["changes"] if row[1:4] == ["actor", "Fragile", "DEAD"]]
    assert len(ends) == 1 and "was killed by kill()" in ends[0][4]
    assert [row[0] for row in data["changes"]] == sorted(row[0] for row in data["changes"])


@pytest.mark.slow
def test_nodes_that_die_or_leave_are_recorded_by_the_others(cluster):
    cluster.connect()
    killed, drained = cluster.worker_nodes
    cluster.remove_node(killed)
    until(lambda: state.get_node(killed.node_id).state == "DEAD")
    command = [sys.executable, "-m", "cli.main", "drain", drained.node_id]
    subprocess.run(command, env=environment(), cwd=ROOT, check=True, timeout=60, capture_output=True)
    until(lambda: state.get_node(drained.node_id).state == "DEAD")
    assert [change.id for change in changes("node") if change.state == "DRAINED"] == [drained.node_id]
    (death,) = [change for change in changes("node") if change.state == "DEAD"]
    assert death.reason and death.node != killed.node_id
    rows = {row.node_id: row for row in state.list_nodes(detail=True)}
    assert rows[killed.node_id].end_reason == death.reason


def ring(*events):
    return RingContent(7, 1e9, "node waits", [*events], 0)


def change(thing, state, at, number=bytes(16), name="", reason=""):
    times = at, at, at, at
    return Event(Kind.CHANGE, number, *times, name, reason, Outcome.FINISHED, 0, 0, thing=thing, state=state)


def test_states_before_the_first_run_are_shown_at_its_begin():
    old = [
        change(Thing.NODE, State.ALIVE, 1.0, name="a"),
        change(Thing.ACTOR, State.ALIVE, 2.0, b"1" * 16, "Keeper"),
        change(Thing.ACTOR, State.ALIVE, 2.0, b"2" * 16, "Gone"),
        change(Thing.ACTOR, State.DEAD, 3.0, b"2" * 16),
    ]
    run = Event(Kind.TASK, bytes(16), 900.0, 900.0, 901.0, 901.0, "f", "", Outcome.FINISHED, 0, 0)
    trace = trace_of({"a": [ring(*old, run)]})
    assert_sound(trace)
    shown = {event["name"]: event["ts"] for event in trace if event["ph"] == "i"}
    assert shown == {"node a: ALIVE": 0, "actor Keeper: ALIVE": 0}
    assert [event["ts"] for event in trace if event["ph"] == "X"] == [0]


def test_change_that_several_nodes_record_is_one():
    rings = {
        "a": [ring(change(Thing.NODE, State.DEAD, 5.0, name="c", reason="it is silent"))],
        "b": [ring(change(Thing.NODE, State.DEAD, 4.0, name="c", reason="it has ended"))],
    }
    (found,) = changes_of(rings)
    assert (found.time, found.reason, found.node) == (1e9 + 4.0, "it has ended", "b")


def test_states_of_a_later_version_are_left_out():
    assert changes_of({"a": [ring(change(Thing.NODE, 99, 1.0), change(99, State.ALIVE, 1.0))]}) == []


def test_why_tells_the_states_of_an_actor_and_why_it_was_restarted(start):
    start(num_cpus=1)
    actor = Fragile.remote()
    first = zray.get(actor.pid.remote())
    with pytest.raises(RayActorError):
        zray.get(actor.fall.remote())
    zray.get(actor.pid.remote())
    (line,) = [line for line in why(actor._actor_id.hex()) if "states:" in line]
    clock = r"\d\d:\d\d:\d\d\.\d{3}"
    before = rf"  states: PENDING {clock}, STARTING {clock}, ALIVE {clock}, RESTARTING {clock}"
    assert re.fullmatch(rf"{before} \(process {first}: exited with code 3\), STARTING {clock}, ALIVE {clock}", line)
    node = why(zray.get_runtime_context().get_node_id())
    assert re.fullmatch(rf"  states: ALIVE {clock}", node[-1])
