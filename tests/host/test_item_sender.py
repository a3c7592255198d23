"""Items of a generator: of one that runs again, of which the node has some, and of one that is cancelled."""

from types import SimpleNamespace

import pytest

from zray.exceptions import ObjectStoreFullError
from zray.host.worker.cancelling import Cancelling, TaskInterrupt
from zray.host.worker.generators import replay, run_generator
from zray.wire.task_spec import GivenItems, StoredValue, TaskOptions, TaskSpec, encode_options

TASK = b"t" * 16
SIZES = (10, 5_000, 10, 5_000, 5_000)


class FakeWorker:
    """Notes what is stored and said."""

    inline_bytes_max = 1_000

    def __init__(self, given=None):
        self.again = {} if given is None else {TASK: (given, 0)}
        self.drawn, self.stored, self.said = {}, [], []
        self.writer = SimpleNamespace(
            order=lambda ids, size: self.ordered.append((len(ids), size)), give_up=lambda ids: None
        )
        self.arena, self.ordered = SimpleNamespace(size=lambda: 1 << 30), []
        self.puts = SimpleNamespace(count=0)
        self.room, self.closed = -1, []
        self.cancelling = SimpleNamespace(
            closes_at=lambda spec, count: self.closed.append(count), ends_generator=lambda spec, count: False
        )

    actor = True

    def store(self, object_id, serialized):
        number = int.from_bytes(object_id[16:], "big") - 2
        if serialized.size <= self.inline_bytes_max:
            return serialized.inband
        if len(self.stored) == self.room:
            raise ObjectStoreFullError("full")
        self.stored.append(number)
        return StoredValue(0, 0, serialized.size)

    def say_item(self, task_id, number, value, contained):
        self.said.append(number)
        return False

    def flush(self):
        pass

    arm = wait_for_room = flush

    def name_of(self, spec):
        return "Source.items"

    def submitter(self):
        def next_put():
            self.puts.count += 1

        return SimpleNamespace(next_put=next_put)


def spec_of(**options):
    return TaskSpec(TASK, b"", options=encode_options(TaskOptions({}, actor_id=b"a" * 16, is_logged=True, **options)))


def items():
    for size in SIZES:
        yield b"x" * size


@pytest.mark.parametrize(
    "given, stored, said",
    [
        (None, [1, 3, 4], [0, 1, 2, 3, 4]),
        (GivenItems(4), [4], [0, 2, 4]),
        (GivenItems(1, [3]), [1, 4], [0, 1, 2, 4]),
        (GivenItems(5), [], [0, 2]),
    ],
)
def test_large_items_that_are_there_are_not_stored_again(given, stored, said):
    worker = FakeWorker(given)
    run_generator(worker, spec_of(is_generator=True), items())
    assert (worker.stored, worker.said) == (stored, said)


@pytest.mark.parametrize(
    "store_mib, item_bytes, count", [(1_024, 2_000, 16), (1_024, 3 << 20, 5), (64, 1 << 20, 3), (16, 2 << 20, 0)]
)
def test_space_is_asked_for_ahead_for_16_items_and_a_sixteenth_of_the_store(store_mib, item_bytes, count):
    worker = FakeWorker()
    worker.arena.size = lambda: store_mib << 20
    run_generator(worker, spec_of(is_generator=True), iter([bytes(item_bytes)]))
    assert [length for length, _ in worker.ordered] == [count]


def test_generator_without_room_for_an_item_is_replayed_as_far_as_that_item():
    worker = FakeWorker()
    worker.room = 1
    with pytest.raises(ObjectStoreFullError):
        run_generator(worker, spec_of(is_generator=True), items())
    assert (worker.said, worker.closed) == ([0, 1, 2], [4])


def closing(found):
    """Yield numbers without end, and note the end."""
    try:
        number = 0
        while True:
            found.append(number)
            yield number
            number += 1
    finally:
        found.append("end")


def test_replay_stores_nothing_and_closes_the_generator_where_it_was_closed():
    worker, found = FakeWorker(), []
    replay(worker, spec_of(is_generator=True), closing(found), 3, None)
    assert found == [0, 1, 2, "end"] and not worker.stored


def test_replay_runs_other_generators_as_far_as_they_had_run():
    found = []
    replay(FakeWorker(), spec_of(takes_first=True), closing(found), None, None)
    assert found == [0, "end"]
    found = []
    replay(FakeWorker(), spec_of(num_returns=2), closing(found), None, None)
    assert found == [0, 1, 2, "end"]
    worker = FakeWorker()
    replay(worker, spec_of(is_dynamic=True), items(), None, None)
    assert worker.puts.count == len(SIZES) and not worker.stored


def test_replay_gives_each_item_with_its_number():
    found = []
    replay(FakeWorker(), spec_of(is_generator=True), items(), None, lambda number, it: found.append((number, it.size)))
    assert [number for number, _ in found] == [0, 1, 2, 3, 4]


def worker_that_cancels(actor):
    worker = FakeWorker()
    worker.actor = actor
    worker.cancelling = Cancelling.__new__(Cancelling)  # the class itself would handle a signal of this process
    worker.cancelling.worker, worker.cancelling.cancelled, worker.cancelling.raised_in = worker, {}, b""
    worker.cancelling.overdue, worker.cancelling.knowing = set(), set()
    worker.say = lambda message: None
    return worker


def cancelled_at(worker, number, ends):
    """A generator whose cancellation is noted at an item, without a signal."""
    try:
        for count in range(100):
            if count == number:
                worker.cancelling.cancelled[TASK] = 0
            yield count
    finally:
        ends.append("closed")


def test_cancelled_generator_of_a_task_ends_at_its_next_item():
    worker, ends = worker_that_cancels(None), []
    with pytest.raises(TaskInterrupt):
        run_generator(worker, spec_of(is_generator=True), cancelled_at(worker, 3, ends))
    assert worker.said == [0, 1, 2, 3] and ends == ["closed"]


def test_cancelled_generator_of_an_actor_is_closed_and_has_its_items():
    worker, ends = worker_that_cancels(SimpleNamespace(recovery=None)), []
    run_generator(worker, spec_of(is_generator=True), cancelled_at(worker, 3, ends))
    assert worker.said == [0, 1, 2, 3] and ends == ["closed"]
