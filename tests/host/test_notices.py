"""Notices of retries and restarts on the driver's terminal and in the log of its node."""

import pytest

from tests.scripts import run_script

PROGRAM = """
import os, sys
import zray as ray
context = ray.init(num_cpus=2, log_to_driver={wanted})

@ray.remote(max_retries=2)
def train():
    os.kill(os.getpid(), 9)

@ray.remote(max_retries=1, retry_exceptions=True)
def load():
    raise ValueError("no such file")

@ray.remote(max_restarts=1, max_task_retries=1)
class Counter:
    def __init__(self):
        self.pid = os.getpid()
    def die(self, pid):
        if pid == self.pid:
            os.kill(pid, 9)
    def identity(self):
        return self.pid

for f in (train, load):
    try:
        ray.get(f.remote())
    except (ray.exceptions.WorkerCrashedError, ValueError):
        pass
counter = Counter.remote()
ray.get(counter.die.remote(ray.get(counter.identity.remote())))
with open(os.path.join(context["session_dir"], "logs", "node.log")) as file:
    print(file.read())
"""
STARTS = [
    "task train is retried (attempt 2 of 3): its worker died (pid=",
    "task train is retried (attempt 3 of 3): its worker died (pid=",
    "task load is retried (attempt 2 of 2): it raised an exception",
    "actor Counter is restarted (restart 1 of 1): its process died (pid=",
]


@pytest.mark.parametrize("option, quiet, wanted", [(True, "0", True), (False, "0", False), (True, "1", False)])
def test_retries_and_restarts_are_told_once_each(option, quiet, wanted, tmp_path, monkeypatch):
    monkeypatch.setenv("ZRAY_QUIET", quiet)
    done = run_script(tmp_path, PROGRAM.replace("{wanted}", str(option)))
    assert done.returncode == 0, done.stderr
    for text in STARTS:
        assert done.stderr.count(f"zray: {text}") == wanted, done.stderr
        assert done.stdout.count(text) == 1, done.stdout


HUNG = """
import os
import zray
from tests.gates import Gate, until
context = zray.init(num_cpus=1, log_to_driver={wanted})
gate = Gate({path!r})

@zray.remote
def load(hangs):
    if hangs:
        gate.wait(deadline_s=40)

zray.get([load.remote(False) for _ in range(6)])
ref = load.remote(True)
def is_told():
    with open(os.path.join(context["session_dir"], "logs", "node.log")) as file:
        return "has run for" in (text := file.read()) and text
print(until(is_told, deadline_s=40))
gate.open()
zray.get(ref)
print("id", ref.task_id().hex())
"""


HUNG_CALL = """
import os
import zray
from tests.gates import Gate, until
context = zray.init(num_cpus=1)
gate = Gate({path!r})

@zray.remote
class Keeper:
    def step(self, hangs):
        if hangs:
            gate.wait(deadline_s=40)

    def other(self):
        pass

keeper = Keeper.remote()
for _ in range(6):
    zray.get(keeper.step.remote(False))
zray.get([keeper.other.remote() for _ in range(100)])
ref = keeper.step.remote(True)
def is_told():
    with open(os.path.join(context["session_dir"], "logs", "node.log")) as file:
        return "has run for" in (text := file.read()) and text
print(until(is_told, deadline_s=40))
gate.open()
zray.get(ref)
print("id", ref.task_id().hex())
"""


@pytest.mark.slow
def test_hung_call_of_an_actor_is_told_once(tmp_path):
    done = run_script(tmp_path, HUNG_CALL.format(path=str(tmp_path / "gate")), timeout_s=50)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("zray: call Keeper.step (pid=") == 1, done.stderr
    call_id = done.stdout.rpartition("id ")[2].strip()
    (line,) = [line for line in done.stdout.splitlines() if "has run for 1" in line]
    assert "times as long as usual (" in line and line.endswith(f"`zray stack {call_id}` shows where it stands")


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [True, False])
def test_hung_task_is_told_once(wanted, tmp_path):
    done = run_script(tmp_path, HUNG.format(wanted=wanted, path=str(tmp_path / "gate")), timeout_s=50)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("zray: task load (pid=") == wanted, done.stderr
    task_id = done.stdout.rpartition("id ")[2].strip()
    (line,) = [line for line in done.stdout.splitlines() if "has run for 1" in line]
    assert "times as long as usual (" in line and line.endswith(f"`zray stack {task_id}` shows where it stands")
