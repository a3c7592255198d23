"""The object manager: every order of asking, writing, freeing, dying, against a dict of places."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zray.ids import put_id, return_id
from zray.roles import effects as e
from zray.roles.object_manager import ObjectManager
from zray.roles.object_manager.ranges import aligned
from zray.wire.objects import (
    AbandonObject,
    AllocateObject,
    AllocateRefused,
    ClaimObject,
    FetchFailed,
    FetchObject,
    FreeObjects,
    InlineRead,
    ObjectAllocated,
    ObjectChunk,
    ObjectFetched,
    PagesReserved,
    ProcessGone,
    PullObject,
    PullRefused,
    ReadInline,
    SealObjects,
)
from zray.wire.task_spec import StoredValue

CAPACITY = 1 << 20
PROCESSES = ["w1", "w2"]
IDS = [bytes([number]) * 20 for number in range(1, 9)]


class Desk:
    """One object manager whose effects are performed by hand."""

    def __init__(self, capacity=CAPACITY, name="n1"):
        self.manager = ObjectManager(
            f"{name}/objects", f"{name}/local", capacity=capacity, reserve_bytes=64 << 10, chunk_bytes=16 << 10
        )
        self.outcomes = []  # of slow effects, not yet told
        self.timers = []
        self.memory = bytearray(capacity)

    def tell(self, sender, message):
        """One turn.  Returns what was sent."""
        sent = []
        for effect in self.manager.handle(sender, message, 0.0) + self.manager.end_turn(0.0):
            if type(effect) is e.Send:
                sent.append((effect.destination, effect.message))
            elif type(effect) is e.SetTimer:
                self.timers.append(effect.message)
            elif type(effect) is e.CreateSegment:
                self.outcomes.append(e.SegmentCreated(effect.segment))
            elif type(effect) is e.ReservePages:
                self.outcomes.append(e.PagesAreThere(effect.token))
            elif type(effect) is e.ReadRange:
                data = bytes(self.memory[effect.offset : effect.offset + effect.size])
                self.outcomes.append(e.RangeRead(effect.token, data))
            elif type(effect) is e.WriteRange:
                self.memory[effect.offset : effect.offset + len(effect.data)] = effect.data
                self.outcomes.append(e.RangeWritten(effect.token))
        self.manager.check_everything()
        return sent

    def tell_all_outcomes(self):
        """Of slow effects, and of those that follow."""
        sent = []
        while self.outcomes:
            sent += self.tell("host", self.outcomes.pop(0))
        return sent

    def allocate(self, object_id, size, process="w1"):
        """To the end."""
        return self.tell(process, AllocateObject(object_id, size)) + self.tell_all_outcomes()


class ManagerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.desk = Desk()
        self.asked = {}  # object -> process
        self.places = {}  # object -> place told
        self.writers = {}  # objects being written -> process

    def _hear(self, sent):
        for target, message in sent:
            if type(message) is ObjectAllocated:
                assert self.asked.pop(message.object_id) == target
                self.places[message.object_id] = message.place
                self.writers[message.object_id] = target
            elif type(message) is AllocateRefused:
                del self.asked[message.object_id]

    @rule(object_id=st.sampled_from(IDS), size=st.sampled_from([1, 100, 5_000, 70_000, 300_000]), data=st.data())
    def ask(self, object_id, size, data):
        if object_id in self.asked or object_id in self.places:
            return
        process = data.draw(st.sampled_from(PROCESSES))
        self.asked[object_id] = process
        self._hear(self.desk.tell(process, AllocateObject(object_id, size)))

    @precondition(lambda self: self.desk.outcomes)
    @rule()
    def outcome(self):
        self._hear(self.desk.tell("host", self.desk.outcomes.pop(0)))

    @precondition(lambda self: self.desk.timers)
    @rule()
    def patience_ends(self):
        self._hear(self.desk.tell("timer", self.desk.timers.pop(0)))

    @precondition(lambda self: self.writers)
    @rule(data=st.data())
    def seal(self, data):
        object_id = data.draw(st.sampled_from(sorted(self.writers)))
        del self.writers[object_id]
        self._hear(self.desk.tell("n1/local", SealObjects([object_id])))

    @precondition(lambda self: self.writers)
    @rule(data=st.data())
    def abandon(self, data):
        object_id = data.draw(st.sampled_from(sorted(self.writers)))
        process = self.writers.pop(object_id)
        del self.places[object_id]
        self._hear(self.desk.tell(process, AbandonObject(object_id)))

    @rule(data=st.data())
    def free(self, data):
        sealed = sorted(set(self.places) - set(self.writers))
        if sealed:
            object_id = data.draw(st.sampled_from(sealed))
            del self.places[object_id]
            self._hear(self.desk.tell("n1/local", FreeObjects([object_id])))
            self._hear(self.desk.tell("n1/local", FreeObjects([object_id])))  # a repeat

    @rule(process=st.sampled_from(PROCESSES))
    def process_dies(self, process):
        for object_id in [object_id for object_id, writer in self.writers.items() if writer == process]:
            del self.writers[object_id]
            del self.places[object_id]
        for object_id in [object_id for object_id, asker in self.asked.items() if asker == process]:
            del self.asked[object_id]
        self._hear(self.desk.tell("n1/local", ProcessGone(process)))

    @invariant()
    def places_do_not_overlap(self):
        end = -1
        for place in sorted(self.places.values(), key=lambda place: place.offset):
            assert place.offset >= end
            end = place.offset + aligned(place.size)
            assert end <= CAPACITY

    def teardown(self):
        while self.desk.outcomes:
            self.outcome()
        while self.desk.timers:
            self.patience_ends()
            while self.desk.outcomes:
                self.outcome()
        assert not self.asked, "a writer that was never answered"
        self.desk.tell("n1/local", FreeObjects(list(self.places)))
        assert not self.desk.manager.ranges.used_bytes
        assert not self.desk.manager.objects


ManagerMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None, derandomize=True)
TestManager = ManagerMachine.TestCase


def test_a_writer_may_begin_before_all_pages_are_there():
    desk = Desk()
    sent = desk.allocate(IDS[0], 150_000)
    assert [type(message) for _, message in sent] == [ObjectAllocated, PagesReserved, PagesReserved]
    assert sent[0][1].reserved == 64 << 10
    assert sent[-1][1].reserved == 150_000


def test_what_a_turn_frees_is_reused_warm():
    desk = Desk()
    desk.allocate(IDS[0], 100_000)
    place = desk.manager.objects[IDS[0]].place
    desk.tell("n1/local", SealObjects([IDS[0]]))
    desk.manager.handle("w1", AllocateObject(IDS[1], 100_000), 0.0)
    ((_, answer),) = desk.tell("n1/local", FreeObjects([IDS[0]]))
    assert answer == ObjectAllocated(IDS[1], StoredValue(0, place.offset, 100_000), 100_000)


def test_a_full_store_holds_a_writer_back_and_then_says_what_fills_it():
    desk = Desk(capacity=8_192)
    desk.allocate(IDS[0], 8_000)
    assert desk.allocate(IDS[1], 4_000) == []
    ((target, refused),) = desk.tell("timer", desk.timers.pop())
    assert target == "w1"
    assert IDS[0].hex() in refused.reason


def test_a_writer_in_a_full_store_has_one_timer_however_many_turns_it_waits():
    desk = Desk(capacity=8_192)
    desk.allocate(IDS[0], 8_000)
    desk.allocate(IDS[1], 4_000)
    for _ in range(3):
        desk.tell("w1", AbandonObject(IDS[2]))
    assert len(desk.timers) == 1
    early = desk.timers.pop()
    desk.tell("w1", AbandonObject(IDS[1]))
    assert desk.allocate(IDS[1], 4_000) == []
    assert desk.tell("timer", early) == []  # of a wait that is over
    assert desk.tell("timer", desk.timers.pop())[0][0] == "w1"


def test_what_fills_the_store_can_be_told_apart():
    """Ids of one producer differ at their ends only; what is told of each is enough to find it in the program."""
    desk = Desk(capacity=64 << 10)
    task = bytes(range(16))
    put, returned, written = put_id(task, 0), put_id(task, 1), return_id(task, 1)
    for object_id, size in ((put, 20_000), (returned, 10_000), (written, 9_000)):
        desk.allocate(object_id, size)
    desk.tell("n1/local", SealObjects([put, returned]))
    reason = desk.manager.explain(30_000)
    for object_id, size, state in (
        (put, "20,000", "put"),
        (returned, "10,000", "put"),
        (written, "9,000", "returned by a task, still being written by w1"),
    ):
        assert f"ObjectRef({object_id.hex()}): {size} bytes, {state}\n" in reason, reason
    # What keeps them, and the way out.
    for words in ("ObjectRef", "array", "task", "object_store_memory"):
        assert words in reason.rpartition(written.hex())[2]


def test_what_can_never_fit_is_refused_at_once():
    ((_, refused),) = Desk(capacity=8_192).allocate(IDS[0], 9_000)
    assert type(refused) is AllocateRefused


def test_room_for_what_is_here_is_claimed_not_given():
    """A task that runs again puts what its first run has put."""
    desk = Desk()
    desk.allocate(IDS[0], 1_000)
    desk.tell("n1/local", SealObjects([IDS[0]]))
    assert desk.tell("w2", AllocateObject(IDS[0], 1_000)) == [("n1/local", ClaimObject(IDS[0], "w2"))]
    # It was being freed: then there is room.
    ((target, answer),) = desk.tell("n1/local", FreeObjects([IDS[0]]))
    assert (target, type(answer)) == ("w2", ObjectAllocated)


def test_what_was_sealed_is_not_freed_with_its_writer():
    desk = Desk()
    desk.allocate(IDS[0], 1_000)
    desk.tell("n1/local", SealObjects([IDS[0]]))
    desk.tell("n1/local", ProcessGone("w1"))
    assert IDS[0] in desk.manager.objects


# --- between nodes ---


def pull(source, target, object_id, size, *, inline=None):
    """Messages go to and fro until there are none.  Returns what the target's local scheduler was told."""
    told = []
    mail = [("n2/local", "n2/objects", FetchObject(object_id, size, ["n1/local"]))]
    desks = {"n1/objects": source, "n2/objects": target}
    while mail:
        sender, address, message = mail.pop(0)
        if address in desks:
            sent = desks[address].tell(sender, message) + desks[address].tell_all_outcomes()
            mail += [(address, destination, item) for destination, item in sent]
        elif type(message) is ReadInline:
            mail.append((address, sender, InlineRead(message.object_id, message.puller, inline)))
        else:
            told.append(message)
    return told


