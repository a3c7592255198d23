"""zray.testing: faults at logical events, in real processes."""

import asyncio
import os
import time

import numpy as np
import pytest

import zray
from tests.gates import Tally, until
from tests.scripts import run_script
from zray.api.actor_class import ActorClass
from zray.api.remote_function import RemoteFunction
from zray.cluster_utils import Cluster
from zray.testing import FaultMissing, delay, faults, kill_node, kill_worker, lose_object
from zray.util.state import list_objects

PLAIN = RemoteFunction.remote, ActorClass.remote


@zray.remote
def square(number):
    return number**2


@zray.remote
def squares(count):
    return zray.get([square.remote(number) for number in range(count)])


@zray.remote
def items(count):
    yield from range(count)


@zray.remote
async def later(number):
    await asyncio.sleep(0)
    return number


@zray.remote(max_restarts=1, max_task_retries=1)
class Counter:
    def __init__(self, start=0):
        self.count = start

    def add(self):
        self.count += 1
        return self.count


@zray.remote(max_restarts=-1, max_task_retries=-1)
class Plain:
    def step(self):
        return os.getpid()

    @staticmethod
    def double(number):
        return 2 * number

    @classmethod
    def name(cls, end):
        return cls.__name__ + end


@zray.remote(timeout=0.2)
def spin():
    while True:
        pass


@zray.remote
def visit(tally):
    return tally.visit()


@zray.remote
def large():
    return np.ones(100_000)


@zray.remote
def counted(tally, *values):
    tally.visit()
    return np.ones(100_000)


@zray.remote
def first_of(values):
    return float(values[0])


@pytest.fixture
def tally(tmp_path):
    return Tally(tmp_path / "tally")


