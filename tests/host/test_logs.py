"""What workers print reaches the driver's terminal, whole and marked."""

import os
import re
import subprocess
from pathlib import Path

import zray
from tests.gates import Gate, until
from tests.scripts import ROOT, run_script, start_script
from zray.host import context
from zray.host.output import truncation


def test_output_of_workers_is_on_the_same_stream_of_the_driver(tmp_path):
    result = run_script(
        tmp_path,
        """
        import os, sys
        import zray as ray

        @ray.remote
        def work(number):
            print("number", number)
            print("to the other stream", number, file=sys.stderr)
            os.write(1, b"past Python\\n")
            print("no end of line", end="", flush=True)
            sys.stderr.write("no end of error")

        @ray.remote
        class Actor:
            def speak(self):
                print("the actor speaks")

        ray.init(num_cpus=1)
        ray.get(work.remote(1))
        ray.get(Actor.remote().speak.remote())
        """,
    )
    lines = result.stdout.splitlines()
    assert all(re.match(r"\(\w+ pid=\d+\) ", line) for line in lines), lines
    texts = [line.partition(") ")[2] for line in lines]
    errors = [line.partition(") ")[2] for line in result.stderr.splitlines()]
    assert errors == ["to the other stream 1", "no end of error"], result.stderr
    for expected in ("number 1", "past Python", "no end of line", "the actor speaks"):
        assert expected in texts, result.stderr


def test_many_lines_are_all_there_in_order(tmp_path):
    result = run_script(
        tmp_path,
        """
        import zray as ray

        @ray.remote
        def work():
            for number in range(20_000):
                print(number)

        ray.init(num_cpus=1)
        ray.get(work.remote())
        """,
    )
    assert [int(line.partition(") ")[2]) for line in result.stdout.splitlines()] == list(range(20_000))


def test_not_to_the_driver_when_told_so(tmp_path):
    result = run_script(
        tmp_path,
        """
        import zray as ray
        ray.init(num_cpus=1, log_to_driver=False)
        ray.get(ray.remote(lambda: print("unheard")).remote())
        """,
    )
    assert result.stdout == ""


def test_a_worker_that_floods_does_not_hold_up_the_end(tmp_path):
    result = run_script(
        tmp_path,
        """
        import zray as ray

        @ray.remote
        def flood(path):
            open(path, "w").close()
            while True:
                print("x" * 1000)

        import os, tempfile
        path = os.path.join(tempfile.mkdtemp(), "begun")
        ray.init(num_cpus=1)
        ref = flood.remote(path)
        while not os.path.exists(path):
            pass
        ray.shutdown()
        os.unlink(path); os.rmdir(os.path.dirname(path))
        """,
        timeout_s=30,
    )
    assert result.returncode == 0, result.stderr


def test_what_a_call_printed_is_shown_if_the_driver_leaves_with_its_result(tmp_path):
    """Of tasks, and of actors of each kind."""
    result = run_script(
        tmp_path,
        """
        import os, sys
        import zray as ray

        os.environ["RAY_DEDUP_LOGS"] = "0"

        class Actor:
            def speak(self, text):
                sys.stdout.write(text)
                sys.stderr.write(text.upper())

        class AsyncActor:
            async def speak(self, text):
                sys.stdout.write(text)

        @ray.remote
        def work(text):
            sys.stdout.write(text)

        ray.init(num_cpus=1)
        actors = [ray.remote(Actor).remote(), ray.remote(Actor).options(max_concurrency=2).remote()]
        actors.append(ray.remote(AsyncActor).remote())
        ray.get([actor.__ray_ready__.remote() for actor in actors])
        ray.get([work.remote("task"), *(actor.speak.remote("call") for actor in actors)])
        """,
    )
    texts = [line.partition(") ")[2] for line in result.stdout.splitlines()]
    assert sorted(texts) == ["call", "call", "call", "task"], result.stderr
    assert [line.partition(") ")[2] for line in result.stderr.splitlines()] == ["CALL", "CALL"]


