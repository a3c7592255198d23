"""Logs of submitted programs among those of a session: their names, their number, and what has no session."""

import os
from types import SimpleNamespace

import pytest

from zray.api import program_logs
from zray.api.program_logs import ENDED_MAX, ProgramLog, id_in_name
from zray.host import context

GONE = 1 << 22  # more than any pid


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the session's logs."""
    paths = SimpleNamespace(log_path=lambda name: str(tmp_path / f"{name}.log"))
    monkeypatch.setattr(context, "runtime", SimpleNamespace(paths=paths))
    return tmp_path


def write(name, pid, text=b"text\n"):
    log = ProgramLog(name, pid)
    log.add(text)
    log.close()


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".log")


def test_log_has_the_output_and_its_index_the_times(folder):
    write("first", GONE, b"one\ntwo")
    assert (folder / f"job-first-{GONE}.log").read_bytes() == b"one\ntwo"
    assert (folder / f"job-first-{GONE}.tasks").read_text().startswith('{"t":')
    assert (folder / f"job-first-{GONE}.log").stat().st_mode & 0o777 == 0o600


def test_oldest_logs_of_ended_programs_go(folder, monkeypatch):
    monkeypatch.setattr(program_logs, "ENDED_MAX", 3)
    write("runs", os.getpid())
    for number in range(6):
        write(f"p{number}", GONE + number)
        os.utime(folder / f"job-p{number}-{GONE + number}.log", (number, number))
    write("last", GONE + 7)
    assert names(folder) == sorted(
        [f"job-runs-{os.getpid()}.log", f"job-last-{GONE + 7}.log", *(f"job-p{n}-{GONE + n}.log" for n in (3, 4, 5))]
    )
    assert len([path for path in folder.iterdir() if path.suffix == ".tasks"]) == 5 and ENDED_MAX > 3


def test_bytes_of_logs_are_bounded(folder, monkeypatch):
    monkeypatch.setattr(program_logs, "ENDED_BYTES_MAX", 100_000)
    for number in range(4):
        write(f"p{number}", GONE + number, os.urandom(60_000))
        os.utime(folder / f"job-p{number}-{GONE + number}.log", (number, number))
    assert names(folder) == [f"job-p2-{GONE + 2}.log", f"job-p3-{GONE + 3}.log"]


def test_long_id_has_a_name_all_the_same(folder):
    write("é" * 200, GONE)
    assert names(folder) == [f"job-{'é' * 100}-{GONE}.log"] and id_in_name("é" * 200) == "é" * 100


def test_process_without_a_session_writes_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(context, "runtime", None)
    write("none", GONE)


def test_disk_that_refuses_the_log_is_no_failure(folder, monkeypatch):
    def refuse(*arguments):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(program_logs.os, "open", refuse)
    write("full", GONE)
    assert not names(folder)
