"""What was put is kept as long as it may take it to make a large result again that lies on other nodes alone."""

import pytest

from zray.ids import is_put
from zray.roles.local_scheduler.objects import puts
from zray.sim import faults
from zray.sim.language import Call, Create, Drop, Get, Put, Sleep, Submit, remote
from zray.sim.object_programs import join_big, make_big
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.task_programs import nap
from zray.sim.values import Big, RemoteError
from zray.wire.where import Where

pytestmark = pytest.mark.sim

SAID_SECONDS = 2.0
SIZE = 400_000  # more than comes unasked


@remote
def take_from_box(box):
    (value,) = yield Get(box)
    return value


@remote
def lose_a_result(is_in_a_list, more):
    """Puts a value, has a large one made of it elsewhere, lets go of the first; and wants the second later, when that
    node has been killed.  more: bytes that are put meanwhile.
    """
    put = yield Put(Big(5, SIZE))
    function, args = (take_from_box, ([put],)) if is_in_a_list else (join_big, (put, put))
    ref = yield Submit(function, args, where=Where(node="n3", is_soft=True))
    yield Drop([put])
    yield Sleep(0.4)
    if more:
        another = yield Put(Big(6, more))
        yield Drop([another])
    yield Sleep(1.0)
    return (yield Get(ref)).size


@remote
class Joiner:
    def join(self, first, second):
        return Big(first.fill, first.size + second.size)

    def take(self, value):
        return Big(value.fill, value.size)


@remote
def lose_an_answer(max_retries):
    """The same by a call of an actor, which is made anew elsewhere."""
    actor = yield Create(Joiner, max_restarts=-1, where=Where(node="n3", is_soft=True))
    put = yield Put(Big(5, SIZE))
    ref = yield Call(actor, "join", (put, put), max_retries=max_retries)
    yield Drop([put])
    yield Sleep(1.4)
    return (yield Get(ref)).size


@remote
def lose_a_line(first, length, are_calls):
    """The same, of a line: each takes what the one before it returned, and only the last is held."""
    actor = yield Create(Joiner, max_restarts=-1, where=Where(node="n3", is_soft=True))
    ref = yield Put(Big(5, SIZE))
    for number in range(length):
        before = ref
        if are_calls:
            ref = yield Call(actor, "take", (before,), max_retries=-1)
        else:
            node = first if number == 0 else "n3"
            ref = yield Submit(join_big, (before, before), where=Where(node=node, is_soft=True))
        yield Drop([before])
    yield Sleep(1.4)
    return (yield Get(ref)).size


def run(world, where, *args, function=lose_a_result):
    """What the program returns or raises, and when the node was killed."""
    world.run(0.3)

    def program():
        try:
            if where == "n1":
                return (yield from function(*args))
            return (yield Get((yield Submit(function, args, where=Where(node=where)))))
        except RemoteError as error:
            return error

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert not world.run(1.0, unless=lambda: driver.is_done)
    assert any(not is_put(object_id) for object_id in world.nodes["n3"].manager.objects)  # the result
    world.faults.kill_node(world.nodes["n3"], "is killed")
    assert world.run(20.0, unless=lambda: driver.is_done)
    return driver.result


def make_world(monkeypatch, seed, **options):
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    return Simulator(Options(seed=seed, nodes=3, cpus=2, delay="even", **options))


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("where", ["n1", "n2"])
@pytest.mark.parametrize("is_in_a_list", [False, True])
def test_a_result_is_made_again_of_what_was_put_and_let_go(is_in_a_list, where, seed, monkeypatch):
    world = make_world(monkeypatch, seed, shards=1 + seed % 2)
    assert run(world, where, is_in_a_list, 0) == SIZE


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("where", ["n1", "n2"])
def test_what_is_put_next_needs_the_room_and_gets_it(where, seed, monkeypatch):
    """Then the result cannot be made again, and that is said: nobody waits for what is not put any more."""
    world = make_world(monkeypatch, seed, capacity=1_000_000)
    failed = run(world, where, False, 2 * SIZE)
    assert isinstance(failed, RemoteError)
    assert "was put, or passed as a large argument, and all its copies" in str(failed)
    assert world.now < 1.4 + SAID_SECONDS


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("where", ["n1", "n2"])
def test_an_answer_is_made_again_of_what_was_put_and_let_go(where, seed, monkeypatch):
    world = make_world(monkeypatch, seed, shards=1 + seed % 2)
    assert run(world, where, -1, function=lose_an_answer) == 2 * SIZE


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("where", ["n1", "n2"])
@pytest.mark.parametrize("first, are_calls", [("n1", False), ("n2", False), ("n3", False), ("n3", True)])
def test_a_line_of_results_is_made_again_from_what_was_put(first, are_calls, where, seed, monkeypatch):
    world = make_world(monkeypatch, seed, shards=1 + seed % 2)
    assert run(world, where, first, 3, are_calls, function=lose_a_line) == SIZE