class TestInASession:
    pytestmark = pytest.mark.usefixtures("session")

    def test_worker_dies_at_the_begin_that_is_named_in_each_run(self):
        for _ in range(2):
            with faults(kill_worker(of="square", on_call=3)) as injected:
                assert zray.get([square.remote(number) for number in range(5)]) == [0, 1, 4, 9, 16]
            [happened] = injected.happened
            assert happened.fault == "kill_worker(of='square', on_call=3)" and happened.call == 3
            assert happened.pid != os.getpid() and len(happened.task_id) == 32

    def test_begins_are_counted_over_workers_and_nested_tasks(self):
        assert zray.get(squares.remote(2)) == [0, 1]  # its worker knows the functions without faults
        with faults(kill_worker(of=square, on_call=5), kill_worker(of="squares", on_call=2)) as injected:
            assert zray.get([squares.remote(3), squares.remote(3)]) == [[0, 1, 4]] * 2
        assert sorted(each.call for each in injected.happened) == [2, 5]

    def test_worker_dies_after_the_function_has_run(self, tally):
        with faults(kill_worker(of="visit", at="end")):
            assert zray.get(visit.remote(tally)) == 2
        with faults(kill_worker(of="visit")):
            assert zray.get(visit.remote(tally)) == 3

    def test_error_without_retries_is_that_of_a_crash(self):
        with faults(kill_worker(of="square")), pytest.raises(zray.exceptions.WorkerCrashedError):
            zray.get(square.options(max_retries=0).remote(2))

    def test_generators_and_coroutines_have_faults(self):
        with faults(kill_worker(of=items), kill_worker(of="items", on_call=2, at="end"), kill_worker(of=later)):
            assert [zray.get(ref) for ref in items.remote(3)] == [0, 1, 2]
            assert zray.get(later.remote(4)) == 4

    def test_constructors_and_methods_have_faults(self):
        with faults(kill_worker(of=Plain.step, on_call=2), kill_worker(of="Counter.add", on_call=2)) as injected:
            plain, counter = Plain.remote(), Counter.remote(start=5)
            first, second, third = (zray.get(plain.step.remote()) for _ in range(3))
            assert first != second == third
            assert [zray.get(counter.add.remote()) for _ in range(2)] == [6, 6]  # it has begun anew
        assert {each.call for each in injected.happened} == {2}
        with faults(kill_worker(of=Counter, on_call=1)):
            assert zray.get(Counter.remote().add.remote()) == 1

    def test_static_and_class_methods_have_faults(self):
        with faults(kill_worker(of="Plain.double"), delay(of="Plain.name", seconds=0)):
            plain = Plain.remote()
            assert zray.get([plain.double.remote(2), plain.name.remote("!")]) == [4, "Plain!"]

    def test_time_limit_ends_a_function_with_faults(self):
        with faults(delay(of="spin", seconds=0)), pytest.raises(zray.exceptions.TaskTimeoutError):
            zray.get(spin.remote(), timeout=5)

    def test_delay_is_of_each_begin_or_of_one(self):
        with faults(delay(of="square", seconds=0.2), delay(of="later", seconds=0.2, on_call=2)) as injected:
            began = time.monotonic()
            assert zray.get(square.remote(2)) == 4
            assert time.monotonic() - began >= 0.2
            assert zray.get([later.remote(1), later.remote(2)]) == [1, 2]
        assert [each.fault for each in injected.happened] == [
            "delay(of='square', seconds=0.2)",
            "delay(of='later', on_call=2, seconds=0.2)",
        ]

    def test_fault_that_did_not_happen_is_an_error_that_names_it(self):
        text = r"kill_worker\(of='square', on_call=9\) did not happen: square began 1 time in the block"
        with pytest.raises(FaultMissing, match=text), faults(kill_worker(of="square", on_call=9)):
            zray.get(square.remote(1))
        with pytest.raises(AssertionError, match="absent did not begin"), faults(delay("absent", 1)):
            pass
        with faults(kill_worker(of="absent"), must_happen=False) as injected:
            pass
        assert injected.happened == []

    def test_error_of_the_block_is_not_replaced(self):
        with pytest.raises(KeyError), faults(kill_worker(of="absent")):
            raise KeyError

    def test_nothing_is_left_behind_the_block(self):
        @zray.remote
        def submission():
            square.remote(1)
            return RemoteFunction.remote.__name__, type(square) is RemoteFunction

        with faults(kill_worker(of="square")):
            assert zray.get(square.remote(3)) == 9
            assert (RemoteFunction.remote, ActorClass.remote) != PLAIN
            counter = Counter.remote()
        assert (RemoteFunction.remote, ActorClass.remote) == PLAIN
        assert zray.get([submission.remote() for _ in range(8)]) == [("remote", True)] * 8
        assert zray.get(counter.add.remote()) == 1

    def test_second_block_inside_of_one_is_refused(self):
        with pytest.raises(RuntimeError, match="is on"), faults(), faults():
            pass
        assert (RemoteFunction.remote, ActorClass.remote) == PLAIN

    def test_values_that_no_node_holds_and_nodes_that_cannot_be_killed_are_refused(self):
        with pytest.raises(NotImplementedError, match="100 KiB"), faults(lose_object(square.remote(1))):
            pass
        with pytest.raises(NotImplementedError, match="kills only nodes"), faults(kill_node(holding=large.remote())):
            pass

    @pytest.mark.parametrize("is_read", [False, True], ids=["never read", "in use"])
    def test_lost_value_is_made_again_in_each_run(self, tally, is_read):
        ref = counted.remote(tally)
        array = zray.get(ref) if is_read else None
        for run in range(2, 4):
            with faults(lose_object(ref)) as injected:
                assert zray.get(ref).sum() == 100_000
            assert tally.count() == run
            [happened] = injected.happened
            assert happened.fault == f"lose_object({ref.hex()})" and len(happened.node_id) == 16
        assert array is None or array.sum() == 100_000

    def test_lost_value_is_made_again_for_a_task_and_after_its_own_argument(self, tally):
        maker = counted.remote(tally)
        ref = counted.remote(tally, maker)
        zray.wait([ref])
        with faults(lose_object(maker), lose_object(ref)):
            assert zray.get(first_of.remote(ref)) == 1.0
        assert tally.count() == 4

    def test_actor_that_has_read_the_value_hears_of_the_loss(self, tally):
        @zray.remote
        class Reader:
            def keep(self, refs):
                self.ref = refs[0]
                self.array = zray.get(self.ref)

            def read(self):
                return float(zray.get(self.ref).sum() + self.array.sum())

        ref, reader = counted.remote(tally), Reader.remote()
        zray.get(reader.keep.remote([ref]))
        with faults(lose_object(ref)):
            assert zray.get(reader.read.remote()) == 200_000
        assert tally.count() == 2

    @pytest.mark.parametrize("how", ["put", "without retries"])
    def test_lost_value_that_nothing_makes_again_is_an_error_in_each_run(self, how):
        for _ in range(2):
            ref = zray.put(np.ones(100_000)) if how == "put" else large.options(max_retries=0).remote()
            with faults(lose_object(ref)), pytest.raises(zray.exceptions.ObjectLostError):
                zray.get(ref)
            with pytest.raises(zray.exceptions.ObjectLostError):
                zray.get(first_of.remote(ref))

    def test_value_inside_of_another_one_is_lost_alone(self, tally):
        outer = zray.put([counted.remote(tally), np.zeros(100_000)])
        with faults(lose_object(zray.get(outer)[0])):
            assert zray.get(zray.get(outer)[0]).sum() == 100_000
        assert tally.count() == 2

    def test_value_that_a_task_takes_stays_and_the_fault_says_so(self, gate):
        @zray.remote
        def take(array):
            gate.wait()
            return float(array[0])

        ref = large.remote()
        taken = take.remote(ref)
        with pytest.raises(NotImplementedError, match="keeps the value, since a task"), faults(lose_object(ref)):
            pass
        gate.open()
        assert zray.get(taken) == 1.0
        with faults(lose_object(ref)):
            assert zray.get(ref).sum() == 100_000


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: kill_worker(of=7), TypeError),
        (lambda: kill_worker(of=""), TypeError),
        (lambda: kill_worker(of="f", on_call=0), ValueError),
        (lambda: kill_worker(of="f", on_call=True), TypeError),
        (lambda: kill_worker(of="f", at="middle"), ValueError),
        (lambda: delay(of="f", seconds="1"), TypeError),
        (lambda: delay(of="f", seconds=-1), ValueError),
        (lambda: lose_object("ref"), TypeError),
        (lambda: faults("kill"), TypeError),
    ],
)
def test_wrong_arguments_are_refused(call, error):
    with pytest.raises(error):
        call()


