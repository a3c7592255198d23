"""Weak handles, as get_actor() gives them: they keep no actor alive, and nobody counts them.

Calls by such a handle say where the actor was found.  Its shard is asked where it lives, and answers at once: an actor
that the shard knows nothing of is where it was found, or has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...latest import Latest

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .route import Route

# Routes that no strong handle here refers to stay for the next call, so many: some 500 bytes each.
ROUTES_MAX = 1_000
# Actors with names whose handles had gone when they died: so many are remembered, some 500 bytes each, for whoever has
# a weak handle.
DEATHS_MAX = 1_000


class WeakHandles:
    """What one node remembers for those that its processes have."""

    LASTING = {"routes": "ROUTES_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.routes: dict[bytes, None] = {}  # those that calls by weak handles have taken, the latest last
        self.deaths: Latest[bytes, bytes] = Latest(DEATHS_MAX)  # actor -> the error value that its calls get

    def note(self, route: Route) -> None:
        """A call by a weak handle takes it."""
        self.routes.pop(route.actor_id, None)
        self.routes[route.actor_id] = None
        if len(self.routes) > ROUTES_MAX:
            oldest = next(iter(self.routes))
            del self.routes[oldest]
            if (unused := self.node.routes.by_actor.get(oldest)) is not None:
                self.node.routes.calls_ended(unused)

    def keeps(self, route: Route) -> bool:
        """Whether it stays although nothing is under way on it."""
        return route.actor_id in self.routes or route.is_killed
