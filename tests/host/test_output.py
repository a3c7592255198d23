"""The thread that reads what workers have printed, and keeps what other nodes' workers have: bounded, in order."""

import os
import queue

import pytest

from tests.gates import until
from zray.host.output import forwarding, log_lines
from zray.host.output.forwarding import FILES_MAX, JobLogs, Kept, OutputThread
from zray.host.output.log_follower import LogFollower
from zray.host.session.session import Session
from zray.roles.effects import ForgetOutput, OutputRead, OutputWritten, ReadOutput, WriteOutput

JOB = b"job-0001"


def label(pid=None):
    return f"(worker-1 pid={pid or os.getpid()}, ip=10.0.0.1)"


@pytest.fixture
def log(tmp_path):
    """Of a worker that runs: this process."""
    path = tmp_path / f"worker-1-{os.getpid()}.log"
    path.touch()
    return path


@pytest.fixture
def logs(tmp_path):
    return JobLogs(str(tmp_path), "10.0.0.1")


def test_lines_carry_their_worker_and_its_machine(log, logs):
    assert logs.read() == ""
    log.write_bytes(b"one\ntwo\nthr")
    assert logs.read() == f"{label()} one\n{label()} two\n"
    assert logs.read(is_last=True) == f"{label()} thr\n"
    assert logs.read(is_last=True) == ""


def test_a_line_that_was_just_begun_is_not_lost_at_the_end(log, logs):
    """All before it has been read already: without it, the last piece would be empty."""
    log.write_bytes(b"one\n")
    assert logs.read() == f"{label()} one\n"
    with log.open("ab") as file:
        file.write(b"tw")
    assert logs.read(is_last=True) == f"{label()} tw\n"


def test_bars_and_parts_travel_before_they_end(log, logs, monkeypatch):
    monkeypatch.setattr(log_lines, "PART_SECONDS", 0.0)
    for number in range(100):
        with log.open("ab") as file:
            file.write(b"\rstep %d" % number)
        if number == 0:
            assert logs.read() == f"\r{label()} step 0\n"
    monkeypatch.setattr(log_lines, "LATEST_SECONDS", 0.0)
    assert logs.read() == f"\r{label()} step 99\n"
    assert logs.read() == ""
    with log.open("ab") as file:
        file.write(b"\n..")
    assert logs.read() == f"\r{label()} step 99\n{label()} \n\t{label()} ..\n"
    with log.open("ab") as file:
        file.write(b"done\n\r100 %")
    assert logs.read() == f"{label()} done\n\r{label()} 100 %\n"
    assert logs.read(is_last=True) == f"\r{label()} 100 %\n{label()} \n"
    assert logs.read(is_last=True) == ""


def test_a_driver_shows_bars_and_parts_of_other_nodes(tmp_path, capsys):
    kept = Kept(str(tmp_path))
    follower = LogFollower(str(tmp_path))
    try:
        for number in range(100):
            kept.write(f"\r(worker-1 pid=1, ip=::1) step {number}\n")
        kept.write("\t(worker-2 pid=1, ip=::1) ..\n")
        kept.write("(worker-1 pid=1, ip=::1) \n(worker-2 pid=1, ip=::1) done\n\r(worker-2 pid=1, ip=::1) 1 %\n")
    finally:
        follower.close()
    assert capsys.readouterr().out.splitlines() == [
        "(worker-2 pid=1, ip=::1) ..",
        "(worker-1 pid=1, ip=::1) step 99",
        "(worker-2 pid=1, ip=::1) done",
        "(worker-2 pid=1, ip=::1) 1 %",
    ]


def test_a_piece_has_so_many_lines_and_bytes_and_nothing_is_missing(log, logs):
    log.write_text("".join(f"{number}\n" for number in range(10_000)))
    pieces = []
    while text := logs.read():
        pieces.append(text)
    assert max(map(len, pieces)) <= forwarding.PIECE_LINES_MAX * 60
    assert [line.split()[-1] for line in "".join(pieces).splitlines()] == [str(number) for number in range(10_000)]