def test_local_mode_is_refused(tmp_path):
    program = """
    import zray
    from zray.testing import faults, kill_worker, lose_object

    zray.init(local_mode=True)

    @zray.remote
    def work():
        return 1

    try:
        with faults(kill_worker(of="work")):
            zray.get(work.remote())
    except NotImplementedError as error:
        print(error)
    try:
        with faults(lose_object(work.remote())):
            pass
    except NotImplementedError as error:
        print(error)
    """
    done = run_script(tmp_path, program)
    assert "needs worker processes, which local mode does not have" in done.stdout, done.stderr
    assert "needs nodes, which local mode does not have" in done.stdout


def test_value_whose_nodes_have_died_is_made_again():
    if zray.is_initialized():
        zray.shutdown()
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            ref = large.remote()
            with faults(kill_node(holding=ref)) as killed:
                assert zray.get(square.remote(3)) == 9
            again = large.remote()
            with faults(kill_node(holding=again), kill_worker(of="square", on_call=2)) as twice:
                assert zray.get(again).sum() == 100_000
                assert zray.get([square.remote(number) for number in range(3)]) == [0, 1, 4]
            assert zray.get(ref).sum() == 100_000
            own = zray.put(np.zeros(100_000))  # held by the head
            with pytest.raises(NotImplementedError, match="kills only nodes"), faults(kill_node(holding=own)):
                pass
            dead = {each.node_id for each in (*killed.happened, *twice.happened) if each.call == 0}
            assert len(dead) == 2 and dead < {node.node_id for node in nodes} and len(cluster.worker_nodes) == 1


def test_value_is_lost_on_all_nodes_of_a_cluster_and_made_again(tally):
    if zray.is_initialized():
        zray.shutdown()
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        nodes = [cluster.add_node(num_cpus=1, resources={f"node{number}": 1}) for number in range(2)]
        cluster.wait_for_nodes()
        with zray.init(address=cluster.address):
            for run in range(1, 3):
                ref = counted.remote(tally)
                there = [first_of.options(resources={f"node{number}": 1}).remote(ref) for number in range(2)]
                assert zray.get(there) == [1.0, 1.0] and zray.get(ref).sum() == 100_000
                with faults(lose_object(ref)) as injected:
                    assert zray.get(ref).sum() == 100_000
                assert tally.count() == 2 * run and len(injected.happened) == 3
                assert {node.node_id for node in nodes} < {each.node_id for each in injected.happened}
            ref = zray.put(np.ones(100_000))
            assert zray.get(first_of.options(resources={"node0": 1}).remote(ref)) == 1.0
            with faults(lose_object(ref)), pytest.raises(zray.exceptions.ObjectLostError):
                zray.get(ref)
            assert len(cluster.worker_nodes) == 2


def test_value_on_disk_is_lost_and_made_again(on_disk, start, tally):
    start(num_cpus=1, object_store_memory=4_000_000)
    refs = [counted.remote(tally) for _ in range(8)]
    zray.wait(refs, num_returns=8, fetch_local=False)

    def spilled():
        rows = list_objects(filters=[("state", "=", "DISK")])
        return [ref for ref in refs if ref.hex() in {row["object_id"] for row in rows}]

    ref = until(spilled)[0]
    with faults(lose_object(ref)):
        assert zray.get(ref).sum() == 100_000
    assert tally.count() == 9
