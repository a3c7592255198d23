"""What workers of other nodes print is on the driver's terminal (real processes)."""

import os
import re

import pytest

from tests.gates import until
from tests.scripts import from_outside, start_script
from zray.cluster_utils import Cluster


@pytest.fixture(scope="module")
def cluster():
    """A head without CPUs, and one node, where all runs."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        yield cluster


PROGRAM = """
    import sys
    import zray
    from zray.host.driver import startup
    startup.OUTPUT_SECONDS = 60.0  # on a busy machine too, all of it comes
    zray.init(address={address!r}, log_to_driver={wanted})

    @zray.remote
    def work(number):
        print("number", number)
        print("to the other stream", number, file=sys.stderr)

    @zray.remote(num_cpus=1)
    class Actor:
        def speak(self, end="\\n"):
            print("the actor speaks", end=end)

    actor = Actor.remote()
    zray.get(actor.speak.remote())
    print("driver: ready", flush=True)
    sys.stdin.readline()
    zray.get([work.remote(number) for number in range(3)])
    zray.get(actor.speak.remote(end=""))
    zray.shutdown()
"""


def run_program(cluster, folder, *, wanted=True, is_outside=False, first=()):
    """Its lines; the first ones come while it does nothing."""
    variables = from_outside(cluster, folder) if is_outside else {}
    code = PROGRAM.format(address=cluster.address, wanted=wanted)
    with start_script(folder, code, variables, stdin=-1) as program:
        lines = []
        while not {"driver: ready", *first} <= {line.partition(") ")[2] or line for line in lines}:
            line = program.stdout.readline()
            assert line, program.stderr.read()
            lines.append(line.rstrip("\n"))
        rest, errors = program.communicate("go on\n", timeout=60)
        assert program.returncode == 0, errors
    assert wanted is ("to the other stream" in errors)
    return [line for line in (*lines, *rest.splitlines(), *errors.splitlines()) if line != "driver: ready"]


@pytest.mark.parametrize("is_outside", [False, True])
def test_it_comes_while_the_driver_does_nothing_and_all_of_it_at_the_end(cluster, tmp_path, is_outside):
    lines = run_program(cluster, tmp_path, is_outside=is_outside, first=["the actor speaks"])
    assert all(re.match(r"\(\w+ pid=\d+, ip=127\.0\.0\.1\) ", line) for line in lines), lines
    texts = sorted(line.partition(") ")[2] for line in lines)
    expected = ["the actor speaks"] * 2
    for number in range(3):
        expected += [f"number {number}", f"to the other stream {number}"]
    assert texts == sorted(expected)
    if is_outside:
        until(lambda: not os.listdir(tmp_path / "outside"))


def test_nothing_is_sent_when_the_driver_is_not_to_see_it(cluster, tmp_path):
    assert run_program(cluster, tmp_path, wanted=False) == []
