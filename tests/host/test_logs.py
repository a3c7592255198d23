"""What workers print reaches the driver's terminal, whole and marked (U34)."""

import re

from tests.scripts import run_script


def test_what_workers_print_is_on_the_drivers_standard_output(tmp_path):
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
    assert all(re.match(r"\(worker-\d+ pid=\d+\) ", line) for line in lines), lines
    texts = [line.partition(") ")[2] for line in lines]
    for expected in ("number 1", "to the other stream 1", "past Python", "no end of line", "the actor speaks"):
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
