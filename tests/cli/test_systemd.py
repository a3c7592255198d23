"""`zray systemd`: units under a real systemd, and what the command says to a service manager."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest

import zray as api
from cli.foreground import ServiceManager
from tests.cli.commands import command_line, statuses, zray
from tests.gates import Gate, until
from tests.scripts import ROOT, environment
from tests.systemd_machine import Machine, why_not
from zray.cluster_utils import Cluster

HEAD, NODE = "zray-head.service", "zray-node.service"
INSTALLED = os.path.join(os.path.dirname(sys.executable), "zray")


def unit(*arguments):
    printed = zray("systemd", *arguments)
    assert printed.returncode == 0, printed.stderr
    return printed.stdout


@pytest.fixture
def manager(monkeypatch, tmp_path):
    """The socket of a service manager; commands of the test report there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
        there.bind(str(tmp_path / "notify"))
        there.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield there


def test_command_reports_when_it_is_ready_that_it_answers_and_that_it_ends(manager, monkeypatch, nothing_left):
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    with subprocess.Popen(
        command_line("start", "--head", "--num-cpus", "1", "--block"),
        env=environment(),
        cwd=ROOT,
        stdout=subprocess.PIPE,
    ) as process:
        first = manager.recv(1000).decode()
        (session, fact) = next(iter(statuses().items()))
        assert first == f"READY=1\nSTATUS=session {session}"
        assert manager.recv(1000) == manager.recv(1000) == b"WATCHDOG=1"
        with open(f"/proc/{fact['node_pid']}/environ", "rb") as file:
            assert b"NOTIFY_SOCKET" not in file.read()
        process.send_signal(signal.SIGTERM)
        while (said := manager.recv(1000)) == b"WATCHDOG=1":
            pass
        assert said == b"STOPPING=1" and process.wait(20) == 0


@pytest.mark.parametrize(
    "variables, seconds",
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, None),
        ({"NOTIFY_SOCKET": "@abstract", "WATCHDOG_USEC": "3000000"}, 1.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "often"}, None),
    ],
)
def test_manager_is_told_as_often_as_it_asks(variables, seconds):
    assert ServiceManager(variables).seconds == seconds
    assert not variables  # tasks do not speak for the service


def test_absent_manager_does_no_harm(capsys, tmp_path):
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "absent")}).say("READY=1")
    assert "cannot be told: No such file" in capsys.readouterr().err


def test_node_that_is_told_to_end_finishes_its_task_and_leaves(tmp_path, nothing_left):
    begun, goes_on = Gate(tmp_path / "begun"), Gate(tmp_path / "goes on")

    @api.remote(resources={"there": 1})
    def task():
        begun.open()
        goes_on.wait()
        return "done"

    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.connect()
        variables = {**environment(), "ZRAY_TOKEN": cluster.token}
        options = ["--num-cpus", "1", "--resources", '{"there": 1}', "--block", "--drain", "30"]
        start = command_line("start", "--address", cluster.address, *options)
        with subprocess.Popen(start, env=variables, cwd=ROOT, stderr=subprocess.PIPE, text=True) as node:
            value = task.remote()
            begun.wait()
            node.send_signal(signal.SIGTERM)
            assert any("leaves its cluster" in line for line in node.stderr)
            assert node.poll() is None
            goes_on.open()
            assert api.get(value, timeout=40) == "done"
            assert node.wait(40) == 0, node.stderr.read()
        api.shutdown()


@pytest.mark.parametrize(
    "arguments",
    [
        ("head", "--host", "127.0.0.1"),
        ("head", "--host", "127.0.0.1", "--run-as", "daemon", "--", "--num-cpus", "2", "--labels", '{"a b": "50%"}'),
        ("node", "--address", "127.0.0.1:6379", "--token-file", "/etc/a token", "--drain", "0"),
    ],
)
def test_systemd_has_nothing_to_say_against_a_unit(arguments, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    path = tmp_path / "it.service"
    path.write_text(unit(*arguments, "--command", sys.executable) if "--" not in arguments else unit(*arguments))
    checked = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_values_of_a_unit_are_quoted():
    text = unit("head", "--host", "127.0.0.1", "--command", "/opt/z ray", "--", "--labels", '{"a b": "50% of $1"}')
    assert 'ExecStart="/opt/z ray" start --head' in text
    assert '"{\\"a b\\": \\"50%% of $$1\\"}" --state-dir %S/zray/state\n' in text
    assert "--state-dir /elsewhere\n" in unit("head", "--host", "127.0.0.1", "--", "--state-dir", "/elsewhere")
    refused = zray("systemd", "node", "--address", "a:1", "--run-as", "one\nExecStartPre=/bin/evil")
    assert refused.returncode == 2 and "line break" in refused.stderr


def test_unit_of_a_person_names_no_user():
    text = unit("node", "--user", "--address", "192.0.2.1:6379")
    assert "User=" not in text and "WantedBy=default.target" in text and ".config/zray/token" in text


@pytest.fixture(scope="module")
def machine(nothing_left):
    """A machine with a head under systemd."""
    if reason := why_not():
        pytest.skip(reason)
    text = unit("head", "--host", "127.0.0.1", "--run-as", "root", "--command", INSTALLED, "--", "--num-cpus", "1")
    # zray may lie below /tmp.
    text = text.replace("WatchdogSec=60", "WatchdogSec=2").replace("PrivateTmp=yes", "PrivateTmp=no")
    with closing(Machine({HEAD: text})) as machine:
        if not machine.has_come_up():
            pytest.skip(f"systemd does not run in namespaces here: {machine.said()}")
        until(lambda: machine.is_up(HEAD))
        yield machine


def inside(machine, *words):
    """A command of zray's in the head's session."""
    found = machine.run("env", "ZRAY_TMPDIR=/run/zray-head", INSTALLED, *words)
    assert found.returncode == 0, found.stderr
    return found.stdout


def node_of(machine):
    (pid,) = machine.run("pgrep", "-f", "^zray: node").stdout.split()
    return pid


def is_served(machine, pid):
    """Whether another node than `pid` serves."""
    found = machine.run("pgrep", "-f", "^zray: node").stdout.split()
    return machine.is_up(HEAD) and found not in ([], [pid]) and "lasting" in inside(machine, "status")


@pytest.mark.parametrize("number, whom", [("KILL", "command"), ("KILL", "node"), ("STOP", "node")])
def test_head_is_up_again_on_its_state_after(machine, number, whom):
    """STOP: the watchdog ends what does not answer."""
    pid = node_of(machine)
    (token,) = re.findall(r"token-\w+", inside(machine, "keys", "list"))
    main = machine.state(HEAD, "MainPID")
    machine.run("kill", f"-{number}", pid if whom == "node" else main)
    until(lambda: is_served(machine, pid), 40)
    assert machine.state(HEAD, "MainPID") != main
    assert token in inside(machine, "keys", "list")


def test_stopped_head_leaves_its_state_and_nothing_else(machine):
    machine.run("systemctl", "stop", HEAD)
    assert machine.state(HEAD) == "inactive" and machine.state(HEAD, "Result") == "success"
    assert machine.run("ls", "/dev/shm").stdout == "" and "zray-head" not in machine.run("ls", "/run").stdout
    assert machine.run("ls", "/var/lib/zray").stdout.split() == ["logs", "state"]
    assert not machine.run("pgrep", "-f", "zray").stdout.split()
