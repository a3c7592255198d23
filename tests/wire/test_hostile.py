"""Well-formed nonsense from a process that is let in: it costs the node nothing but the time to look at it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire import strategies
from zray.exceptions import ProtocolError
from zray.ids import return_id
from zray.roles.effects import ProcessJoined
from zray.roles.local_scheduler import LocalScheduler
from zray.roles.local_scheduler.addresses import Addresses
from zray.wire.allowed import ALLOWED

FROM_PROCESSES = sorted(ALLOWED["worker", "local"] | ALLOWED["driver", "local"], key=lambda kind: kind.__name__)
# Few, so that messages speak of the same things.
TASKS = [bytes([number]) * 16 for number in range(3)]
OBJECTS = [return_id(task, index) for task in TASKS for index in (1, 2, 1 << 31)]


def few_ids(node):
    if node.max_length == 16:
        return st.sampled_from(TASKS)
    return st.sampled_from(OBJECTS if node.max_length == 20 else [b"", b"x", b"\x80"])


def test_no_message_of_a_driver_breaks_a_scheduler(monkeypatch):
    monkeypatch.setitem(strategies._MAKERS, "Bytes", few_ids)

    @settings(max_examples=100)
    @given(st.lists(strategies.messages(FROM_PROCESSES), min_size=1, max_size=8))
    def survives(messages):
        addresses = Addresses("objects", ["global"], ["gcs-0"], "monitor")
        scheduler = LocalScheduler("local", addresses, total={"CPU": 20_000})
        scheduler.handle("host", ProcessJoined("driver-1", "driver", 1, b"j" * 8), 0.0)
        for message in messages:
            try:
                scheduler.handle("driver-1", message, 0.0)
            except ProtocolError:
                scheduler.take_effects()  # options that are none: the host counts it
            scheduler.end_turn(0.0)
            scheduler.check_everything()

    survives()
