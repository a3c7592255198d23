"""The global scheduler by itself: every order of reports, tasks, answers of shards, and nodes that come and go."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zray.ids import return_id
from zray.roles.effects import Send
from zray.roles.global_scheduler import GlobalScheduler
from zray.wire.actors import ActorDeferred, PlaceActor, SpillActor
from zray.wire.gcs import NodeJoined, NodeLost
from zray.wire.homes import ActorLife
from zray.wire.scheduling import (
    LoadReport,
    LocateObjects,
    LocateObjectsReply,
    PlaceTask,
    SpillRefused,
    SpillTask,
    TaskDeferred,
    TaskPlaced,
)
from zray.wire.task_spec import RESOURCE_UNIT, ActorOptions, TaskOptions, TaskSpec, encode_options, parse_options
from zray.wire.where import Where

NODES = ["n1/local", "n2/local", "n3/local"]
DRIVER = "outside/local"
KINDS = {**dict.fromkeys(NODES, "node"), DRIVER: "driver"}
SHARDS = ["gcs-0", "gcs-1"]
JOB = b"job-0001"

nodes = st.sampled_from([*NODES, DRIVER])
counts = st.sampled_from([0, 1, 2, 4, 4])
requests = st.sampled_from([1, 1, 1, 2, 5]).map(lambda count: {"CPU": count * RESOURCE_UNIT})
wheres = st.sampled_from(
    [None, None, None, Where(is_spread=True), Where(node="n1"), Where(node="n2", is_soft=True), Where(node="n9")]
)


def cpus(count):
    return {"CPU": count * RESOURCE_UNIT}


class GlobalMachine(RuleBasedStateMachine):
    """The model: what each node has, and what was placed there that no report has shown yet."""

    def __init__(self):
        super().__init__()
        self.role = GlobalScheduler("global-0", SHARDS)
        self.count = 0
        self.lost = set()
        self.total = {}  # of the nodes that are known
        self.free = {}  # by their last reports
        self.held = {}  # by actors
        self.draining = set()
        self.placed = {}  # node -> what the tasks ask for that were placed there, ever
        self.reported = {}  # node -> how many of them were in its last report
        self.asked = []  # (shard, request, objects)
        self.locating = {}  # request -> the task that waits for shards

    def _tell(self, sender, message):
        sent = []
        for effect in self.role.handle(sender, message, 0.0):
            assert type(effect) is Send
            assert effect.destination not in self.lost, "a word to a lost node"
            sent.append((effect.destination, effect.message))
        return sent

    def _meet(self, node, total):
        if node not in self.total:
            self.total[node], self.free[node] = total, dict(total)
            self.held[node], self.placed[node], self.reported[node] = 0, [], 0

    def _able(self, where, cpu):
        """Where it may run, whatever is free there."""
        able = [node for node in self.total if node != DRIVER and node not in self.draining]
        if where is None or not where.node:
            return able
        own = [node for node in able if node.startswith(where.node + "/")]
        return able if where.is_soft and not any(self.total[node]["CPU"] >= cpu for node in own) else own

    def _knows_none(self):
        """It has just been started, and says of nothing that no node could have it."""
        return not self.total.keys() - {DRIVER}

    def _unreported(self, node):
        return self.placed[node][self.reported[node] :]

    # --- nodes ---

    @rule(node=nodes, count=counts)
    def join(self, node, count):
        if node not in self.lost:
            self._meet(node, cpus(count))
            assert self._tell("monitor", NodeJoined(node, cpus(count), KINDS[node])) == []

    @precondition(lambda self: len(self.lost) < len(NODES) - 1)
    @rule(node=st.sampled_from(NODES))
    def lose(self, node):
        self.lost.add(node)
        self.draining.discard(node)
        for table in (self.total, self.free, self.held, self.placed, self.reported):
            table.pop(node, None)
        assert self._tell("monitor", NodeLost(node, "silent")) == []

    @rule(node=st.sampled_from(NODES), data=st.data())
    def report(self, node, data):
        if node not in self.total:
            self._tell(node, LoadReport(node, cpus(4), cpus(4), 0, 0.0, 1e9))
            assert node not in self.role.loads, "a report makes a lost node, or a stranger, a member"
            return
        self.total[node] = cpus(data.draw(counts))
        held = 0 if data.draw(st.booleans()) else data.draw(st.integers(0, self.total[node]["CPU"] // RESOURCE_UNIT))
        free = data.draw(st.integers(0, self.total[node]["CPU"] // RESOURCE_UNIT - held))
        arrived = data.draw(st.integers(self.reported[node], len(self.placed[node])))
        is_draining = data.draw(st.sampled_from([False, False, False, True]))
        self.free[node], self.held[node], self.reported[node] = cpus(free), held * RESOURCE_UNIT, arrived
        (self.draining.add if is_draining else self.draining.discard)(node)
        numbers = (data.draw(st.integers(0, 3)), data.draw(st.sampled_from([0.0, 0.01])), 1e9)
        report = LoadReport(node, self.total[node], cpus(free), *numbers, cpus(held), arrived, is_draining)
        assert self._tell(node, report) == []

    # --- tasks ---

    @rule(origin=nodes, request=requests, where=wheres, taken=st.lists(st.integers(0, 5), max_size=3))
    def spill(self, origin, request, where, taken):
        self.count += 1
        options = encode_options(TaskOptions(resources=request, where=where))
        deps = tuple(return_id(bytes([number]) * 16, 1) for number in taken)
        spill = SpillTask(TaskSpec(self.count.to_bytes(16, "big"), b"f" * 16, b"", deps, (), options), origin, JOB)
        if origin in self.free and not (where is not None and where.is_spread):
            self.free[origin] = cpus(0)  # else it would not ask
        sent = self._tell(origin, spill)
        if not deps:
            self._check_answer(spill, sent)
            return
        (request_id,) = {message.request for _, message in sent}
        assert request_id not in self.locating
        for shard, message in sent:
            assert type(message) is LocateObjects
            self.asked.append((shard, request_id, message.object_ids))
        assert sorted(object_id for _, message in sent for object_id in message.object_ids) == sorted(deps)
        self.locating[request_id] = spill

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), where=st.lists(nodes, min_size=1, max_size=2, unique=True))
    def shard_answers(self, data, where):
        shard, request_id, objects = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        sent = self._tell(shard, LocateObjectsReply(request_id, [(objects[0], 1_000_000_000, where)]))
        if any(request_id == other for _, other, _ in self.asked):
            assert sent == []
        else:
            self._check_answer(self.locating.pop(request_id), sent)

    @rule()
    def an_answer_to_nothing_changes_nothing(self):
        assert self._tell(SHARDS[0], LocateObjectsReply(10_000, [])) == []

    def _check_answer(self, spill, sent):
        """Placed where it can run, or put off, or refused."""
        if spill.origin in self.lost:
            assert sent == [], "a task of a lost node is placed"
            return
        options, task_id = parse_options(spill.spec.options), spill.spec.task_id
        cpu = options.resources["CPU"]
        able = self._able(options.where, cpu)
        can = [node for node in able if self.total[node]["CPU"] - self.held[node] >= cpu]
        (target, answer), *rest = sent
        if can:
            assert type(answer) is PlaceTask
            assert (answer.spec, answer.origin, answer.trip) == (spill.spec, spill.origin, spill.trip)
            assert target in can
            assert rest == ([(spill.origin, TaskPlaced(task_id, target, 1))] if target != spill.origin else [])
            self.placed[target].append(cpu)
        else:
            is_put_off = self._knows_none() or any(self.total[node]["CPU"] >= cpu for node in able)
            assert (target, rest) == (spill.origin, [])
            assert type(answer) is (TaskDeferred if is_put_off else SpillRefused)
            assert answer.task_id == task_id
            assert is_put_off or set(answer.leaving) == self.draining

    # --- actors ---

    @rule(origin=st.sampled_from(NODES), request=requests, where=wheres)
    def spill_actor(self, origin, request, where):
        if origin in self.lost:
            return
        self.count += 1
        spec = TaskSpec(self.count.to_bytes(16, "big"), b"c" * 16)
        options = ActorOptions(resources=request, where=where)
        free = {node: load.free.get("CPU", 0) for node, load in self.role.loads.items()}
        (target, answer), *rest = self._tell(origin, SpillActor(spec, options, origin, ActorLife("here"), JOB))
        able = self._able(where, request["CPU"])
        if type(answer) is PlaceActor:
            assert target in able
            assert target != origin
            assert free[target] >= request["CPU"]
            assert rest == [(origin, TaskPlaced(spec.task_id, target))]
            self.held[target] += request["CPU"]
            self.free[target] = cpus((self.free[target]["CPU"] - request["CPU"]) // RESOURCE_UNIT)
        else:
            is_put_off = self._knows_none() or any(self.total[node]["CPU"] >= request["CPU"] for node in able)
            assert (target, type(answer), rest) == (origin, ActorDeferred if is_put_off else SpillRefused, [])

    # --- what is believed ---

    @invariant()
    def agrees(self):
        assert self.role.loads.keys() == self.total.keys()
        assert self.role.locating.keys() == self.locating.keys()
        for node, load in self.role.loads.items():
            unreported = self._unreported(node)
            assert [request["CPU"] for request in load.unreported] == unreported, "what was placed is not counted"
            assert load.assigned_count == len(self.placed[node])
            assert load.held.get("CPU", 0) == self.held[node]
            if sum(unreported) + RESOURCE_UNIT > self.free[node]["CPU"]:
                assert not load.starts_at_once(cpus(1)), "what was placed there has taken no room"

    def teardown(self):
        while self.asked:
            shard, request_id, _ = self.asked.pop()
            sent = self._tell(shard, LocateObjectsReply(request_id, []))
            if not any(request_id == other for _, other, _ in self.asked):
                self._check_answer(self.locating.pop(request_id), sent)
        self.agrees()
        assert not self.role.locating


GlobalMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None, derandomize=True)
TestGlobal = GlobalMachine.TestCase
