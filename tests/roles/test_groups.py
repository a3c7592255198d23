"""Placement groups: the two-phase reservation, whatever arrives when: all of a group is reserved, or none stays so.

The roles of a shard and of three nodes; a queue per pair; Hypothesis says what happens next, and which places are
tried, also such as have no room.
"""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zray.roles.effects import Send, SetTimer
from zray.roles.gcs import GcsShard
from zray.roles.local_scheduler import LocalScheduler
from zray.roles.local_scheduler.groups.bundles import COMMITTED
from zray.roles.local_scheduler.scheduler import Addresses
from zray.sim.trace import name_of
from zray.wire.bundles import plan
from zray.wire.gcs import NodeLost
from zray.wire.groups import (
    CREATED,
    STRATEGIES,
    AttendShard,
    FindPlaces,
    GroupSpec,
    PlacesFound,
    RegisterGroup,
    RemoveGroup,
    plain,
)

pytestmark = pytest.mark.slow

SHARD, GLOBAL = "gcs-0", "global"
NAMES = ("n1/local", "n2/local", "n3/local")
DRIVER = "n0/local"  # whose program makes the groups; it has no part in this
ROUNDS_MAX = 500
bundles = st.lists(st.fixed_dictionaries({"CPU": st.integers(1, 3)}), min_size=1, max_size=4)