def test_who_is_far_ahead_is_passed_over_and_a_line_says_so(log, logs):
    log.write_bytes(b"x" * 99 + b"\n")
    first = logs.read()
    with open(log, "ab") as file:
        file.write((b"y" * 99 + b"\n") * 20_000)
    said = logs.read().splitlines()
    assert first == f"{label()} {'x' * 99}\n"
    left_out = 20_000 * 100 - forwarding.PIECE_BYTES_MAX
    assert said[0].startswith(f"{label()} [... {left_out:,} bytes of this worker's output are left out here: 320 KiB")
    assert str(log) in said[0] and said[-1] == f"{label()} {'y' * 99}"
    assert logs.read() == ""


def test_one_that_floods_does_not_starve_the_others(tmp_path, logs):
    for worker in range(1, 31):
        (tmp_path / f"worker-{worker:02}-{os.getpid()}.log").write_bytes((b"z" * 1_000 + b"\n") * 100)
    seen = set()
    for _ in range(4):
        seen |= {line.split()[0] for line in logs.read().splitlines()}
    assert len(seen) == 30


def test_the_log_of_a_worker_that_has_ended_is_read_and_forgotten(tmp_path, logs):
    gone = (tmp_path / "worker-2-4194304.log", tmp_path / "real.log")  # no process has that number
    gone[1].write_bytes(b"last words")
    os.symlink(gone[1], gone[0])
    said = logs.read() + logs.read()
    assert said == "(worker-2 pid=4194304, ip=10.0.0.1) last words\n"
    assert not os.path.lexists(gone[0]) and not logs.logs and gone[1].exists()


def test_a_driver_reads_what_is_kept_in_order_and_removes_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(forwarding, "FILE_BYTES_MAX", 10_000)
    kept = Kept(str(tmp_path))
    follower = LogFollower(str(tmp_path))
    try:
        expected, shown = [], []
        for number in range(40):
            line = f"(worker-1) {number} " + "x" * 1_000
            expected.append(line)
            kept.write(line + "\n")
        until(lambda: shown.extend(capsys.readouterr().out.splitlines()) or len(shown) >= 40)
    finally:
        follower.close()
    assert shown == expected
    assert kept.number > 1 and len(list(tmp_path.iterdir())) == 1
    kept.remove()
    assert not list(tmp_path.iterdir())


def test_what_a_driver_does_not_read_is_bounded_and_a_line_says_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(forwarding, "FILE_BYTES_MAX", 10_000)
    kept = Kept(str(tmp_path))
    line = "x" * 9_999 + "\n"
    for _ in range(FILES_MAX + 5):
        kept.write(line)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == FILES_MAX * 10_000
    follower = LogFollower(str(tmp_path))
    try:
        until(lambda: follower.elsewhere[0].endswith(f"{FILES_MAX:09}.log"))
        kept.write("there is room again\n")
    finally:
        follower.close()
    *_, said, last = capsys.readouterr().out.splitlines()
    assert said.startswith(f"(zray) [... {50_000:,} bytes that workers on other nodes have printed are left")
    assert last == "there is room again"


def test_the_thread_answers_when_there_is_something_and_at_once_when_asked_so(tmp_path):
    session = Session("s", str(tmp_path))
    os.makedirs(session.job_logs(JOB))
    news = queue.SimpleQueue()
    thread = OutputThread(session, "10.0.0.1:99", news.put)
    try:
        thread.orders.put(ReadOutput(JOB))
        with open(os.path.join(session.job_logs(JOB), f"worker-1-{os.getpid()}.log"), "wb") as file:
            file.write(b"hello\n")
        assert news.get(timeout=30) == OutputRead(JOB, f"{label()} hello\n")
        thread.orders.put(ReadOutput(JOB, at_once=True))
        assert news.get(timeout=30) == OutputRead(JOB, "")
        thread.orders.put(WriteOutput(JOB, "far/local", "from afar\n"))
        thread.orders.put(WriteOutput(JOB, "driver-1", ""))
        assert news.get(timeout=30) == OutputWritten(JOB, "far/local")
        assert news.get(timeout=30) == OutputWritten(JOB, "driver-1")
        assert "elsewhere-000000001.log" in os.listdir(session.job_logs(JOB))
        thread.orders.put(ForgetOutput(JOB))
    finally:
        thread.close()
    assert "elsewhere-000000001.log" not in os.listdir(session.job_logs(JOB))
    assert not thread.thread.is_alive() and news.empty()
