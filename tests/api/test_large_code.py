"""Functions and classes that take so much along that they go by the object store."""

import gc
import os
import re

import numpy as np
import pytest

import zray
from tests.gates import is_running, until
from tests.scripts import run_script
from zray.api import remote_function
from zray.cluster_utils import Cluster

LIMIT = 100_000  # of a message, in these tests
BYTES = 3 * LIMIT
STORE = 128 << 20
WHOLE_LIMIT = 60_000_000  # of all that a function takes along, in these tests


@pytest.fixture
def low_limit(monkeypatch):
    monkeypatch.setattr(remote_function, "MESSAGE_BYTES_MAX", LIMIT)


def table_of(value):
    return bytes((value,)) * BYTES


def in_use():
    return STORE - zray.available_resources()["object_store_memory"]


def test_function_and_what_it_keeps_in_its_process(start, low_limit):
    """The code is unpickled once in each process, and its closure is that process's own."""
    start(num_cpus=2, object_store_memory=STORE)
    table, calls, inner = np.frombuffer(table_of(7), np.uint8).copy(), [], zray.put("inner")

    @zray.remote
    def look_up():
        calls.append(1)
        table[0] = len(calls)
        return os.getpid(), len(calls), int(table[0]), int(table[1])

    @zray.remote
    def with_ref():
        return len(table), zray.get(inner)

    found = zray.get([look_up.remote() for _ in range(20)], timeout=30)
    for pid in {pid for pid, *_ in found}:
        here = sorted(rest for other, *rest in found if other == pid)  # tasks of one worker may run in another order
        assert here == [[n, n, 7] for n in range(1, len(here) + 1)]
    assert zray.get([with_ref.remote() for _ in range(3)], timeout=30) == [(BYTES, "inner")] * 3
    assert in_use() >= 2 * BYTES
    del look_up, with_ref
    until(lambda: in_use() == 0)


def test_actor_that_is_restarted(start, low_limit):
    start(num_cpus=2, object_store_memory=STORE)
    table = table_of(8)

    def make():
        @zray.remote(max_restarts=1, max_task_retries=1)
        class Keeper:
            own = table_of(9)

            def look_up(self):
                return table[0], Keeper.own[0], os.getpid()

        return Keeper.remote()

    keeper = make()
    gc.collect()  # its class is in a ring with its method
    assert zray.get(keeper.look_up.remote(), timeout=30)[:2] == (8, 9)
    pid = zray.get(keeper.look_up.remote())[2]
    zray.kill(keeper, no_restart=False)
    until(lambda: not is_running(pid))
    assert zray.get(keeper.look_up.remote(), timeout=30)[:2] == (8, 9)
    del keeper
    until(lambda: in_use() == 0)


def test_session_after_session(start, low_limit):
    """Each has a store of its own."""
    table = table_of(4)

    @zray.remote
    def look_up():
        return table[0]

    for _ in range(2):
        zray.init(num_cpus=1, object_store_memory=STORE)
        assert zray.get(look_up.remote(), timeout=30) == 4
        zray.shutdown()


def test_code_of_a_task_is_none_of_its_own_puts(start):
    """Ids of values that a task puts depend on nothing but the task: it may run again, where the code is known."""
    start(num_cpus=1, object_store_memory=STORE)

    @zray.remote(num_cpus=0)
    def submit(limit):
        remote_function.MESSAGE_BYTES_MAX = limit
        table = table_of(5)
        child = zray.remote(num_cpus=0)(lambda: table[0])
        assert zray.get(child.remote()) == 5
        return zray.put(1).hex()[-8:]

    first, second = zray.get([submit.remote(LIMIT), submit.remote(10 * BYTES)], timeout=30)
    assert first == second


def test_store_without_room_is_named(start, low_limit):
    start(num_cpus=1, object_store_memory=1 << 20, object_spilling_directory="")
    table = b"x" * (2 << 20)

    @zray.remote
    def look_up():
        return table[0]

    with pytest.warns(UserWarning, match="closure 'table'"), pytest.raises(zray.exceptions.ObjectStoreFullError):
        look_up.remote()


DETACHED = """
import zray as ray
from zray import remote_function

remote_function.MESSAGE_BYTES_MAX = 100_000
ray.init(address=ADDRESS)
table = b"t" * 300_000

@ray.remote(max_restarts=1, max_task_retries=1, resources={"second": 1})
class Keeper:
    def look_up(self):
        return table[:1]

print(ray.get(Keeper.options(name="it", namespace="all", lifetime="detached").remote().look_up.remote(), timeout=30))
"""


def test_other_nodes_have_it_and_detached_actors_keep_it(nothing_left, low_limit, tmp_path):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE}) as cluster:
        cluster.add_node(num_cpus=1, object_store_memory=STORE, resources={"second": 1})
        cluster.wait_for_nodes()
        result = run_script(tmp_path, DETACHED.replace("ADDRESS", repr(cluster.address)))
        assert result.stdout.split() == ["b't'"], result.stderr
        with zray.init(address=cluster.address, namespace="all"):
            keeper = zray.get_actor("it")
            zray.kill(keeper, no_restart=False)
            assert zray.get(keeper.look_up.remote(), timeout=30) == b"t"
            table = table_of(6)
            there = zray.remote(resources={"second": 0.0001})(lambda: table[0])
            zray.kill(keeper)
            assert zray.get(there.remote(), timeout=30) == 6


@pytest.mark.slow
def test_closure_of_84_megabytes(start):
    start(num_cpus=1)
    table = np.ones(84 << 20, np.uint8)

    @zray.remote
    def total():
        return int(table.sum())

    with pytest.warns(UserWarning, match=re.escape("The code of")) as caught:
        assert zray.get(total.remote(), timeout=50) == 84 << 20
    assert "closure 'table' makes 88," in str(caught[0].message)


@pytest.fixture
def lower_limit(monkeypatch):
    """A lower limit of the code of a function: 512 MB take seconds."""
    monkeypatch.setattr(remote_function, "CODE_BYTES_MAX", WHOLE_LIMIT)


def refused(call):
    """The text of the ValueError that `call` ends with, in which size, limit and the way out are said."""
    with pytest.raises(ValueError) as caught:
        call()
    text = str(caught.value)
    assert f"at most {WHOLE_LIMIT:,}" in text and "put()" in text
    assert re.search(r"too large: 61,\d{3},\d{3} bytes", text)
    return text


def test_code_that_is_too_large_is_refused_at_the_call(lower_limit):
    """The refusal is Ray's, too."""
    table = b"x" * 61_000_000

    @zray.remote
    def look_up():
        return table[0]

    for _ in range(2):
        text = refused(look_up.remote)
        assert "look_up" in text and "closure 'table' makes 61," in text


def test_a_class_that_is_too_large_is_refused_at_the_call(lower_limit):
    table = b"x" * 61_000_000

    @zray.remote
    class Captures:
        def look_up(self):
            return table[0]

    @zray.remote
    class Holds:
        table = b"x" * 61_000_000

        def look_up(self):
            return self.table[0]

    text = refused(Captures.remote)
    assert "Captures" in text and "closure 'table' of look_up makes 61," in text
    text = refused(Holds.remote)
    assert "Holds" in text and "attribute 'table' makes 61," in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The code of")
def test_several_large_functions_at_once_need_not_fit_into_a_frame():
    def make(number):
        table = bytes((number,)) * 59_000_000
        return zray.remote(lambda: table[0]).options(num_cpus=1)  # which pickles it

    functions = [make(number) for number in range(10)]
    refs = [function.remote() for function in functions]
    assert zray.get(refs, timeout=50) == list(range(10))