@pytest.mark.parametrize("size", [1, 16 << 10, 50_000])
def test_an_object_arrives_chunk_by_chunk(size):
    source, target = Desk(), Desk(name="n2")
    source.allocate(IDS[0], size)
    place = source.manager.objects[IDS[0]].place
    data = bytes(number % 251 for number in range(size))
    source.memory[place.offset : place.offset + size] = data
    source.tell("n1/local", SealObjects([IDS[0]]))
    (fetched,) = pull(source, target, IDS[0], size)
    assert type(fetched) is ObjectFetched
    there = fetched.value
    assert bytes(target.memory[there.offset : there.offset + there.size]) == data
    assert not target.manager.pulls.coming


def test_a_small_value_arrives_inline():
    told = pull(Desk(), Desk(name="n2"), IDS[0], 3, inline=b"abc")
    assert told == [ObjectFetched(IDS[0], b"abc")]


def test_an_object_that_no_holder_has_fails_in_words():
    (failed,) = pull(Desk(), Desk(name="n2"), IDS[0], 3)
    assert type(failed) is FetchFailed


def test_repeated_and_foreign_chunks_change_nothing():
    desk = Desk(name="n2")
    desk.tell("n2/local", FetchObject(IDS[0], 10, ["n1/local"]))
    assert desk.tell("n2/local", FetchObject(IDS[0], 10, ["n1/local"])) == []
    assert desk.tell("n3/objects", PullRefused(IDS[0])) == []
    assert desk.tell("n1/objects", ObjectChunk(IDS[1], 10, 0, b"0123456789")) == []
    assert desk.tell("n1/objects", ObjectChunk(IDS[0], 10, 5, b"56789")) == []
    assert list(desk.manager.pulls.coming) == [IDS[0]]


def test_an_object_being_written_is_not_given():
    desk = Desk()
    desk.allocate(IDS[0], 100)
    desk.tell("n2/objects", PullObject(IDS[0]))
    assert desk.tell("n1/local", InlineRead(IDS[0], "n2/objects", None)) == [("n2/objects", PullRefused(IDS[0]))]
