"""Ten short runs without chance, one for each conversation of the core (tests/transcripts shows them as text)."""

from zray.roles.effects import DrainOrdered
from zray.sim.heads import WRITE_SECONDS
from zray.sim.language import Call, Create, Get, MakeGroup, Put, RemoveGroup, Sleep, Submit, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.values import Big
from zray.wire.chain import ChainMemberLost
from zray.wire.task_spec import RESOURCE_UNIT
from zray.wire.where import Where

SIZE = 4_000


@remote
def twice(value, seconds):
    yield Sleep(seconds)
    return 2 * value


@remote
def new_value(fill):
    return Big(fill, SIZE)


@remote
def its_fill(value):
    return value.fill


@remote
class Tally:
    """Counts calls; its state is saved and restored."""

    def __init__(self):
        self.count = 0

    def save(self):
        return self.count

    def restore(self, state):
        self.count = state
        yield from ()

    def add(self, number):
        self.count += number
        return self.count


def world_of(nodes, **options):
    """A world of nodes that have met; only what comes then is shown."""
    world = Simulator(Options(seed=1, nodes=nodes, delay="even", turn_delay_max=0.0, **options))
    if nodes > 1:
        world.run(0.3)
    world.trace.lines.clear()
    return world


def run(world, program):
    """A driver on the first node runs the program; its result."""
    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    assert world.run(world.now + 60.0, unless=lambda: driver.is_done)
    return driver.result


def on(name):
    """Place of a task or actor: that node if it lives, else any other."""
    return Where(node=name, is_soft=True)


def submit_and_get():
    """A driver submits two tasks of one node, of which the second takes the result of the first."""
    world = world_of(1)

    def program():
        first = yield Submit(twice, (1, 0.001))
        return (yield Get((yield Submit(twice, (first, 0.001)))))

    assert run(world, program) == 4
    return world


def spill():
    """A node of one CPU has two tasks; the second spills, and a global scheduler places it on the other node."""
    world = world_of(2, cpus=1)

    def program():
        return (yield Get([(yield Submit(twice, (1, 0.2))), (yield Submit(twice, (2, 0.2)))]))

    assert run(world, program) == [2, 4]
    return world


def pull():
    """A task on the second node takes an object of the first."""
    world = world_of(2)

    def program():
        put = yield Put(Big(7, SIZE))
        return (yield Get((yield Submit(its_fill, (put,), where=on("n2")))))

    assert run(world, program) == 7
    return world


def actor_creation():
    """An actor is made on the second node, and called twice."""
    world = world_of(2)

    def program():
        actor = yield Create(Tally, where=on("n2"))
        return (yield Get([(yield Call(actor, "add", (1,))), (yield Call(actor, "add", (1,)))]))

    assert run(world, program) == [1, 2]
    return world


def failover_with_replay():
    """The node of an actor is killed behind a checkpoint: the backup restores it and replays the log."""
    world = world_of(3)

    def program():
        actor = yield Create(Tally, where=on("n2"), max_restarts=-1, checkpoint_interval=2)
        for _ in range(3):
            yield Get((yield Call(actor, "add", (1,), max_retries=-1)))
        world.call_later(0.0, world.faults.kill_node, world.nodes["n2"], "is killed")
        yield Sleep(0.001)
        return (yield Get((yield Call(actor, "add", (1,), max_retries=-1))))

    assert run(world, program) == 4
    return world


def placement_group():
    """A group of two bundles on two nodes; a task runs in each, and the group is removed."""
    world = world_of(2)

    def program():
        group = yield MakeGroup([{"CPU": RESOURCE_UNIT}] * 2, "STRICT_SPREAD")
        refs = []
        for bundle in range(2):
            refs.append((yield Submit(twice, (bundle, 0.001), where=Where(group=group, bundle=bundle))))
        values = yield Get(refs)
        yield RemoveGroup(group)
        yield Sleep(0.05)
        return values

    assert run(world, program) == [0, 2]
    return world


def node_death_and_reconstruction():
    """The only copy of a result is lost with its node: its task runs again on another one."""
    world = world_of(3)

    def program():
        made = yield Submit(new_value, (9,), where=on("n2"))
        yield Sleep(0.3)
        world.call_later(0.0, world.faults.kill_node, world.nodes["n2"], "is killed")
        yield Sleep(0.001)
        return (yield Get(made)).fill

    assert run(world, program) == 9
    return world


def drain():
    """A node leaves in order; the only copy of a result is moved before."""
    world = world_of(3)

    def leave():
        world.faults.troubled.add("n2")
        world.heads.node.arrive("host", world.heads.monitor.address, DrainOrdered("n2/local", 0.0))

    def program():
        made = yield Submit(new_value, (9,), where=on("n2"))
        yield Sleep(0.1)
        world.call_later(0.0, leave)
        while "n2" in world.nodes:
            yield Sleep(0.01)
        return (yield Get(made)).fill

    assert run(world, program) == 9
    return world


def head_restart():
    """A head is killed and started on its state; a task of the second node goes on meanwhile."""
    world = world_of(4, head_kills=1)
    world.run(60.0, unless=world.heads.all_have_met)
    world.trace.lines.clear()

    def program():
        made = yield Submit(twice, (4, 0.5))
        world.call_later(0.0, world.heads._kill)
        return (yield Get(made))

    driver = world.start_driver(world.nodes[world.heads.home], 1, program, ())
    assert world.run(world.now + 60.0, unless=lambda: driver.is_done and world.heads.all_have_met())
    assert driver.result == 8
    return world


def chain_failover():
    """The tail of a chain of two is killed; a client's next write is answered by the one that is left."""
    world = world_of(2, replicas=2)
    world.run(3.0)
    assert world.shards.are_spread()
    world.trace.lines.clear()
    (client,) = [client for client in world.shards.clients() if client.address == "n2/shard-0"]

    def program():
        killed = world.shards.hosts[client.members[-1].partition("/")[0]]
        world.shards.die(killed)
        world.heads.node.arrive("host", "chains", ChainMemberLost(killed.member.address, "killed by signal 9"))
        made = yield Submit(new_value, (3,), where=on("n2"))
        value = yield Get(made)
        yield Sleep(4 * WRITE_SECONDS[1])
        return value.fill

    assert run(world, program) == 3
    return world


SCENARIOS = (
    submit_and_get,
    spill,
    pull,
    actor_creation,
    failover_with_replay,
    placement_group,
    node_death_and_reconstruction,
    drain,
    head_restart,
    chain_failover,
)
