"""Tasks that submit tasks and wait for them: no deadlock, no flood of processes."""

import os
import threading

import numpy as np
import pytest

import zray
from tests.gates import Tally, until


@zray.remote
def identity(value):
    return value


@zray.remote
def descend(depth):
    """The processes that a chain of `depth` nested gets runs in."""
    if depth == 0:
        return [os.getpid()]
    return [os.getpid(), *zray.get(descend.remote(depth - 1))]


@zray.remote
def get_at_the_bottom():
    """Recurses in Python until the stack is all but full, and there asks for a value that is not here yet."""
    ref = identity.remote(0)

    def descend_to_the_bottom():
        try:
            return descend_to_the_bottom()
        except RecursionError:
            return zray.get(ref)

    return descend_to_the_bottom()


@zray.remote
def fibonacci(n):
    return n if n < 2 else sum(zray.get([fibonacci.remote(n - 1), fibonacci.remote(n - 2)]))


def test_hundreds_of_levels_are_no_recursion_of_pythons(start):
    """A task inside a wait has as much stack as any other: a chain may be longer than sys.getrecursionlimit()."""
    start(num_cpus=2)
    assert len(zray.get(descend.remote(1_500), timeout=40)) == 1_501
    assert zray.get(identity.remote(1), timeout=20) == 1


def test_a_get_on_a_full_stack_loses_nothing(start):
    start(num_cpus=1)
    results = []
    for _ in range(5):
        try:
            results.append(zray.get(get_at_the_bottom.remote(), timeout=20))
        except RecursionError:
            results.append(0)
    assert results == [0] * 5
    assert zray.get(identity.remote(1), timeout=20) == 1


@pytest.mark.timeout(180)
def test_a_chain_without_end_is_an_error(start):
    start(num_cpus=1)
    with pytest.raises(zray.exceptions.RayError, match="deep in one process"):
        zray.get(descend.remote(1_000_000), timeout=150)
    assert zray.get(identity.remote(1), timeout=20) == 1


def test_fifty_levels_on_one_cpu_in_few_processes(start):
    """Depth 50 on 1 CPU finishes, and processes never exceed 2 x CPUs + 4."""
    start(num_cpus=1)
    pids = zray.get(descend.remote(50))
    assert len(pids) == 51
    assert len(set(pids)) <= 2 * 1 + 4


def test_tasks_that_sleep_inside_waits_are_in_few_processes(start):
    """The waits below a task that runs inside a wait are no waits of the task: its CPU is not lent while it sleeps."""

    @zray.remote
    def descend_slowly(depth):
        # Work of another machine, longer than two looks at the process's use of its core.
        threading.Event().wait(0.1 if depth > 5 else 0.6)
        return [os.getpid(), *(zray.get(descend_slowly.remote(depth - 1)) if depth else ())]

    start(num_cpus=1)
    pids = zray.get(descend_slowly.remote(9), timeout=40)
    assert len(pids) == 10
    assert len(set(pids)) <= 2 * 1 + 4


def test_several_chains_at_once_on_one_cpu(start):
    start(num_cpus=1)
    chains = zray.get([descend.remote(20) for _ in range(5)])
    assert [len(pids) for pids in chains] == [21] * 5
    assert len({pid for pids in chains for pid in pids}) <= 2 * 1 + 4


def test_a_tree_of_tasks_on_one_cpu(start):
    start(num_cpus=1)
    assert zray.get(fibonacci.remote(9)) == 34


def test_a_task_needs_all_cpus_and_its_child_too(start):
    start(num_cpus=2)

    @zray.remote(num_cpus=2)
    def parent():
        return zray.get(identity.options(num_cpus=2).remote("child"))

    assert zray.get(parent.remote()) == "child"


def test_a_chain_inside_actors(start):
    start(num_cpus=1)

    @zray.remote
    class Link:
        def __init__(self, depth):
            self.following = Link.remote(depth - 1) if depth else None

        def length(self):
            return 1 + (zray.get(self.following.length.remote()) if self.following else 0)

    assert zray.get(Link.remote(5).length.remote()) == 6


@pytest.fixture(scope="class")
def session(nothing_left):
    """Not the module's: there would be no room beside it for those of the tests above."""
    with zray.init(num_cpus=2) as context:
        yield context