@pytest.mark.parametrize("by", ["count", "bytes"])
def test_what_a_long_line_took_is_not_all_kept(by, monkeypatch):
    """Each step takes something new: of so many steps back it is, and then of the last ones."""
    steps, size = 10, SIZE // 4
    if by == "count":
        monkeypatch.setattr(puts, "KEPT_MAX", steps)
    else:
        monkeypatch.setattr(puts, "KEPT_BYTES_MAX", int(size * (steps + 0.5)))
    world = make_world(monkeypatch, 1, capacity=1 << 26)
    world.run(0.3)

    def program():
        ref = yield Submit(make_big, (1, size), where=Where(node="n3"))
        most = 0
        for number in range(5 * steps):
            put, before = (yield Put(Big(number, size))), ref
            ref = yield Submit(join_big, (before, put), where=Where(node="n3"))
            yield Drop([before, put])
            yield Sleep(0.05)
            most = max(most, len(world.nodes["n1"].manager.objects))
        return most

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(60.0, unless=lambda: driver.is_done)
    assert steps <= driver.result <= steps + 3


def test_what_a_call_took_is_not_kept_where_it_may_not_be_repeated(monkeypatch):
    world = make_world(monkeypatch, 1)
    failed = run(world, "n1", 0, function=lose_an_answer)
    assert isinstance(failed, RemoteError)
    assert not world.nodes["n1"].scheduler.recovery.puts.by_result


def test_what_is_kept_goes_when_the_result_is_here_or_wanted_no_more(monkeypatch):
    world = make_world(monkeypatch, 1)
    world.run(0.3)

    def program():
        refs = []
        for fill in (1, 2):
            put = yield Put(Big(fill, SIZE))
            refs.append((yield Submit(join_big, (put, put), where=Where(node="n3"))))
            yield Drop([put])
        yield Sleep(0.5)
        kept = count_stored()
        yield Get(refs[0])
        yield Sleep(0.2)
        had = count_stored()
        yield Drop([refs[1]])
        yield Submit(nap, (0.0, None))  # with that it says so
        yield Sleep(0.2)
        return kept, had, count_stored()

    def count_stored():
        return sorted(world.nodes["n1"].manager.objects)

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(20.0, unless=lambda: driver.is_done)
    kept, had, rest = driver.result
    assert len(kept) == 2
    assert len(had) == 2 and had != kept  # the second put, and the first result
    assert len(rest) == 1


@remote
def send_there(count):
    """Has large results made elsewhere of what it puts, which stay there."""
    refs = []
    for number in range(count):
        put = yield Put(Big(number, SIZE // 2))
        ref = yield Submit(join_big, (put, put), where=Where(node="n3"))
        yield Drop([put])
        yield Sleep(0.2)
        refs.append(ref)
    yield Sleep(0.2)
    return refs


@pytest.mark.parametrize("seed", range(1, 4))
def test_copies_that_others_have_go_where_there_is_no_room(seed, monkeypatch):
    """Of what two nodes keep of their puts, the third one, which ran the tasks, has copies: its room is for results."""
    world = make_world(monkeypatch, seed, capacity=2_500_000)
    world.run(0.3)

    def program():
        others = yield Submit(send_there, (5,), where=Where(node="n2"))
        refs = yield from send_there(5)
        there = [object_id for object_id in world.nodes["n3"].manager.objects if not is_put(object_id)]
        sizes = yield Get([refs[0], (yield Get(others))[0]])
        return there, [value.size for value in sizes]

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(4.0, unless=lambda: driver.is_done)  # nobody has waited for room in vain (5 s)
    there, sizes = driver.result
    assert len(there) == 10 and sizes == [SIZE // 2] * 2