def test_what_was_printed_without_an_end_of_line_is_shown_whatever_comes_next(tmp_path):
    """The task goes on, or is done when the driver leaves; the worker dies; the actor is killed."""
    script = start_script(
        tmp_path,
        f"""
        import os, sys
        sys.path.insert(0, {str(ROOT)!r})
        import zray as ray
        from tests.gates import Gate

        @ray.remote
        class Actor:
            def speak(self):
                sys.stdout.write("killed")

        @ray.remote(max_retries=0)
        def die():
            print("dead", end="")
            os.kill(os.getpid(), 9)

        @ray.remote
        def work(text):
            sys.stdout.write(text)
            Gate({str(tmp_path / "gate")!r}).wait()
            print(text, "again", end=" ")

        ray.init(num_cpus=2)
        actor = Actor.remote()
        ray.get(actor.speak.remote())
        ray.kill(actor)
        try:
            ray.get(die.remote())
        except ray.exceptions.WorkerCrashedError:
            pass
        ray.get(work.remote("waiting"))
        """,
    )
    with script:
        lines = []
        while not any("waiting" in line for line in lines):
            lines.append(script.stdout.readline())
            assert lines[-1], script.stderr.read()
        Gate(tmp_path / "gate").open()
        lines += script.stdout.readlines()
        assert script.wait(20) == 0, script.stderr.read()
    texts = [line.partition(") ")[2] for line in lines]
    assert sorted(texts) == ["dead\n", "killed\n", "waiting\n", "waiting again \n"]


def test_on_a_terminal_of_another_encoding_all_is_shown_that_it_can_show(tmp_path):
    script = start_script(
        tmp_path,
        """
        import zray as ray

        @ray.remote
        def work(text):
            print(text)

        ray.init(num_cpus=1)
        ray.get(work.remote("grün → rot"))
        ray.get(work.remote("plain"))
        """,
        {"PYTHONIOENCODING": "latin-1"},
        encoding="latin-1",
    )
    output, errors = script.communicate(timeout=40)
    texts = [line.partition(") ")[2] for line in output.splitlines()]
    assert texts == ["grün \\u2192 rot", "plain"], errors


def test_a_program_whose_standard_output_is_none_or_its_own(tmp_path):
    """Closed before it started; without flush(); raising.  None of it is an error of zray's."""
    code = """
    import sys
    import zray as ray

    class Stream:
        def write(self, text):
            sys.stderr.write(text)

    class Raising:
        def write(self, text):
            raise KeyError(text)

        def flush(self):
            pass

    @ray.remote
    def work():
        print("line")

    for stream in (None, Raising(), Stream()):
        sys.stdout = stream
        with ray.init(num_cpus=1):
            ray.get(work.remote())
    sys.stdout = None
    """
    result = run_script(tmp_path, code)
    assert [line.partition(") ")[2] for line in result.stderr.splitlines()] == ["line"], result.stderr


def test_a_worker_that_prints_without_end_does_not_fill_the_disk(start):
    """Nor do the processes that it starts: they print into the same log."""
    start(num_cpus=1, log_to_driver=False)

    @zray.remote
    def print_much(program):
        for _ in range(100):
            if program:
                subprocess.run(["head", "-c", "2000000", "/dev/zero"], check=True)
            else:
                print("x" * 2_000_000)
        return os.getpid()

    for program in (False, True):
        pid = zray.get(print_much.remote(program), timeout=60)
        (path,) = Path(context.runtime.paths.logs).glob(f"worker-*-{pid}.log")
        assert path.stat().st_size > 200_000_000
        until(lambda path=path: truncation.room_of(path) <= truncation.LOG_BYTES_MAX)


def test_text_that_was_begun_is_shown_of_a_process_that_ends_by_itself(tmp_path):
    result = run_script(
        tmp_path,
        """
        import os, sys
        import zray as ray

        @ray.remote(max_retries=0)
        def leave():
            sys.stdout.write("begun")
            sys.stderr.write("begun too")
            os._exit(1)

        ray.init(num_cpus=1)
        ray.wait([leave.remote()])
        """,
    )
    assert [line.partition(") ")[2] for line in result.stdout.splitlines()] == ["begun"]
    assert "(leave pid=" in result.stderr and ") begun too\n" in result.stderr
