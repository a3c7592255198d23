"""JoinableQueue: a Queue whose items are counted until a consumer has finished them."""

from __future__ import annotations

from ...api import objects
from ..queue import Queue

__all__ = ["JoinableQueue"]


class JoinableQueue(Queue):
    """Queue of zray.util.queue with the methods task_done and join of multiprocessing.JoinableQueue.

        queue = JoinableQueue()
        queue.put(1)
        item = queue.get()
        queue.task_done()
        queue.join()

    Args:
        maxsize: number of items at most; 0: no limit.  Default: 0.
        actor_options: options of the actor that holds the items.  Default: none.
    """

    def task_done(self) -> None:
        """Count an item as finished.

        Raises:
            ValueError: all items are finished.
        """
        if not objects.get(self._require_actor().task_done.remote()):
            raise ValueError("task_done() was called more often than put().")

    def join(self) -> None:
        """Wait until every item that was put is finished."""
        objects.get(self._require_actor().join.remote())
