"""`zray dashboard` as a user runs it: its address, its end with Ctrl-C, and its end with the session."""

import re
import signal
import socket
import subprocess

import pytest

import zray
from tests.cli.commands import command_line
from tests.cli.commands import zray as run
from tests.dashboard.pages import Server
from tests.scripts import ROOT, environment


@pytest.fixture
def begin():
    """`begin("--port", "0")` starts a dashboard, and returns its process and what it has printed."""
    started = []

    def one(*arguments):
        process = subprocess.Popen(
            command_line("dashboard", *arguments),
            env=environment(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        line = process.stdout.readline()
        assert line, process.stderr.read()
        return process, Server(line)

    yield one
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def test_command_serves_the_session_until_it_is_interrupted(start, begin):
    start(num_cpus=1)
    process, server = begin("--port", "0")
    assert server.get("/", token="")[0] == 200 and server.get("/api/version", token="")[0] == 401
    name = zray.init(ignore_reinit_error=True)["session_name"]
    assert server.json("/api/version")["session_name"] == name
    (node,) = server.json("/z/nodes")["tables"]["nodes"]["rows"]
    assert node["state"] == "ALIVE" and node["resources"]["CPU"] == [0, 1] and node["cpu_percent"] >= 0
    with server.events("view=nodes") as events:
        assert next(events)[0] == "snapshot"
        process.send_signal(signal.SIGINT)
        assert events_end(events) == "The dashboard has ended."
    out, error = process.communicate(timeout=20)
    assert (process.returncode, out, error) == (0, "", "")


def events_end(events):
    return [data["reason"] for kind, data in events if kind == "bye"][-1]


def test_dashboard_ends_with_its_session(start, begin):
    start(num_cpus=1)
    process, server = begin("--port", "0")
    with server.events("view=nodes") as events:
        next(events)
        zray.shutdown()
        assert "session has ended" in events_end(events).replace("node process of this session", "session")
    _, error = process.communicate(timeout=20)
    assert process.returncode == 1 and re.fullmatch(r"Error: .*ended.*\n", error), error


def test_port_that_is_taken_and_other_machines_are_said_in_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("dashboard", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1 and "Address already in use" in done.stderr and "--port" in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1
    done = run("dashboard", "--host", "0.0.0.0")
    assert done.returncode == 2 and "ssh -L" in done.stderr
    done = run("dashboard", "--port", "0")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
