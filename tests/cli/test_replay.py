"""`zray replay`: failed tasks that run again after their session, without its program."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.commands import command_line, zray
from tests.scripts import ROOT, environment, write_script
from zray.api.replays import Replay
from zray.host.session import replay_files

SECRET = "a-secret-of-mine"
PROGRAM = """
import sys
import helper
import numpy as np
import zray as ray

@ray.remote
def one():
    return 1

@ray.remote
def divide(a, b, *, array):
    half = 0.5
    print("drawn", ray.util.rng().random(), array.sum(), ray.get(one.remote()))
    return a / b

@ray.remote
def read(path):
    return open(path).read().index("x")

@ray.remote
def items(count):
    yield from range(count)
    raise LookupError(f"behind {count} items")

@ray.remote(num_returns=3)
def parts():
    yield 1
    raise LookupError("behind a part")

@ray.remote(num_returns="dynamic")
def dynamic():
    yield 1
    raise LookupError("behind an item")

@ray.remote
async def wait_for(text):
    raise OSError(text)

@ray.remote
def unpicklable():
    return (each for each in ())

@ray.remote
def total(refs):
    raise ValueError(sum(ray.get(refs)))

@ray.remote
def lost(refs):
    raise ValueError("nothing taken")

@ray.remote
def takes_much(array):
    raise ValueError("much")

@ray.remote(retry_exceptions=True, max_retries=2)
def again(path):
    with open(path, "a") as file:
        file.write("x")
    raise ValueError(f"attempt {len(open(path).read())}")

@ray.remote(retry_exceptions=True, max_retries=2, max_calls=1)
def again_elsewhere(path):
    with open(path, "a") as file:
        file.write("x")
    raise ValueError(f"attempt {len(open(path).read())}")

@ray.remote
def quiet():
    raise ValueError("quiet")

@ray.remote
def flood(number):
    raise ValueError(number)

@ray.remote
class Counter:
    def __init__(self, start):
        self.rate = 1 / start

    def add(self):
        raise KeyError("add")

@ray.remote
class Waker:
    async def __init__(self, start):
        self.rate = 1 / start

    async def wake(self):
        pass

def fails(ref):
    try:
        ray.get(list(ref) if hasattr(ref, "__next__") else ref)
    except Exception:
        return
    raise AssertionError("no error")

