"""Each role says what bounds what it keeps; the simulator asserts it after each turn (tests/sim)."""

from tests.roles.desk import JOB, Desk
from zray.roles.effects import SetTimer
from zray.roles.gcs import GcsShard, client, homes
from zray.roles.gcs import shard as shard_module
from zray.roles.gcs.replica import Results
from zray.roles.global_scheduler import GlobalScheduler
from zray.roles.global_scheduler import scheduler as global_scheduler
from zray.roles.global_scheduler.placement import UNREPORTED_MAX, NodeLoad
from zray.roles.kept import Latest
from zray.roles.local_scheduler.tasks import dispatch
from zray.roles.object_manager import manager
from zray.roles.relay import TUNNELS_MAX, Relay
from zray.wire.gcs import (
    FetchFunction,
    FetchFunctionReply,
    HoldAtNode,
    NodeJoined,
    ObjectLost,
    ReleaseAtNode,
    SubscribeObject,
)
from zray.wire.homes import ActorLocated, LocateActor
from zray.wire.objects import AllocateObject, AllocateRefused
from zray.wire.relay import OpenTunnel
from zray.wire.scheduling import LoadReport, LocateObjects, PlaceTask, SpillTask
from zray.wire.task_spec import TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import Function


def test_a_relay_says_how_many_tunnels_a_host_has():
    relay = Relay("relay")
    for host in ("a", "b"):
        relay.handle("monitor", NodeJoined(f"{host}/local", {}), 0.0)
    relay.handle("a/tunnels", OpenTunnel("b", 1), 0.0)
    assert list(relay.bounds()) == [("Relay.tunnels of a host", 1, TUNNELS_MAX)]


def test_a_tail_forgets_what_it_has_told_nodes_that_are_lost():
    class Member:
        acknowledged = 0
        history = ()
        replica = type("Replica", (), {"sessions": {"n1/shard-0": None}})

    results = Results(Member)
    results.told = {"n1/shard-0": 3, "n2/shard-0": 5}
    results.tell()
    assert results.told == {"n1/shard-0": 3}


def told(effects):
    return [(effect.destination, effect.message) for effect in effects]


def test_a_question_for_code_is_asked_again_where_too_many_wait(monkeypatch):
    monkeypatch.setattr(shard_module, "AWAITED_MAX", 1)
    shard = GcsShard("gcs-0")
    assert shard.handle("n1/local", FetchFunction("n1/local", b"f" * 16), 0.0) == []
    again = FetchFunctionReply(Function(b"g" * 16, "", b""))
    assert told(shard.handle("n1/local", FetchFunction("n1/local", b"g" * 16), 0.0)) == [("n1/local", again)]
    assert shard.handle("n2/local", FetchFunction("n2/local", b"f" * 16), 0.0) == []
    assert ("GcsShard.function_waiters", 1, 1) in list(shard.bounds())


def test_a_shard_forgets_who_wants_code_no_more():
    shard = GcsShard("gcs-0")
    for node in ("n1/local", "n2/local"):
        shard.handle(node, FetchFunction(node, b"f" * 16), 0.0)
    shard.handle("n1/local", FetchFunction("n1/local", b"f" * 16, is_over=True), 0.0)
    assert shard.function_waiters == {b"f" * 16: {"n2/local": None}}
    for node in ("n1/local", "n2/local"):
        assert shard.handle(node, FetchFunction(node, b"f" * 16, is_over=True), 0.0) == []
    assert not shard.function_waiters


def test_a_node_asks_again_for_code_that_its_tasks_still_wait_for():
    role = Desk().scheduler
    role.functions.waiters[b"g" * 16] = []
    (timer,) = role.handle("gcs-0", FetchFunctionReply(Function(b"g" * 16, "", b"")), 1.0)
    assert type(timer) is SetTimer
    assert told(role.handle("timer", timer.message, 2.0)) == [("gcs-0", FetchFunction(role.address, b"g" * 16))]
    del role.functions.waiters[b"g" * 16]
    assert role.handle("timer", timer.message, 3.0) == []


def test_what_a_node_does_not_hold_it_does_not_wait_for():
    """Or its question would stay for good: nothing would ever take it away."""
    shard = GcsShard("gcs-0")
    ((node, answer),) = told(shard.handle("n1/local", SubscribeObject("n1/local", b"o" * 20), 0.0))
    assert (node, type(answer)) == ("n1/local", ObjectLost)
    assert shard.tasks.records == {}
    shard.handle("n1/local", HoldAtNode("n1/local", [b"o" * 20], 0), 0.0)
    assert shard.handle("n1/local", SubscribeObject("n1/local", b"o" * 20), 0.0) == []
    shard.handle("n2/local", HoldAtNode("n2/local", [b"o" * 20], 0), 0.0)
    shard.handle("n1/local", ReleaseAtNode("n1/local", [b"o" * 20]), 0.0)
    assert shard.tasks.find_object(b"o" * 20).subscribers == {}


