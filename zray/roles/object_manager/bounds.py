"""What an object manager keeps at most so much of: as in `local_scheduler/bounds`.

Objects, and what is under way of them, lie in the arena: its bytes bound them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..latest import LOST_MAX
from . import gives, sources
from . import manager as manager_module
from .pulls import ASKED, HERE, WRITING
from .ranges import ALIGNMENT

if TYPE_CHECKING:
    from .manager import ObjectManager
    from .pulls import Pulls


def bounds_of(manager: ObjectManager) -> Iterator[tuple[str, int, int]]:
    """(what, how much there is, how much there may be)"""
    ranges, pulls = manager.ranges, manager.pulls
    objects = len(manager.objects) + len(manager.retired)
    yield "bytes in the store", ranges.used_bytes, ranges.capacity
    yield "objects in the store", objects, ranges.capacity // ALIGNMENT
    yield "objects that wait for free space", len(pulls.queue), len(pulls.coming)
    yield "chunks that are written", len(pulls.writing), len(manager.copying)
    for process, count in Counter(item.process for item in manager.asked).items():
        yield f"values of {process} that wait for free space", count, manager_module.ASKED_MAX
    yield "lost nodes", len(pulls.lost), LOST_MAX
    # Who has nothing under way may always ask for a chunk; some are over before their last chunks are copied.
    over = {id(pull) for pull, _ in pulls.writing.values() if pulls.coming.get(pull.object_id) is not pull}
    most = sources.WINDOWS_BYTES_MAX + manager.chunk_bytes * (len(pulls.coming) + len(over))
    yield "bytes asked of all nodes, and not copied", pulls.windows.total + pulls.windows.copying, most
    for source, window in pulls.windows.by_source.items():
        most = sources.WINDOW_BYTES_MAX + manager.chunk_bytes * len(window.pulls)
        yield f"bytes asked of {source}", window.asked, most
    yield "objects that others pull", len(manager.gives.by_object), len(manager.objects)
    for object_id, give in manager.gives.by_object.items():
        yield f"nodes that pull {object_id.hex()}", len(give.slots), manager.gives.gives_max
        for puller, orders in give.waiting.items():
            yield f"orders of {puller} that wait", len(orders), gives.ORDERS_MAX
    yield "objects that others have from here", len(manager.gives.given), len(manager.objects)
    yield "nodes whose pace is known", len(manager.gives.paces), gives.PACES_MAX
    yield "slots in what is freed", len(manager.gives.ending), manager.gives.gives_max * len(manager.retired)


def check_pulls(pulls: Pulls) -> None:
    """Assert that what has been asked for adds up, and what is copied."""
    asked: dict[str, int] = {}
    for pull in pulls.coming.values():
        states = [pull.chunks.count(state) for state in (ASKED, WRITING, HERE)]
        assert all(pull.chunks[index] == ASKED for index in pull.asked_at)
        assert states == [len(pull.asked_at), pull.writing, pull.here]
        length = sum(pulls.length(pull, index) for index in pull.asked_at)
        asked[pull.source] = asked.get(pull.source, 0) + length
    for source, window in pulls.windows.by_source.items():
        assert window.asked == asked[source], "credits do not add up"
        assert all(pull.source == source for pull in window.pulls.values())
    copying = sum(pulls.length(pull, index) for pull, indices in pulls.writing.values() for index in indices)
    assert pulls.windows.copying == copying, "what is copied does not add up"
    assert all(pulls.coming[object_id] is pull for object_id, pull in pulls.queue.items())
