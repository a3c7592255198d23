"""Between a worker's print and the driver's terminal: how a log is written, and how it is followed."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest

from tests.gates import until
from tests.scripts import run_script
from zray.host.output import log_lines
from zray.host.output.log_follower import READ_BYTES_MAX, LogFollower
from zray.host.output.terminal_rows import LINE_BYTES_MAX
from zray.host.output.worker_output import BegunLines, WorkerOutput
from zray.host.session.log_marks import TO_ERROR, TO_OUTPUT


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
    monkeypatch.setattr(log_lines, "QUIET_SECONDS", 1e9)
    monkeypatch.setattr(log_lines, "PART_SECONDS", 1e9)


# --- following ---


def test_no_line_hides_the_mark_of_its_worker_or_acts_on_the_terminal(following, tmp_path):
    """No line of another node does either; colours are shown (docs/security.md, B28)."""
    log = following()
    log.write(
        b"\x1b[32mgreen\x1b[0m\r\nmine\r(worker-9 pid=1) not mine\n\x1b]0;owned\x07\x1b[1A\0\n\xe2\x80\xaegnp.exe\n"
    )
    log.shows(
        "\x1b[32mgreen\x1b[0m",
        "(worker-9 pid=1) not mine",
        "\\x1b]0;owned\\x07\\x1b[1A\\x00",
        "\\u202egnp.exe",
    )
    (tmp_path / log_lines.elsewhere_name(1)).write_bytes(b"(worker-2 pid=1, ip=::1) a\x1b[2J\n")
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


def test_only_the_last_text_of_a_bar_is_printed(following):
    one = following()
    one.write(b"".join(b"\rstep %d" % number for number in range(100)))
    one.write(b"\nnext\n")
    one.shows("step 99", "next")


# --- writing ---


def text_of(path):
    """With its carriage returns."""
    return path.read_bytes().decode()


@pytest.fixture
def written(tmp_path):
    """Two streams on one log, and what is in it."""
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    begun = BegunLines()
    begun.are_there.set()  # so that it need not be told: no thread writes what is not ended
    yield WorkerOutput(descriptor, begun), WorkerOutput(descriptor, begun), lambda: text_of(tmp_path / "log")
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


def test_lines_of_another_stream_or_thread_go_ahead_of_a_bar(written):
    out, error, text = written
    error.write("\r10 %")
    error.flush()
    print("epoch", 1, file=out)
    thread = threading.Thread(target=lambda: print("thread", file=error))
    thread.start()
    thread.join()
    error.write("\r20 %\n")
    print("epoch", 2, file=out)
    insert = "\r\x1b[L"
    assert text() == f"\r10 %{insert}epoch 1\n{insert}thread\n\r20 %\nepoch 2\n"


def test_lines_of_the_stream_of_a_bar_are_written_as_they_are(written):
    out, error, text = written
    print("\r10 %", end="", file=out)
    print(" more", end="", file=out)
    print("oops\nonce more", file=error)
    print(" and an end\n\r\nlines", file=out)
    assert text() == "\r10 % more\r\x1b[Loops\n\r\x1b[Lonce more\n and an end\n\r\nlines\n"


def test_bar_ends_with_its_task(written):
    """And only once; one that was wiped out does not leave an empty line; one of an actor's call goes on."""
    out, _, text = written
    begun = out.begun
    for ends_bar, printed in ((True, "\r10 %"), (True, ""), (False, "\r20 %"), (True, "\r30 %\r    \r")):
        print(printed, end="", file=out)
        begun.write_own(ends_bar=ends_bar)
    assert text() == "\r10 %\n\r20 %\r30 %\r    \r"


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
    from zray.host.output.worker_output import worker_streams

    path = __file__.replace("script.py", "log")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    out, error = worker_streams(descriptor, descriptor)
"""


def run_with_streams(folder, code):
    """What is in the log of a process that runs `code` with the streams of a worker."""
    result = run_script(folder, textwrap.dedent(OWN_STREAMS) + textwrap.dedent(code))
    assert result.returncode == 0, result.stderr
    return text_of(folder / "log")


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
    assert log == f"half child 1\n{TO_ERROR}ends{TO_OUTPUT} done\n"


def test_bar_without_flushes_is_soon_in_the_log(tmp_path):
    log = run_with_streams(
        tmp_path,
        """
        import itertools
        numbers = itertools.count()
        until(lambda: out.write(f"\\rstep {next(numbers)}") and "step" in open(path).read())
        os._exit(0)
        """,
    )
    assert log.startswith("\rstep 0")
