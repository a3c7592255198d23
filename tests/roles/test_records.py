"""The records that exist once per task or object: their size, and what is known of them elsewhere."""

import sys

import pytest

from tests.roles.desk import Desk
from zray.roles.gcs.tables import TaskRecord
from zray.roles.local_scheduler.objects.table import ObjectEntry
from zray.roles.local_scheduler.task import Task
from zray.wire.gcs import ObjectLocated, SubscribeObject
from zray.wire.objects import FetchFailed, FetchObject
from zray.wire.task_spec import TaskSpec


@pytest.mark.parametrize(("kind", "size_max"), [(ObjectEntry, 112), (Task, 112), (TaskRecord, 48), (TaskSpec, 80)])
def test_a_million_of_them_fit(kind, size_max):
    """Bytes, as the allocator rounds them: 16 more are 16 MB of the 1,200 that a million queued tasks may take."""
    assert sys.getsizeof(kind(*[b""] * len(kind.__struct_fields__))) <= size_max


def test_news_of_copies_elsewhere_is_of_no_use_for_an_object_that_is_made_here():
    """It answers what was asked of an earlier object of this id, which this node has let go of since."""
    desk = Desk()
    spec = desk.new_spec()
    (made_here,) = desk.submit(spec)
    (taker,) = desk.submit(desk.new_spec(deps=[made_here]))
    desk.take_sent()
    desk.tell("gcs-0", ObjectLocated(made_here, 9, ["elsewhere"]))
    desk.tell("objects", FetchFailed(made_here, "gone"))
    assert not [message for _, message in desk.take_sent() if type(message) in (FetchObject, SubscribeObject)]
    desk.run_all()
    assert desk.scheduler.objects.entries[taker].value == b"\x01"
