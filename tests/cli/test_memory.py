"""`zray memory`: what fills the object store."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest

import zray
from cli import memory
from tests.cli.commands import zray as command
from zray.cluster_utils import Cluster


def run(*arguments):
    return command("memory", *arguments, timeout_s=60)


def test_values_are_shown_by_place_and_one_by_one(start):
    start(num_cpus=1)
    refs = [zray.put(np.ones(500_000)) for _ in range(3)]
    done = run("--limit", "2")
    assert done.returncode == 0, done.stderr
    places = [line for line in done.stdout.splitlines() if f"put at {__file__}" in line]
    assert len(places) == 3 and " 3 " in places[0] and "12.0 MB" in places[0] and "3 memory" in places[0]
    assert all("4.0 MB" in line and f"pid {os.getpid()} (" in line for line in places[1:])
    assert all("array float64 500000" in line for line in places[1:])
    assert done.stdout.splitlines()[-1] == "3 values, 12.0 MB"
    assert len(refs) == 3


@zray.remote
def unusual_name():
    return 1


@zray.remote
class Store:
    def keep(self, refs):
        self.refs = refs
        return os.getpid()


def test_places_say_who_refers_to_their_values(start):
    start(num_cpus=1)
    store = Store.remote()
    pid = zray.get(store.keep.remote([zray.put(np.ones(500_000)) for _ in range(2)]))
    ref = zray.put(np.ones(100_000))
    held, own = [line for line in run("--limit", "1").stdout.splitlines() if f"put at {__file__}" in line][:2]
    assert f"actor Store pid {pid}" in held and f"program pid {os.getpid()}" in own
    assert ref is not None


def test_few_of_many_holders_are_named():
    rows = [SimpleNamespace(call_site="a", pid=pid) for pid in (1, 2, 2, 3, 4, 5)]
    rows += [SimpleNamespace(call_site="b", pid=0)]
    assert memory._holders(rows, {2: "actor Store pid 2"}) == {
        "a": "actor Store pid 2, pid 1, pid 3, 2 more processes",
        "b": "tasks or other values",
    }


def test_ref_alone_is_not_said_to_be_read(start):
    start(num_cpus=1)
    ref = zray.put(np.ones(500_000))
    (row,) = json.loads(run("--format", "json").stdout)["objects"]
    assert row["references"] == [{"pid": os.getpid(), "type": "PINNED_IN_MEMORY", "has_ref": True}]
    shown = " ".join(run().stdout.split())
    assert "may have" in shown and "in place" not in shown
    assert ref is not None


@pytest.mark.parametrize(
    ("kind", "has_ref", "words"),
    [
        ("LOCAL_REFERENCE", True, "ref"),
        ("PINNED_IN_MEMORY", True, "ref, may have arrays"),
        ("PINNED_IN_MEMORY", False, "arrays or a task"),
    ],
)
def test_words_say_what_the_node_knows(kind, has_ref, words):
    assert memory._users([{"pid": 7, "type": kind, "has_ref": has_ref}], {}) == f"pid 7 ({words})"


def test_json_has_the_same(start):
    start(num_cpus=1)
    ref = zray.put(np.ones(500_000))
    found = json.loads(run("--format", "json").stdout)
    (row,) = [row for row in found["objects"] if row["object_id"] == ref.hex()]
    assert row["call_site"].startswith(f"put at {__file__}:") and row["state"] == "MEMORY"
    assert found["summary"]["total_objects"] >= 1


def test_session_is_chosen_by_its_name(start):
    start(num_cpus=1)
    (ours,) = json.loads(command("status", "--format", "json").stdout)["sessions"]
    ref = zray.put(np.ones(500_000))
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        for name, values in ((ours["session"], [ref.hex()]), (cluster.head_node.session.name, [])):
            found = json.loads(run("--session", name, "--format", "json").stdout)["objects"]
            assert [row["object_id"] for row in found] == values


@pytest.mark.parametrize(
    ("more", "words"),
    [((), "No session on this machine has the name 'nothing'"), (("--address", "127.0.0.1:1"), "give one of the two")],
)
def test_session_that_is_not_there_is_an_error_in_words(start, more, words):
    start(num_cpus=1)
    done = run("--session", "nothing", *more)
    assert done.returncode and words in done.stderr and "Traceback" not in done.stderr


def test_machine_without_a_session_is_an_error_in_words(monkeypatch, tmp_path):
    monkeypatch.setenv("ZRAY_TMPDIR", str(tmp_path))
    done = run()
    assert done.returncode == 1 and "Traceback" not in done.stderr and done.stderr.startswith("Error: ")


LOOKS = [
    ("list", "tasks"),
    ("get", "tasks", "TASK"),
    ("summary", "tasks"),
    ("why", "TASK"),
    ("top", "--once"),
    ("timeline", "FILE"),
    ("report", "--json"),
]


def test_commands_that_look_have_the_session_that_is_named_and_name_the_others(start, tmp_path):
    start(num_cpus=1)
    (ours,) = json.loads(command("status", "--format", "json").stdout)["sessions"]
    ref = unusual_name.remote()
    zray.get(ref)
    file = tmp_path / "timeline.json"
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        theirs = cluster.head_node.session.name
        others = command("list", "tasks")
        assert f"Note: session {theirs} is shown; --session names another: {ours['session']}.\n" in others.stderr
        assert "There are no tasks." in others.stderr and others.returncode == 0
        for words in LOOKS:
            name = [{"TASK": ref.task_id().hex(), "FILE": str(file)}.get(word, word) for word in words]
            done = command(*name, "--session", ours["session"][:6])
            assert done.returncode == 0 and "Note: session" not in done.stderr, done.stderr
            shown = file.read_text() if "FILE" in words else done.stdout
            assert "unusual_name" in shown, words
    alone = command("list", "tasks")
    assert "Note" not in alone.stderr and "unusual_name" in alone.stdout


@pytest.mark.parametrize("words", [*LOOKS[:4], ("memory",)])
def test_command_without_a_session_names_those_that_know_ended_ones(words, monkeypatch, tmp_path):
    monkeypatch.setenv("ZRAY_TMPDIR", str(tmp_path))
    done = command(*words)
    assert done.returncode == 1 and "`zray logs` and `zray replay`" in done.stderr and "init(" not in done.stderr
