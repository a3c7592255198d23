"""References: a value lives exactly as long as somebody can reach it.

Seen from outside: the store is small, so that a value that stays when it should go leaves no room, and a
value that goes when it should stay cannot be read.
"""

import gc
import os

import numpy as np
import pytest

import zray
from tests.gates import until

STORE_BYTES = 80 << 20
LARGE_BYTES = 24 << 20
MOST_BYTES = 64 << 20  # does not fit beside a single large one


@pytest.fixture(scope="module", autouse=True)
def small_store(nothing_left):
    gc.collect()
    gc.freeze()  # what tests before have left is not looked at in each collection below
    with zray.init(num_cpus=2, object_store_memory=STORE_BYTES, object_spilling_directory=""):
        yield


def large(value=1):
    return np.full(LARGE_BYTES, value, dtype=np.uint8)


@pytest.fixture(autouse=True)
def at_rest_nothing_is_left():
    """Before and after each test nearly all of the store is free."""
    assert until(nearly_all_is_free)
    yield
    assert until(nearly_all_is_free)


def nearly_all_is_free():
    gc.collect()
    try:
        zray.put(np.zeros(MOST_BYTES, dtype=np.uint8))
    except zray.exceptions.ObjectStoreFullError:
        return False
    return True


def test_refs_in_cycles_are_let_go_of_when_the_store_is_full():
    """An exception that was kept, with its frames, is the usual one."""
    gc.disable()
    try:
        for _ in range(5):
            cycle = [zray.put(large())]
            cycle.append(cycle)
    finally:
        gc.enable()


@zray.remote
def make_large():
    return large()


@zray.remote
def length_of(array):
    return len(array)


