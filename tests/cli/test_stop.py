"""`zray stop`: which session is meant, where a node has joined again and its session has another name."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from cli.stop import stop
from zray.host.client import control
from zray.host.session.session import Session
from zray.host.session.session_info import SessionInfo


@pytest.fixture
def ended(monkeypatch):
    """Sessions that were ended; there are two nodes, of which one has joined again in the place of "first"."""
    of = {"is_embedded": False, "cluster": "10.0.0.1:6379"}
    infos = [SessionInfo("other", 1, kind="head", **of), SessionInfo("again", 2, kind="node", called="first", **of)]
    found = [(SimpleNamespace(name=info.session), info) for info in infos]
    names = []
    monkeypatch.setattr(control, "sessions", lambda: found)
    monkeypatch.setattr(control, "end", lambda session, pid: not names.append(session.name))
    return names


@pytest.mark.parametrize("name", ["first", "again"])
def test_a_node_that_joined_again_is_ended_by_either_name(ended, name):
    done = CliRunner().invoke(stop, [name])
    assert (done.exit_code, done.output) == (0, "Session again (first called first) has ended.\n")
    assert ended == ["again"]


@pytest.mark.parametrize("beginning, name", [("o", "other"), ("ag", "again"), ("fir", "again")])
def test_it_is_enough_to_say_how_its_name_begins(ended, beginning, name):
    assert CliRunner().invoke(stop, [beginning]).exit_code == 0
    assert ended == [name]


@pytest.mark.parametrize("name", ["nobody", "", "ther"])
def test_a_name_of_nobody_is_refused(ended, name):
    done = CliRunner().invoke(stop, [name])
    there = "there are: other (head of 10.0.0.1:6379), again (node of 10.0.0.1:6379)."
    assert done.exit_code == 2 and there in " ".join(done.output.split()) and not ended


def test_where_there_are_several_they_are_named_with_what_they_are(ended):
    done = CliRunner().invoke(stop, [])
    said = " ".join(done.output.split())
    assert done.exit_code == 2 and not ended
    assert "name one, or give --all: other (head of 10.0.0.1:6379), again (node of 10.0.0.1:6379)." in said


def test_a_name_that_begins_several_is_refused(ended, monkeypatch):
    infos = [SessionInfo(name, 1, is_embedded=False) for name in ("a1", "a12", "b")]
    monkeypatch.setattr(control, "sessions", lambda: [(SimpleNamespace(name=info.session), info) for info in infos])
    done = CliRunner().invoke(stop, ["a"])
    assert done.exit_code == 2 and "Several sessions have names that begin so: a1, a12." in done.output and not ended
    assert CliRunner().invoke(stop, ["a1"]).exit_code == 0 and ended == ["a1"]


@pytest.fixture
def program(monkeypatch):
    """The session of a running program, and no other one."""
    info = SessionInfo("of-program", 4711, is_embedded=True)
    monkeypatch.setattr(control, "sessions", lambda: [(SimpleNamespace(name=info.session), info)])
    monkeypatch.setattr(control, "returning", list)
    return info.session


def test_session_of_a_running_program_is_not_ended_and_is_named(program):
    done = CliRunner().invoke(stop, [])
    assert done.exit_code == 0
    assert "Nothing was running" in done.output
    assert f"Sessions of running programs end with their programs: {program} (node pid 4711)." in done.output


def test_name_of_the_session_of_a_running_program_is_refused_with_the_reason(program):
    done = CliRunner().invoke(stop, [program[:4]])
    assert done.exit_code == 2 and f"Session {program} belongs to a running program" in done.output


@pytest.mark.parametrize("is_reaped", [True, False])
def test_a_session_that_ends_before_we_can_say_so_has_ended(tmp_path, is_reaped):
    """Two `zray stop` at once: the other one was faster."""
    node = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    node.stdout.read()
    if is_reaped:
        node.wait()
    with node.stdout:
        assert control.end(Session("gone", str(tmp_path / "sessions")), node.pid)
    node.wait()
