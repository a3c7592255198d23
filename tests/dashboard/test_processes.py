"""`zray dashboard` as a user runs it: its address, its end with Ctrl-C, and its end with the session."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import zray
from tests.cli.commands import command_line
from tests.cli.commands import zray as run
from tests.dashboard.pages import Server
from tests.gates import until
from tests.scripts import ROOT, environment, start_script
from zray.api import dashboards

pytestmark = pytest.mark.slow


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


PROGRAM = """
    import os, sys, zray
    context = zray.init(num_cpus=1, include_dashboard=True, dashboard_port=0)
    print(context.dashboard_url, flush=True)
    sys.stdin.readline()
    {end}
    print("ended", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("end", ["zray.shutdown()", "sys.exit()", "os.kill(os.getpid(), 9)", "raise KeyboardInterrupt"])
def test_init_starts_a_dashboard_that_ends_with_the_program(end, tmp_path, leftovers):
    program = start_script(
        tmp_path, PROGRAM.format(end=end).replace("sys, zray", "os, sys, zray"), stdin=subprocess.PIPE
    )
    with program:
        server = Server(program.stdout.readline())
        assert f"zray: the dashboard is at {server.address}\n" == program.stderr.readline()
        (node,) = server.json("/z/nodes")["tables"]["nodes"]["rows"]
        assert node["resources"]["CPU"] == [0, 1]
        program.stdin.write("\n")
        program.stdin.flush()
        until(lambda: not listens(server.port))
        program.communicate("\n", timeout=20)
    leftovers.assert_none(20.0)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def test_ctrl_c_ends_neither_the_dashboard_of_a_program_that_goes_on_nor_its_session(tmp_path):
    program = """
        import signal, sys, zray
        signal.signal(signal.SIGINT, lambda number, frame: print("heard", flush=True))
        print(zray.init(num_cpus=1, include_dashboard=True, dashboard_port=0).dashboard_url, flush=True)
        sys.stdin.readline()
    """
    with start_script(tmp_path, program, stdin=subprocess.PIPE) as process:
        server = Server(process.stdout.readline())
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "heard\n"
        assert server.get("/z/nodes")[0] == 200
        process.communicate("\n", timeout=20)
    assert process.returncode == 0


def test_port_of_init_is_taken_or_another_one_is_found(tmp_path, start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"port {port} of 127.0.0.1: Address already in use"):
            start(num_cpus=1, include_dashboard=True, dashboard_port=port)
        assert not zray.is_initialized()
    with pytest.raises(ValueError, match="dashboard_port"):
        start(num_cpus=1, include_dashboard=True, dashboard_port=1 << 16)


def test_default_port_that_is_taken_leads_to_a_free_one(start, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(dashboards, "PORT", taken.getsockname()[1])
        with dashboards.listener(None, None) as found:
            assert found.getsockname()[1] != taken.getsockname()[1]


def test_address_of_other_machines_is_warned_of(start):
    with pytest.warns(RuntimeWarning, match="on this machine alone, not at 0.0.0.0.*ssh -L"):
        context = start(num_cpus=1, include_dashboard=True, dashboard_host="0.0.0.0", dashboard_port=0)
    assert Server(context.dashboard_url).get("/z/nodes")[0] == 200


def test_program_runs_where_there_is_no_dashboard(start, monkeypatch):
    with pytest.warns(RuntimeWarning, match="local mode has no dashboard"):
        assert start(local_mode=True, include_dashboard=True, dashboard_port=0).dashboard_url == ""
    zray.shutdown()
    monkeypatch.setattr(dashboards, "PACKAGES", ("starlette", "nothing_like_it"))
    with pytest.warns(RuntimeWarning, match=r"needs nothing_like_it: install zray\[dashboard\]"):
        assert start(num_cpus=1, include_dashboard=True).dashboard_url == ""
    zray.shutdown()
    assert start(num_cpus=1).dashboard_url == "" and start(ignore_reinit_error=True)["dashboard_url"] == ""


def test_missing_packages_are_named(tmp_path):
    (tmp_path / "uvicorn.py").write_text("raise ImportError(name='uvicorn')\n")
    done = subprocess.run(
        command_line("dashboard"),
        env={**environment(), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert done.returncode == 1 and "install zray[dashboard]" in done.stderr and "Traceback" not in done.stderr


def test_dashboard_costs_next_to_nothing_while_nobody_watches(start, begin):
    """Under 1 % of a processor, and no question to the session."""
    start(num_cpus=1)
    process, server = begin("--port", "0")
    with server.events("view=overview") as events:
        next(events)  # everything is imported
    seconds = 8.0
    threading.Event().wait(2.0)  # the page has gone
    before = cpu_seconds(process.pid)
    threading.Event().wait(seconds)
    assert (cpu_seconds(process.pid) - before) / seconds < 0.01


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_package_is_imported_without_the_dashboard():
    code = "import sys, zray, zray.util.state, cli.main; print([n for n in sys.modules if n.startswith(SET)])"
    code = code.replace("SET", "('starlette', 'uvicorn', 'zray.dashboard', 'zray.api.dashboards')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40, cwd=ROOT)
    assert done.stdout == "[]\n", done.stderr


def test_kill_of_a_node_is_shown_and_the_stream_goes_on(cluster, begin):
    cluster.connect()
    _, server = begin("--port", "0", "--address", cluster.address)
    with server.events("view=nodes") as events:
        kind, data = next(events)
        assert kind == "snapshot" and data["facts"]["session"]["nodes"] == 3
        cluster.remove_node(cluster.worker_nodes[0], allow_graceful=False)
        states = {}
        for kind, data in events:
            assert kind == "delta"
            rows = data.get("tables", {}).get("nodes", {}).get("rows", [])
            states |= {row["node_id"]: row["state"] for row in rows}
            if "DEAD" in states.values():
                break
    assert server.json("/z/nodes")["facts"]["session"]["nodes_dead"] == 1
