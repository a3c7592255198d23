"""Between a worker's print and the driver's terminal: how a log is written, and how it is followed."""

import os
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import pytest

from tests.gates import until
from tests.scripts import run_script
from zray.host import log_room, logs, workers
from zray.host.logs import LINE_BYTES_MAX, READ_BYTES_MAX, BegunLines, LogFollower, WorkerOutput
from zray.host.node import Node
from zray.host.processes import last_lines
from zray.host.service_main import ServiceHost
from zray.host.session import Session


class Following:
    """A follower of a folder with one log, whose lines are collected."""

    def __init__(self, folder, capsys, pid):
        self.path = folder / f"worker-1-{pid}.log"
        self.follower = LogFollower(str(folder))
        self.capsys = capsys
        self.lines = []

    def write(self, data):
        with open(self.path, "ab") as file:
            file.write(data)

    def read_upto(self):
        found = self.follower.logs.get(self.path.name)
        return found.upto if found else 0

    def shown(self):
        self.lines += self.capsys.readouterr().out.splitlines()
        return self.lines

    def shows(self, *texts, pid=None):
        """Wait until so many lines are there; they are these."""
        until(lambda: len(self.shown()) >= len(texts))
        assert self.lines == [f"(worker-1 pid={pid or os.getpid()}) {text}" for text in texts]

    def close(self):
        self.follower.close()


@pytest.fixture
def following(tmp_path, capsys):
    opened = []

    def follow(pid=None):
        opened.append(Following(tmp_path, capsys, pid or os.getpid()))
        return opened[-1]

    yield follow
    for one in opened:
        one.close()


@pytest.fixture
def never_quiet(monkeypatch):
    monkeypatch.setattr(logs, "QUIET_SECONDS", 1e9)


# --- following ---


def test_no_line_hides_the_mark_of_its_worker_or_acts_on_the_terminal(following, tmp_path):
    """Nor one of another node, whatever that has made of it; colours are shown (USERS B28)."""
    log = following()
    log.write(
        b"\x1b[32mgreen\x1b[0m\r\nmine\r(worker-9 pid=1) not mine\n\x1b]0;owned\x07\x1b[1A\0\n\xe2\x80\xaegnp.exe\n"
    )
    log.shows(
        "\x1b[32mgreen\x1b[0m",
        "mine\\r(worker-9 pid=1) not mine",
        "\\x1b]0;owned\\x07\\x1b[1A\\x00",
        "\\u202egnp.exe",
    )
    (tmp_path / logs.elsewhere_name(1)).write_bytes(b"(worker-2 pid=1, ip=::1) a\x1b[2J\n")
    until(lambda: log.shown()[4:])
    assert log.lines[4:] == ["(worker-2 pid=1, ip=::1) a\\x1b[2J"]


def test_a_line_without_an_end_is_shown_when_its_worker_is_quiet(following):
    log = following()
    log.write(b"first\nhalf a li")
    log.shows("first", "half a li")
    log.write(b"ne\nlast\n")
    log.shows("first", "half a li", "ne", "last")
    log.close()
    log.shows("first", "half a li", "ne", "last")


def test_the_end_of_a_line_that_was_shown_is_no_line(following):
    log = following()
    log.write(b"half")
    log.shows("half")
    log.write(b"\n\nlast\n")
    log.shows("half", "", "last")


def test_a_line_without_an_end_is_shown_at_the_end_once(following, never_quiet):
    log = following()
    log.write(b"first\nhalf")
    log.shows("first")
    log.close()
    log.shows("first", "half")
    log.close()
    log.shows("first", "half")


def test_a_line_without_an_end_is_shown_when_its_worker_has_ended(following, never_quiet):
    with subprocess.Popen([sys.executable, "-c", ""]) as worker:
        pass
    log = following(worker.pid)
    log.write(b"last words")
    log.shows("last words", pid=worker.pid)


@pytest.mark.parametrize("size", [LINE_BYTES_MAX + 1, 200_000, 3 * READ_BYTES_MAX + 17])
def test_a_long_line_says_how_much_of_it_is_left_out(following, size):
    log = following()
    log.write(b"x" * LINE_BYTES_MAX + b"\n" + b"y" * size + b"\nlast\n")
    mark = f" [... {size - LINE_BYTES_MAX:,} more bytes of this line are left out]"
    log.shows("x" * LINE_BYTES_MAX, "y" * LINE_BYTES_MAX + mark, "last")


def test_a_long_line_that_comes_in_pieces_is_one_line(following, never_quiet):
    log = following()
    for number in range(5):
        log.write(b"y" * 50_000)
        until(lambda upto=(number + 1) * 50_000: log.read_upto() == upto)
    log.write(b"\nlast\n")
    log.shows(
        "y" * LINE_BYTES_MAX + f" [... {250_000 - LINE_BYTES_MAX:,} more bytes of this line are left out]", "last"
    )


