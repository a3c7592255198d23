"""Reports of crashes: once, with the user's lines, and with the kernel's OOM killer by its name."""

import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.host.test_cgroups import Tree
from tests.scripts import ROOT, environment, run_script, write_script
from zray.host.process.crash_reports import folded
from zray.host.process.machine_resources import Cgroups
from zray.host.process.oom_kills import FRESH_SECONDS, OomKills
from zray.host.process.spawn import _PROGRAM
from zray.store.folding import OWN_FOLDER

MB = 1_000_000
KILLED, CRASHED = int(signal.SIGKILL), int(signal.SIGSEGV)

CRASH = """
import ctypes, os, sys
import zray as ray
ray.init(num_cpus=1)

@ray.remote(max_retries=2)
def train(value):
    print("epoch", value, flush=True)
    ctypes.string_at(0)

@ray.remote
def outer():
    value = 1
    return ray.get(train.remote(value))

def whole():
    return ray.get(outer.remote())

whole()
"""


def test_stack_of_a_crash_in_c_is_shown_once_for_all_attempts(tmp_path):
    done = run_script(tmp_path, CRASH)
    shown = done.stderr + done.stdout
    assert shown.count("Fatal Python error: Segmentation fault") == 1
    assert shown.count(" in train\n") == 1
    assert "in the last of 3 attempts" in shown


def test_frames_of_zray_are_left_out_of_all_that_a_program_prints(tmp_path):
    done = run_script(tmp_path, CRASH)
    assert OWN_FOLDER not in done.stderr + done.stdout
    for words in ("in whole\n", "return ray.get(train.remote(value))", 'File "'):
        assert words in done.stderr


def test_variable_of_the_environment_shows_all_frames(tmp_path):
    path = write_script(tmp_path, CRASH)
    variables = {**environment(), "ZRAY_FULL_TRACEBACK": "1"}
    done = subprocess.run([sys.executable, path], env=variables, capture_output=True, text=True, timeout=40)
    for name in ("objects.py", "main.py", "fork_server.py"):
        assert f"{OWN_FOLDER}" in done.stderr and name in done.stderr


def test_hook_of_the_program_is_left_alone(tmp_path):
    code = """
    import sys
    import zray
    def hook(*error):
        print("mine", file=sys.stderr)
    sys.excepthook = hook
    zray.init(num_cpus=1)
    assert sys.excepthook is hook
    1 / 0
    """
    assert run_script(tmp_path, code).stderr.strip().endswith("mine")


def test_lines_of_faulthandler_about_zray_are_folded():
    lines = [
        "Fatal Python error: Aborted",
        "",
        "Current thread 0x01 (most recent call first):",
        '  File "/home/me/train.py", line 7 in train',
        f'  File "{OWN_FOLDER}host/worker/main.py", line 290 in run_task',
        '  File "<string>", line 1 in <module>',
        "",
        "Extension modules: numpy (total: 1)",
    ]
    assert folded(lines) == [lines[0], lines[2], lines[3]]


# --- the OOM killer ---


@pytest.fixture(params=["unified", "old"])
def counted(request, tmp_path):
    """(a tree of cgroups with a limit of 4 GB, a function that sets the kernel's counter in it)."""
    tree = Tree(tmp_path)
    if request.param == "unified":
        tree.mount("/sys/fs/cgroup")
        tree.join("0::/job")
        tree.write("/sys/fs/cgroup/job", memory_max=4000 * MB, memory_peak=3900 * MB)
        return tree, lambda count: tree.write("/sys/fs/cgroup/job", memory_events=f"low 0\noom 9\noom_kill {count}")
    tree.mount("/sys/fs/cgroup/memory", "memory", kind="cgroup")
    tree.join("4:memory:/job")
    tree.write("/sys/fs/cgroup/memory/job", memory_limit_in_bytes=4000 * MB, memory_max_usage_in_bytes=3900 * MB)
    return tree, lambda count: tree.write(
        "/sys/fs/cgroup/memory/job", memory_oom_control=f"oom_kill_disable 0\nunder_oom 0\noom_kill {count}"
    )


def test_oom_kill_is_told_from_other_kills_by_the_counter_of_the_cgroup(counted):
    tree, count = counted
    count(3)
    kills = OomKills(str(tree.root))
    assert kills.explain(KILLED, 0, 100.0) == ""
    count(4)
    text = kills.explain(KILLED, 3200 * MB, 101.0)
    for words in ("OOM killer", "the process used up to 3.20 GB", "3.90 GB of a limit of 4.00 GB"):
        assert words in text
    assert kills.explain(KILLED, 0, 101.1) == ""