class Reservations(RuleBasedStateMachine):
    """Groups come and go, nodes are busy or lost."""

    def __init__(self):
        super().__init__()
        self.shard = GcsShard(SHARD)
        self.nodes = {}
        for name in NAMES:
            addresses = Addresses(name.replace("local", "objects"), [GLOBAL], [SHARD], "monitor")
            self.nodes[name] = LocalScheduler(name, addresses, total={"CPU": 4}, is_embedded=False)
        self.queues = {}  # (sender, receiver) -> messages, in order
        self.questions = deque()  # (keeper, FindPlaces)
        self.timers = {}  # keeper -> what brings it to ask again
        self.used = []  # (node, amount) of what runs beside the groups
        self.count = 0
        self.now = 0.0

    # --- the world ---

    def say(self, sender, target, message):
        if target == GLOBAL:
            if type(message) is FindPlaces:
                self.questions.append((sender, message))
        elif target == SHARD or target in self.nodes:
            self.queues.setdefault((sender, target), deque()).append(message)

    def turn(self, role, sender, message):
        self.now += 1e-3
        effects = role.handle(sender, message, self.now)
        effects = [*effects, *role.end_turn(self.now)]
        for effect in effects:
            if type(effect) is Send:
                self.say(role.address, effect.destination, effect.message)
            elif type(effect) is SetTimer and name_of(effect.message) == "Keeping.ask_in_time":
                self.timers[role.address] = effect.message

    def deliver_one(self, pair):
        message = self.queues[pair].popleft()
        if not self.queues[pair]:
            del self.queues[pair]
        sender, target = pair
        self.turn(self.shard if target == SHARD else self.nodes[target], sender, message)

    def answer_with(self, choose):
        keeper, question = self.questions.popleft()
        if keeper in self.nodes:
            reply = PlacesFound(question.group_id, question.trip, choose(question) or [])
            self.say(GLOBAL, keeper, reply)

    def real_plan(self, question):
        rooms = [(name, plain(node.resources.free)) for name, node in self.nodes.items()]
        return plan(rooms, question.bundles, question.strategy, question.taken)[0]

    # --- what happens ---

    @initialize()
    def all_attend(self):
        for name in NAMES:
            self.say(name, SHARD, AttendShard(name, True))

    @rule(wanted=bundles, strategy=st.sampled_from(STRATEGIES), keeper=st.sampled_from(NAMES))
    def create(self, wanted, strategy, keeper):
        if keeper not in self.nodes:
            return
        self.count += 1
        group_id = self.count.to_bytes(16, "big")
        register = RegisterGroup(group_id, GroupSpec(wanted, strategy), keeper, keeper, b"job", DRIVER)
        self.say(keeper, SHARD, register)

    @precondition(lambda self: self.queues)
    @rule(data=st.data(), times=st.integers(1, 4))
    def deliver(self, data, times):
        for _ in range(times):
            if self.queues:
                self.deliver_one(data.draw(st.sampled_from(sorted(self.queues))))

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def answer(self, data):
        """With what is true, or with any nodes."""
        is_true = data.draw(st.booleans())
        anywhere = st.sampled_from(NAMES)
        self.answer_with(
            self.real_plan if is_true else lambda asked: [(index, data.draw(anywhere)) for index, _ in asked.bundles]
        )

    @precondition(lambda self: self.timers)
    @rule()
    def time_passes(self):
        for name in sorted(self.timers):
            self.turn(self.nodes[name], name, self.timers.pop(name))

    @rule(number=st.integers(1, 50), who=st.sampled_from(NAMES))
    def remove(self, number, who):
        if who in self.nodes:
            self.say(who, SHARD, RemoveGroup(number.to_bytes(16, "big"), "as it pleases"))

    @rule(name=st.sampled_from(NAMES), amount=st.integers(1, 4))
    def something_starts(self, name, amount):
        if name in self.nodes and self.nodes[name].resources.fits({"CPU": amount}):
            self.nodes[name].resources.take({"CPU": amount})
            self.used.append((name, amount))

    @precondition(lambda self: self.used)
    @rule()
    def something_ends(self):
        name, amount = self.used.pop(0)
        if name in self.nodes:
            self.nodes[name].resources.give({"CPU": amount})

    @precondition(lambda self: len(self.nodes) > 1)
    @rule(name=st.sampled_from(NAMES))
    def lose(self, name):
        if name not in self.nodes:
            return
        del self.nodes[name]
        self.timers.pop(name, None)
        for pair in [pair for pair in self.queues if name in pair]:
            del self.queues[pair]
        self.say("monitor", SHARD, NodeLost(name, "as it pleases"))

    # --- what is true ---

    @invariant()
    def nothing_is_taken_twice(self):
        for node in self.nodes.values():
            busy = sum(amount for name, amount in self.used if name == node.address)
            reserved = sum(bundle.amounts["CPU"] for bundle in node.bundles.here.values())
            assert node.resources.free["CPU"] == 4 - busy - reserved >= 0

    @invariant()
    def a_group_has_its_places_all_at_once(self):
        """But for those on nodes that are lost."""
        for record in self.shard.groups.records.values():
            if record.state == CREATED:
                assert all(record.places)
            for index, place in enumerate(record.places):
                if place in self.nodes:
                    assert (record.registered.group_id, index) in self.nodes[place].bundles.here

    def teardown(self):
        """Faults and other work are over: each group has all its places, or none; then all are removed."""
        while self.used:
            self.something_ends()
        self.settle()
        records = self.shard.groups.records
        there = {}
        for name, node in self.nodes.items():
            for key, bundle in node.bundles.here.items():
                assert bundle.state == COMMITTED
                assert key not in there
                there[key] = name
        for group_id, record in records.items():
            assert not record.trying and not record.awaited
            if record.state != CREATED:
                wanted = enumerate(record.registered.spec.bundles)
                missing = [(index, bundle) for index, bundle in wanted if not record.places[index]]
                taken = [place for place in record.places if place]
                rooms = [(name, plain(node.resources.free)) for name, node in self.nodes.items()]
                assert plan(rooms, missing, record.registered.spec.strategy, taken)[0] is None
            for index, place in enumerate(record.places):
                assert there.pop((group_id, index), "") == place
        assert not there, "reserved for no group"
        for group_id in list(records):
            self.say(next(iter(self.nodes)), SHARD, RemoveGroup(group_id, "the end"))
        self.settle()
        assert not records
        for node in self.nodes.values():
            assert not node.bundles.here
            assert node.resources.free == node.resources.total == {"CPU": 4}

    def settle(self):
        """Everything arrives; what has no room now asks often enough to find it, were there any."""
        for _ in range(ROUNDS_MAX):
            while self.queues or self.questions:
                while self.questions:
                    self.answer_with(self.real_plan)
                for pair in sorted(self.queues):
                    self.deliver_one(pair)
            before = [record.trip for record in self.shard.groups.records.values()]
            if self.timers:
                self.time_passes()
            elif not self.queues and not self.questions:
                return
            while self.queues or self.questions:
                while self.questions:
                    self.answer_with(self.real_plan)
                for pair in sorted(self.queues):
                    self.deliver_one(pair)
            if before == [record.trip for record in self.shard.groups.records.values()]:
                return  # nobody has tried anything
        raise AssertionError("it never comes to rest")


Reservations.TestCase.settings = settings(max_examples=100, stateful_step_count=60)
test_reservations = Reservations.TestCase
