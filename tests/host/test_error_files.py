"""Standard error past Python's streams: of C code, and of processes that a worker starts."""

import os
import re

import pytest

from tests.gates import until
from tests.scripts import run_script
from zray.host.output import log_follower, truncation
from zray.host.output.forwarding import BEHIND_BYTES_MAX, JobLogs
from zray.host.output.log_follower import LogFollower
from zray.host.output.worker_output import BegunLines, WorkerOutput
from zray.host.process.crash_reports import read_report
from zray.host.process.process_utils import last_lines
from zray.host.session.log_marks import TO_ERROR, TO_OUTPUT, upto_mark
from zray.host.session.session import Session


def texts_of(lines):
    """Without the labels."""
    assert all(re.match(r"\([\w-]+ pid=\d+\) ", line) for line in lines), lines
    return [line.partition(") ")[2] for line in lines]


def test_errors_of_c_code_and_of_child_processes_are_on_standard_error(tmp_path):
    """Tasks and actors alike; the order within the stream is kept."""
    result = run_script(
        tmp_path,
        """
        import os, subprocess, sys
        import zray as ray

        def speak(name):
            print(name, "before", file=sys.stderr)
            os.write(2, f"{name} descriptor\\n".encode())
            print(name, "between", file=sys.stderr)
            subprocess.run(f"echo {name} child >&2; echo {name} output", shell=True)
            print(name, "printed")
            print(name, "after", file=sys.stderr)
            os.write(2, f"{name} begun".encode())

        @ray.remote
        def task():
            speak("task")

        @ray.remote
        class Actor:
            def call(self):
                speak("actor")

        ray.init(num_cpus=1)
        ray.get(task.remote())
        ray.get(Actor.remote().call.remote())
        """,
    )
    words = ("before", "descriptor", "between", "child", "after", "begun")
    errors = texts_of(result.stderr.splitlines())
    for name in ("task", "actor"):
        assert [text for text in errors if text.startswith(name)] == [f"{name} {word}" for word in words], errors
    assert len(errors) == 2 * len(words)
    expected = [f"{name} {word}" for name in ("task", "actor") for word in ("output", "printed")]
    assert texts_of(result.stdout.splitlines()) == expected


