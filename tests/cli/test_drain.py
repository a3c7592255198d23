"""`zray drain`: a node finishes, hands over what it holds, and leaves; nothing is lost, and nothing done twice."""

import json
import os
import subprocess

import numpy as np
import pytest

import zray as api
from cli.drain import Pace
from tests.cli.commands import command_line, statuses, zray
from tests.gates import Gate, Tally, is_running, until
from tests.scripts import ROOT, environment
from tests.terminals import Terminal
from zray.cluster_utils import Cluster
from zray.exceptions import ActorDiedError
from zray.util import state


@pytest.fixture
def cluster(nothing_left):
    """A head without CPUs, and two nodes; a program on the head."""
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        for _ in range(2):
            cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        cluster.connect()
        yield cluster
        api.shutdown()


def begin(cluster, node, *arguments):
    """`zray drain`, which goes on until the node has left."""
    session = cluster.head_node.session.name
    return subprocess.Popen(
        command_line("drain", node.node_id[:10], "--session", session, *arguments),
        env=environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def says(process, words):
    """Wait until it says that, among what it waits for."""
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"it has ended, and never said {words!r}")


def end(process):
    """Exit code and standard output."""
    out, err = process.communicate(timeout=40)
    assert process.returncode == 0, err
    return out


def listed(cluster):
    return {node["NodeID"] for node in api.nodes() if node["Alive"]}


def on(node):
    from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node.node_id, soft=True)


def where():
    return api.get_runtime_context().get_node_id()


def test_what_runs_ends_there_what_waits_runs_elsewhere_and_what_lies_there_is_kept(cluster, tmp_path):
    leaving, other = cluster.worker_nodes
    gate, tally = Gate(tmp_path / "gate"), Tally(tmp_path / "tally")

    def work(gate, tally, number):
        tally.visit()
        gate.wait()
        return number, where()

    def make(tally, number):
        tally.visit()
        return np.full(100_000, number), where()

    made = [api.remote(make).options(num_returns=2, scheduling_strategy=on(leaving)).remote(tally, n) for n in range(5)]
    assert api.get([place for _, place in made], timeout=30) == [leaving.node_id] * 5
    inside = api.remote(lambda: [api.put(np.full(100_000, 7))]).options(scheduling_strategy=on(leaving)).remote()
    api.wait([inside], timeout=30)
    running = [
        api.remote(work).options(max_retries=0, scheduling_strategy=on(leaving)).remote(gate, tally, n)
        for n in range(2)
    ]
    until(lambda: tally.count() == 7)
    process = begin(cluster, leaving)
    says(process, "2 running tasks")
    until(lambda: is_draining(cluster, leaving))
    later = [api.remote(where).remote() for _ in range(20)]
    assert api.get(later, timeout=30) == [other.node_id] * 20
    assert is_running(leaving.pid) and tally.count() == 7
    gate.open()
    assert end(process) == f"Node {leaving.node_id} has left.\n"
    until(lambda: not is_running(leaving.pid))
    assert api.get(running, timeout=30) == [(number, leaving.node_id) for number in range(2)]
    for number, (array, _) in enumerate(made):
        assert api.get(array, timeout=30).sum() == 100_000 * number
    (ref,) = api.get(inside, timeout=30)
    assert api.get(ref, timeout=30).sum() == 700_000
    assert tally.count() == 7  # nothing was made again
    assert listed(cluster) == {node.node_id for node in (cluster.head_node, other)}
    reasons = {node["NodeID"]: node["DeathReasonMessage"] for node in api.nodes() if not node["Alive"]}
    assert list(reasons) == [leaving.node_id] and "drained" in reasons[leaving.node_id]


def is_draining(cluster, node):
    sessions = json.loads(zray("status", "--format", "json").stdout)["sessions"]
    (head,) = [fact for fact in sessions if fact["session"] == cluster.head_node.session.name]
    return any(fact["is_draining"] for fact in head["nodes"] if fact["node_id"] == node.node_id)


