"""What was put on a node that is killed: whoever wants it is told within 2 s of the kill, by virtual clocks."""

import pytest

from zray.sim import faults
from zray.sim.language import Call, Create, Drop, Get, Keep, Put, Sleep, Submit, remote
from zray.sim.object_programs import join_big, sum_inside
from zray.sim.options import Options, turns_between_checks
from zray.sim.recovery_programs import Ledger
from zray.sim.simulator import Simulator
from zray.sim.task_programs import nap
from zray.sim.values import Big, RemoteError
from zray.wire.where import Where

pytestmark = pytest.mark.sim

SAID_SECONDS = 2.0
SIZE = 40_000


@remote
def put_some(count):
    refs = []
    for number in range(count):
        refs.append((yield Put(Big(number, SIZE))))
    return refs


def get(ref):
    return (yield Get(ref))


def as_an_argument(ref):
    return (yield Get((yield Submit(join_big, (ref, ref)))))


def inside_an_argument(ref):
    return (yield Get((yield Submit(sum_inside, ([ref], 1)))))


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("later", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("use", [get, as_an_argument, inside_an_argument])
def test_it_is_said_within_two_seconds(use, later, seed, monkeypatch):
    """Wanted so long after the kill: before the verdict, and after it."""
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)  # its process is killed, its machine is there
    world = Simulator(Options(seed=seed, check_every=turns_between_checks(seed), nodes=3, cpus=1, delay="even"))
    world.run(0.3)
    killed = []

    def kill():
        for node in list(world.nodes.values()):
            if any(type(entry.value).__name__ == "StoredValue" for entry in node.scheduler.objects.entries.values()):
                world.faults.kill_node(node, "is killed")
                killed.append(world.now)

    def program():
        busy = yield Submit(nap, (0.5, None))  # so that the other one goes elsewhere
        yield Sleep(0.05)
        (ref,) = yield Get((yield Submit(put_some, (1,))))
        world.call_later(0.0, kill)
        while not killed:
            yield Sleep(0.001)
        yield Sleep(later)
        begun = world.now
        try:
            yield from use(ref)
        except RemoteError as error:
            seconds = world.now - begun
            yield Get(busy)
            return error.failed, seconds
        return None

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(20.0, unless=lambda: driver.is_done)
    assert len(killed) == 1
    failed, seconds = driver.result
    assert "was put" in str(failed)
    assert failed.kind == ("task" if use is inside_an_argument else "ObjectLostError")
    assert seconds < SAID_SECONDS


@remote
def fill_elsewhere(box, value):
    """Of a large value, elsewhere."""
    yield Sleep(0.05)
    return value.fill


@remote
def hand_on_a_put(value, elsewhere):
    """Puts what it took as a value of its own, and hands that on to tasks on another node."""
    refs = []
    for number in range(3):
        put = yield Put(Big(value.fill + number, SIZE))
        refs.append((yield Submit(fill_elsewhere, ([number], put), where=Where(node=elsewhere))))
    fills = yield Get(refs)
    return sum(fills)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(1, 21))
def test_what_a_task_puts_that_runs_again_is_not_lost(seed, shards, monkeypatch):
    """Its node is killed before another node has fetched it: it is put again, by who is to run again."""
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    world = Simulator(
        Options(seed=seed, check_every=turns_between_checks(seed), nodes=3, cpus=2, delay="even", shards=shards)
    )
    world.run(0.3)

    def program():
        whole = yield Put(Big(7, SIZE))
        ref = yield Submit(hand_on_a_put, (whole, "n3"), where=Where(node="n2", is_soft=True))
        yield Sleep(0.0005 * seed)
        world.call_later(0.0, world.faults.kill_node, world.nodes["n2"], "is killed")
        return (yield Get(ref))

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(20.0, unless=lambda: driver.is_done)
    assert driver.result == 7 + 8 + 9


@remote
class Pusher(Ledger):
    """Puts a large value in each call, and has a ledger enter it."""

    def __init__(self, others):
        super().__init__(0)
        self.others = others

    def begin(self):
        for other in self.others:
            yield Keep(other)

    def save(self):
        return [self.entries, self.others]

    def restore(self, state):
        self.entries, self.others = state
        yield from self.begin()

    def push(self, number):
        self._enter("driver", number)
        put = yield Put(Big(number, SIZE))
        ref = yield Call(self.others[0], "enter_with", ("pusher", number, put), max_retries=-1)
        yield Drop([put])
        return (yield Get(ref)).fill


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(1, 21))
def test_what_a_call_puts_that_runs_again_is_not_lost(seed, shards, monkeypatch):
    """The call was made by an actor that recovers, whose node is killed before the other one has fetched the value."""
    monkeypatch.setattr(faults, "SILENT_DEATH_PROBABILITY", 0.0)
    world = Simulator(
        Options(
            seed=seed,
            check_every=turns_between_checks(seed),
            nodes=4,
            cpus=2,
            delay="even",
            shards=shards,
            bandwidth=20e6,
        )
    )
    world.run(0.3)
    recovers = {"max_restarts": -1, "checkpoint_interval": 3}

    def program():
        ledger = yield Create(Ledger, (0,), where=Where(node="n2"), **recovers)
        pusher = yield Create(Pusher, ([ledger],), where=Where(node="n3", is_soft=True), **recovers)
        refs = []
        for number in range(1, 8):
            refs.append((yield Call(pusher, "push", (number,), max_retries=-1)))
        yield Sleep(0.01 + 0.0005 * seed)
        world.call_later(0.0, world.faults.kill_node, world.nodes["n3"], "is killed")
        answers = yield Get(refs)
        (entered,) = yield Get([(yield Call(ledger, "look", (), max_retries=-1, readonly=True))])
        return answers, entered

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(20.0, unless=lambda: driver.is_done)
    assert driver.result == (list(range(1, 8)), [["pusher", list(range(1, 8))]])
