"""The process of a trial: an actor, and its placement group where the trial has several bundles."""

from __future__ import annotations

from typing import Any

import zray
from zray.util import placement_group, remove_placement_group
from zray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .resources import PlacementGroupFactory, actor_options

__all__ = ["Process"]


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