def test_children_of_what_runs_there_run_elsewhere(cluster, tmp_path):
    leaving, other = cluster.worker_nodes
    gate = Gate(tmp_path / "gate")

    def parent(gate):
        gate.wait()
        return where(), api.get([api.remote(where).remote() for _ in range(10)])

    ref = api.remote(parent).options(scheduling_strategy=on(leaving)).remote(gate)
    until(lambda: api.available_resources().get("CPU") == 3)
    process = begin(cluster, leaving)
    until(lambda: is_draining(cluster, leaving))
    gate.open()
    assert api.get(ref, timeout=30) == (leaving.node_id, [other.node_id] * 10)
    end(process)


def test_after_the_time_that_was_given_it_leaves_whatever_it_does(cluster, tmp_path):
    leaving, other = cluster.worker_nodes
    tally = Tally(tmp_path / "tally")

    def work(tally):
        if tally.visit() == 1:
            __import__("threading").Event().wait()
        return where()

    ref = api.remote(work).options(max_retries=1, scheduling_strategy=on(leaving)).remote(tally)
    until(lambda: tally.count() == 1)
    out = end(begin(cluster, leaving, "--timeout", "1"))
    assert out == (
        f"Node {leaving.node_id} was removed: it was drained, and had not finished after 1 s: 1 running task.\n"
    )
    assert api.get(ref, timeout=30) == other.node_id


def test_a_node_that_is_lost_while_it_is_to_leave_has_not_left(cluster, tmp_path):
    leaving, _ = cluster.worker_nodes
    gate = Gate(tmp_path / "gate")
    api.remote(lambda gate: gate.wait()).options(max_retries=0, scheduling_strategy=on(leaving)).remote(gate)
    until(lambda: api.available_resources().get("CPU") == 3)
    process = begin(cluster, leaving)
    says(process, "1 running task")
    cluster.remove_node(leaving, allow_graceful=False)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 1, err
    assert out.startswith(f"Node {leaving.node_id} was removed: "), out


def test_a_line_is_said_of_a_new_state_and_at_most_one_a_second():
    pace = Pace()
    busy, less, least = ["2 running tasks"], ["1 running task"], ["1 actor"]
    looks = [(0.0, busy), (0.2, busy), (0.4, less), (0.6, least), (1.0, least), (1.2, busy), (2.2, busy), (9.0, least)]
    assert [(now, state) for now, state in looks if pace.is_due(state, now)] == [
        (0.0, busy),
        (1.0, least),
        (2.2, busy),
        (9.0, least),
    ]


def test_what_else_can_be_done_is_said_once_when_it_takes_long():
    pace = Pace()
    assert [now for now in (5.0, 5.2, 14.9, 15.0, 15.2, 40.0) if pace.is_long(now)] == [15.0]


def test_an_actor_is_waited_for(cluster):
    leaving, _ = cluster.worker_nodes
    make = api.remote(type("Holder", (), {"where": lambda self: where()}))
    holder = make.options(scheduling_strategy=on(leaving), num_cpus=1).remote()
    assert api.get(holder.where.remote(), timeout=30) == leaving.node_id
    process = begin(cluster, leaving)
    says(process, "1 actor")
    assert api.get(holder.where.remote(), timeout=30) == leaving.node_id
    api.kill(holder)
    end(process)
    with pytest.raises(ActorDiedError):
        api.get(holder.where.remote(), timeout=30)


def look(address, *arguments):
    """Start a command that looks at a cluster through a node; wait until it has joined."""
    terminal = Terminal()
    command = command_line(*arguments, "--address", address)
    env = environment() | {"TERM": "xterm"}
    screen = terminal.slave
    process = subprocess.Popen(command, env=env, cwd=ROOT, stdin=screen, stdout=screen, stderr=screen)
    until(lambda: process.pid in {row.pid for row in state.list_jobs(limit=1_000)})
    return process, terminal