class TestInOneSession:
    pytestmark = pytest.mark.usefixtures("session")

    def test_ten_tasks_with_a_hundred_each(self):
        @zray.remote
        def fan(base):
            return sum(zray.get([identity.remote(base + i) for i in range(100)]))

        assert zray.get([fan.remote(100 * i) for i in range(10)]) == [
            sum(range(100 * i, 100 * i + 100)) for i in range(10)
        ]

    def test_a_task_returns_a_reference_of_its_child(self):
        @zray.remote
        def parent():
            return identity.remote("grandchild")

        ref = zray.get(parent.remote())
        assert isinstance(ref, zray.ObjectRef)
        assert zray.get(ref) == "grandchild"

    def test_a_task_returns_a_reference_to_what_it_put(self):
        @zray.remote
        def parent(size):
            return {"ref": zray.put(b"x" * size)}

        for size in (10, 1_000_000):
            assert len(zray.get(zray.get(parent.remote(size))["ref"])) == size

    def test_a_task_waits_for_a_reference_that_the_driver_made(self, gate):
        @zray.remote
        def wait_at():
            gate.wait()
            return 1

        @zray.remote
        def take(refs):
            return sum(zray.get(refs))

        refs = [wait_at.remote(), identity.remote(2)]
        total = take.remote(refs)
        gate.open()
        assert zray.get(total) == 3

    def test_the_children_of_a_repeated_parent_have_the_same_ids(self, tmp_path):
        """Ids are derived from the parent's id and its counter."""
        tally = Tally(tmp_path / "tally")

        @zray.remote(max_retries=1)
        def parent(folder):
            child = identity.remote(1)
            zray.get(child)
            with open(os.path.join(folder, f"id{tally.visit()}"), "w") as file:
                file.write(child.hex())
            if tally.count() == 1:
                os.kill(os.getpid(), 9)

        zray.get(parent.remote(tmp_path))
        assert (tmp_path / "id1").read_text() == (tmp_path / "id2").read_text()

    def test_a_repeated_parent_puts_again_what_a_child_of_its_first_run_takes(self, gate, tmp_path):
        tally, taken = Tally(tmp_path / "tally"), Tally(tmp_path / "taken")

        @zray.remote
        def take(array):
            taken.visit()
            gate.wait()
            return int(array.sum())

        @zray.remote(max_retries=1)
        def parent():
            ref = zray.put(np.full(1_000_000, 3))
            child = take.remote(ref)
            tally.visit()
            until(taken.count)
            if tally.count() == 1:
                os.kill(os.getpid(), 9)
            again = zray.put(np.full(1_000_000, 4))
            gate.open()
            return zray.get(child), int(zray.get(ref).sum()), int(zray.get(again).sum())

        assert zray.get(parent.remote()) == (3_000_000, 3_000_000, 4_000_000)
        assert taken.count() == 2  # the first child has ended with the first run of its parent

    def test_children_from_threads_of_a_task(self):
        @zray.remote
        def parent():
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(4) as pool:
                return list(pool.map(lambda i: zray.get(identity.remote(i)), range(20)))

        assert zray.get(parent.remote()) == list(range(20))

    def test_threads_of_a_task_that_submit_first_at_once_make_different_children(self):
        @zray.remote
        def parent():
            import sys
            import threading

            start, ids = threading.Barrier(4), []

            def submit():
                start.wait()
                ids.append(zray.put(0).hex())

            switch_seconds = sys.getswitchinterval()
            sys.setswitchinterval(1e-6)
            try:
                threads = [threading.Thread(target=submit) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            finally:
                sys.setswitchinterval(switch_seconds)
            return ids

        for ids in zray.get([parent.remote() for _ in range(50)]):
            assert len(set(ids)) == 4

    def test_threads_that_outlive_their_tasks_make_different_children(self, gate, tmp_path):
        @zray.remote
        def parent(number):
            import threading

            def submit_when_the_task_is_over():
                gate.wait()
                ref = identity.remote(number)
                (tmp_path / "new").with_suffix(f".{number}").write_text(f"{ref.hex()} {zray.get(ref)}")
                (tmp_path / "new").with_suffix(f".{number}").rename(tmp_path / str(number))

            threading.Thread(target=submit_when_the_task_is_over, daemon=True).start()
            begun.visit()
            until(lambda: begun.count() == 2)  # so each is in a process of its own

        begun = Tally(tmp_path / "begun")
        zray.get([parent.remote(number) for number in range(2)])
        gate.open()
        until(lambda: all((tmp_path / str(number)).exists() for number in range(2)))
        (first, one), (second, other) = ((tmp_path / str(number)).read_text().split() for number in range(2))
        assert (one, other) == ("0", "1")
        assert first != second

    def test_a_driver_with_threads(self):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(8) as pool:
            totals = list(
                pool.map(lambda base: sum(zray.get([identity.remote(base + i) for i in range(50)])), range(8))
            )
        assert totals == [sum(range(base, base + 50)) for base in range(8)]