ray.init(num_cpus=2, seed=7)
environment = {"env_vars": {"SERVICE_KEY": sys.argv[2]}}
array = ray.put(np.ones(50_000))
ref = divide.options(runtime_env=environment).remote(one.remote(), 0, array=array)
fails(ref)
print("id", ref.hex())
fails(read.remote(sys.argv[1]))
fails(ray.remote(helper.check).remote(3))
fails(items.remote(3))
fails(parts.remote()[1])
fails(list(ray.get(dynamic.remote()))[1])
fails(wait_for.remote("no answer"))
fails(unpicklable.remote())
fails(total.remote([one.remote(), ray.put(2)]))
fails(lost.remote([one.remote()]))
fails(takes_much.remote(np.zeros(9_000_000)))
fails(again.remote(sys.argv[1] + '-1'))
fails(again_elsewhere.remote(sys.argv[1] + '-2'))
fails(quiet.options(runtime_env={"env_vars": {"ZRAY_REPLAY": "0"}}).remote())
fails(takes_much.remote(divide.remote(1, 0, array=array)))
fails(Counter.remote(0).add.remote())
fails(Counter.remote(1).add.remote())
fails(Waker.remote(0).wake.remote())
fails(Counter.options(hosted=True).remote(0).add.remote())
ray.wait([flood.remote(number) for number in range(300)], num_returns=300)
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A session that has ended, and whose program is gone."""
    folder = tmp_path_factory.mktemp("replay")
    script = write_script(folder, PROGRAM)
    (folder / "helper.py").write_text("def check(value):\n    raise ValueError(object())\n")
    text = folder / "text"
    done = subprocess.run(
        [sys.executable, str(script), str(text), SECRET],
        env={**environment(), "ZRAY_LOG_DIR": str(folder / "logs")},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    script.unlink()
    lines = [line.partition(") ")[2] or line for line in done.stdout.splitlines()]
    drawn = next(line for line in lines if line.startswith("drawn"))
    object_id = next(line.split()[1] for line in lines if line.startswith("id"))
    return SimpleNamespace(logs=folder / "logs", text=text, drawn=drawn, object_id=object_id, script=script)


@pytest.fixture(autouse=True)
def logs(ended, monkeypatch):
    monkeypatch.setenv("ZRAY_LOG_DIR", str(ended.logs))


def file_of(ended, name):
    """The newest file of a task."""
    found = [path for path in ended.logs.rglob("replay-*.zray") if facts_of(path).name == name]
    return max(found, key=lambda path: path.stat().st_mtime)


def facts_of(path):
    replay = Replay(str(path), trusted=True)
    replay.close()
    return replay.facts


def test_task_ends_the_same_with_its_arguments_and_random_numbers(ended):
    for what in ("divide", ended.object_id, ended.object_id[:-8]):
        done = zray("replay", what)
        assert done.returncode == 1, done.stderr
        assert ended.drawn in done.stdout and "50000.0 1" in ended.drawn
        assert "The task ends the same." in done.stdout
        assert "return a / b" in done.stderr and "ZeroDivisionError: division by zero" in done.stderr
        assert "zray/" not in done.stderr
    assert "are not set here: SERVICE_KEY" in done.stdout
    assert "Several failed tasks have an id that begins with" in zray("replay", ended.object_id[:8]).stderr


def test_values_of_environment_variables_are_not_in_the_file_that_others_cannot_read(ended):
    path = file_of(ended, "divide")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert b"SERVICE_KEY" in path.read_bytes() and SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    "name", ["items", "parts", "dynamic", "wait_for", "unpicklable", "total", "Counter", "flood", "Waker"]
)
def test_each_kind_of_task_ends_the_same(ended, name):
    done = zray("replay", name)
    assert done.returncode == 1 and "The task ends the same." in done.stdout, done.stdout + done.stderr


def test_file_is_of_the_last_attempt(ended):
    for name in ("again", "again_elsewhere"):
        facts = facts_of(file_of(ended, name))
        assert facts.error_text == "attempt 3" and facts.options["max_retries"] == 2
        assert facts.error_type == "builtins.ValueError" and facts.may_be_retried
    assert "asked for a retry" in zray("replay", "again").stdout


def test_verdict_follows_what_has_changed(ended):
    ended.text.write_text("no such letter")
    done = zray("replay", "read")
    assert "The task ends with another error: ValueError: substring not found" in done.stdout
    assert "It failed before: FileNotFoundError" in done.stdout and done.returncode == 1
    ended.text.write_text("an x")
    done = zray("replay", "read")
    assert "The task returns a value now: 3\n" in done.stdout and done.returncode == 0


def test_function_of_a_module_runs_as_the_module_is_now(ended):
    same = zray("replay", "check")
    assert "The task ends the same." in same.stdout and "<object object at 0x" in same.stderr
    module = ended.script.parent / "helper.py"
    module.write_text("def check(value):\n    return value\n")
    assert "The task returns a value now: 3" in zray("replay", "check").stdout
    module.unlink()
    absent = zray("replay", "check")
    assert "The task cannot run here: " in absent.stdout and "No module named 'helper'" in absent.stdout


def test_value_that_the_task_had_not_taken_is_said_to_be_absent(ended):
    done = zray("replay", "lost")
    assert "had not got the values of a ref" in done.stdout and "ends the same" in done.stdout


def test_absent_content_is_refused_in_a_sentence(ended):
    large = zray("replay", "takes_much")
    assert "its code and arguments have more than 64 MiB" in large.stderr and large.returncode == 1


def test_debugger_stands_at_the_error(ended):
    done = subprocess.run(
        command_line("replay", "divide", "--pdb"),
        input="p a, b, half\nq\n",
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert "-> return a / b" in done.stdout and "(1, 0, 0.5)" in done.stdout, done.stderr


def test_file_is_replayed_on_another_machine(ended, tmp_path, monkeypatch):
    path = shutil.copy(file_of(ended, "divide"), tmp_path / "divide.zray")
    monkeypatch.setenv("ZRAY_LOG_DIR", str(tmp_path / "none"))
    done = zray("replay", str(path))
    assert ended.drawn in done.stdout and "The task ends the same." in done.stdout
    assert "return a / b" in done.stderr


def test_file_that_others_can_write_needs_trust(ended, tmp_path):
    path = Path(shutil.copy(file_of(ended, "wait_for"), tmp_path / "wait_for.zray"))
    path.chmod(0o622)
    refused = zray("replay", str(path))
    assert (
        refused.returncode == 1 and "can be written by others" in refused.stderr and "no answer" not in refused.stderr
    )
    assert "The task ends the same." in zray("replay", str(path), "--trust").stdout
    unnamed = zray("replay", "wait_for", "--trust")
    assert unnamed.returncode == 2 and "named by its path" in unnamed.stderr


def test_file_of_another_user_is_refused(ended, monkeypatch):
    path = file_of(ended, "wait_for")
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="another user's"):
        Replay(str(path))


def test_tasks_without_a_file_are_not_listed(ended):
    names = [facts_of(path).name for path in ended.logs.rglob("replay-*.zray")]
    assert "quiet" not in names and names.count("takes_much") == 1
    assert 1 <= names.count("flood") < 30
    listed = zray("replay").stdout
    assert "divide" in listed and "ZeroDivisionError" in listed
    unknown = zray("replay", "quiet")
    assert unknown.returncode == 1 and "No failed task 'quiet' has left a file" in unknown.stderr


def test_differences_are_told(ended, tmp_path):
    facts = facts_of(file_of(ended, "divide"))
    facts.python, facts.packages, facts.working_dir = "3.1.4", {"numpy": "0.1", "absent_package": "2"}, "/nowhere"
    replay_files.write(str(tmp_path), "key", facts, [])
    replay = Replay(str(tmp_path / f"replay-key-{facts.task_id}.zray"))
    lines = replay.differences()
    replay.close()
    assert lines[0].startswith("Python 3.1.4 there, 3.") and lines[1].startswith("numpy 0.1 there, ")
    assert lines[2] == "absent_package 2 there, none here"
    assert lines[-1] == "its working folder /nowhere is not here, so modules are looked for in this one"
