"""The process of a trial: an actor, and its placement group where the trial has several bundles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import zray
from zray.util import placement_group, remove_placement_group
from zray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .resources import PlacementGroupFactory, actor_options

__all__ = ["IdleProcesses", "Process"]

# Processes without a trial that are kept for the next one.
IDLE_MAX = 64


class Process:
    """An actor, and its placement group.

    Args:
        actor_class: the remote class.
        request: the resources of the trial.
        classes: the class with options, for the next process.
        has_object: whether the object of a class is there, which ends before the process.
    """

    def __init__(
        self, actor_class: Any, request: PlacementGroupFactory, classes: dict[str, Any], *, has_object: bool = True
    ) -> None:
        self.request, self._has_object = request, has_object
        self.group: Any = None
        options = actor_options(request.bundles[0])
        if len(request.bundles) > 1:
            # A trial without resources of its own is placed beside the first of its actors.
            self.group = placement_group([bundle for bundle in request.bundles if bundle], strategy=request.strategy)
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                self.group, 0, placement_group_capture_child_tasks=True
            )
            self.handle = actor_class.options(**options).remote()
            return
        # A class describes its methods once, which takes a millisecond.
        key = str(sorted(options.items(), key=str))
        if key not in classes:
            classes[key] = actor_class.options(**options)
        self.handle = classes[key].remote()

    def end(self, *, kills: bool) -> None:
        """End the actor.  kills: at once; otherwise the object of a class ends before."""
        if kills:
            zray.kill(self.handle)
        elif self._has_object:  # a function leaves nothing behind
            self.handle.close.remote()
        if self.group is not None:
            remove_placement_group(self.group)


class IdleProcesses:
    """Processes whose trials have ended, kept for the next ones."""

    def __init__(self) -> None:
        self._kept: list[Process] = []

    def take(self, request: PlacementGroupFactory) -> Process | None:
        """Return a process with these resources.

        Returns:
            None: none exists.  The others have ended, since the new process may need their resources.
        """
        for place, process in enumerate(self._kept):
            if process.request == request:
                return self._kept.pop(place)
        self.end()
        return None

    def keep(self, process: Process, waiting: Iterable[PlacementGroupFactory]) -> bool:
        """Keep a process, and return whether it is kept: not where others perhaps wait for its resources.

        Args:
            waiting: the resources of the processes that have not answered yet.
        """
        if len(self._kept) >= IDLE_MAX or any(request != process.request for request in waiting):
            return False
        self._kept.append(process)
        return True

    def end(self) -> None:
        """End all of them."""
        kept, self._kept = self._kept, []
        for process in kept:
            with contextlib.suppress(Exception):
                process.end(kills=False)
