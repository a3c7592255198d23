"""Fork servers of environments, as the node sees them."""

import os
import socket
from itertools import count
from types import SimpleNamespace

import pytest
from msgspec import json, msgpack

from tests.gates import until_ended
from zray.host.node import environment_servers, worker_processes
from zray.host.node.environment_servers import INSTALLERS_MAX, EnvironmentServers
from zray.host.node.worker_processes import Workers
from zray.host.process.launch_fork_server import launch_environment_server
from zray.host.session.session import Session
from zray.options.package_requests import PackageRequest
from zray.roles.effects import WorkerExited, WorkerStarted, WorkerStartFailed


@pytest.fixture
def node(monkeypatch, tmp_path):
    """Workers of a node whose fork servers are ends of sockets: `node.ends[packages]`."""
    (tmp_path / ("f" * 16) / "logs").mkdir(parents=True)
    clock, ends, told, pids = [100.0], {}, [], count(1_000_000)

    def launch(session, log, hash_seed, packages, idle_seconds):
        ours, ends[packages] = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ends[packages].settimeout(5)
        return next(pids), ours

    monkeypatch.setattr(environment_servers, "launch_environment_server", launch)
    monkeypatch.setattr(environment_servers, "reap", lambda pid: "killed by signal 9 (SIGKILL)")
    monkeypatch.setattr(environment_servers, "end_children", lambda spared: None)
    monkeypatch.setattr(environment_servers, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    pool = Workers(Session("f" * 16, str(tmp_path)), None, told.append, told.append, lambda: None)
    pool.told, pool.ends, pool.clock = told, ends, clock
    yield pool
    pool.close()
    for end in ends.values():
        end.close()


def say(node, packages, *report):
    """The fork server says something; None: it ends."""
    server = node.environments.by_packages[packages]
    if report:
        node.ends[packages].send(msgpack.encode(report))
    else:
        node.ends[packages].close()
    node.environments.receive(server)
    return server


def orders(node, packages, number):
    return [msgpack.decode(node.ends[packages].recv(4096)) for _ in range(number)]


def failures(node):
    return [(each.worker, each.is_unfit) for each in node.told if type(each) is WorkerStartFailed]


def test_orders_go_to_the_fork_server_of_the_worker(node):
    node.start("w1", 1, "a")
    node.start("w2", 2, "a")
    node.start("w3", 3, "b")
    node.kill("w2")
    node.stop(are_stopped=True)
    assert orders(node, "a", 4) == [["start", "w1", 1], ["start", "w2", 2], ["kill", "w2"], ["stop", ""]]
    assert orders(node, "b", 2) == [["start", "w3", 3], ["stop", ""]]
    say(node, "a", "ready")
    say(node, "a", "started", "w1", 7)
    assert node.told[-1] == WorkerStarted("w1", 7)


def test_packages_that_cannot_be_had_fail_all_their_workers_and_for_a_while_the_next(node):
    node.start("w1", 1, "a")
    node.start("w2", 2, "a")
    say(node, "a", "unfit", "pip exited with code 1")
    say(node, "a")
    assert failures(node) == [("w1", True), ("w2", True)]
    node.start("w3", 3, "a")
    assert failures(node)[2:] == [("w3", True)] and "a" not in node.environments.by_packages
    assert "pip exited with code 1" in node.told[-1].reason
    node.clock[0] += environment_servers.UNFIT_SECONDS
    node.start("w4", 4, "a")
    assert orders(node, "a", 1) == [["start", "w4", 4]]


def test_server_that_dies_before_it_is_ready_is_not_tried_for_ever(node):
    node.start("w1", 1, "a")
    say(node, "a")
    assert failures(node) == [("w1", True)] and "killed by signal 9" in node.told[-1].reason


def test_server_that_dies_later_takes_its_workers_along(node):
    for number in (1, 2):
        node.start(f"w{number}", number, "a")
    say(node, "a", "ready")
    say(node, "a", "started", "w1", 7)
    say(node, "a")
    assert [each.worker for each in node.told if type(each) is WorkerExited] == ["w1"]
    assert failures(node) == [("w2", False)]
    node.start("w3", 3, "a")
    assert orders(node, "a", 1) == [["start", "w3", 3]]


def test_server_that_cannot_be_started_fails_its_workers(node, monkeypatch):
    def launch(*arguments):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(environment_servers, "launch_environment_server", launch)
    node.start("w1", 1, "a")
    assert failures(node) == [("w1", False)] and "Too many open files" in node.told[-1].reason
    assert not node.environments.by_packages and not node.environments.by_worker and not node.windows


def test_few_install_at_a_time(node):
    names = [f"p{number}" for number in range(INSTALLERS_MAX + 2)]
    for number, name in enumerate(names):
        node.start(f"w{number}", number, name)
    assert list(node.ends) == names[:INSTALLERS_MAX]
    say(node, names[0], "ready")
    say(node, names[1], "unfit", "no")
    say(node, names[1])
    assert list(node.ends) == names
    assert orders(node, names[-1], 1) == [["start", f"w{len(names) - 1}", len(names) - 1]]


def test_an_unused_one_ends_unless_it_has_got_an_order(node):
    node.start("w1", 1, "a")
    say(node, "a", "ready")
    server = say(node, "a", "idle")  # sent before the order came
    assert not server.is_ending
    say(node, "a", "exited", "w1", 0, 7, 0)
    say(node, "a", "idle")
    assert server.is_ending and "a" not in node.environments.by_packages
    old = node.ends["a"]
    assert old.recv(4096) and old.recv(4096) == b"", "the order, then the end"
    node.start("w2", 2, "a")
    assert orders(node, "a", 1) == [["start", "w2", 2]]
    old.close()
    node.environments.receive(server)
    assert failures(node) == [] and list(node.environments.by_worker) == ["w2"]


def test_another_fork_server_that_dies_leaves_them_alone(node, monkeypatch):
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
    left_alone = []
    monkeypatch.setattr(worker_processes, "reap", lambda pid, in_words: "was killed")
    monkeypatch.setattr(worker_processes, "end_children", lambda spared: left_alone.extend(spared))
    monkeypatch.setattr(worker_processes, "launch_fork_server", lambda session, seed: (1, pairs[1][0]))
    node._use((999_999, pairs[0][0]))
    node.start("w1", 1, "a")
    pairs[0][1].close()
    assert node.receive()
    pairs[1][1].close()
    assert node.environments.running and set(node.environments.running) <= set(left_alone)
    assert not [each for each in node.told if type(each) in (WorkerExited, WorkerStartFailed)]


def test_a_fork_server_says_when_it_is_unused_and_ends_when_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("ZRAY_ENV_CACHE", str(tmp_path / "cache"))
    session = Session("a" * 16, str(tmp_path))
    session.make_folder()
    request = json.encode(PackageRequest(variables=(("PIP_NO_INDEX", "1"),))).decode()
    pid, connection = launch_environment_server(session, "fork-server-1", "1", request, 0.05)
    connection.settimeout(50)
    assert msgpack.decode(connection.recv(4096)) == ["ready"]
    assert msgpack.decode(connection.recv(4096)) == ["idle"]
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(4096):
        pass
    until_ended([pid])
    os.waitpid(pid, 0)
    connection.close()
    assert os.path.isdir(session.folder), "its node lives, and removes the session itself"
    session.remove()


def test_servers_of_a_node_are_bounded_in_what_they_remember():
    servers = EnvironmentServers(None)
    for number in range(500):
        servers.unfit[str(number)] = (0.0, "")
    assert len(servers.unfit) == environment_servers.UNFIT_MAX
