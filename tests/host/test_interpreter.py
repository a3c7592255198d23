"""The Python of zray's own processes: where a program has none, it is told so, and is never started once more."""

import os
import subprocess
import sys
import textwrap

import pytest

import zray
from tests.scripts import environment, run_script
from zray import on_import
from zray.exceptions import ClusterLostError, ZrayError
from zray.host import context
from zray.host.process.interpreter import child_environment, interpreter
from zray.host.process.spawn import import_path

PYTHON = sys.executable
WHAT_TO_DO = "set ZRAY_PYTHON=/path/to/python in the environment"
VERSION = f"Python {sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def frozen(monkeypatch, tmp_path):
    """This program as PyInstaller leaves it: sys.executable would note that it was run."""
    app = tmp_path / "app"
    app.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    app.chmod(0o755)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(app))
    monkeypatch.delenv("ZRAY_PYTHON", raising=False)
    yield tmp_path
    assert not (tmp_path / "started").exists()


def test_frozen_program_is_told_what_to_set(frozen):
    with pytest.raises(ZrayError, match="This program is frozen: sys.executable is the program itself") as caught:
        zray.init(num_cpus=1)
    assert WHAT_TO_DO in str(caught.value) and VERSION in str(caught.value)
    with pytest.raises(ZrayError, match="This program is frozen"):
        zray.get(zray.remote(lambda: 1).remote())
    assert not zray.is_initialized()


def test_frozen_program_runs_its_tasks_in_the_python_that_it_names(frozen, monkeypatch, start):
    """Packages of the other Python come first."""
    monkeypatch.setenv("ZRAY_PYTHON", PYTHON)
    monkeypatch.setattr(sys, "path", [*sys.path, str(frozen)])
    start(num_cpus=1)
    seen = zray.get(zray.remote(lambda: (sys.executable, sys.path)).remote(), timeout=40)
    assert seen[0] == PYTHON and str(frozen) in seen[1]


@pytest.mark.parametrize(
    "executable, why",
    [
        ("", "sys.executable is empty"),
        (None, "sys.executable is empty"),
        ("/no/such/python", "sys.executable is '/no/such/python', which is not an executable file"),
        (os.path.dirname(__file__), "which is not an executable file"),
    ],
    ids=str,
)
def test_program_without_a_python_is_told_what_to_set(monkeypatch, executable, why):
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.delenv("ZRAY_PYTHON", raising=False)
    with pytest.raises(ZrayError, match=why) as caught:
        zray.init(num_cpus=1)
    assert WHAT_TO_DO in str(caught.value)


@pytest.mark.parametrize(
    "code, how",
    [("exit 3", "exited with code 3"), ("kill -9 $$", "killed by signal 9 (SIGKILL)")],
    ids=["exit", "signal"],
)
def test_executable_that_ends_at_once_is_named_with_how_it_ended(monkeypatch, tmp_path, code, how):
    app = tmp_path / "python"
    app.write_text(f"#!/bin/sh\n{code}\n")
    app.chmod(0o755)
    monkeypatch.setenv("ZRAY_PYTHON", str(app))
    with pytest.raises(ClusterLostError) as caught:
        zray.init(num_cpus=1)
    assert f"{app} {how} before it was ready.  It wrote nothing." in str(caught.value)
    assert WHAT_TO_DO in str(caught.value)


def test_program_with_python_inside_is_no_python(monkeypatch, tmp_path):
    """uwsgi, say: its sys.executable is uwsgi."""
    real, server = os.path.realpath, tmp_path / "server"
    server.write_text("")
    server.chmod(0o755)
    monkeypatch.setattr(os.path, "realpath", lambda path: real(server) if path == "/proc/self/exe" else real(path))
    monkeypatch.setattr(sys, "executable", str(server))
    monkeypatch.delenv("ZRAY_PYTHON", raising=False)
    with pytest.raises(ZrayError, match="a program that embeds Python, not a Python interpreter"):
        interpreter()


def test_variable_that_names_no_python_is_refused(monkeypatch):
    monkeypatch.setenv("ZRAY_PYTHON", "/no/such/python")
    with pytest.raises(ZrayError, match="ZRAY_PYTHON is '/no/such/python', which is not an executable file"):
        zray.init(num_cpus=1)


PROGRAM = """
import os, sys
with open({folder!r} + "/starts", "a") as starts:
    starts.write("begun ")
sys.executable = {folder!r} + "/app"
import zray
with open({folder!r} + "/starts", "a") as starts:
    starts.write("imported ")
try:
    zray.init(num_cpus=1)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_executable_that_starts_the_program_again_does_so_once(tmp_path):
    """The second start ends when it imports zray, and the first one tells why."""
    app = tmp_path / "app"
    app.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/script.py"\n')
    app.chmod(0o755)
    done = run_script(tmp_path, textwrap.dedent(PROGRAM.format(folder=str(tmp_path))))
    assert (tmp_path / "starts").read_text() == "begun imported begun "
    assert done.stdout.startswith(f"ZrayError '{app}' is not a Python interpreter: "), done.stderr
    assert WHAT_TO_DO in done.stdout


def test_program_that_was_started_in_place_of_python_ends_with_its_first_import():
    code = "try:\n    import zray\nexcept BaseException:\n    pass\nprint('goes on')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment(), on_import.MARK: "1"},
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert (done.returncode, done.stdout) == (1, "") and on_import.SAID in done.stderr


def test_mark_is_not_in_the_environment_of_tasks(start):
    start(num_cpus=1)
    assert not context.is_own
    assert zray.get(zray.remote(lambda: on_import.MARK in os.environ).remote(), timeout=40) is False


def test_libraries_of_a_frozen_program_are_not_those_of_its_processes(monkeypatch):
    monkeypatch.setattr(sys, "_MEIPASS", "/tmp/_MEI1", raising=False)
    monkeypatch.setattr(sys, "path", ["/tmp/_MEI1/base_library.zip", "/tmp/_MEI1", "/tmp/_MEI12", "/lib"])
    monkeypatch.setenv("LD_LIBRARY_PATH", "/tmp/_MEI1")
    monkeypatch.delenv("LD_LIBRARY_PATH_ORIG", raising=False)
    assert "LD_LIBRARY_PATH" not in child_environment()
    monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", "/opt/lib")
    assert child_environment()["LD_LIBRARY_PATH"] == "/opt/lib"
    assert import_path()[:2] == ["/tmp/_MEI12", "/lib"]
