"""The simulator's own parts: links that break, faults that show, failures that can be replayed."""

import re
from types import SimpleNamespace

import pytest

from zray.exceptions import encode_system_error
from zray.ids import return_id
from zray.roles.local_scheduler.tasks import lending
from zray.sim import task_programs
from zray.sim.checkers import Checkers
from zray.sim.main import main, run_options
from zray.sim.network import Connection, End
from zray.sim.options import Options, options_of
from zray.sim.process import Process
from zray.sim.simulator import Simulator
from zray.sim.values import Big, CorruptValue, Failed, Ref, decode, encode
from zray.wire.gcs import LineageNeeded, RecordTasks
from zray.wire.session import GetStatus
from zray.wire.task_spec import TaskSpec

pytestmark = pytest.mark.sim


def connected(world):
    arrived = {"a": [], "b": []}
    ends = [End(name, lambda messages, name=name: arrived[name].extend(m.request for m in messages)) for name in "ab"]
    return Connection(world, *ends), arrived


def test_what_a_break_loses_comes_after_the_repair():
    world = Simulator(Options(seed=1))
    connection, arrived = connected(world)
    connection.send("a", [GetStatus(1)])
    world.run(1.0)
    connection.send("a", [GetStatus(2)])
    connection.break_()
    connection.send("a", [GetStatus(3)])
    world.run(2.0)
    assert arrived["b"] == [1]
    connection.repair()
    world.run(3.0)
    assert arrived["b"] == [1, 2, 3]


def test_held_frames_are_released_in_order():
    world = Simulator(Options(seed=1))
    connection, arrived = connected(world)
    connection.hold("a")
    for number in range(5):
        connection.send("a", [GetStatus(number)])
    connection.send("b", [GetStatus(9)])
    world.run(1.0)
    assert arrived == {"a": [9], "b": []}
    connection.release("a")
    world.run(2.0)
    assert arrived["b"] == [0, 1, 2, 3, 4]


def test_values_come_back_and_foreign_bytes_do_not():
    value = [1, "two", None, Ref(b"r" * 20), Big(7, 3_000), Failed("task", "why", False)]
    data, contained = encode(value)
    assert decode(data) == (value, [b"r" * 20])
    assert contained == (b"r" * 20,)
    with pytest.raises(CorruptValue):
        decode(data[:-2000] + b"\0" + data[-1999:])


def test_a_wrong_result_is_found():
    heads = SimpleNamespace(has_lost_actors=False)
    checkers = Checkers(SimpleNamespace(options=Options(seed=1), heads=heads))
    checkers.compare([1, [2]], [1, [2]], "here")
    with pytest.raises(AssertionError, match="1 expected, 2 came"):
        checkers.compare([1], [2], "here")
    with pytest.raises(AssertionError, match="where nothing had failed"):
        checkers.compare([1], [Failed("WorkerCrashedError", "", True)], "here")
    heads.has_lost_actors = True
    checkers.compare([1], [Failed("ActorDiedError", "", True)], "here")


def test_a_result_that_changes_is_found():
    checkers = Checkers(SimpleNamespace(options=Options(seed=1)))
    lost = encode_system_error("ObjectLostError", "its node died")
    checkers.is_read(b"object", encode(1)[0], "n1/driver-1")
    checkers.is_read(b"object", encode(1)[0], "n1/worker-1")
    checkers.is_read(b"object", lost, "n1/worker-2")
    checkers.is_read(b"another", encode(2)[0], "n1/worker-2")
    with pytest.raises(AssertionError, match="is not what n1/driver-1 saw, for n1/worker-3"):
        checkers.is_read(b"object", encode(2)[0], "n1/worker-3")


def test_what_drivers_and_workers_read_is_compared():
    """Values, and arguments."""
    world = Simulator(Options(seed=3))
    driver = world.start_driver(world.nodes["n1"], 1, task_programs.run_chain, (10, 2, True))
    assert world.run(10.0, unless=lambda: driver.is_done)
    readers = {reader.partition("/")[2].partition("-")[0] for _, reader in world.checkers.seen.values()}
    assert readers == {"driver", "worker"}