def test_what_takes_values_out_of_a_full_store_has_the_cpu_of_a_writer_that_waits():
    """Else all CPUs would wait for room, until each of them is told that there is none."""
    filled = [zray.put(large()) for _ in range(STORE_BYTES // LARGE_BYTES)]
    made = [make_large.remote() for _ in range(2)]
    lengths = [length_of.remote(ref) for ref in filled]
    del filled
    assert zray.get(lengths) == [LARGE_BYTES] * len(lengths)
    assert [zray.get(ref).nbytes for ref in made] == [LARGE_BYTES] * 2


@zray.remote
def identity(value):
    return value


@zray.remote
def total(value):
    return int(value[0]) * len(value)


@zray.remote
def make(value=1):
    return np.full(LARGE_BYTES, value, dtype=np.uint8)


@zray.remote
class Keeper:
    def keep(self, held):
        self.held = held

    def first(self):
        return int(zray.get(self.held[0])[0])

    def drop(self):
        self.held = None

    def make(self, value):
        return large(value)

    def total(self):
        return int(self.held.sum())


def holds(ref, value=1):
    """Whether the value is there, after others have had the chance to take its place."""
    for _ in range(4):
        zray.put(large(9))
    array = zray.get(ref)
    return array.nbytes == LARGE_BYTES and int(array[0]) == int(array[-1]) == value


def test_a_dropped_reference_frees_its_value():
    for value in range(20):
        ref = zray.put(large(value))
        assert zray.get(ref)[0] == value


def test_a_result_nobody_wants_is_freed():
    for _ in range(12):
        make.remote()
    zray.get(identity.remote(1))


def test_results_that_are_read_and_dropped_are_freed():
    for value in range(12):
        assert zray.get(make.remote(value))[0] == value


def test_a_held_reference_keeps_its_value():
    ref = make.remote(5)
    assert holds(ref, 5)


def test_an_array_keeps_its_memory_when_the_reference_is_gone():
    array = zray.get(zray.put(large(3)))
    for _ in range(6):
        zray.put(large(9))
    assert int(array[0]) == int(array[-1]) == 3


def test_the_argument_of_a_queued_task_stays(gate):
    @zray.remote
    def later(opened, value):
        return int(value[0])

    @zray.remote
    def wait_at():
        gate.wait()

    result = later.remote(wait_at.remote(), zray.put(large(4)))
    for _ in range(4):
        zray.put(large(9))
    gate.open()
    assert zray.get(result) == 4


def test_a_reference_inside_an_object_stays_with_it():
    outer = zray.put({"inner": [zray.put(large(6))]})
    assert holds(zray.get(outer)["inner"][0], 6)


def test_references_nested_three_deep():
    ref = zray.put(large(7))
    for _ in range(3):
        ref = zray.put([ref])
    for _ in range(3):
        (ref,) = zray.get(ref)
    assert holds(ref, 7)


def test_a_reference_that_a_task_returns_inside_a_value():
    @zray.remote
    def wrap():
        return [zray.put(np.full(LARGE_BYTES, 8, dtype=np.uint8))]

    (inner,) = zray.get(wrap.remote())
    assert holds(inner, 8)


def test_a_result_with_a_reference_that_is_never_read():
    @zray.remote
    def wrap():
        return [zray.put(np.full(LARGE_BYTES, 8, dtype=np.uint8))]

    for _ in range(6):
        zray.wait([wrap.remote()])


def test_a_reference_passed_down_a_chain_of_tasks():
    @zray.remote
    def down(refs, depth):
        return int(zray.get(refs[0])[0]) if depth == 0 else zray.get(down.remote(refs, depth - 1))

    assert zray.get(down.remote([zray.put(large(5))], 4)) == 5


def test_a_borrower_keeps_what_the_lender_drops(gate):
    @zray.remote
    def borrow(refs):
        gate.wait()
        return int(zray.get(refs[0])[0])

    result = borrow.remote([zray.put(large(2))])
    gc.collect()
    for _ in range(4):
        zray.put(large(9))
    gate.open()
    assert zray.get(result) == 2


def test_an_actor_keeps_a_reference_until_it_drops_it():
    keeper = Keeper.remote()
    zray.get(keeper.keep.remote([zray.put(large(3))]))
    for _ in range(4):
        zray.put(large(9))
    assert zray.get(keeper.first.remote()) == 3
    zray.get(keeper.drop.remote())
    assert until(nearly_all_is_free)


@pytest.mark.parametrize("end", ["kill", "scope", "signal"])
def test_what_an_actor_keeps_goes_with_it(end):
    keeper = Keeper.remote()
    zray.get(keeper.keep.remote([zray.put(large(3))]))
    if end == "kill":
        zray.kill(keeper)
    elif end == "signal":
        keeper.__ray_call__.remote(lambda self: os._exit(1))
    del keeper
    assert until(nearly_all_is_free)


def test_what_a_killed_task_held_goes_with_it():
    @zray.remote(max_retries=0)
    def die(refs):
        held = [zray.get(refs[0]), zray.put(np.zeros(LARGE_BYTES, dtype=np.uint8))]
        os._exit(len(held))

    with pytest.raises(zray.exceptions.WorkerCrashedError):
        zray.get(die.remote([zray.put(large(1))]))


def test_what_a_failed_task_held_goes_with_it():
    @zray.remote
    def fail(value):
        local = value[:10]
        raise ValueError(len(local))

    for _ in range(8):
        with pytest.raises(ValueError):
            zray.get(fail.remote(zray.put(large(1))))


def test_a_dropped_error_lets_go_of_its_arguments():
    ref = identity.remote(zray.put(large(1)))
    zray.wait([ref])
    del ref


def test_a_reference_in_a_closure_stays_with_the_function():
    def reader(ref):
        return zray.remote(lambda: int(zray.get(ref)[0]))

    read = reader(zray.put(large(4)))
    for _ in range(4):
        zray.put(large(9))
    assert zray.get([read.remote(), read.remote()]) == [4, 4]


def test_one_value_with_many_references():
    ref = zray.put(large(1))
    copies = zray.get(zray.put([ref] * 10))
    results = [total.remote(copy) for copy in copies]
    del ref, copies
    assert zray.get(results) == [LARGE_BYTES] * 10


def test_a_long_chain_is_let_go_without_recursion():
    ref = zray.put([])
    for _ in range(3_000):
        ref = zray.put([ref])
    small = zray.put(0)
    for _ in range(3_000):
        small = identity.remote(small)
    assert zray.get(small) == 0


def test_a_circle_of_python_objects_around_a_reference():
    for _ in range(5):
        circle = [zray.put(large(1))]
        circle.append(circle)
        del circle
        gc.collect()


def test_many_small_values_come_and_go():
    for _ in range(10):
        refs = [zray.put(i) for i in range(1_000)]
        assert zray.get(refs) == list(range(1_000))


@pytest.mark.parametrize("kind", ["task", "serial", "threaded", "async"])
def test_refs_inside_a_large_return_value_live(kind):
    """The value itself goes with the end of the call, and with it its refs: not before the node knows of them."""

    def give():
        return [zray.put("inside"), bytes(300_000)]

    class Giver:
        def give(self):
            return give()

    class AsyncGiver:
        async def give(self):
            return give()

    if kind == "task":
        given = zray.remote(give).remote()
    else:
        options = {"max_concurrency": 2} if kind == "threaded" else {}
        giver = zray.remote(AsyncGiver if kind == "async" else Giver).options(**options).remote()
        given = giver.give.remote()
    inner, _ = zray.get(given, timeout=20)
    del given
    assert zray.get(inner, timeout=20) == "inside"


class Carrier(Exception):
    """Takes a ref along."""

    def __init__(self, ref):
        super().__init__("carries a ref")
        self.ref = ref


@zray.remote
class Raising:
    """Fails, and keeps nothing."""

    def fail(self):
        raise Carrier(make.remote(3))

    async def fail_async(self):
        raise Carrier(make.remote(3))


@zray.remote
def fail(count=1):
    raise Carrier(make.remote(3))


@zray.remote
def pass_on(box):
    return zray.get(box[0])


@pytest.mark.parametrize(
    "call",
    [
        fail.remote,
        lambda: fail.options(num_returns=2).remote()[1],
        lambda: pass_on.remote([fail.remote()]),
        lambda: identity.remote(fail.remote()),
        lambda: Raising.remote().fail.remote(),
        lambda: Raising.options(max_concurrency=2).remote().fail.remote(),
        lambda: Raising.remote().fail_async.remote(),
    ],
    ids=["task", "of two returns", "passed on", "argument", "actor", "threads", "async"],
)
def test_a_ref_in_an_exception_lives_as_long_as_the_error(call):
    ref = call()
    for _ in range(2):
        with pytest.raises(Carrier) as info:
            zray.get(ref)
        assert zray.get(total.remote(info.value.cause.ref)) == 3 * LARGE_BYTES
        del info
    del ref


def test_a_large_result_that_the_next_call_keeps_stays_as_it_was():
    keeper = Keeper.remote()
    made = keeper.make.remote(5)
    zray.get(keeper.keep.remote(made))  # sent with the call before it, so its worker knows the place by itself
    del made
    for value in range(6, 10):
        assert zray.get(total.remote(zray.put(large(value)))) == value * LARGE_BYTES
    assert zray.get(keeper.total.remote()) == 5 * LARGE_BYTES


def test_the_error_of_a_full_store_shows_nothing_of_zrays_code():
    """Neither in the traceback here, nor in the text of a task's error, whether it puts or returns too much."""

    def fill():
        return np.zeros(2 * STORE_BYTES, np.uint8)

    @zray.remote
    def put():
        return [zray.put(fill())]

    for call in (
        lambda: zray.put(fill()),
        lambda: zray.get(zray.remote(fill).remote()),
        lambda: zray.get(put.remote()),
    ):
        with pytest.raises(zray.exceptions.ObjectStoreFullError, match="can never fit") as caught:
            call()
        assert f"{os.sep}host{os.sep}" not in str(caught.value)
        assert [str(entry.path) for entry in caught.traceback if "objects.py" not in str(entry.path)] == [__file__] * 2
