"""Nodes that leave in order, several at once: nothing that was put on them is lost."""

import pytest

from tests.roles.rows_taken import record_rows
from zray.roles.effects import DrainOrdered
from zray.roles.local_scheduler.membership import drain
from zray.roles.replica_effects import MachineIsFree
from zray.sim.language import Call, Create, Drop, Get, Put, Sleep, Submit, remote
from zray.sim.main import run_program, run_seed
from zray.sim.options import Options, Wanted, turns_between_checks
from zray.sim.simulator import Simulator
from zray.sim.values import Big
from zray.wire.where import Where

pytestmark = pytest.mark.sim

SIZE = 4_000


@remote
def put_each(fills):
    refs = []
    for fill in fills:
        refs.append((yield Put(Big(fill, SIZE))))
    return refs


def have_leave(world, names):
    for name in names:
        world.faults.troubled.add(name)
        world.heads.node.arrive("host", world.heads.monitor.address, DrainOrdered(f"{name}/local", 0.0))


def put_on(world, names, count):
    """A driver that has values put on these, has them leave, and looks when they have."""

    def program():
        tasks = []
        for number, name in enumerate(names):
            fills = range(number * count, (number + 1) * count)
            tasks.append((yield Submit(put_each, (list(fills),), where=Where(node=name))))
        refs = [ref for found in (yield Get(tasks)) for ref in found]
        world.call_later(0.0, have_leave, world, names)
        while world.nodes.keys() & set(names):
            yield Sleep(0.01)
        return [value.fill for value in (yield Get(refs))]

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(60.0, unless=lambda: driver.is_done), f"left: {list(world.nodes)}"
    return driver.result


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("nodes", [3, 5])
def test_all_nodes_but_the_head_leave_at_once(nodes, seed):
    """None counts on a copy that another one of them is to have."""
    world = Simulator(Options(seed=seed, check_every=turns_between_checks(seed), nodes=nodes, cpus=1))
    world.run(0.3)
    assert put_on(world, [name for name in world.nodes if name != "n1"], 3) == list(range(3 * (nodes - 1)))


@pytest.mark.parametrize("seed", range(1, 6))
def test_who_was_to_have_it_is_lost(seed, monkeypatch):
    """What others wait for their turn is no reason to forget the one that has to be asked for again."""
    monkeypatch.setattr(drain, "MOVING_MAX", 1)
    world = Simulator(Options(seed=seed, check_every=turns_between_checks(seed), nodes=4, cpus=1))
    world.run(0.3)
    took = drain.Taking.on_take_copies

    def die_of_the_second(taking, message):
        node = world.homes[taking.node.address]
        if node.name in ("n3", "n4") and message.objects and "n3" in world.nodes and "n4" in world.nodes:
            world.faults.kill_node(node, "is killed")
        else:
            took(taking, message)

    monkeypatch.setattr(drain.Taking, "on_take_copies", die_of_the_second)
    assert put_on(world, ["n2"], 9) == list(range(9))


@pytest.mark.parametrize("seed", range(1, 6))
def test_drained_node_looks_again_when_another_node_dies(seed, monkeypatch):
    """The drained node waits for its replicas to be moved, and now has the only copies.  Each row is taken."""
    taken = record_rows(monkeypatch, drain.Drain, "happened")
    world = Simulator(Options(seed=seed, check_every=turns_between_checks(seed), nodes=4, cpus=1))
    world.run(0.3)
    monitor = world.heads.monitor
    monitor.hosting = "hosting"  # which there is none of: nobody says that a machine is free
    leaving = world.nodes["n2"].scheduler.drain

    def kill_those_with_copies():
        if not leaving.is_done:
            world.call_later(0.01, kill_those_with_copies)
            return
        for name in ("n3", "n4"):
            world.faults.kill_node(world.nodes[name], "is killed")
        world.call_later(5.0, world.heads.node.arrive, "hosting", monitor.address, MachineIsFree("n2/local"))

    world.call_later(0.01, kill_those_with_copies)
    assert put_on(world, ["n2"], 9) == list(range(9))
    assert taken >= set(drain.TRANSITIONS)


