"""The client: refs, values and places against plain counts."""

from collections import Counter, deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zray.ids import item_id, return_id
from zray.roles.client import LEFT_ITEMS_MAX, RELEASES_MAX, Client
from zray.wire.objects import (
    AllocateRefused,
    HoldObjects,
    ObjectAllocated,
    PagesReserved,
    PutObjects,
    ReleaseObjects,
    ReturnPlaces,
    UnpinObjects,
)
from zray.wire.task_spec import StoredValue, TaskSpec
from zray.wire.tasks import ObjectsReady, SubmitTasks, TaskResult, TasksFinished, WaitObjects, WaitReply

IDS = [bytes([number]) * 20 for number in range(1, 6)]


def make_client():
    return Client(deque(), deque())


class ClientMachine(RuleBasedStateMachine):
    """What the node knows of us, from what we have said, agrees with the refs that live here."""

    def __init__(self):
        super().__init__()
        self.client = make_client()
        self.refs = Counter()
        self.arrays = Counter()
        self.held_at_node = set()
        self.told = Counter()
        self.is_large = {}  # a value never changes
        self.count = 0

    @rule()
    def submit(self):
        self.count += 1
        spec = TaskSpec(self.count.to_bytes(16, "big"), b"f" * 16)
        self.client.submit(spec)
        self.refs[return_id(spec.task_id, 1)] += 1

    @rule()
    def submit_later(self):
        self.count += 1
        spec = TaskSpec(self.count.to_bytes(16, "big"), b"f" * 16)
        self.client.submit_later(spec, 1)
        self.refs[return_id(spec.task_id, 1)] += 1

    @rule(is_large=st.booleans())
    def put(self, is_large):
        self.count += 1
        object_id = return_id(self.count.to_bytes(16, "big"), 1)
        self.client.put(object_id, StoredValue(0, 0, 1_000) if is_large else b"\1")
        self.is_large[object_id] = is_large
        self.told[object_id] += is_large
        self.refs[object_id] += 1

    @rule(object_id=st.sampled_from(IDS))
    def borrow(self, object_id):
        self.client.hold(object_id)
        self.refs[object_id] += 1

    @precondition(lambda self: +self.refs)
    @rule(data=st.data())
    def ref_dies(self, data):
        object_id = data.draw(st.sampled_from(sorted(+self.refs)))
        self.refs[object_id] -= 1
        self.client.released.append(object_id)

    @rule(data=st.data(), is_large=st.booleans())
    def value_comes(self, data, is_large):
        """Also when the last ref has just died."""
        object_id = data.draw(st.sampled_from(sorted(self.refs) + IDS))
        is_large = self.is_large.setdefault(object_id, is_large)
        value = StoredValue(0, 0, 1_000) if is_large else b"\1"
        self.told[object_id] += is_large
        self.client.handle(ObjectsReady([(object_id, value)]))

    @rule(data=st.data())
    def array_is_made(self, data):
        large = [object_id for object_id, value in self.client.values.items() if type(value) is StoredValue]
        if large:
            object_id = data.draw(st.sampled_from(sorted(large)))
            if self.refs[object_id] > 0:
                self.client.read_begins(object_id)
                self.arrays[object_id] += 1

    @precondition(lambda self: +self.arrays)
    @rule(data=st.data())
    def array_dies(self, data):
        object_id = data.draw(st.sampled_from(sorted(+self.arrays)))
        self.arrays[object_id] -= 1
        self.client.unread.append(object_id)

    @rule()
    def flush(self):
        for message in self.client.take_messages():
            if type(message) is SubmitTasks:
                self.held_at_node |= {return_id(spec.task_id, 1) for spec in message.specs}
            elif type(message) is PutObjects:
                self.held_at_node |= {put.object_id for put in message.objects}
            elif type(message) is HoldObjects:
                assert not self.held_at_node & set(message.object_ids)
                self.held_at_node |= set(message.object_ids)
            elif type(message) is ReleaseObjects:
                assert set(message.object_ids) <= self.held_at_node
                self.held_at_node -= set(message.object_ids)
            elif type(message) is UnpinObjects:
                for object_id, count in message.pins:
                    assert not self.arrays[object_id], "let go of under an array"
                    self.told[object_id] -= count
                    assert self.told[object_id] == 0
        assert self.held_at_node == set(+self.refs)
        assert not self.client.released
        assert not self.client.unread
        for object_id, count in self.told.items():
            if count:
                assert self.refs[object_id] or self.arrays[object_id], "a place that nobody reads is not let go of"

    @invariant()
    def an_array_keeps_its_place(self):
        for object_id in +self.arrays:
            assert self.told[object_id]

    def teardown(self):
        for object_id, count in (+self.refs).items():
            self.client.released.extend([object_id] * count)
        for object_id, count in (+self.arrays).items():
            self.client.unread.extend([object_id] * count)
        self.refs.clear()
        self.arrays.clear()
        self.flush()
        assert not self.client.held
        assert not self.client.further_refs
        assert not self.client.values
        assert not self.client.told
        assert not self.client.reading


ClientMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None, derandomize=True)
TestClient = ClientMachine.TestCase


def test_one_copy_of_an_id_serves_every_table():
    client = make_client()
    first = client.submit(TaskSpec(b"a" * 16, b"f" * 16))
    client.handle(ObjectsReady([(bytes(bytearray(first)), b"\1")]))
    assert first == return_id(b"a" * 16, 1)
    for table in (client.held, client.values):
        (known,) = table
        assert known is first


def test_a_task_that_runs_again_shares_the_ids_of_its_children_with_its_first_run():
    """Refs of the first run may live on in this process; one of them going is not the last."""
    client = make_client()
    child = client.submit(TaskSpec(b"a" * 16, b"f" * 16))
    put = bytes(IDS[0])
    client.put(put, b"\1")
    client.take_messages()
    assert client.submit(TaskSpec(b"a" * 16, b"f" * 16)) is child
    client.put(bytes(bytearray(put)), b"\1")
    client.released.extend([child, put])
    assert ReleaseObjects not in [type(message) for message in client.take_messages()]
    client.released.extend([child, put])
    assert client.take_messages() == [ReleaseObjects([child, put])]


def test_results_go_between_what_was_said_and_what_is_let_go_of():
    """A ref inside a result is the result's before it is no longer the task's."""
    client = make_client()
    client.put(IDS[0], b"\1")
    client.hold(IDS[1])
    client.released.extend(IDS[:2])
    result = TasksFinished([TaskResult(b"t" * 16, [b"\1"], ((IDS[0],),))])
    kinds = [type(message) for message in client.take_messages([result])]
    assert kinds == [PutObjects, HoldObjects, TasksFinished, ReleaseObjects]
    assert client.take_messages() == []


def test_the_ends_of_many_refs_are_said_in_several_frames():
    client = make_client()
    ids = [return_id(number.to_bytes(16, "big"), 1) for number in range(RELEASES_MAX + 1)]
    for object_id in ids:
        client.put(object_id, b"")
    client.take_messages()
    client.released.extend(ids)
    assert [message.object_ids for message in client.take_messages()] == [ids[:RELEASES_MAX]]
    assert [message.object_ids for message in client.take_messages()] == [ids[RELEASES_MAX:]]
    assert client.take_messages() == [] and not client.held


def test_items_of_a_generator_that_is_left_go_a_few_at_a_time():
    client, task_id, count = make_client(), b"g" * 16, 2 * LEFT_ITEMS_MAX + 3
    items = [item_id(task_id, number) for number in range(count)]
    client.streams[task_id] = 0
    early = item_id(task_id, count + 5)  # ahead of one that has not arrived
    client.handle(ObjectsReady([(object_id, b"\1") for object_id in [*items, early]]))
    client.hold(items[3])  # somebody has passed it back
    client.take_messages()
    assert client.leave_stream(task_id, 2) == count and client.leave_stream(task_id, 2) is None
    frames = [[message.object_ids for message in client.take_messages()] for _ in range(4)]
    assert all(len(object_ids) <= LEFT_ITEMS_MAX for frame in frames for object_ids in frame)
    said = [object_id for frame in frames for object_ids in frame for object_id in object_ids]
    assert said == [items[2], *items[4:], early]
    assert not client.leaving and client.held.keys() == {*items[:2], items[3]} == client.values.keys()


def test_a_generator_is_left_without_a_step_for_each_item():
    client, task_id = make_client(), b"g" * 16
    client.streams[task_id] = 1 << 30  # a step for each would take minutes
    assert client.leave_stream(task_id, 5) == 1 << 30
    items = [item_id(task_id, number) for number in range(5 + LEFT_ITEMS_MAX)]
    client.held.update(zip(items, items, strict=True))
    (released,) = client.take_messages()
    assert released.object_ids == items[5:]


def test_refs_that_die_go_ahead_of_what_was_left():
    client, task_id = make_client(), b"g" * 16
    client.streams[task_id] = 0
    client.handle(ObjectsReady([(item_id(task_id, 0), b"\1")]))
    client.put(IDS[0], b"\1")
    client.take_messages()
    client.leave_stream(task_id, 0)
    client.released.append(IDS[0])
    assert client.take_messages() == [ReleaseObjects([IDS[0], item_id(task_id, 0)])]