def test_a_long_line_is_not_cut_inside_a_character(following):
    log = following()
    log.write(b"x" + "é".encode() * LINE_BYTES_MAX + b"\n")
    left_out = 2 * LINE_BYTES_MAX + 1 - (LINE_BYTES_MAX - 1)
    mark = f" [... {left_out:,} more bytes of this line are left out]"
    log.shows("x" + "é" * (LINE_BYTES_MAX // 2 - 1) + mark)


# --- writing ---


@pytest.fixture
def written(tmp_path):
    """Two streams on one log, and what is in it."""
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    begun = BegunLines()
    begun.are_there.set()  # so that it need not be told: no thread writes what is not ended
    yield WorkerOutput(descriptor, begun), WorkerOutput(descriptor, begun), (tmp_path / "log").read_text
    os.close(descriptor)


def test_a_line_goes_into_the_log_whole(written):
    out, error, text = written
    print("half", end=" ", file=out)
    print("oops", file=error)
    print("done", file=out)
    out.write("one\ntwo\nthr")
    error.write("oops\n")
    out.write("ee\n")
    assert text() == "oops\nhalf done\none\ntwo\noops\nthree\n"


def test_a_line_without_an_end_goes_when_it_is_printed_or_flushed_or_long(written):
    out, _, text = written
    print("printed", end="", file=out)
    assert text() == "printed"
    print(", flushed", end=" ", file=out)
    assert text() == "printed"
    out.flush()
    assert text() == "printed, flushed "
    out.write("x" * 10_000)
    out.write("")
    out.buffer.write(b"bytes")
    assert text() == "printed, flushed " + "x" * 10_000 + "bytes"


def test_what_cannot_be_written_loses_nothing(written):
    out, _, text = written
    out.write("half")
    with pytest.raises(TypeError):
        out.write(b" bytes")
    print(" done \udc80", file=out)
    assert text() == "half done \\udc80\n"


def test_lines_of_threads_are_whole(written):
    out, error, text = written
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=lambda n=n: [print(n, i, file=(out, error)[n % 2]) for i in range(500)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    finally:
        sys.setswitchinterval(interval)
    lines = text().split("\n")
    assert sorted(lines) == sorted(["", *(f"{n} {i}" for n in range(4) for i in range(500))])


OWN_STREAMS = """
    import os, sys
    from tests.gates import until
    from zray.host.logs import worker_streams

    path = __file__.replace("script.py", "log")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    out, error = worker_streams(descriptor, descriptor)
"""


def run_with_streams(folder, code):
    """What is in the log of a process that runs `code` with the streams of a worker."""
    result = run_script(folder, textwrap.dedent(OWN_STREAMS) + textwrap.dedent(code))
    assert result.returncode == 0, result.stderr
    return (folder / "log").read_text()


def test_a_line_without_an_end_is_soon_in_the_log(tmp_path):
    """Of each stream and again; a thread that prints all the time does not hold it up."""
    log = run_with_streams(
        tmp_path,
        """
        import itertools, threading
        is_over = threading.Event()
        def chatter():
            for number in itertools.count():
                print("chatter", number, file=error)
                if is_over.wait(0.001):
                    return
        thread = threading.Thread(target=chatter)
        thread.start()
        for stream, text in ((out, "first"), (error, "second"), (out, "third")):
            stream.write(text)
            until(lambda: text in open(path).read())
        is_over.set()
        thread.join()
        os._exit(0)
        """,
    )
    for text in ("first", "second", "third"):
        assert log.count(text) == 1


def test_a_forked_child_does_not_print_its_parents_line_again(tmp_path):
    log = run_with_streams(
        tmp_path,
        """
        out.write("half")
        pid = os.fork()
        if pid == 0:
            print(" child", 1, file=out)
            print("ends", end="", file=error)
            os._exit(0)
        os.waitpid(pid, 0)
        print(" done", file=out)
        """,
    )
    assert log == "half child 1\nends done\n"


# --- what stays ---


def test_the_link_to_the_log_of_a_worker_that_has_ended_goes_when_all_of_it_is_shown(tmp_path, capsys):
    with subprocess.Popen([sys.executable, "-c", ""]) as worker:
        pass
    name = f"worker-1-{worker.pid}.log"
    log, folder = tmp_path / name, tmp_path / "job"
    folder.mkdir()
    (folder / name).symlink_to(log)
    log.write_bytes(b"last words")
    follower = logs.LogFollower(str(folder))
    try:
        until(lambda: not follower.logs)
        assert not os.path.lexists(folder / name)
        assert log.exists()
    finally:
        follower.close()


def test_the_logs_of_dead_workers_are_kept_up_to_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "DEAD_LOGS_MAX", 3)
    session, told = Session("s", str(tmp_path)), []
    session.make_folder()
    pool = workers.Workers(session, None, told.append, print, lambda: None)
    for number in range(1, 6):
        pool.pids["w"], pool.worker_id["w"] = 100 + number, number
        with open(session.worker_log_path(number, 100 + number), "w") as log:
            log.write("earlier\n")
            log.flush()
            session.note_output(number, 100 + number)
            log.write("last words\n")
        session.show_log(b"job", number, 100 + number)
        pool._exited("w", "exited with code 3")
    assert [message.log for message in told] == [("last words",)] * 5
    names = [f"worker-{number}-{100 + number}.log" for number in (3, 4, 5)]
    assert sorted(os.listdir(session.job_logs(b"job"))) == names
    assert sorted(os.listdir(session.logs)) == sorted([b"job".hex(), *names])
    session.remove_job_logs(b"job")
    assert sorted(os.listdir(session.logs)) == names


def test_the_logs_of_dead_workers_are_kept_up_to_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "DEAD_LOGS_BYTES_MAX", 250_000)
    session = Session("s", str(tmp_path))
    session.make_folder()
    pool = workers.Workers(session, None, lambda message: None, print, lambda: None)
    sizes = {1: 100_000, 2: 100_000, 3: 10, 4: 100_000, 5: 300_000, 6: 10}
    kept = []
    for number, size in sizes.items():
        pool.pids["w"], pool.worker_id["w"] = 100 + number, number
        with open(session.worker_log_path(number, 100 + number), "wb") as log:
            log.write(bytes(size))
        pool._exited("w", "exited with code 3")
        kept.append(sorted(int(name.split("-")[1]) for name in os.listdir(session.logs)))
    assert kept == [[1], [1, 2], [1, 2, 3], [2, 3, 4], [5], [6]]


@pytest.fixture
def small_logs(monkeypatch):
    monkeypatch.setattr(log_room, "LOG_BYTES_MAX", 4 << 20)
    monkeypatch.setattr(log_room, "LOG_BYTES_KEPT", 2 << 20)


def write_lines(path, numbers):
    """Of 100 bytes each, with their number."""
    with open(path, "ab") as file:
        file.write(b"".join(b"%098d\n\n" % number for number in numbers))


def test_a_long_log_gives_its_oldest_part_back(tmp_path, small_logs):
    """Who has it open writes on at its end, and finds the rest in its place."""
    path = tmp_path / "worker-1-1.log"
    room = log_room.LogRoom(str(path))
    room.look()
    largest = 0
    with open(path, "ab", buffering=0) as writer:
        for number in range(60):
            writer.write(b"%07d\n" % number * 50_000)
            largest = max(largest, log_room.room_of(path))
            room.look()
            assert path.stat().st_size == (number + 1) * 400_000
    assert largest < (4 << 20) + 500_000
    assert last_lines(str(path), count=2) == "0000059\n0000059"
    gone, data = log_room.read_log(str(path), 0, 1 << 20)
    assert 0 < gone <= path.stat().st_size - (2 << 20)
    assert data == b"", "the first so many bytes are gone"
    gone_then, data = log_room.read_log(str(path), gone, 100)
    assert gone_then == 0 and data == (path.read_bytes())[gone : gone + 100] and b"\0" not in data
    assert log_room.read_log(str(path), path.stat().st_size, 100) == (0, b"")


def test_a_follower_says_what_a_log_has_given_back(tmp_path, capsys, small_logs):
    path = tmp_path / f"worker-1-{os.getpid()}.log"
    path.write_bytes(b"")
    follower = LogFollower(str(tmp_path))
    follower.ended.set()
    follower.thread.join()
    write_lines(path, range(10))
    follower.look()
    write_lines(path, range(10, 100_000))
    log_room.LogRoom(str(path)).look()
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


def test_where_holes_cannot_be_made_nothing_is_lost(tmp_path, small_logs, monkeypatch):
    path = tmp_path / "worker-1-1.log"
    path.write_bytes(b"x" * (5 << 20))
    room = log_room.LogRoom(str(path))
    monkeypatch.setattr(log_room, "_PUNCH_HOLE", 1 << 30)
    room.look()
    assert not room.is_possible and log_room.room_of(path) >= 5 << 20


@pytest.mark.parametrize("host", [Node, ServiceHost])
def test_a_host_whose_log_has_no_room_goes_on(host, monkeypatch):
    descriptor = os.open("/dev/full", os.O_WRONLY)
    full = open(descriptor, "w", closefd=False)
    monkeypatch.setattr(sys, "stderr", full)
    host.log(SimpleNamespace(log_bytes=0), "a line")
    with pytest.raises(OSError, match="No space left"):
        full.close()  # it was tried
    os.close(descriptor)