def test_an_answer_that_is_made_again_where_its_call_is_held_back_need_not_be_moved():
    """The node waited for a copy elsewhere, and who was to take one for the call that was to give it."""
    options = {"node_kills": 1, "node_kill_probability": 0.002, "node_drains": 1}
    outcome = run_program("hoard", seed=138, nodes=4, cpus=1, **options)
    assert not outcome.error, outcome.error


def test_calls_that_are_held_back_go_on_where_what_they_take_fills_the_only_store_that_is_left():
    """The node waited for room there for its objects, and that for the answers of the calls."""
    asked = {"deaths": True, "drains": True, "groups": True, "crashes": True, "oneway": True, "schedulers": True}
    outcome = run_seed(970008612, Wanted(nodes=4, shards=4, replicas=3, tight=True, weather=True, **asked))
    assert not outcome.error, outcome.error


@remote
class Herald:
    """Tells others of what it is told, and does not wait; those it asks it waits for."""

    def __init__(self):
        self.count, self.others, self.asked = 0, [], []

    def save(self):
        return [self.count, self.others, self.asked]

    def restore(self, state):
        self.count, self.others, self.asked = state
        yield from ()

    def meet(self, others, asked):
        self.others, self.asked = others, asked

    def tell(self, value):
        self.count += 1
        for other in self.others:
            ref = yield Put(Big(value.fill, SIZE))
            yield Call(other, "tell", (ref,), max_retries=-1)
        for other in self.asked:
            yield Get((yield Call(other, "look", (), max_retries=-1)))
        yield Sleep(0.01)
        return self.count

    def look(self):
        return self.count


def tell_while_leaving(world, name, *, calls_back, count=0):
    """One on n2 tells one on n3.  A driver calls the first one as fast as it answers, has that node leave, and goes on
    until it has left, or for so many calls.  calls_back: the other one asks the first for each.
    """

    def program():
        made = []
        for node in ("n2", "n3"):
            where = Where(node=node, is_soft=True)
            made.append((yield Create(Herald, (), max_restarts=-1, checkpoint_interval=7, where=where)))
        first, second = made
        yield Get((yield Call(first, "meet", ([second], []), max_retries=-1)))
        yield Get((yield Call(second, "meet", ([], [first] if calls_back else []), max_retries=-1)))
        refs, answers, told = [], [], 0
        while told < count if count else name in world.nodes or told < 60:
            told += 1
            value = yield Put(Big(told % 250, SIZE))
            refs.append((yield Call(first, "tell", (value,), max_retries=-1)))
            yield Drop([value])
            if told == 30:
                world.call_later(0.0, have_leave, world, [name])
            if len(refs) > 10:
                answers.append((yield Get(refs.pop(0))))
        answers += yield Get(refs)
        while (yield Get((yield Call(second, "look", (), max_retries=-1)))) < told:
            yield Sleep(0.1)
        while name in world.nodes:
            yield Sleep(0.1)
        heard = yield Get((yield Call(second, "look", (), max_retries=-1)))
        return answers == list(range(1, told + 1)), heard - told

    return world.start_driver(world.nodes["n1"], 1, program, ())


@pytest.mark.parametrize("name", ["n2", "n3"])
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_node_leaves_while_its_actor_calls_or_is_called_as_fast_as_it_answers(name, seed):
    """Some call, message or argument of theirs was always under way (found by hand: it left when the program ended)."""
    world = Simulator(Options(seed=seed, check_every=turns_between_checks(seed), nodes=3, cpus=2))
    world.run(0.3)
    driver = tell_while_leaving(world, name, calls_back=False)
    assert world.run(6.0, unless=lambda: driver.is_done), world.nodes[name].scheduler.drain._unfinished()
    assert driver.result == (True, 0)


@pytest.mark.parametrize("name", ["n2", "n3"])
@pytest.mark.parametrize("seed", range(1, 4))
def test_who_waits_for_a_call_that_is_held_back_gets_its_answer(name, seed):
    """The node waits for one that waits for its actor."""
    world = Simulator(Options(seed=seed, check_every=turns_between_checks(seed), nodes=3, cpus=2))
    world.run(0.3)
    driver = tell_while_leaving(world, name, calls_back=True, count=100)
    assert world.run(60.0, unless=lambda: driver.is_done)
    assert driver.result == (True, 0)
