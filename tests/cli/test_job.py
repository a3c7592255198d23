"""`zray job`: programs that a cluster runs, from the command line."""

import json
import subprocess
import time

import pytest

import zray
from tests.cli.commands import command_line
from tests.cli.commands import zray as zray_command
from tests.gates import until
from tests.scripts import ROOT, environment
from zray.cluster_utils import Cluster
from zray.util import state


@pytest.fixture(scope="module")
def job(nothing_left):
    """Runs `zray job` against a cluster of this machine."""
    with Cluster(True, head_node_args={"num_cpus": 2}) as cluster:
        cluster.connect()
        address = zray.get_runtime_context().gcs_address

        def run(command, *arguments, status=0):
            done = zray_command("job", command, "--address", address, *arguments, timeout_s=60)
            assert done.returncode == status, done.stderr
            assert "Traceback" not in done.stderr
            return done

        yield run
        zray.shutdown()


@pytest.mark.parametrize("command", ["submit", "status", "stop", "logs", "list", "delete"])
def test_help_of_a_command_is_no_failure(command):
    done = zray_command("job", command, "--help", timeout_s=60)
    assert (done.returncode, done.stderr) == (0, "") and "Usage: " in done.stdout


def test_output_and_exit_status_are_those_of_the_program(job):
    done = job("submit", "--submission-id", "first", "--", "echo one; echo two")
    assert done.stdout == "one\ntwo\n"
    assert "Program first is submitted." in done.stderr and "Program first: SUCCEEDED." in done.stderr
    done = job("submit", "--", "echo bad; exit 3", status=1)
    assert done.stdout == "bad\n" and "exit status 3; its last line: bad" in done.stderr
    assert job("logs", "first").stdout == "one\ntwo\n" == job("logs", "--follow", "first").stdout


def test_arguments_of_the_command_stay_apart(job):
    done = job("submit", "--", "python", "-c", "import sys; print(sys.argv[1:])", "a b", "$HOME")
    assert done.stdout == "['a b', '$HOME']\n"


def test_environment_is_read_from_a_file_or_a_text(job, tmp_path):
    (tmp_path / "env.yaml").write_text("env_vars: {WHO: file}\n")
    assert job("submit", "--runtime-env", str(tmp_path / "env.yaml"), "--", "echo $WHO").stdout == "file\n"
    text = json.dumps({"env_vars": {"WHO": "text"}})
    assert job("submit", "--runtime-env-json", text, "--", "echo $WHO").stdout == "text\n"
    (tmp_path / "data").write_text("content\n")
    assert job("submit", "--working-dir", str(tmp_path), "--", "cat data").stdout == "content\n"
    assert "no JSON" in job("submit", "--runtime-env-json", "{", "--", "true", status=2).stderr


def test_program_is_stopped_shown_listed_and_deleted(job):
    name = job("submit", "--no-wait", "--metadata-json", '{"owner": "anna"}', "--", "sleep 1000").stdout.strip()
    shown = job("status", name).stdout
    assert "sleep 1000" in shown and "owner" in shown and "anna" in shown
    assert job("stop", name).stdout == f"{name}: STOPPED.\n"
    assert "had ended before" in job("stop", name).stdout
    (row,) = [each for each in json.loads(job("list", "--format", "json").stdout) if each["submission_id"] == name]
    assert row["status"] == "STOPPED"
    assert name in job("list").stdout
    assert job("delete", name).stdout == f"{name} is deleted.\n"
    assert "No program was submitted" in job("status", name, status=1).stderr


def test_output_is_among_the_logs_of_the_session(job):
    job("submit", "--submission-id", "logged-1", "--", "echo one; echo two >&2; printf three")
    shown = zray_command("logs", "logged-1").stdout.splitlines()
    assert [line.partition(") ")[2] for line in shown] == ["one", "two", "three"]
    assert all(line.startswith("(job-logged-1 pid=") for line in shown)
    assert zray_command("logs", "job", "--id", "logged", "--tail", "1").stdout == f"{shown[-1]}\n"
    (line,) = [line for line in zray_command("logs", "*").stdout.splitlines() if "job-logged-1-" in line]
    assert zray_command("logs", line.split()[-1]).stdout == "one\ntwo\nthree"
    rows = [json.loads(line) for line in zray_command("logs", "logged-1", "--json").stdout.splitlines()]
    assert [(row["worker"], row["text"]) for row in rows][0] == ("job-logged-1", "one")
    assert rows[0]["time"] > time.time() - 60
    assert list(state.get_log(submission_id="logged-1")) == ["one\n", "two\n", "three\n"]
    assert any(name.startswith("job-logged-1-") for name in state.list_logs()["driver"])


def test_output_of_a_program_is_followed_among_the_logs(job, tmp_path):
    runs = tmp_path / "runs"
    runs.touch()
    command = f"echo begun; while test -e {runs}; do sleep 0.01; done; echo ends"
    job("submit", "--no-wait", "--submission-id", "followed", "--", command)
    until(lambda: zray_command("logs", "followed").returncode == 0)
    follower = subprocess.Popen(
        command_line("logs", "--follow", "followed"), env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with follower:
        assert follower.stdout.readline().endswith(") begun\n")
        runs.unlink()
        assert follower.stdout.readline().endswith(") ends\n")
        follower.kill()
