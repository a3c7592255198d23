"""The object manager: every order of asking, writing, freeing, dying, against a dict of places."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.roles.object_desk import CAPACITY, Desk
from zray.ids import put_id, return_id
from zray.roles.effects import PagesRefused
from zray.roles.object_manager.ranges import aligned
from zray.roles.work_effects import RoomWanted
from zray.wire.objects import (
    AbandonObject,
    AllocateObject,
    AllocateRefused,
    ClaimObject,
    FreeObjects,
    ObjectAllocated,
    ObjectClaimed,
    PagesReserved,
    ProcessGone,
    SealObjects,
)
from zray.wire.task_spec import StoredValue

PROCESSES = ["w1", "w2"]
IDS = [bytes([number]) * 20 for number in range(1, 9)]


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
    assert desk.allocate(IDS[1], 4_000) == [("n1/local", RoomWanted())]
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
    assert desk.allocate(IDS[1], 4_000) == [("n1/local", RoomWanted())]  # once for each wait
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


def test_what_the_machine_has_no_pages_for_does_not_fill_the_store_itself():
    """A larger store would be of no use here."""
    desk = Desk()
    desk.allocate(IDS[0], 10_000)
    desk.tell("w1", AllocateObject(IDS[1], 50_000))
    (there,) = desk.outcomes
    wanted, (target, refused) = desk.tell("host", PagesRefused(there.token, "/dev/shm has no free space"))
    assert wanted == ("n1/local", RoomWanted())  # what is kept goes, and the next one has its pages
    assert (target, refused.object_id) == ("w1", IDS[1])
    assert refused.reason.startswith("/dev/shm has no free space.  50,000 bytes are needed")
    assert IDS[0].hex() in refused.reason and IDS[1].hex() not in refused.reason
    assert "shared memory" in refused.reason and "object_store_memory" not in refused.reason


def test_what_can_never_fit_is_refused_at_once():
    ((_, refused),) = Desk(capacity=8_192).allocate(IDS[0], 9_000)
    assert type(refused) is AllocateRefused
    assert refused.reason.startswith("9,000 bytes are needed, and the whole store has 8,192: the value can never fit")
    assert "larger object_store_memory" in refused.reason and "Drop refs" not in refused.reason


def test_room_for_what_is_here_is_claimed_not_given():
    """A task that runs again puts what its first run has put."""
    desk = Desk()
    desk.allocate(IDS[0], 1_000)
    desk.tell("n1/local", SealObjects([IDS[0]]))
    assert desk.tell("w2", AllocateObject(IDS[0], 1_000)) == [("n1/local", ClaimObject(IDS[0], "w2"))]
    # It was being freed: then there is room.
    ((target, answer),) = desk.tell("n1/local", FreeObjects([IDS[0]]))
    assert (target, type(answer)) == ("w2", ObjectAllocated)


def test_room_for_what_is_being_written_is_claimed_when_it_is_complete():
    """A task that runs again, while what its first run has made is on its way here: its worker waited for ever."""
    desk = Desk()
    desk.allocate(IDS[0], 1_000)
    assert desk.tell("w2", AllocateObject(IDS[0], 1_000)) == []
    assert desk.tell("n1/local", SealObjects([IDS[0]])) == [("n1/local", ClaimObject(IDS[0], "w2"))]
    # Once; and none is left that is given its room.
    assert desk.tell("n1/local", SealObjects([IDS[0]])) == []
    assert desk.tell("n1/local", ObjectClaimed(IDS[0], "w2")) == []
    assert desk.tell("n1/local", FreeObjects([IDS[0]])) == []


def test_what_was_sealed_is_not_freed_with_its_writer():
    desk = Desk()
    desk.allocate(IDS[0], 1_000)
    desk.tell("n1/local", SealObjects([IDS[0]]))
    desk.tell("n1/local", ProcessGone("w1"))
    assert IDS[0] in desk.manager.objects