def test_what_is_said_keeps_its_order():
    client = make_client()
    client.submit(TaskSpec(b"a" * 16, b"f" * 16))
    client.submit(TaskSpec(b"b" * 16, b"f" * 16))
    client.put(IDS[0], b"\1")
    client.submit(TaskSpec(b"c" * 16, b"f" * 16))
    said = client.take_messages()
    assert [type(message) for message in said] == [SubmitTasks, PutObjects, SubmitTasks]
    assert len(said[0].specs) == 2


def test_borrowed_values_are_asked_for_once():
    client = make_client()
    client.hold(IDS[0])
    client.submit(TaskSpec(b"a" * 16, b"f" * 16))
    ids = [IDS[0], return_id(b"a" * 16, 1)]
    client.ask(ids)
    client.ask(ids)
    asked = [message for message in client.take_messages() if type(message) is WaitObjects]
    assert [message.object_ids for message in asked] == [[IDS[0]]]


def test_whether_it_is_there_is_asked_once_however_often_somebody_looks():
    """A node holds so many questions of a process at once; one that polls for hours has one."""
    client = make_client()
    borrowed = IDS[:2]
    for object_id in borrowed:
        client.hold(object_id)
    for _ in range(3):
        client.ask_whether(borrowed)
    asked = [message for message in client.take_messages() if type(message) is WaitObjects]
    assert [list(message.object_ids) for message in asked] == [[object_id] for object_id in borrowed]
    client.handle(WaitReply(asked[0].request, borrowed[:1]))
    assert client.is_ready(borrowed[0]) and not client.is_ready(borrowed[1])
    client.released.append(borrowed[1])
    client.take_messages()
    client.hold(borrowed[1])
    client.ask_whether(borrowed[1:])
    assert [type(message) for message in client.take_messages()].count(WaitObjects) == 1


def test_an_answer_that_nobody_waits_for_changes_nothing():
    client = make_client()
    client.handle(WaitReply(7, [IDS[0]]))
    assert not client.replies
    assert not client.is_ready(IDS[0])


def test_what_was_said_in_the_middle_is_ahead_of_the_ends_of_its_refs():
    """By a finalizer that keeps no ref: a node that heard of the end first would keep the task's value for ever."""
    client = make_client()
    spec = TaskSpec(b"t" * 16, b"f" * 16)
    client.submit_later(spec, 2)
    client.released += [return_id(spec.task_id, 1), return_id(spec.task_id, 2)]
    submitted, released = client.take_messages()
    assert submitted.specs == [spec]
    assert type(released) is ReleaseObjects
    assert not client.held
    assert not client.take_messages()


def unpinned_by(client):
    said = [message for message in client.take_messages() if type(message) is UnpinObjects]
    return [object_id for message in said for object_id, _ in message.pins]


def client_with_large_puts(object_ids):
    client = make_client()
    for object_id in object_ids:
        client.put(object_id, StoredValue(0, 0, 1_000))
    client.take_messages()
    return client


def test_the_place_of_an_argument_is_not_returned_before_its_task_has_ended():
    client = client_with_large_puts(IDS[:2])
    client.is_argument = {IDS[0]}.__contains__
    client.handle(ReturnPlaces(IDS[:2]))
    assert unpinned_by(client) == [IDS[1]]
    client.is_argument = set().__contains__
    client.handle(ReturnPlaces(IDS[:2]))
    assert unpinned_by(client) == [IDS[0]]


def test_the_end_of_an_array_does_not_return_the_place_of_an_argument():
    client = client_with_large_puts(IDS[:2])
    client.is_argument = {IDS[0]}.__contains__
    for object_id in IDS[:2]:
        client.read_begins(object_id)
        client.released.append(object_id)
    assert unpinned_by(client) == []
    client.unread.extend(IDS[:2])
    assert unpinned_by(client) == [IDS[1]]


def test_answers_for_another_size_are_not_those_of_the_last_request():
    client, id = make_client(), IDS[0]
    client.allocations[id] = 8
    for answer in (ObjectAllocated(id, StoredValue(0, 64, 9), 9), PagesReserved(id, 9), AllocateRefused(id, 9, "full")):
        client.handle(answer)
        assert client.allocations == {id: 8}
    client.handle(ObjectAllocated(id, StoredValue(0, 128, 8), 4))
    client.handle(PagesReserved(id, 8))
    assert client.allocations == {id: ObjectAllocated(id, StoredValue(0, 128, 8), 8)}


def test_place_of_a_value_that_exists_is_given_back_where_the_writer_has_it_already():
    client, id = make_client(), IDS[0]
    client.allocations[id] = 8
    exists = ObjectAllocated(id, StoredValue(0, 64, 7), -1)  # of an earlier run, so of any size
    client.handle(exists)
    assert client.allocations == {id: exists}
    assert not unpinned_by(client)
    client.handle(exists)
    assert unpinned_by(client) == [id]
