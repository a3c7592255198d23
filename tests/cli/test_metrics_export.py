"""Metrics endpoint of `init(_metrics_export_port=)` and of `zray start`: where it is, and when it ends."""

import http.client
import os
import re
import signal
import socket
import subprocess

import pytest

import zray
from tests.cli.commands import command_line, statuses
from tests.cli.commands import zray as command
from tests.gates import until
from tests.scripts import ROOT, environment, start_script
from zray.api import metrics_endpoint
from zray.util.metrics import Counter

PROGRAM = """
    import os, sys, zray
    context = zray.init(num_cpus=1, _metrics_export_port=0)
    print(context["metrics_export_port"], flush=True)
    sys.stdin.readline()
    {end}
    print("ended", flush=True)
    sys.stdin.readline()
"""


def text_at(port):
    """The metrics at a port; "": nothing listens there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        return answer.read().decode() if answer.status == 200 else ""
    except OSError:
        return ""
    finally:
        connection.close()


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@zray.remote
def work():
    Counter("rows", tag_keys=("kind",)).inc(3, {"kind": "a"})


def test_init_serves_the_metrics_of_the_session_until_its_end(start, capfd):
    context = start(num_cpus=1, _metrics_export_port=0)
    port = context["metrics_export_port"]
    assert f"zray: metrics for Prometheus are at http://127.0.0.1:{port}/metrics\n" in capfd.readouterr().err
    zray.get(work.remote())
    assert 'ray_rows_total{kind="a"} 3.0\n' in text_at(port)
    zray.shutdown()
    until(lambda: not listens(port))


def test_given_port_is_taken(start):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert start(num_cpus=1, _metrics_export_port=port)["metrics_export_port"] == port
    assert "zray_node_workers" in text_at(port)


@pytest.mark.parametrize("end", ["zray.shutdown()", "sys.exit()", "os.kill(os.getpid(), 9)", "raise KeyboardInterrupt"])
def test_endpoint_ends_with_its_program(end, tmp_path, leftovers):
    with start_script(tmp_path, PROGRAM.format(end=end), stdin=subprocess.PIPE) as program:
        port = int(program.stdout.readline())
        assert "zray_node_workers" in text_at(port)
        program.stdin.write("\n")
        program.stdin.flush()
        until(lambda: not listens(port))
        program.communicate("\n", timeout=20)
    leftovers.assert_none(20.0)


def test_program_runs_where_there_can_be_no_endpoint(start, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.warns(RuntimeWarning, match=f"port {port} of 127.0.0.1: Address already in use") as found:
            assert start(num_cpus=1, _metrics_export_port=port)["metrics_export_port"] is None
    assert found[0].filename == __file__
    zray.shutdown()
    with pytest.warns(RuntimeWarning, match="leave out local_mode=True"):
        start(local_mode=True, _metrics_export_port=0)
    zray.shutdown()
    monkeypatch.setattr(metrics_endpoint, "PACKAGE", "nothing_like_it")
    with pytest.warns(RuntimeWarning, match=r"needs nothing_like_it: install zray\[metrics\]"):
        start(num_cpus=1, _metrics_export_port=0)


@pytest.mark.parametrize("port", [-1, 1 << 16, "9464", True])
def test_port_that_is_none_is_an_error(start, port):
    with pytest.raises(ValueError, match="_metrics_export_port must be an integer"):
        start(num_cpus=1, _metrics_export_port=port)
    assert not zray.is_initialized()


@pytest.fixture
def ended():
    """Sessions to stop."""
    names = []
    yield names
    for name in names:
        command("stop", name)


def test_start_serves_the_metrics_until_the_session_is_stopped(ended, leftovers):
    done = command("start", "--head", "--port", "0", "--num-cpus", "1", "--metrics-export-port", "0")
    assert done.returncode == 0, done.stderr
    ended.append(re.search(r"session (\S+),", done.stdout)[1])
    port = int(re.search(r"http://127\.0\.0\.1:(\d+)/metrics", done.stdout)[1])
    assert "zray_node_cpu_percent" in text_at(port)
    assert command("stop", ended[0]).returncode == 0
    until(lambda: not listens(port))
    leftovers.assert_none(20.0)


def test_endpoint_of_a_session_in_the_foreground_ends_with_ctrl_c(leftovers):
    line = command_line("start", "--head", "--port", "0", "--num-cpus", "1", "--metrics-export-port", "0", "--block")
    with subprocess.Popen(line, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        port = int(re.search(r":(\d+)/metrics", process.stdout.readline())[1])
        assert "zray_node_cpu_percent" in text_at(port)
        os.kill(process.pid, signal.SIGINT)
        process.wait(30)
        until(lambda: not listens(port))
    leftovers.assert_none(20.0)


def test_port_of_start_that_is_taken_is_said_before_anything_starts(leftovers):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("start", "--head", "--port", "0", "--metrics-export-port", str(port))
    assert done.returncode == 1 and f"port {port} of 127.0.0.1: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
    leftovers.assert_none(5.0)


def test_endpoint_does_not_keep_its_node_from_leaving(ended):
    done = command("start", "--head", "--port", "0", "--num-cpus", "0")
    ended.append(re.search(r"session (\S+),", done.stdout)[1])
    token, address = re.search(r"ZRAY_TOKEN=(\S+) zray start --address (\S+)", done.stdout).groups()
    node = subprocess.run(
        command_line("start", "--address", address, "--num-cpus", "1", "--metrics-export-port", "0"),
        env={**environment(), "ZRAY_TOKEN": token},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert node.returncode == 0, node.stderr
    ended.append(re.search(r"session (\S+),", node.stdout)[1])
    port = int(re.search(r"http://127\.0\.0\.1:(\d+)/metrics", node.stdout)[1])
    assert "zray_node_workers" in text_at(port)
    (own,) = [fact for fact in statuses().values() if fact["session"] == ended[-1]]
    drained = command("drain", own["node_id"], timeout_s=60)
    assert drained.returncode == 0, drained.stderr
    until(lambda: not listens(port))
