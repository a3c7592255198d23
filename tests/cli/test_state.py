"""`zray list`, `zray get` and `zray summary`: what a session has, as tables, JSON and YAML."""

import json
import os
import time

import pytest
import yaml

import zray
from tests.cli.commands import zray as command
from tests.gates import until
from zray.util import state


def run(*arguments, status=0):
    done = command(*arguments, timeout_s=60)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


def listed(*arguments):
    return json.loads(run("list", *arguments, "--format", "json").stdout)


@zray.remote
def work(number):
    return number


@zray.remote
def wait(gate):
    gate.wait()


@zray.remote
def behind():
    return 1


@zray.remote
def after(value):
    return value


@zray.remote
def fail():
    raise OSError("no such file")


@zray.remote
class Keeper:
    def keep(self):
        return 1


@pytest.fixture(scope="module")
def program(session):
    keeper = Keeper.options(name="[bold]keeper").remote()
    zray.get(keeper.keep.remote())
    zray.get([work.remote(number) for number in range(3)])
    with pytest.raises(OSError):
        zray.get(fail.remote())
    return keeper, zray.put(b"x" * 1_000_000)


def test_each_kind_is_listed(program):
    (actor,) = listed("actors")
    assert (actor["class_name"], actor["name"], actor["state"]) == ("Keeper", "[bold]keeper", "ALIVE")
    (node,) = listed("nodes")
    assert node["resources_total"]["CPU"] == 2.0
    (job,) = listed("jobs")
    assert (job["pid"], job["status"]) == (os.getpid(), "RUNNING")
    assert {row["object_size"] > 999_999 for row in listed("objects")} == {True}
    assert listed("placement-groups") == []
    workers = listed("workers")
    assert os.getpid() in [row["pid"] for row in workers] and actor["pid"] in [row["pid"] for row in workers]


def test_filters_choose_tasks(program):
    (failed,) = listed("tasks", "-f", "state=failed")
    assert (failed["name"], failed["error_type"]) == ("fail", "TASK_EXECUTION_EXCEPTION")
    assert len(listed("tasks", "--filter", "name~WOR", "-f", "state!=FAILED")) == 3
    assert len(listed("objects", "-f", "object_size>1000")) == 1 and not listed("objects", "-f", "object_size<1000")
    assert len(listed("tasks", "--limit", "2")) == 2


def test_detail_adds_times_and_parents(program):
    tasks = listed("tasks", "--detail", "-f", "name=work")
    assert len(tasks) == 3
    for task in tasks:
        assert task["creation_time_ms"] <= task["start_time_ms"] <= task["end_time_ms"]
        assert task["phases_ms"].keys() == {"wait", "read_arguments", "run", "store_results"}


def test_detail_has_times_and_waits_of_tasks_at_nodes(program, gate):
    first = [wait.remote(gate) for _ in range(2)]
    second, third = behind.remote(), after.remote(first[0])
    until(lambda: {second.task_id().hex(), third.task_id().hex()} <= {row.task_id for row in state.list_tasks()})
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 0.1)
    gate.open()
    zray.get([*first, second, third])
    (queued,) = yaml.safe_load(run("get", "tasks", second.task_id().hex()).stdout)
    assert queued["waits_ms"].keys() - {"process"} == {"queue"}
    assert 100 <= queued["waits_ms"]["queue"] <= queued["phases_ms"]["wait"]
    assert queued["creation_time_ms"] <= queued["queue_time_ms"] + 1 and queued["fetch_time_ms"] is None
    (for_argument,) = listed("tasks", "--detail", "-f", f"task_id={third.task_id().hex()}")
    assert for_argument["waits_ms"]["arguments"] >= 100
    assert for_argument["last_argument"] == {"task_id": first[0].task_id().hex(), "name": "wait"}
    assert "queue: " in run("list", "tasks", "--detail", "-f", f"task_id={second.task_id().hex()}").stdout


def test_table_shows_texts_as_they_are(program):
    done = run("list", "actors")
    assert "[bold]keeper" in done.stdout and "Keeper" in done.stdout and program[0]._actor_id.hex() in done.stdout
    assert "1.0 MB" in run("list", "objects").stdout


def test_empty_list_says_so_and_is_no_failure(program):
    done = run("list", "tasks", "-f", "name=nobody")
    assert done.stdout == "" and done.stderr == "There are no tasks with name=nobody.\n"


def test_mistakes_are_named(program):
    assert "KEY=VALUE" in run("list", "tasks", "-f", "state", status=2).stderr
    assert "there are task_id, name" in run("list", "tasks", "-f", "stat=1", status=2).stderr
    assert "No tasks have the id 'zz'" in run("get", "tasks", "zz", status=1).stderr
    assert "Several tasks begin with ''" in run("get", "tasks", "", status=1).stderr


def test_beginning_of_an_id_is_enough(program):
    actor_id = program[0]._actor_id.hex()
    found = yaml.safe_load(run("get", "actors", actor_id[:24].upper() + actor_id[24:]).stdout)
    assert found[0]["actor_id"] == actor_id and found[0]["state"] == "ALIVE"
    assert json.loads(run("get", "actors", actor_id, "--format", "json").stdout) == found


def test_summaries_count_by_name_and_state(program):
    tasks = json.loads(run("summary", "tasks", "--format", "json").stdout)["summary"]
    assert tasks["work"]["state_counts"] == {"FINISHED": 3} and tasks["fail"]["state_counts"] == {"FAILED": 1}
    rows = run("summary", "tasks").stdout
    assert "FINISHED" in rows and "work" in rows
    assert "Keeper" in run("summary", "actors").stdout
    assert f"put at {__file__}" in run("summary", "objects").stdout


def test_the_id_of_an_object_names_its_task(program):
    ref = work.remote(1)
    zray.get(ref)
    (task,) = yaml.safe_load(run("get", "tasks", ref.hex().upper()).stdout)
    assert task["task_id"] == ref.task_id().hex() and task["name"].endswith("work")


@zray.remote(max_retries=2, retry_exceptions=True)
def fail_once(mark):
    if not mark.is_open():
        mark.open()
        raise OSError("not yet")


def test_attempt_of_a_task_that_ran_again_is_shown(program, gate):
    ref = fail_once.remote(gate)
    zray.get(ref)
    task_id = ref.task_id().hex()
    (listed_,) = listed("tasks", "--detail", "-f", f"task_id={task_id}")
    (shown,) = yaml.safe_load(run("get", "tasks", task_id).stdout)
    assert listed_["attempt_number"] == shown["attempt_number"] == 1
