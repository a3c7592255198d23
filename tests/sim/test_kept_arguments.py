"""Results of tasks that may run once only: they stay for those that took them, and may have to run again."""

import pytest

from zray.sim import faults
from zray.sim.language import Call, Create, Drop, Get, Put, Sleep, Submit, remote
from zray.sim.object_programs import join_big, make_big
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.task_programs import nap
from zray.sim.values import Big, RemoteError
from zray.wire.where import Where

pytestmark = pytest.mark.sim

SIZE = 400_000  # more than comes unasked
TAKEN_AT, MADE_AT = Where(node="n3", is_soft=True), "n4"  # where the argument is taken, and where it was made
REPLICATED = [(1, 0), (3, 0), (1, 2), (3, 2)]  # shards, replicas


@remote
class OneMaker:
    def make(self, fill, size):
        return Big(fill, size)


def make(kind, home):
    """Answers a ref on what is never made again; and what keeps it there as long as it is wanted."""
    where = Where(node=home)
    if kind == "call":
        maker = yield Create(OneMaker, where=where)
        return (yield Call(maker, "make", (5, SIZE))), maker
    return (yield Submit(make_big, (5, SIZE), max_retries=0, where=where)), None


@remote
def take_once(kind, length, home, max_retries):
    """A ref on what was made of such a value by so many tasks, one after the other."""
    ref, maker = yield from make(kind, home)
    for _ in range(length):
        before = ref
        ref = yield Submit(join_big, (before, before), where=TAKEN_AT, max_retries=max_retries)
        yield Drop([before])
    yield Sleep(0.6)
    return [ref, maker]


def lose_what_was_made(kind, length, home, by, max_retries=3):
    """Has it made by this program, or by a task on another node, which is done with it then."""
    if by:
        box = yield Submit(take_once, (kind, length, home, max_retries), where=Where(node=by, is_soft=True))
        ref, maker = yield Get(box)
        yield Drop([box])
    else:
        ref, maker = yield from take_once(kind, length, home, max_retries)
    yield Sleep(1.4)
    value = yield Get(ref)
    del maker
    return value.size


def make_world(monkeypatch, seed, **options):
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    return Simulator(Options(seed=seed, nodes=4, cpus=2, delay="even", **options))


def start(world, program, *args):
    """A driver that returns what the program returns or raises."""

    def run():
        try:
            return (yield from program(*args))
        except RemoteError as error:
            return error

    world.run(0.3)
    return world.start_driver(world.nodes["n1"], 1, run, ())


def stored(world):
    """How many copies of values there are, some time after the program, on all nodes that are left."""
    world.run(world.now + 3.0)
    return sum(len(node.manager.objects) for node in world.nodes.values())


def lose(world, lost, *args):
    """The outcome that the program gets of a result whose node is killed, and others with it."""
    driver = start(world, lose_what_was_made, *args)
    assert not world.run(1.6, unless=lambda: driver.is_done)
    for name in lost:
        world.faults.kill_node(world.nodes[name], "is killed")
    assert world.run(20.0, unless=lambda: driver.is_done)
    return driver.result


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("shards, replicas", REPLICATED)
@pytest.mark.parametrize("home", ["n1", "n4"])
@pytest.mark.parametrize("kind", ["task", "call"])
def test_a_result_is_made_again_of_one_that_is_not(kind, home, shards, replicas, seed, monkeypatch):
    world = make_world(monkeypatch, seed, shards=shards, replicas=replicas)
    assert lose(world, ["n3"], kind, 1, home, "") == SIZE
    assert not stored(world)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("shards, replicas", REPLICATED)
@pytest.mark.parametrize("lost", [["n3"], ["n2", "n3"]])
@pytest.mark.parametrize("length", [1, 3])
def test_a_result_is_made_again_whoever_let_go_of_its_argument(length, lost, shards, replicas, seed, monkeypatch):
    """A task on n2 has had both made, and is done with them; its node may be lost too."""
    world = make_world(monkeypatch, seed, shards=shards, replicas=replicas)
    assert lose(world, lost, "task", length, MADE_AT, "n2") == SIZE
    assert not stored(world)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("shards, replicas", REPLICATED)
def test_a_result_whose_argument_is_lost_too_is_an_error(shards, replicas, seed, monkeypatch):
    world = make_world(monkeypatch, seed, shards=shards, replicas=replicas)
    failed = lose(world, ["n3", MADE_AT], "task", 1, MADE_AT, "")
    assert isinstance(failed, RemoteError)
    assert "may run once only" in str(failed)
    assert not stored(world)


@pytest.mark.parametrize("shards, replicas", REPLICATED)
def test_kept_values_go_with_the_results_that_were_made_of_them(shards, replicas, monkeypatch):
    world = make_world(monkeypatch, 1, shards=shards, replicas=replicas)
    counts = []

    def program():
        for is_dropped in (True, False):
            ref, _ = yield from take_once("task", 1, MADE_AT, 3)
            counts.append(copies_at_home())
            if is_dropped:
                yield Drop([ref])
                yield Submit(nap, (0.0, None))  # with that it says so
                yield Sleep(0.5)
                counts.append(copies_at_home())

    def copies_at_home():
        return len(world.nodes[MADE_AT].manager.objects)

    driver = start(world, program)
    assert world.run(20.0, unless=lambda: driver.is_done)
    assert counts == [1, 0, 1]
    assert driver.result is None
    assert not stored(world)


def test_nothing_is_kept_for_a_task_that_may_run_once_only(monkeypatch):
    world = make_world(monkeypatch, 1)

    def program():
        yield from take_once("task", 1, MADE_AT, 0)
        return len(world.nodes[MADE_AT].manager.objects)

    driver = start(world, program)
    assert world.run(20.0, unless=lambda: driver.is_done)
    assert driver.result == 0


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("shards", [1, 3])
def test_kept_values_make_room(shards, seed, monkeypatch):
    """Writers do not wait in vain (5 s) on the nodes whose stores are full of such."""
    world = make_world(monkeypatch, seed, shards=shards, capacity=1_000_000)

    def program():
        refs = []
        for _ in range(5):
            ref = yield Submit(make_big, (5, SIZE), max_retries=0, where=Where(node=MADE_AT))
            refs.append((yield Submit(size_of_taken, (ref,), where=TAKEN_AT)))
            yield Drop([ref])
            yield Get(refs[-1])
        put = yield Put(Big(1, 2 * SIZE))
        return (yield Get(refs)), (yield Get(put)).size

    driver = start(world, program)
    assert world.run(4.0, unless=lambda: driver.is_done)
    assert driver.result == ([SIZE] * 5, 2 * SIZE)


@remote
def size_of_taken(value):
    return value.size


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("shards", [1, 3])
def test_values_that_are_let_go_while_somebody_waits_for_room_are_not_kept(shards, seed, monkeypatch):
    world = make_world(monkeypatch, seed, shards=shards, capacity=1_000_000)

    def program():
        home = Where(node=MADE_AT)
        made, taken = [], []
        for _ in range(2):
            made.append((yield Submit(make_big, (5, SIZE), max_retries=0, where=home)))
            taken.append((yield Submit(size_of_taken, (made[-1],), where=TAKEN_AT)))
        yield Sleep(0.5)
        ref = yield Submit(make_big, (6, SIZE), where=home)
        yield Sleep(1.0)
        yield Drop(made)
        yield Sleep(0.1)
        size = (yield Get(ref)).size
        return size, (yield Get(taken))

    driver = start(world, program)
    assert world.run(5.0, unless=lambda: driver.is_done)
    assert driver.result == (SIZE, [SIZE, SIZE])
