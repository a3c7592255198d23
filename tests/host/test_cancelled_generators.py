"""A generator whose cancellation is noted in the middle of its run ends at its next item, without a signal."""

from types import SimpleNamespace

import pytest

from zray.host.worker.cancelling import Cancelling, TaskInterrupt
from zray.host.worker.generators import run_generator
from zray.wire.task_spec import TaskOptions, TaskSpec, encode_options

TASK = b"t" * 16


class Worker:
    """Takes items, and has no node."""

    inline_bytes_max = 1_000
    actor = None

    def __init__(self):
        self.again, self.drawn, self.items = {}, {}, []
        self.writer = SimpleNamespace(give_up=lambda ordered: None)
        self.cancelling = Cancelling.__new__(Cancelling)  # the class itself would handle a signal of this process
        self.cancelling.worker, self.cancelling.cancelled, self.cancelling.raised_in = self, {}, b""

    def store(self, object_id, serialized):
        return serialized.inband

    def say_item(self, task_id, number, value, contained):
        self.items.append(number)
        return False

    def flush(self):
        pass

    wait_for_room = arm = flush


@pytest.fixture
def worker():
    return Worker()


def numbers(worker, ends):
    try:
        for number in range(100):
            if number == 3:
                worker.cancelling.cancelled[TASK] = 0
            yield number
    finally:
        ends.append("closed")


def test_generator_ends_at_the_item_behind_its_cancellation(worker):
    spec, ends = TaskSpec(TASK, b"f" * 16, b"", (), (), encode_options(TaskOptions(is_generator=True))), []
    with pytest.raises(TaskInterrupt):
        run_generator(worker, spec, numbers(worker, ends))
    assert worker.items == [0, 1, 2, 3] and ends == ["closed"]


def test_generator_of_an_actor_is_closed_and_has_its_items(worker):
    worker.actor = SimpleNamespace(recovery=None)
    spec, ends = TaskSpec(TASK, b"", b"", (), (), encode_options(TaskOptions(is_generator=True))), []
    run_generator(worker, spec, numbers(worker, ends))
    assert worker.items == [0, 1, 2, 3] and ends == ["closed"]
