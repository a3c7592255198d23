"""How much of workers' logs stays, and what is read of it."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.gates import until
from zray.host.cluster.service_main import ServiceHost
from zray.host.node import worker_processes
from zray.host.node.node import Node
from zray.host.output import forwarding, log_follower, log_lines, truncation
from zray.host.output.log_follower import LogFollower
from zray.host.process.process_utils import last_lines
from zray.host.session.session import Session


def test_the_link_to_the_log_of_a_worker_that_has_ended_goes_when_all_of_it_is_shown(tmp_path, capsys):
    with subprocess.Popen([sys.executable, "-c", ""]) as worker:
        pass
    name = f"worker-1-{worker.pid}.log"
    log, folder = tmp_path / name, tmp_path / "job"
    folder.mkdir()
    (folder / name).symlink_to(log)
    log.write_bytes(b"last words")
    follower = LogFollower(str(folder))
    try:
        until(lambda: not follower.logs)
        assert not os.path.lexists(folder / name)
        assert log.exists()
    finally:
        follower.close()


def test_the_logs_of_dead_workers_are_kept_up_to_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_processes, "DEAD_LOGS_MAX", 3)
    session, told = Session("s", str(tmp_path)), []
    session.make_folder()
    pool = worker_processes.Workers(session, None, told.append, print, lambda: None)
    for number in range(1, 6):
        pool.pids["w"], pool.worker_id["w"] = 100 + number, number
        with open(session.worker_log_path(number, 100 + number), "w") as log:
            log.write("earlier\n")
            log.flush()
            session.note_output(number, 100 + number)
            log.write("last words\n")
        session.show_log(b"job", number, 100 + number)
        pool.exited("w", "exited with code 3")
    assert [message.log for message in told] == [("last words",)] * 5
    names = [f"worker-{number}-{100 + number}.log" for number in (3, 4, 5)]
    assert sorted(os.listdir(session.job_logs(b"job"))) == names
    assert sorted(os.listdir(session.logs)) == sorted([b"job".hex(), *names])
    session.remove_job(b"job")
    assert sorted(os.listdir(session.logs)) == names


def test_the_logs_of_dead_workers_are_kept_up_to_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_processes, "DEAD_LOGS_BYTES_MAX", 250_000)
    session = Session("s", str(tmp_path))
    session.make_folder()
    pool = worker_processes.Workers(session, None, lambda message: None, print, lambda: None)
    sizes = {1: 100_000, 2: 100_000, 3: 10, 4: 100_000, 5: 300_000, 6: 10}
    kept = []
    for number, size in sizes.items():
        pool.pids["w"], pool.worker_id["w"] = 100 + number, number
        with open(session.worker_log_path(number, 100 + number), "wb") as log:
            log.write(bytes(size))
        pool.exited("w", "exited with code 3")
        kept.append(sorted(int(name.split("-")[1]) for name in os.listdir(session.logs)))
    assert kept == [[1], [1, 2], [1, 2, 3], [2, 3, 4], [5], [6]]


@pytest.fixture
def small_logs(monkeypatch):
    monkeypatch.setattr(truncation, "LOG_BYTES_MAX", 4 << 20)
    monkeypatch.setattr(truncation, "LOG_BYTES_KEPT", 2 << 20)


def write_lines(path, numbers):
    """Of 100 bytes each, with their number."""
    with open(path, "ab") as file:
        file.write(b"".join(b"%098d\n\n" % number for number in numbers))


def test_a_long_log_gives_its_oldest_part_back(tmp_path, small_logs):
    """Who has it open writes on at its end, and finds the rest in its place."""
    path = tmp_path / "worker-1-1.log"
    room = truncation.LogRoom(str(path))
    room.look()
    largest = 0
    with open(path, "ab", buffering=0) as writer:
        for number in range(60):
            writer.write(b"%07d\n" % number * 50_000)
            largest = max(largest, truncation.room_of(path))
            room.look()
            assert path.stat().st_size == (number + 1) * 400_000
    assert largest < (4 << 20) + 500_000
    assert last_lines(str(path), count=2) == "0000059\n0000059"
    gone, data = truncation.read_log(str(path), 0, 1 << 20)
    assert 0 < gone <= path.stat().st_size - (2 << 20)
    assert data == b"", "the first so many bytes are gone"
    gone_then, data = truncation.read_log(str(path), gone, 100)
    assert gone_then == 0 and data == (path.read_bytes())[gone : gone + 100] and b"\0" not in data
    assert truncation.read_log(str(path), path.stat().st_size, 100) == (0, b"")


def test_a_follower_says_what_a_log_has_given_back(tmp_path, capsys, small_logs):
    path = tmp_path / f"worker-1-{os.getpid()}.log"
    path.write_bytes(b"")
    follower = LogFollower(str(tmp_path))
    follower.ended.set()
    follower.thread.join()
    write_lines(path, range(10))
    follower.look()
    write_lines(path, range(10, 100_000))
    truncation.LogRoom(str(path)).look()
    while follower.logs[path.name].upto < path.stat().st_size:
        follower.look()
    lines = [line.partition(") ")[2] for line in capsys.readouterr().out.splitlines()]
    lines = [line for line in lines if line]
    (said,) = [line for line in lines if "left out" in line]
    assert lines[:10] == [f"{number:098}" for number in range(10)] and lines[10] == said
    first = int(lines[12])
    assert lines[12:] == [f"{number:098}" for number in range(first, 100_000)]
    count = int(said.split()[1].replace(",", ""))
    assert count + 1000 <= first * 100 < count + 1200 and "keeps the last" in said


def test_a_line_that_a_read_has_cut_is_shown_whole_however_long_that_takes(tmp_path, capsys, monkeypatch):
    clock = iter(range(1, 1_000))
    monkeypatch.setattr(log_lines, "time", SimpleNamespace(monotonic=lambda: next(clock)))  # seconds for each line
    for module in (log_follower, forwarding):
        name = "READ_BYTES_MAX" if module is log_follower else "PIECE_BYTES_MAX"
        monkeypatch.setattr(module, name, 7)
    path = tmp_path / f"worker-1-{os.getpid()}.log"
    path.write_bytes(b"")
    follower = LogFollower(str(tmp_path))
    follower.ended.set()
    follower.thread.join()
    logs = forwarding.JobLogs(str(tmp_path), "")
    path.write_bytes(b"first\nsecond\nthird")
    sent = ""
    for _ in range(3):
        follower.look()
        sent += logs.read()
    texts = ["first", "second"]
    assert [line.partition(") ")[2] for line in sent.splitlines()] == [*texts, "third"]
    assert [line.partition(") ")[2] for line in capsys.readouterr().out.splitlines()] == [*texts, "third"]
    assert follower.logs[path.name].rows.row.is_shown  # nothing follows: it is quiet


def test_last_lines_of_a_log_have_the_last_text_of_each_bar(tmp_path):
    path = tmp_path / "worker-1-1.log"
    bar = "".join(f"\rstep {number}" for number in range(50))
    path.write_text(f"first\r\n{bar}\r\x1b[Llast words\n{bar}")
    assert last_lines(str(path), count=3) == "first\nlast words\nstep 49"


def test_where_holes_cannot_be_made_nothing_is_lost(tmp_path, small_logs, monkeypatch):
    path = tmp_path / "worker-1-1.log"
    path.write_bytes(b"x" * (5 << 20))
    room = truncation.LogRoom(str(path))
    monkeypatch.setattr(truncation, "_PUNCH_HOLE", 1 << 30)
    room.look()
    assert not room.is_possible and truncation.room_of(path) >= 5 << 20


@pytest.mark.parametrize("host", [Node, ServiceHost])
def test_a_host_whose_log_has_no_room_goes_on(host, monkeypatch):
    descriptor = os.open("/dev/full", os.O_WRONLY)
    full = open(descriptor, "w", closefd=False)
    monkeypatch.setattr(sys, "stderr", full)
    host.log(SimpleNamespace(log_bytes=0), "a line")
    with pytest.raises(OSError, match="No space left"):
        full.close()  # it was tried
    os.close(descriptor)
