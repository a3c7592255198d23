"""How many trials the nodes can hold, if any."""

from __future__ import annotations

from typing import Any

import zray
from zray.exceptions import GetTimeoutError

from . import clock
from . import events as ev
from .controller import Controller
from .errors import TuneError
from .resources import PlacementGroupFactory, capacity, resources_of, too_large, varies_by_config
from .trial import Trial

__all__ = ["addresses", "capacity_event", "request_of"]


def _nodes() -> list[dict[str, float]]:
    return [node["Resources"] for node in zray.nodes() if node["Alive"]]


def addresses() -> dict[str, str]:
    """The address of each node by its host name; empty: two nodes have the same."""
    alive = [node for node in zray.nodes() if node["Alive"]]
    found = {node["NodeManagerHostname"]: node["NodeManagerAddress"] for node in alive}
    return found if len(found) == len(alive) else {}


def capacity_event(
    controller: Controller, trainable: Any, resources: Any, *, raises_at_none: bool = False
) -> ev.Capacity:
    """Return the number of trials that the nodes can hold now.

    Args:
        resources: of each trial, as the user gave them.
        raises_at_none: whether it is an error that no node can hold a trial.

    Raises:
        TuneError: no node can.
    """
    now, nodes = clock.now(), _nodes()
    if varies_by_config(trainable, resources):
        if not controller.trials:
            return ev.Capacity(now, 1)
        newest = next(reversed(controller.trials.values()))
        request = resources_of(trainable, resources, newest.config)
        return ev.Capacity(now, max(1, capacity(request, nodes)))  # a trial that is too large fails by itself
    request = resources_of(trainable, resources, controller.settings.space)
    trials = capacity(request, nodes)
    if raises_at_none and trials == 0:
        raise TuneError(too_large(request, nodes))
    return ev.Capacity(now, trials)


def request_of(trial: Trial, trainable: Any, resources: Any) -> PlacementGroupFactory:
    """The resources of a trial.

    Raises:
        TuneError: they depend on its configuration, and no node can hold them.
    """
    request = resources_of(trainable, resources, trial.config)
    if varies_by_config(trainable, resources):
        try:
            nodes = _nodes()
        except GetTimeoutError:  # the node stands still; its process is asked for all the same
            return request
        if not capacity(request, nodes):
            raise TuneError(too_large(request, nodes))
    return request
