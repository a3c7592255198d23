"""`zray metrics`: text for Prometheus, an endpoint of this machine, and a board of Grafana."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse

import pytest
from prometheus_client.parser import text_string_to_metric_families

import zray
from tests.cli.commands import command_line
from tests.gates import until
from tests.scripts import ROOT, environment
from zray.util.grafana import board
from zray.util.metrics import Counter, Histogram
from zray.util.prometheus import check_access

TOKEN = "t" * 40


def run(*arguments, **variables):
    return subprocess.run(
        command_line("metrics", *arguments),
        env={**environment(), **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
    )


def get(port, path="/metrics", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def serve(start):
    """`serve(variable=...)` starts an endpoint for a session of one task, and returns its process and port."""
    started = []

    def begin(**variables):
        start(num_cpus=1)
        zray.get(work.remote())
        process = subprocess.Popen(
            command_line("metrics", "--port", "0"),
            env={**environment(), **variables},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        line = process.stdout.readline()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/metrics: metrics for Prometheus, until Ctrl-C\.\n", line)
        assert found, (line, process.stderr.read() if process.poll() is not None else "")
        return process, int(found[1])

    yield begin
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


@zray.remote
def work():
    Counter("rows", tag_keys=("kind",)).inc(3, {"kind": "a"})
    Histogram("seconds", boundaries=[1, 2]).observe(1.5)


def test_text_is_printed_once(start):
    start(num_cpus=1)
    zray.get(work.remote())
    done = run("--once")
    assert done.returncode == 0 and not done.stderr, done.stderr
    families = {family.name: family for family in text_string_to_metric_families(done.stdout)}
    assert families["ray_rows"].samples[0].value == 3 and families["ray_seconds"].type == "histogram"


def test_endpoint_answers_one_request_and_refuses_all_others(serve):
    process, port = serve()
    status, text = get(port)
    assert status == 200 and 'ray_rows_total{kind="a"} 3.0\n' in text
    assert get(port, "/metrics?name[]=a")[0] == 200 and get(port, Host="localhost:1")[0] == 200
    assert get(port, "/")[0] == get(port, "/metrics/../x")[0] == 404
    assert get(port, Host="evil.example")[0] == get(port, Host=f"evil.example:{port}")[0] == 403
    assert {get(port, method=method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD")} == {405}
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
        stranger.sendall(b"\x00\xff\r\n\r\n")
        stranger.settimeout(20)
        assert b"400" in stranger.recv(1_000)
    assert get(port)[0] == 200
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=20)
    assert process.returncode == 0 and not error, error


def test_token_is_asked_of_each_request(serve):
    _, port = serve(ZRAY_METRICS_TOKEN=TOKEN)
    assert get(port)[0] == get(port, Authorization=f"Bearer {TOKEN}x")[0] == get(port, Authorization=TOKEN)[0] == 401
    assert get(port, Authorization=f"Bearer {TOKEN}")[0] == 200
    assert get(port, Authorization=f"Bearer {TOKEN}", Host="node.example:9464")[0] == 200  # of another machine


def test_endpoint_ends_after_its_session(serve):
    process, port = serve()
    zray.shutdown()
    until(lambda: process.poll() is not None or get_or_nothing(port) != 200)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 1 and "The endpoint has ended" in error and "Traceback" not in error, error


def get_or_nothing(port):
    try:
        return get(port)[0]
    except (OSError, http.client.HTTPException):
        return 0


def test_other_machines_are_refused_without_a_token():
    done = run("--host", "0.0.0.0")
    assert done.returncode == 2 and "ZRAY_METRICS_TOKEN" in done.stderr and "ssh -L" in done.stderr
    done = run(ZRAY_METRICS_TOKEN="short")
    assert done.returncode == 2 and "32 or more" in done.stderr
    for host in ("localhost", "example.org", "::1", ""):
        with pytest.raises(ValueError, match="IPv4"):
            check_access(host, None)
    check_access("127.0.0.2", None)
    check_access("0.0.0.0", TOKEN)


def test_port_that_is_taken_is_an_error_in_words(start):
    start(num_cpus=1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("--port", str(taken.getsockname()[1]))
    assert done.returncode == 1 and "Address already in use" in done.stderr and "Traceback" not in done.stderr


def test_missing_library_is_named(tmp_path):
    (tmp_path / "prometheus_client.py").write_text("raise ImportError\n")
    done = run("--once", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 1 and "install zray[metrics]" in done.stderr and "Traceback" not in done.stderr


def test_no_session_is_an_error_in_words():
    done = run("--once")
    assert done.returncode == 1 and "Traceback" not in done.stderr


def test_package_is_imported_without_the_library():
    code = "import sys, zray, zray.util.metrics; print([n for n in sys.modules if 'prometheus' in n])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40, cwd=ROOT)
    assert done.stdout == "[]\n", done.stderr


def expressions():
    return [target["expr"] for panel in board()["panels"] for target in panel["targets"]]


def test_board_has_exported_metrics_only(start):
    start(num_cpus=1)

    @zray.remote
    class Actor:
        def ping(self):
            return 1

    actor = Actor.remote()
    zray.get(actor.ping.remote())
    done = run("grafana")
    assert done.returncode == 0 and json.loads(done.stdout) == board()
    text = run("--once").stdout
    exported = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    named = {name for text in expressions() for name in re.findall(r"zray_\w+", text)}
    assert len(named) >= 8 and named <= exported
    assert len({panel["id"] for panel in board()["panels"]}) == len(board()["panels"])


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus on PATH: apt install prometheus")
def test_real_prometheus_scrapes_the_endpoint_and_reads_the_board(serve, tmp_path):
    _, port = serve(ZRAY_METRICS_TOKEN=TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {
                "job_name": "zray",
                "authorization": {"type": "Bearer", "credentials": TOKEN},
                "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
            }
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log)
    try:
        until(lambda: value(own, 'ray_rows_total{kind="a"}') == "3", 30)
        assert value(own, 'ray_seconds_bucket{le="2.0"}') == "1" and value(own, 'up{job="zray"}') == "1"
        for expression in expressions():
            assert query(own, expression)["status"] == "success"
    finally:
        process.terminate()
        process.wait(20)


def query(port, expression):
    status, text = get(port, "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
    return json.loads(text) if status == 200 else {"status": text, "data": {"result": []}}


def value(port, expression):
    try:
        result = query(port, expression)["data"]["result"]
    except OSError:
        return None
    return result[0]["value"][1] if result else None