def test_oom_kills_of_several_processes_are_told_one_by_one(counted):
    tree, count = counted
    count(0)
    kills = OomKills(str(tree.root))
    count(2)
    assert kills.explain(CRASHED, 0, 100.0) == ""
    assert [bool(kills.explain(KILLED, 0, 100.0)) for _ in range(3)] == [True, True, False]


def test_oom_kill_of_another_process_explains_no_later_death(counted):
    tree, count = counted
    count(0)
    kills = OomKills(str(tree.root))
    count(1)
    kills.look(100.0)
    assert kills.explain(KILLED, 0, 101.0 + FRESH_SECONDS) == ""


def test_machine_without_cgroups_is_asked_itself(tmp_path):
    (tmp_path / "proc").mkdir()
    vmstat = tmp_path / "proc/vmstat"
    vmstat.write_text("nr_free_pages 1\noom_kill 7\n")
    kills = OomKills(str(tmp_path))
    assert kills.explain(KILLED, 0, 100.0) == ""
    vmstat.write_text("nr_free_pages 1\noom_kill 8\n")
    assert "the machine has" in kills.explain(KILLED, 0, 100.0)


@pytest.fixture
def small_cgroup():
    """The file that takes processes of a real cgroup of 400 MB."""
    folders = Cgroups().memory_folders()
    names = ("memory.max", "memory.limit_in_bytes")
    folder = next((Path(folder) for folder in folders if any(Path(folder, name).exists() for name in names)), None)
    if folder is None:
        pytest.skip("no cgroup limits memory here")
    inner = folder / f"zray-test-{uuid.uuid4().hex}"
    try:
        inner.mkdir()
    except OSError as error:
        pytest.skip(f"no nested cgroup can be made here: {error}")
    try:
        name = next((name for name in names if (inner / name).exists()), None)
        if name is None:
            pytest.skip("a nested cgroup has no limit of memory here")
        (inner / name).write_text(str(400 * MB))
        yield inner / "cgroup.procs"
    finally:
        inner.rmdir()


OUT_OF_MEMORY = """
import os, sys
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
import zray as ray
ray.init(num_cpus=1, object_store_memory=50_000_000)

@ray.remote(max_retries=0)
def hog():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    return len(b"x" * 2_000_000_000)

@ray.remote(max_retries=0)
def killed():
    os.kill(os.getpid(), 9)

for f in (hog, killed):
    try:
        ray.get(f.remote())
    except ray.exceptions.WorkerCrashedError as error:
        print(error.exit_text)
"""


def test_kill_by_the_kernel_for_lack_of_memory_is_called_so(small_cgroup, tmp_path):
    path = write_script(tmp_path, OUT_OF_MEMORY)
    command = [sys.executable, path, str(small_cgroup)]
    done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=50)
    if not done.stdout and "OSError" in done.stderr:
        pytest.skip(f"no process can join a nested cgroup here: {done.stderr.splitlines()[-1]}")
    first, second = done.stdout.splitlines()
    assert "OOM killer" in first and "of a limit of 0.40 GB" in first
    assert second == "killed by signal 9 (SIGKILL)"


MISTAKES = {
    "an unknown option": "ray.remote(num_cpu=1)(print)",
    "a wrong value": "ray.remote(num_cpus=-1)(print)",
    "a name that is absent": "ray.util.ActorPooll",
    "a direct call": "ray.remote(print)()",
    "an argument of init": "ray.init(num_cpus='many')",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_frames_of_zray_are_left_out_before_a_session_too(tmp_path, mistake):
    path = write_script(tmp_path, f"import zray as ray\n{MISTAKES[mistake]}\n")
    command = [sys.executable, path]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=40)
    assert f'{path}", line 2, in <module>' in done.stderr and OWN_FOLDER not in done.stderr, done.stderr
    variables = {**environment(), "ZRAY_FULL_TRACEBACK": "1"}
    whole = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=40)
    assert OWN_FOLDER in whole.stderr and whole.stderr.splitlines()[-1] == done.stderr.splitlines()[-1]


def test_fault_of_an_own_process_is_shown_with_all_frames():
    """Frames of zray alone tell of the fault."""
    program = _PROGRAM.format(path=repr([str(ROOT), *sys.path]), mark="X", module="zray.host.node.main")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40)
    assert done.returncode and "main.py" in done.stderr, done.stderr