def test_last_words_of_c_code_are_shown_and_in_the_error(tmp_path):
    result = run_script(
        tmp_path,
        """
        import os
        import zray as ray

        @ray.remote(max_retries=0)
        def die():
            print("a line")
            os.write(2, b"terminate called after throwing an instance of 'Broken'\\n")
            os.abort()

        ray.init(num_cpus=1)
        try:
            ray.get(die.remote())
        except ray.exceptions.WorkerCrashedError as error:
            assert "instance of 'Broken'" in str(error) and "a line" in str(error), error
        """,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.count(") terminate called after throwing an instance of 'Broken'\n") == 1
    assert texts_of(result.stdout.splitlines()) == ["a line"]


def test_errors_of_local_mode_are_on_standard_error(tmp_path):
    result = run_script(
        tmp_path,
        """
        import os, subprocess
        import zray as ray

        @ray.remote
        def task():
            os.write(2, b"descriptor\\n")
            subprocess.run("echo child >&2", shell=True)

        ray.init(local_mode=True)
        ray.get(task.remote())
        """,
    )
    assert (result.stdout, result.stderr) == ("", "descriptor\nchild\n")


def test_descriptor_that_a_program_redirects_has_all_of_sys_stderr(tmp_path):
    result = run_script(
        tmp_path,
        """
        import os, sys, tempfile
        import zray as ray

        @ray.remote
        def task():
            print("ahead", file=sys.stderr)
            with tempfile.TemporaryFile() as file:
                former = os.dup(2)
                os.dup2(file.fileno(), 2)
                print("captured", file=sys.stderr)
                os.write(2, b"captured too\\n")
                os.dup2(former, 2)
                os.close(former)
                file.seek(0)
                text = file.read()
            print("behind", file=sys.stderr)
            return text

        ray.init(num_cpus=1)
        assert ray.get(task.remote()) == b"captured\\ncaptured too\\n"
        """,
    )
    assert result.returncode == 0, result.stderr
    assert texts_of(result.stderr.splitlines()) == ["ahead", "behind"]


# --- writing ---


@pytest.fixture
def written(tmp_path):
    """(standard output, standard error, a function that writes past Python, one that returns the log)."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptors = [os.open(tmp_path / name, flags) for name in ("log", "err")]
    begun = BegunLines()
    begun.are_there.set()
    begun.log = WorkerOutput(descriptors[0], begun)
    begun.error_file.begin(*descriptors)
    error = WorkerOutput(descriptors[1], begun, is_error=True)
    yield (
        begun.log,
        error,
        lambda data: os.write(descriptors[1], data),
        lambda: (tmp_path / "log").read_bytes().decode(),
    )
    for descriptor in descriptors:
        os.close(descriptor)


def test_mark_says_how_far_the_file_was_before_each_text(written):
    out, error, past, log = written
    past(b"12345\n")
    print("out", file=out)
    print("out", file=out)
    past(b"12")
    print("error", file=error)
    marks = [upto_mark(size).decode() for size in (6, 8)]
    assert log() == f"{marks[0]}out\nout\n{marks[1]}{TO_ERROR}error\n{TO_OUTPUT}"


def test_bar_in_an_error_report_is_not_torn_by_a_mark(written, tmp_path):
    out, _, past, _ = written
    for step in range(3):
        print(f"\r{step} %", end="", file=out)
        past(b"warning\n")
    assert last_lines(str(tmp_path / "log")) == "2 %"


# --- reading ---


class Files:
    """A worker's log and its file of errors: of this process, which runs."""

    def __init__(self, folder):
        self.folder = folder / "job"
        self.folder.mkdir()
        self.name = f"worker-1-{os.getpid()}"

    def log(self, data):
        with open(self.folder / f"{self.name}.log", "ab") as file:
            file.write(data)

    def errors(self, data):
        with open(self.folder.parent / f"{self.name}.err", "ab") as file:
            file.write(data)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def label(*, where=True):
    return f"(worker-1 pid={os.getpid()}{', ip=10.0.0.1' if where else ''})"


def test_order_of_the_marks_is_that_of_the_lines(files):
    logs = JobLogs(str(files.folder), "10.0.0.1")
    files.errors(b"first\nhalf ")
    files.log(b"open " + upto_mark(6) + b"line\n" + upto_mark(11) + b"second\n")
    files.errors(b"done\n")
    assert logs.read(is_last=True).split("\n")[:-1] == [
        f"\x1d{label()} first",
        f"{label()} open line",
        f"{label()} second",
        f"\x1d{label()} half done",
    ]
    assert logs.read(is_last=True) == ""


def test_text_of_sys_stderr_ends_a_line_that_is_begun_on_the_descriptor(files):
    logs = JobLogs(str(files.folder), "10.0.0.1")
    files.errors(b"half")
    files.log(upto_mark(4) + TO_ERROR.encode() + b"whole\n" + TO_OUTPUT.encode())
    files.errors(b" done\n")
    texts = [line.partition(") ")[2] for line in logs.read(is_last=True).split("\n")[:-1]]
    assert texts == ["half", "whole", " done"]


@pytest.mark.parametrize("size", [b"9999999", b"x", b"", "²".encode()])
def test_mark_that_a_program_prints_itself_does_no_harm(files, size):
    logs = JobLogs(str(files.folder), "10.0.0.1")
    files.errors(b"error\n")
    files.log(b"\x1e:stream:upto:" + size + b"\nline\n")
    assert sorted(logs.read(is_last=True).split("\n")[:-1]) == sorted([f"\x1d{label()} error", f"{label()} line"])


def test_errors_that_come_too_fast_are_passed_over(files):
    logs = JobLogs(str(files.folder), "10.0.0.1")
    files.log(b"")
    files.errors(b"x" * 99 + b"\n")
    logs.read()
    files.errors((b"x" * 99 + b"\n") * (BEHIND_BYTES_MAX // 50))
    text = logs.read()
    assert "bytes of this worker's output are left out here" in text and f"{files.name}.err" in text
    assert text.count("\n") < 1_000


def test_file_that_a_shell_has_cut_is_read_anew(files):
    logs = JobLogs(str(files.folder), "10.0.0.1")
    files.log(b"")
    files.errors(b"a long line\n")
    assert logs.read() == f"\x1d{label()} a long line\n"
    os.truncate(files.folder.parent / f"{files.name}.err", 0)
    files.errors(b"short\n")
    assert logs.read() == f"\x1d{label()} short\n"


def test_bar_of_a_child_process_ends_on_standard_error(files, capsys):
    files.log(b"")
    follower = LogFollower(str(files.folder))
    try:
        files.errors(b"".join(b"\rload %d" % number for number in range(100)))
        until(lambda: follower.logs[f"{files.name}.log"].errors.upto > 0)
        files.log(b"a line\n")
        until(lambda: follower.logs[f"{files.name}.log"].upto > 0)
        files.errors(b"\nnext\n")
    finally:
        follower.close()
    shown = capsys.readouterr()
    assert shown.out == f"{label(where=False)} a line\n"
    assert shown.err == f"{label(where=False)} load 99\n{label(where=False)} next\n"


def test_flood_of_errors_is_whole_when_the_program_ends(files, capsys, monkeypatch):
    monkeypatch.setattr(log_follower, "READ_BYTES_MAX", 10_000)
    files.log(b"")
    follower = LogFollower(str(files.folder))
    files.errors(b"".join(b"%d\n" % number for number in range(20_000)))
    follower.close()
    assert texts_of(capsys.readouterr().err.splitlines()) == [str(number) for number in range(20_000)]


def test_errors_from_before_are_not_shown(files, capsys):
    files.log(b"old\n")
    files.errors(b"old error\n")
    LogFollower(str(files.folder)).close()
    assert capsys.readouterr() == ("", "")


def test_oldest_errors_give_back_their_room(tmp_path, monkeypatch):
    monkeypatch.setattr(truncation, "LOG_BYTES_MAX", 4 << 20)
    monkeypatch.setattr(truncation, "LOG_BYTES_KEPT", 2 << 20)
    path = tmp_path / "worker-1-1.err"
    path.write_bytes(b"x" * (9 << 20))
    room = truncation.LogRoom(str(tmp_path / "worker-1-1.log"))
    room.look()
    assert truncation.room_of(str(path)) <= 4 << 20 or not room.is_possible


def test_report_of_a_crash_has_the_errors_of_the_last_task_only(tmp_path):
    session = Session("s", str(tmp_path))
    session.make_folder()
    for text in ("earlier", "last"):
        for path in (session.worker_log_path(1, 2), session.worker_errors_path(1, 2)):
            with open(path, "a") as file:
                file.write(f"{text} in {path[-3:]}\n")
        if text == "earlier":
            session.note_output(1, 2)
    assert read_report(session, 1, 2) == ("last in log", "last in err")
    with open(session.worker_errors_path(1, 2), "a") as file:
        file.writelines(f"{number}\n" for number in range(100))
    report = read_report(session, 1, 2)
    assert (report[0], report[-1], len(report)) == ("last in log", "99", 40)
    session.remove_log(1, 2)
    session.remove_note(1, 2)
    assert os.listdir(session.logs) == []