@pytest.mark.parametrize("arguments", [("top",), ("dashboard", "--port", "0"), ("metrics", "--port", "0")])
def test_program_that_only_looks_does_not_keep_its_node(cluster, arguments):
    leaving, _ = cluster.worker_nodes
    process, terminal = look(leaving.session.address, *arguments)
    try:
        assert end(begin(cluster, leaving)) == f"Node {leaving.node_id} has left.\n"
        assert listed(cluster) == {node.node_id for node in (cluster.head_node, cluster.worker_nodes[1])}
    finally:
        process.kill()
        process.wait()
        terminal.close()


def test_a_node_that_is_told_to_end_does_not_wait_for_who_only_looks(cluster):
    before = {*listed(cluster)}
    command = command_line("start", "--address", cluster.address, "--block", "--drain", "60")
    variables = {**environment(), "ZRAY_TOKEN": cluster.token}
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=variables, cwd=ROOT, **silent) as node:
        (own,) = until(lambda: listed(cluster) - before)
        (session,) = [name for name, fact in statuses().items() if fact["node_id"] == own]
        folder = cluster.head_node.session.folder
        process, terminal = look(f"ipc://{os.path.dirname(folder)}/{session}/node.sock", "dashboard", "--port", "0")
        try:
            node.terminate()
            assert node.wait(30) == 0
            assert listed(cluster) == before
            (fact,) = [fact for fact in api.nodes() if fact["NodeID"] == own]
            assert fact["DeathReasonMessage"] == "it has left the cluster: it was drained"
        finally:
            process.kill()
            process.wait()
            terminal.close()


def test_what_cannot_be_drained_is_refused_in_a_line(cluster):
    session = ("--session", cluster.head_node.session.name)
    for arguments, code, words in (
        (("nobody",), 1, "no node has an id that begins so"),
        (("",), 1, "no node has an id that begins so"),
        ((cluster.head_node.node_id,), 1, "is the head: end it by `zray stop`"),
        ((cluster.worker_nodes[0].node_id, "--timeout", "0"), 2, "above 0"),
        ((), 2, "Missing argument"),
    ):
        done = zray("drain", *arguments, *session)
        assert done.returncode == code and words in done.stderr and "Traceback" not in done.stderr, done.stderr


@api.remote(num_cpus=1)
class Resident:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count, where()

    def work(self, gate, tally):
        tally.visit()
        gate.wait()
        return where()

    def leave(self):
        api.exit_actor()


def test_an_actor_that_may_be_restarted_is_made_again_elsewhere_another_one_keeps_the_node(cluster, tmp_path):
    leaving, other = cluster.worker_nodes
    gate, tally = Gate(tmp_path / "gate"), Tally(tmp_path / "tally")
    options = {"scheduling_strategy": on(leaving), "max_restarts": 1, "max_task_retries": -1}
    mover = Resident.options(name="mover", **options).remote()
    stayer = Resident.options(scheduling_strategy=on(leaving)).remote()
    assert api.get([mover.add.remote(), stayer.add.remote()], timeout=30) == [(1, leaving.node_id)] * 2
    running = mover.work.remote(gate, tally)
    until(lambda: tally.count() == 1)
    process = begin(cluster, leaving)
    says(process, "1 actor")
    assert api.get(stayer.add.remote(), timeout=30) == (2, leaving.node_id)
    gate.open()
    assert api.get(running, timeout=30) == leaving.node_id  # what it runs ends there
    assert api.get(mover.add.remote(), timeout=30) == (2, leaving.node_id)
    with pytest.raises(ActorDiedError):
        api.get(stayer.leave.remote(), timeout=30)
        api.get(stayer.add.remote(), timeout=30)
    assert end(process) == f"Node {leaving.node_id} has left.\n"
    until(lambda: not is_running(leaving.pid))
    count, place = api.get(mover.add.remote(), timeout=30)
    assert (count, place) == (1, other.node_id)
    assert api.get(api.get_actor("mover").add.remote(), timeout=30) == (2, other.node_id)
    assert tally.count() == 1
