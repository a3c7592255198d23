"""A GCS shard against dictionaries: whoever asked is told once, and nothing that is held is freed."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zray.ids import is_put, put_id, return_id, task_of
from zray.roles.effects import Send
from zray.roles.gcs import GcsShard
from zray.wire.actors import (
    ActorNameTaken,
    ActorRegistered,
    ActorRemoved,
    LookUpActor,
    LookUpActorNames,
    LookUpActorReply,
    RegisterActor,
)
from zray.wire.gcs import (
    AddLocations,
    CannotRebuild,
    FetchFunction,
    FetchFunctionReply,
    FreeCopies,
    HoldAtNode,
    HoldAtNodeReply,
    NodeLost,
    ObjectLocated,
    ObjectLost,
    OfferCopies,
    RebuildObject,
    RecordTasks,
    RecordTasksReply,
    ReleaseAtNode,
    RemoveLocations,
    SubscribeObject,
)
from zray.wire.scheduling import LocateObjects, LocateObjectsReply
from zray.wire.task_spec import ActorOptions, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import Function, PublishFunction

NODES = ["n1/local", "n2/local", "n3/local"]
GLOBAL = "global"
T1, T2, T3 = (bytes([number]) * 16 for number in (1, 2, 3))
SPECS = {
    T1: TaskSpec(T1, b"f" * 16),
    T2: TaskSpec(T2, b"f" * 16, options=encode_options(TaskOptions(max_retries=0))),
    T3: TaskSpec(T3, b"f" * 16, deps=(return_id(T1, 1),), holds=(return_id(T2, 1),)),
}
OF_T1, KEPT, *OF_T3 = return_id(T1, 1), return_id(T2, 1), return_id(T3, 1), put_id(T3, 0)
OBJECTS = [OF_T1, KEPT, *OF_T3]
FUNCTIONS = {letter * 16: Function(letter * 16, "f", letter) for letter in (b"f", b"g")}
NAME_OF = {b"a" * 16: "x", b"b" * 16: "x", b"c" * 16: "y"}  # two actors want the same one

nodes = st.sampled_from(NODES)
objects = st.sampled_from(OBJECTS)


class ObjectsMachine(RuleBasedStateMachine):
    """The model: who holds, has and waits for what, as the nodes know it; and which tasks are recorded.

    A copy of what T2 has returned, which runs once only, stays as long as T3, which takes it, is recorded.
    A copy of what T1 has returned stays likewise, once T1 has run again.
    """

    def __init__(self):
        super().__init__()
        self.shard = GcsShard("gcs-0")
        self.lost = set()
        self.holders = {object_id: {} for object_id in OBJECTS}  # in the order in which they came
        self.copies = {object_id: set() for object_id in OBJECTS}
        self.waiting = {object_id: set() for object_id in OBJECTS}
        self.recorded = set()
        self.again = set()  # of these, those that have run again
        self.freed = []  # (node, object), since the last message
        self.offered = None  # (node, object)
        self.replies = []
        self.orders = []  # (node, object) that is to be made again
        self.request = 0

    def _tell(self, sender, message):
        """With the model as it is after this message."""
        self.freed, self.replies = [], []
        for effect in self.shard.handle(sender, message, 0.0):
            assert type(effect) is Send
            self._heard(effect.destination, effect.message)

    def _heard(self, node, message):
        assert node not in self.lost, "a word to a lost node"
        kind = type(message)
        if kind is ObjectLocated:
            assert set(message.holders) == self.copies[message.object_id] != set()
            self.waiting[message.object_id].remove(node)
        elif kind is ObjectLost:
            assert not self.copies[message.object_id]
            self.waiting[message.object_id].remove(node)
        elif kind is RebuildObject:
            assert not self.copies[message.object_id]
            assert self.waiting[message.object_id], "made again for nobody"
            self.orders.append((node, message.object_id))
            if message.is_granted:
                self.again.add(task_of(message.object_id))
        elif kind is FreeCopies:
            for object_id in message.object_ids:
                is_spare = (node, object_id) == self.offered and self.copies[object_id]
                assert not self.holders[object_id] or is_spare, "freed, and somebody holds it"
                self.freed.append((node, object_id))
        else:
            self.replies.append((node, message))

    def _let_go(self, object_id, node):
        """Returns who has copies that nobody holds now."""
        was_held = bool(self.holders[object_id])
        self.holders[object_id].pop(node, None)
        self.waiting[object_id].discard(node)
        if not was_held or self.holders[object_id]:
            return set()
        self.waiting[object_id] = set()
        if not any(self.holders[item] for item in OF_T3):
            self.recorded.discard(T3)
        if T3 not in self.recorded:
            self.recorded -= {task_of(item) for item in OBJECTS if not self.holders[item]} - {T3}
        self.again &= self.recorded
        freed = set()
        for item in {object_id, KEPT, OF_T1}:
            if not self.holders[item] and not self._stays(item):
                freed |= {(other, item) for other in self.copies[item] - self.lost}
                self.copies[item] = set()
        return freed

    def _stays(self, object_id):
        if object_id == OF_T1:
            return {T1, T3} <= self.recorded and T1 in self.again
        return object_id == KEPT and {T2, T3} <= self.recorded

    # --- tasks and objects ---

    @rule(task=st.sampled_from([T1, T2, T3]), node=nodes, is_asked=st.booleans())
    def record(self, task, node, is_asked):
        self.request += is_asked
        if node not in self.lost:
            self.holders[return_id(task, 1)][node] = None
            self.recorded.add(task)
        self._tell(node, RecordTasks(node, [SPECS[task]], self.request if is_asked else 0))
        replies = [(node, RecordTasksReply(self.request))] if is_asked and node not in self.lost else []
        assert self.replies == replies

    @rule(object_id=objects, node=nodes, is_asked=st.booleans())
    def hold(self, object_id, node, is_asked):
        self.request += is_asked
        if node not in self.lost:
            self.holders[object_id][node] = None
        self._tell(node, HoldAtNode(node, [object_id], self.request if is_asked else 0))
        replies = [(node, HoldAtNodeReply(self.request))] if is_asked and node not in self.lost else []
        assert self.replies == replies

    @rule(object_id=objects, node=nodes)
    def release(self, object_id, node):
        freed = self._let_go(object_id, node)
        self._tell(node, ReleaseAtNode(node, [object_id]))
        assert set(self.freed) >= freed, "a copy that nobody holds stays"
        is_kept = self._stays(object_id) and self.copies[object_id]
        assert not is_kept or object_id not in {item for _, item in self.freed}

    @precondition(lambda self: any(self.holders.values()))
    @rule(data=st.data(), node=nodes)
    def add_location_of_held(self, data, node):
        """Most copies are wanted."""
        self.add_location(data.draw(st.sampled_from([item for item in OBJECTS if self.holders[item]])), node)

    @precondition(lambda self: any(self.copies.values()))
    @rule(data=st.data())
    def remove_copy(self, data):
        copies = [(object_id, node) for object_id in OBJECTS for node in sorted(self.copies[object_id])]
        self.remove_location(*data.draw(st.sampled_from(copies)))

    @rule(object_id=objects, node=nodes)
    def add_location(self, object_id, node):
        is_wanted = bool(self.holders[object_id]) or self._stays(object_id)
        if node not in self.lost and is_wanted:
            self.copies[object_id].add(node)
        self._tell(node, AddLocations(node, [(object_id, 9)]))
        assert self.freed == ([] if node in self.lost or is_wanted else [(node, object_id)])

    @rule(object_id=objects, node=nodes)
    def remove_location(self, object_id, node):
        """FreeCopies of an earlier life of it may have crossed its news."""
        was_there = node in self.copies[object_id]
        self.copies[object_id].discard(node)
        if was_there and not self.copies[object_id] and self.holders[object_id]:
            self.waiting[object_id] = {next(iter(self.holders[object_id]))}
        self._tell(node, RemoveLocations(node, [object_id]))

    @rule(object_id=objects, node=nodes)
    def offer_copy(self, object_id, node):
        """A copy that the node does not hold goes, where another copy is, or nobody holds the object."""
        copies, holders = self.copies[object_id], self.holders[object_id]
        goes = node not in self.lost and node in copies and node not in holders and (len(copies) > 1 or not holders)
        if goes:
            copies.discard(node)
        self.offered = (node, object_id)
        self._tell(node, OfferCopies(node, [object_id]))
        self.offered = None
        assert self.freed == ([(node, object_id)] if goes else [])

    @precondition(lambda self: any(self.holders.values()))
    @rule(data=st.data())
    def subscribe(self, data):
        """Of what the node holds: others have no use for it."""
        held = [(object_id, node) for object_id in OBJECTS for node in self.holders[object_id]]
        object_id, node = data.draw(st.sampled_from(held))
        self.waiting[object_id].add(node)
        self._tell(node, SubscribeObject(node, object_id))

    @precondition(lambda self: self.orders)
    @rule(data=st.data(), can=st.booleans())
    def answer_order(self, data, can):
        node, object_id = self.orders.pop(data.draw(st.integers(0, len(self.orders) - 1)))
        if can:
            self.add_location(object_id, node)
        elif node not in self.lost:
            if not self.copies[object_id] and not is_put(object_id):
                self.waiting[object_id].discard(node)
            self._tell(node, CannotRebuild(node, object_id))

    # --- the shard, and the nodes ---

    @rule(node=nodes)
    def lose(self, node):
        if len(self.lost) == len(NODES) - 1:
            return
        self.lost.add(node)
        freed = set()
        for object_id in OBJECTS:
            self.copies[object_id].discard(node)
            self.waiting[object_id].discard(node)
            freed |= self._let_go(object_id, node)
        self._tell("monitor", NodeLost(node, "silent"))
        assert set(self.freed) >= freed

    @rule()
    def follow(self):
        """Another one goes on with its state."""
        follower = GcsShard("gcs-0")
        follower.load(list(self.shard.dump()))
        self.shard = follower

    @invariant()
    def agrees(self):
        self.shard.check_everything()
        for object_id in OBJECTS:
            assert self.shard.tasks.is_held(object_id) == bool(self.holders[object_id])
            assert not (self.waiting[object_id] and self.copies[object_id]), "somebody waits for what is there"
        assert not self.lost & set(self.shard.tasks.makers.values()), "a lost node is taken for one that makes it"

    @invariant()
    def says_what_is_where(self):
        self._tell(GLOBAL, LocateObjects(1, OBJECTS))
        ((_, reply),) = self.replies
        assert type(reply) is LocateObjectsReply
        found = {object_id: set(holders) for object_id, _, holders in reply.objects}
        assert found == {object_id: copies for object_id, copies in self.copies.items() if copies}

    def teardown(self):
        for object_id in OBJECTS:
            for node in list(self.holders[object_id]):
                self.release(object_id, node)
        assert not self.shard.tasks.records
        assert not self.shard.tasks.makers


ObjectsMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
TestObjects = ObjectsMachine.TestCase


class NamesMachine(RuleBasedStateMachine):
    """The model: who has which name, what was published, and who has asked for code that was not."""

    def __init__(self):
        super().__init__()
        self.shard = GcsShard("gcs-0")
        self.lost = set()
        self.published = set()
        self.fetching = {function_id: set() for function_id in FUNCTIONS}
        self.names = {}  # name -> (actor, node, guardian)

    def _tell(self, sender, message):
        """Returns what was said, besides code."""
        replies = []
        for effect in self.shard.handle(sender, message, 0.0):
            assert effect.destination not in self.lost, "a word to a lost node"
            if type(effect.message) is FetchFunctionReply:
                assert effect.message.function.function_id in self.published
                self.fetching[effect.message.function.function_id].remove(effect.destination)
            else:
                replies.append((effect.destination, effect.message))
        return replies

    @rule(function_id=st.sampled_from([*FUNCTIONS]))
    def publish(self, function_id):
        self.published.add(function_id)
        self._tell(NODES[0], PublishFunction(FUNCTIONS[function_id]))

    @rule(function_id=st.sampled_from([*FUNCTIONS]), node=nodes)
    def fetch(self, function_id, node):
        if node not in self.lost:
            self.fetching[function_id].add(node)
        self._tell(node, FetchFunction(node, function_id))

    @rule(actor=st.sampled_from([*NAME_OF]), node=nodes, guardian=st.sampled_from(["", *NODES]))
    def register(self, actor, node, guardian):
        name = NAME_OF[actor]
        replies = self._tell(node, RegisterActor(actor, ActorOptions(name=name, handle=actor), node, guardian))
        if node in self.lost:
            assert not replies
        elif name in self.names and self.names[name][0] != actor:
            assert replies == [(node, ActorNameTaken(actor, self.names[name][0]))]
        else:
            self.names[name] = (actor, node, guardian)
            assert replies == [(node, ActorRegistered(actor))]

    @rule(actor=st.sampled_from([*NAME_OF]), node=nodes)
    def remove_actor(self, actor, node):
        if self.names.get(NAME_OF[actor], (b"",))[0] == actor:
            del self.names[NAME_OF[actor]]
        self._tell(node, ActorRemoved(actor))

    @rule(node=nodes)
    def lose(self, node):
        if len(self.lost) == len(NODES) - 1:
            return
        self.lost.add(node)
        for waiters in self.fetching.values():
            waiters.discard(node)
        for name, (actor, home, guardian) in list(self.names.items()):
            if home == node:
                del self.names[name]
                if guardian and guardian not in self.lost:
                    self.names[name] = (actor, guardian, "")
        assert not self._tell("monitor", NodeLost(node, "silent"))

    @rule()
    def follow(self):
        """Another one goes on with its state."""
        follower = GcsShard("gcs-0")
        follower.load(list(self.shard.dump()))
        self.shard = follower

    @invariant()
    def agrees(self):
        for function_id, waiters in self.fetching.items():
            assert not (waiters and function_id in self.published), "somebody waits for code that is there"
        living = next(node for node in NODES if node not in self.lost)
        for name in ("x", "y"):
            actor, node, _ = self.names.get(name, (b"", "", ""))
            found = self._tell(living, LookUpActor("", name))
            assert found == [(living, LookUpActorReply("", name, actor, actor, node))]
        ((_, listed),) = self._tell(living, LookUpActorNames(1, ""))
        assert sorted(listed.names) == sorted(("", name) for name in self.names)


NamesMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None, derandomize=True)
TestNames = NamesMachine.TestCase
