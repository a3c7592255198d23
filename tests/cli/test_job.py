"""`zray job`: programs that a cluster runs, from the command line."""

import json
import subprocess

import pytest

import zray
from tests.cli.commands import command_line
from tests.scripts import ROOT, environment
from zray.cluster_utils import Cluster


@pytest.fixture(scope="module")
def job(nothing_left):
    """Runs `zray job` against a cluster of this machine."""
    with Cluster(True, head_node_args={"num_cpus": 2}) as cluster:
        cluster.connect()
        address = zray.get_runtime_context().gcs_address

        def run(command, *arguments, status=0):
            line = [*command_line("job", command), "--address", address, *arguments]
            done = subprocess.run(line, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=60)
            assert done.returncode == status, done.stderr
            assert "Traceback" not in done.stderr
            return done

        yield run
        zray.shutdown()


@pytest.mark.parametrize("command", ["submit", "status", "stop", "logs", "list", "delete"])
def test_help_of_a_command_is_no_failure(command):
    done = subprocess.run(
        command_line("job", command, "--help"), env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=60
    )
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
