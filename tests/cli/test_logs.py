"""`zray logs`: output of workers, also of sessions that have ended in any way."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import command_line, zray
from tests.gates import until
from tests.leftovers import segments
from tests.scripts import ROOT, environment, run_script, start_script

PROGRAM = """
import os, sys
import zray as ray

@ray.remote
def load(number):
    print("load", number)
    print("trouble", number, file=sys.stderr)

@ray.remote
class Trainer:
    def step(self, number):
        print("step", number)
        return os.getpid()

@ray.remote
class Async:
    async def go(self):
        print("\\x1b]0;title\\x07went \\x1b[31mred")

ray.init(num_cpus=1, log_to_driver=False)
ref = load.remote(1)
ray.get(ref)
ray.get(load.remote(2))
trainer = Trainer.options(name="boss").remote()
pid = ray.get([trainer.step.remote(number) for number in range(3)])[0]
ray.get(Async.remote().go.remote())
print(ref.hex(), pid, ray.get_runtime_context().get_node_id(), trainer._actor_id.hex(), flush=True)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of kept logs."""
    monkeypatch.setenv("ZRAY_LOG_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def ended(tmp_path):
    """A session that has ended: ids of an object, of a node and of an actor, and a pid."""
    result = run_script(tmp_path, PROGRAM)
    assert result.returncode == 0, result.stderr
    found = dict(zip(("object", "pid", "node", "actor"), result.stdout.split(), strict=True))
    return {**found, "task": found["object"][:32]}


def shown(*arguments):
    """The texts of lines that `zray logs` shows."""
    result = zray("logs", *arguments)
    assert result.returncode == 0, result.stderr
    lines = [re.fullmatch(r"\(\w+ pid=\d+\) (.*)", line) for line in result.stdout.splitlines()]
    assert all(lines), result.stdout
    return [line[1] for line in lines]


def test_output_is_found_after_the_end_by_all_that_it_has(ended):
    load = ["load 1", "trouble 1", "load 2", "trouble 2"]
    steps = ["step 0", "step 1", "step 2"]
    went = ["\\x1b]0;title\\x07went red"]  # colours are for terminals
    assert shown("--last") == [*load, *steps, *went]
    assert shown("load") == load
    assert shown("load", "--err") == ["trouble 1", "trouble 2"]
    assert shown(ended["task"]) == shown(ended["object"]) == shown("task", "--id", ended["task"]) == load[:2]
    for what in ("boss", "Trainer", "Trainer.step", ended["pid"], ended["actor"]):
        assert shown(what) == steps
    assert shown("actor", "--id", ended["actor"]) == steps
    assert shown("Async") == went
    assert shown("worker-1") == load
    assert shown(ended["node"][:6]) == [*load, *steps, *went]
    assert shown("--last", "--tail", "2") == [*steps[2:], *went]
    (line,) = map(json.loads, zray("logs", "boss", "--tail", "1", "--json").stdout.splitlines())
    assert (line["text"], line["stream"], line["pid"]) == ("step 2", "out", int(ended["pid"]))
    assert (line["task_name"], line["actor_id"]) == ("Trainer.step", ended["actor"])


def test_number_is_a_process_or_else_the_beginning_of_an_id(ended, folder):
    (session,) = folder.glob("*/session.jsonl")
    session.write_text(session.read_text().replace(ended["node"], "123456" + ended["node"][6:]))
    assert len(shown("123456")) == 8
    session.write_text(session.read_text().replace("123456", (ended["pid"] + "000000")[:6]))
    assert shown(ended["pid"]) == ["step 0", "step 1", "step 2"]


def test_name_that_no_log_has_is_an_error_in_words(ended):
    result = zray("logs", "nothing")
    assert result.returncode == 1 and "No output of 'nothing' is in the logs of 1 session" in result.stderr
    assert "No session 'none' has logs" in zray("logs", "--session", "none").stderr
    assert "No output of 'raysubmit_1'" in zray("logs", "job", "--id", "raysubmit_1").stderr
    assert zray("logs", "a", "b").returncode == 2


def test_files_are_listed_and_shown_under_names_of_ray_too(ended):
    files = zray("logs", "worker-*.out").stdout.split()[1::2]
    assert [name.rpartition("-")[0] for name in files] == ["worker-1", "worker-2", "worker-3"]
    assert zray("logs", files[1]).stdout == "step 0\nstep 1\nstep 2\n"
    assert "its driver said goodbye" in zray("logs", "raylet.out").stdout
    assert zray("logs", "node.log", "--tail", "1").stdout.count("\n") == 1


def test_sessions_are_listed_the_newest_first(ended, tmp_path):
    run_script(tmp_path, "import zray as ray\nray.init(num_cpus=1)\nray.get(ray.remote(print).remote('second'))")
    rows = [line.split("│") for line in zray("logs").stdout.splitlines() if line.startswith("│")]
    assert [row[4].strip() for row in rows] == ["script.py"] * 2
    assert [row[7].strip() for row in rows] == ["its driver said goodbye"] * 2
    first, second = (row[1].strip() for row in reversed(rows))
    assert shown("--last") == shown("--session", second[:6]) == ["second"]
    assert "step 2" in shown("--session", first[:6])
    assert shown("boss") == ["step 0", "step 1", "step 2"]  # of the session before the last


def test_output_survives_a_kill_of_all_processes(tmp_path, folder):
    code = """
    import os, time
    import zray as ray

    @ray.remote
    def work():
        print("before the kill")
        print("no end of line", end="", flush=True)
        os.write(2, b"past Python\\n")
        time.sleep(600)

    ray.init(num_cpus=1)
    ray.get(work.remote())
    """
    with start_script(tmp_path, code, {"TMPDIR": str(tmp_path)}) as script:
        until(lambda: any("no end" in path.read_text() for path in folder.glob("*/worker-*.log")))
        (session,) = folder.glob("[!.]*")
        (node,) = [int(pid) for pid in re.findall(r'"node_pid":(\d+)', (session / "session.jsonl").read_text())]
        family = [script.pid, node]
        for pid in family:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            family += [int(child) for child in children if int(child) not in family]
        for pid in family:
            os.kill(pid, signal.SIGSTOP)  # none of them tidies up
        for pid in family:
            os.kill(pid, signal.SIGKILL)
        script.communicate(timeout=20)
    assert shown("work") == ["before the kill", "past Python", "no end of line"]
    assert " killed " in zray("logs").stdout
    result = run_script(tmp_path, "import zray\nzray.init(num_cpus=1)")  # sweeps the remains of the killed one
    assert result.returncode == 0, result.stderr
    until(lambda: not any(session.name in name for name in segments()))
    assert shown("work") == ["before the kill", "past Python", "no end of line"]


def test_follow_shows_further_lines_until_the_session_ends(tmp_path, folder):
    code = """
    import sys
    import zray as ray

    @ray.remote
    def work(text):
        print(text)

    ray.init(num_cpus=1, log_to_driver=False)
    for line in sys.stdin:
        ray.get(work.remote(line.strip()))
    """
    with start_script(tmp_path, code, stdin=subprocess.PIPE) as script:
        script.stdin.write("first\n")
        script.stdin.flush()
        until(lambda: any("first" in path.read_text() for path in folder.glob("*/worker-*.log")))
        command = command_line("logs", "--follow", "work")
        follower = subprocess.Popen(command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert follower.stdout.readline().endswith(") first\n")
        script.stdin.write("second\n")
        script.stdin.flush()
        assert follower.stdout.readline().endswith(") second\n")
        tail = command_line("logs", "--follow", "work", "--tail", "1")
        late = subprocess.Popen(tail, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert late.stdout.readline().endswith(") second\n")
        script.communicate("last\n", timeout=20)
        for process in (follower, late):
            (line,) = process.communicate(timeout=20)[0].splitlines()
            assert line.endswith(") last") and process.returncode == 0


def test_crash_names_the_command_that_shows_the_output(tmp_path):
    result = run_script(
        tmp_path,
        """
        import os
        import zray as ray

        @ray.remote(max_retries=1)
        def crash():
            print("last words")
            os._exit(7)

        ray.init(num_cpus=1)
        try:
            ray.get(crash.remote())
        except ray.exceptions.WorkerCrashedError as error:
            print(error)
        """,
    )
    commands = re.findall(r"exited with code 7; output: zray (logs \d+)\)", result.stdout + result.stderr)
    assert len(set(commands)) == 2, result.stderr  # of the attempt, and of the retry
    for command in commands:
        assert zray(*command.split()).stdout.endswith(") last words\n")


def test_functions_under_names_of_ray_read_running_and_ended_sessions(ended, start):
    import zray as ray
    from zray.util.state import get_log, list_logs

    start(num_cpus=1, log_to_driver=False)

    @ray.remote
    def speak():
        print("I speak")
        return os.getpid(), ray.get_runtime_context().get_task_id()

    pid, task_id = ray.get(speak.remote())
    (name,) = list_logs(glob_filter="worker-*")["worker_out"]
    assert str(pid) in name and "node.log" in list_logs()["raylet"]
    for how in ({"pid": pid}, {"task_id": task_id}, {"filename": name}):
        assert list(get_log(**how)) == ["I speak\n"]
    assert next(get_log(pid=pid, follow=True)) == "I speak\n"
    (earlier,) = {one["session"] for one in map(json.loads, zray("logs", "boss", "--json").stdout.splitlines())}
    assert list(get_log(actor_id=ended["actor"], session=earlier, tail=2)) == ["step 1\n", "step 2\n"]
    assert list(get_log(task_id=ended["task"], session=earlier, suffix="err")) == ["trouble 1\n"]
    assert len(list_logs(session=earlier)["worker_out"]) == 3
    for wrong in ({}, {"pid": 1, "task_id": "a"}, {"pid": 1, "suffix": "both"}, {"pid": 1, "session": "none"}):
        with pytest.raises(ValueError):
            get_log(**wrong)
    with pytest.raises(ValueError, match="No output of"):
        get_log(actor_id=ended["actor"])


def test_nodes_of_a_cluster_are_one_group_and_others_are_named(cluster, monkeypatch, folder):
    import zray as ray

    cluster.connect()

    @ray.remote
    def where(number):
        print("number", number)
        return ray.get_runtime_context().get_node_id()

    nodes = set(ray.get([where.options(num_cpus=1).remote(number) for number in range(20)]))
    assert sorted(shown("where")) == sorted(f"number {number}" for number in range(20))
    (row,) = [line for line in zray("logs").stdout.splitlines() if line.startswith("│")]
    assert row.split("│")[5].strip() == "3"
    lost = nodes.pop()
    for path in folder.glob("[!.]*"):
        if f'"node_id":"{lost}"' in (path / "session.jsonl").read_text():
            path.rename(folder.parent / "elsewhere")
    result = zray("logs", lost)
    assert result.returncode == 1 and f"Logs of node {lost} are on its machine, 127.0.0.1" in result.stderr