def test_an_actor_that_nobody_has_heard_of_is_not_there_where_too_many_are_asked_for(monkeypatch):
    monkeypatch.setattr(homes, "ASKERS_MAX", 1)
    shard = GcsShard("gcs-0")
    assert shard.handle("n1/local", LocateActor(b"a" * 16, "n1/local", True, ""), 0.0) == []
    answer = ActorLocated(b"b" * 16, "", "")
    assert told(shard.handle("n1/local", LocateActor(b"b" * 16, "n1/local", True, ""), 0.0)) == [("n1/local", answer)]


def test_a_task_is_placed_without_a_look_at_its_arguments_where_too_many_wait(monkeypatch):
    monkeypatch.setattr(global_scheduler, "LOCATING_MAX", 1)
    scheduler = GlobalScheduler("global", ["gcs-0"])
    scheduler.handle("monitor", NodeJoined("n1/local", {}), 0.0)
    options = encode_options(TaskOptions(resources={}))
    kinds = []
    for number in (1, 2):
        spec = TaskSpec(bytes([number]) * 16, b"f" * 16, deps=(b"o" * 20,), options=options)
        kinds.append(type(scheduler.handle("n1/local", SpillTask(spec, "n1/local", b"job"), 0.0)[0].message))
    assert kinds == [LocateObjects, PlaceTask]


def test_each_global_scheduler_may_have_so_many_questions_under_way(monkeypatch):
    """Those of one host ask through one client."""
    monkeypatch.setattr(client, "LOCATING_MAX", 1)
    chain = client.ChainClient("n1/shard-0", "gcs-0", "master")
    for asker in ("global", "global-1"):
        chain.handle(asker, LocateObjects(1, [b"o" * 20]), 0.0)
    assert [name for name, count, most in chain.bounds() if count > most] == []
    chain.handle("global", LocateObjects(2, [b"o" * 20]), 0.0)
    assert [name for name, count, most in chain.bounds() if count > most] == ["ChainClient.questions of one"]


def test_what_was_placed_counts_though_nobody_knows_any_more_what_it_asks_for():
    load = NodeLoad("n1", {}, {}, 0, 1.0, 1e9)
    for _ in range(UNREPORTED_MAX + 5):
        load.assign({"CPU": 1})
    assert (len(load.unreported), load.waiting_count) == (UNREPORTED_MAX, UNREPORTED_MAX + 5)
    load.renew(LoadReport("n1", {}, {}, 0, 1.0, 1e9, {}, 2))
    assert load.waiting_count == UNREPORTED_MAX + 3


def test_a_process_has_so_many_values_that_wait_for_room_and_others_have_theirs(monkeypatch):
    monkeypatch.setattr(manager, "ASKED_MAX", 1)
    role = manager.ObjectManager("objects", "local", capacity=1 << 20)
    assert role.handle("driver-1", AllocateObject(b"a" * 20, 100), 0.0) == []
    ((_, answer),) = told(role.handle("driver-1", AllocateObject(b"b" * 20, 100), 0.0))
    assert answer == AllocateRefused(b"b" * 20, 100, "1 other values of this process wait for free space")
    assert role.handle("driver-2", AllocateObject(b"c" * 20, 100), 0.0) == []
    assert ("ObjectManager.values of one process", 1, 1) in list(role.bounds())


def test_a_table_of_the_latest_forgets_the_oldest_first():
    lost = Latest(2)
    for node in ("n1", "n2", "n1", "n3"):
        lost[node] = None
    assert list(lost) == ["n2", "n3"]
    assert list(Latest(2, dict.fromkeys("abc"))) == ["b", "c"]


def test_kinds_of_tasks_that_are_over_are_forgotten(monkeypatch):
    """Of a program that gives each of its tasks a name."""
    monkeypatch.setattr(dispatch, "QUEUES_MAX", 5)
    desk = Desk()
    job = desk.scheduler.jobs[JOB]
    for number in range(30):
        spec = desk.new_spec()
        spec.options = encode_options(TaskOptions(name=f"task {number}"))
        desk.submit(spec)
        if number != 3:
            desk.run_all()
    assert len(job.queues) <= 5 and desk.scheduler.finished_count == 30
    held = [desk.new_spec() for _ in range(20)]
    for number, spec in enumerate(held):
        spec.options = encode_options(TaskOptions(name=f"held {number}"))
    desk.submit(*held)
    assert {queue.options.name for queue in job.queues.values() if queue.tasks} <= {f"held {n}" for n in range(20)}
    bounds = {what: (count, most) for what, count, most in desk.scheduler.bounds()}
    count, most = bounds[f"LocalScheduler.jobs[{JOB.hex()}].queues"]
    assert 18 <= count <= most <= 40
    desk.run_all()
    assert desk.scheduler.finished_count == 50
