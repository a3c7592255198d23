"""Order of an actor's calls whose arguments come late."""

import threading

import pytest

import zray

pytestmark = pytest.mark.timeout(60)


@zray.remote
class Gate:
    def __init__(self):
        self.gate = threading.Event()

    def wait(self):
        self.gate.wait(30)
        return 0

    def open(self):
        self.gate.set()


@zray.remote
class Log:
    def __init__(self):
        self.seen = []

    def note(self, number):
        self.seen.append(number)
        return list(self.seen)


@zray.remote
class AsyncLog:
    def __init__(self):
        self.seen = []

    async def note(self, number):
        self.seen.append(number)
        return list(self.seen)


@pytest.fixture(autouse=True)
def session():
    zray.init(num_cpus=2)
    yield
    zray.shutdown()


def seen_behind_a_late_argument(log):
    gate = Gate.options(max_concurrency=2).remote()
    late = log.note.remote(gate.wait.remote())
    others = [log.note.remote(1), log.note.remote(2)]
    ready, _ = zray.wait(others, num_returns=2, timeout=1.0)
    zray.get(gate.open.remote())
    return len(ready), zray.get([late, *others])


def test_serial_actor_keeps_the_order_of_its_caller():
    assert seen_behind_a_late_argument(Log.remote()) == (0, [[0], [0, 1], [0, 1, 2]])


def test_serial_actor_may_be_allowed_to_go_on():
    log = Log.options(allow_out_of_order_execution=True).remote()
    assert seen_behind_a_late_argument(log) == (2, [[1, 2, 0], [1], [1, 2]])


@pytest.mark.parametrize("make", [lambda: AsyncLog.remote(), lambda: Log.options(max_concurrency=2).remote()])
def test_threaded_and_async_actors_wait_for_no_argument_of_another_call(make):
    ready, (late, *_) = seen_behind_a_late_argument(make())
    assert ready == 2 and sorted(late) == [0, 1, 2]


def test_order_of_calls_side_by_side_is_refused():
    for kind in (AsyncLog, Log.options(max_concurrency=2)):
        with pytest.raises(ValueError, match="side by side"):
            kind.options(allow_out_of_order_execution=False).remote()
    assert zray.get(Log.options(allow_out_of_order_execution=False).remote().note.remote(1)) == [1]
    with pytest.raises(ValueError, match="checkpoint_interval"):
        Log.options(allow_out_of_order_execution=True, checkpoint_interval=1).remote()


def test_metadata_is_accepted():
    assert zray.get(Log.options(_metadata={"a": 1}).remote().note.remote(1)) == [1]