def test_two_processes_that_serve_one_actor_are_found():
    """Unless one of them is on a node that is fenced, or stood still a moment ago."""
    world = Simulator(Options(seed=1, nodes=2))
    for name in ("n1", "n2"):
        process = Process(world, world.nodes[name], f"{name}/worker-1", 7)
        process.actor_id = b"actor"
        world.nodes[name].processes[process.address] = process
    with pytest.raises(AssertionError, match="is served by n1/worker-1 and n2/worker-1"):
        world.checkers.actors_are_served_once()
    world.faults.stopped_until["n2"] = world.now
    world.checkers.actors_are_served_once()
    world.faults.stopped_until.clear()
    process.die()
    world.checkers.actors_are_served_once()


def test_a_record_whose_ancestor_is_unknown_is_found():
    """Unless that one's own record is on its way to another shard: until then a node has it."""
    world = Simulator(Options(seed=1, nodes=2, shards=2))
    world.run(0.5)
    parent = TaskSpec(bytes(16), b"f" * 16)
    child = TaskSpec(bytes(15) + b"\1", b"f" * 16, deps=(return_id(parent.task_id, 1),))
    slow, fast = (world.connection(world.nodes["n2"], "n2/local", shard) for shard in ("gcs-0", "gcs-1"))
    slow.hold("n2/local")
    slow.send("n2/local", [RecordTasks("n2/local", [parent], 0, 2)])
    fast.send("n2/local", [RecordTasks("n2/local", [child], 0, 2)])
    world.run(1.0)
    # The word that it is needed overtakes it.
    world.nodes["n1"].arrive("n1/local", "gcs-0", LineageNeeded(1, 0, 2, 1, [parent.task_id], []))
    world.run(2.0)
    assert not world.checkers.unsaid_words(world.shards.authorities())
    assert world.shards.records_under_way() == {parent.task_id}
    slow.release("n2/local")
    world.run(3.0)
    assert not world.shards.records_under_way()
    world.nodes["n1"].roles["gcs-0"].tasks.records[parent.task_id].spec = None
    world.checkers.shards_seen = ()
    with pytest.raises(AssertionError, match="a recorded task whose argument's task is not"):
        world.checkers.lineage_suffices()


def test_a_system_error_is_allowed_where_workers_are_killed():
    checkers = Checkers(SimpleNamespace(options=Options(seed=1, kills=1)))
    checkers.compare([1], [Failed("WorkerCrashedError", "", True)], "here")


def test_a_hang_is_found_and_told(monkeypatch):
    """A planted bug: the node forgets to tell waiting processes."""
    from zray.roles.local_scheduler.objects.waits import Waits

    monkeypatch.setattr(Waits, "send_replies", lambda self: self.replies.clear())
    outcome = run_options(Options(seed=3, programs=("fan_in",), nodes=1))
    assert "not done after" in outcome.error
    assert "driver-1" in outcome.error
    assert "SubmitTasks" in outcome.story


def test_a_leak_is_found(monkeypatch):
    """A planted bug: arguments are never let go of."""
    from zray.roles.local_scheduler.objects.table import ObjectTable

    monkeypatch.setattr(ObjectTable, "drop_all", lambda self, object_ids: None)
    outcome = run_options(Options(seed=3, programs=("fan_in",)))
    assert "LocalScheduler.objects.entries at n1/local left" in outcome.error


def test_what_outgrows_its_bound_is_found(monkeypatch):
    """A planted bound that nothing can keep."""
    monkeypatch.setattr(lending, "FRAMES_COUNT_MAX", 0)
    outcome = run_options(Options(seed=3, programs=("fan_in",)))
    assert re.search(r"1 LocalScheduler\.pool\.workers\[.*\]\.frames at n1/local, at most 0 allowed", outcome.error)


def test_a_seed_says_everything():
    assert options_of(11) == options_of(11)
    assert len({options_of(seed).programs for seed in range(50)}) > 30


def test_programs_are_as_the_sequential_run_says():
    from zray.sim.sequential import Sequential

    assert Sequential().run(task_programs.run_tree, (3, 2)) == 15
    assert Sequential().run(task_programs.run_chain, (10, 2, True)) == [11, 12]


@pytest.mark.parametrize(
    "asked",
    [
        ["--drains"],
        ["--drains", "--nodes", "1"],
        ["--heads", "--nodes", "3"],
        ["--alone", "--nodes", "2"],
        ["--oneway"],
        ["--cuts"],
        ["--schedulers", "--nodes", "1"],
        ["--disks"],
    ],
)
def test_what_so_few_nodes_or_replicas_cannot_do_is_refused_with_how_many_it_takes(asked, capsys):
    with pytest.raises(SystemExit):
        main(asked)
    assert "at least" in capsys.readouterr().err
