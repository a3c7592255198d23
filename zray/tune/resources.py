"""The resources of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..on_import import shadows
from .errors import TuneError
from .numbers import is_beyond_float, shown
from .unknown import nearest, unknown_name

__all__ = [
    "PlacementGroupFactory",
    "Resources",
    "actor_options",
    "as_request",
    "json_to_resources",
    "resources_to_json",
    "with_resources",
]

# Concurrent trials that ask for nothing: each is a process.
FREE_TRIALS_MAX = 64


class Resources(NamedTuple):
    """The resources of a trial, as returned by `default_resource_request` of 2018.

    cpu, gpu: of the trial itself.  extra_cpu, extra_gpu: of the actors and tasks that it starts.
    """

    cpu: float = 1
    gpu: float = 0
    extra_cpu: float = 0
    extra_gpu: float = 0
    custom_resources: dict[str, float] | None = None
    extra_custom_resources: dict[str, float] | None = None


class PlacementGroupFactory:
    """The bundles of a trial: the first one is the trial's own, the others are for actors and tasks that it starts.

    Args:
        bundles: resources of each bundle, as [{"CPU": 1}, {"CPU": 2}].
        strategy: how the bundles are placed, as for `placement_group`.
    """

    def __init__(self, bundles: list[dict[str, float]], strategy: str = "PACK", *args: Any, **kwargs: Any) -> None:
        if not bundles or not all(isinstance(bundle, Mapping) for bundle in bundles):
            raise ValueError(f'Bundles are a list of at least one dict, as [{{"CPU": 1}}], not {bundles!r}.')
        self.bundles = [{name: amount for name, amount in bundle.items() if amount} for bundle in bundles]
        self.strategy = strategy

    @property
    def head_cpus(self) -> float:
        """The CPUs of the trial itself."""
        return self.bundles[0].get("CPU", 0.0)

    @property
    def required_resources(self) -> dict[str, float]:
        """The sum over all bundles."""
        total: dict[str, float] = {}
        for bundle in self.bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0.0) + amount
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroupFactory) and (self.bundles, self.strategy) == (
            other.bundles,
            other.strategy,
        )

    def __hash__(self) -> int:
        return hash((str(self.bundles), self.strategy))

    def __repr__(self) -> str:
        return f"PlacementGroupFactory({self.bundles}, {self.strategy!r})"


# Names of 2018 and of today.
_NAMES = {"cpu": "CPU", "CPU": "CPU", "gpu": "GPU", "GPU": "GPU", "memory": "memory"}
_IGNORED = ("driver_cpu_limit", "driver_gpu_limit", "object_store_memory", "extra_memory", "extra_object_store_memory")


def as_request(resources: Any) -> PlacementGroupFactory:
    """The request that a `resources_per_trial` stands for.

    Args:
        resources: None (one CPU), a dict as {"cpu": 2, "gpu": 0.5, "extra_cpu": 4, "custom_resources": {...}}, a
            PlacementGroupFactory, or an object with `bundles`.

    Raises:
        TuneError: an unknown key, or an amount that is no number.
    """
    if resources is None:
        return PlacementGroupFactory([{"CPU": 1}])
    if hasattr(resources, "as_placement_group_factory"):  # ScalingConfig
        resources = resources.as_placement_group_factory()
    if hasattr(resources, "bundles"):
        return PlacementGroupFactory(list(resources.bundles), getattr(resources, "strategy", "PACK"))
    if hasattr(resources, "_asdict"):
        resources = {key: value for key, value in resources._asdict().items() if value}
    if not isinstance(resources, Mapping):
        raise TuneError(
            f'The resources of a trial are a dict, as {{"cpu": 2, "gpu": 1}}, not {type(resources).__name__}.'
        )
    own: dict[str, float] = {}
    extra: dict[str, float] = {}
    for key, value in resources.items():
        if key in _IGNORED:
            continue
        if key in ("custom_resources", "resources"):
            own.update(value)
            continue
        if key == "extra_custom_resources":
            extra.update(value)
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and not is_beyond_float(value)
        if not is_number or value < 0:
            raise TuneError(f"The amount of {key!r} of a trial is a number of at least 0, not {shown(value)}.")
        if key in ("extra_cpu", "extra_gpu"):
            extra[_NAMES[key.removeprefix("extra_")]] = value
        elif key in _NAMES:
            own[_NAMES[key]] = value
        elif isinstance(key, str) and key and key[0].isalpha():
            own[key] = value
        else:
            raise TuneError(f"{key!r} is no name of a resource.")
    own.setdefault("CPU", 1 if "GPU" not in own or not own["GPU"] else 0)
    bundles = [own, *([extra] if any(extra.values()) else [])]
    return PlacementGroupFactory([{name: amount for name, amount in bundle.items() if amount} for bundle in bundles])


def actor_options(bundle: Mapping[str, float]) -> dict[str, Any]:
    """The options of an actor with these resources."""
    rest = {name: amount for name, amount in bundle.items() if name not in ("CPU", "GPU", "memory")}
    options: dict[str, Any] = {"num_cpus": bundle.get("CPU", 0), "num_gpus": bundle.get("GPU", 0)}
    if rest:
        options["resources"] = rest
    if "memory" in bundle:
        options["memory"] = bundle["memory"]
    return options


def capacity(request: PlacementGroupFactory, nodes: list[dict[str, float]]) -> int:
    """How many trials the nodes can hold at once, if nothing else runs.

    Args:
        nodes: the resources of each node.
    """
    if not any(request.required_resources.values()):
        return FREE_TRIALS_MAX
    if len(request.bundles) == 1:
        return sum(_times(request.bundles[0], node) for node in nodes)
    # Bundles of several sizes: an upper bound; a group that does not fit waits.
    if not all(any(_times(bundle, node) for node in nodes) for bundle in request.bundles):
        return 0
    total: dict[str, float] = {}
    for node in nodes:
        for name, amount in node.items():
            total[name] = total.get(name, 0.0) + amount
    return _times(request.required_resources, total)


def too_large(request: PlacementGroupFactory, nodes: list[dict[str, float]]) -> str:
    """The message for a trial that the nodes can never hold."""
    largest: dict[str, float] = max(nodes, key=lambda node: node.get("CPU", 0), default={})
    if len(request.bundles) == 1:
        where = f"it asks for {_listed(request.required_resources)}, and the largest of {len(nodes)} nodes has"
        own = _listed({name: largest.get(name, 0) for name in request.required_resources})
        what = "No node can hold a trial"
    else:
        bundles = [bundle for bundle in request.bundles if not any(_times(bundle, node) for node in nodes)]
        if bundles:
            what = f"No node can hold a bundle of a trial, {_listed(bundles[0])}"
            own = _listed({name: largest.get(name, 0) for name in bundles[0]})
            where = f"the largest of {len(nodes)} nodes has"
        else:
            what = "The nodes together cannot hold a trial"
            own = _listed({name: sum(node.get(name, 0) for node in nodes) for name in request.required_resources})
            where = f"its bundles ask for {_listed(request.required_resources)}, and the {len(nodes)} nodes have"
    unknown = [name for name in request.required_resources if not any(name in node for node in nodes)]
    names = ("cpu", "gpu", "memory", "extra_cpu", "extra_gpu")
    hint = nearest(unknown[0], names) if unknown and unknown[0].casefold() not in names else ""
    return f"{what}: {where} {own}.{hint}  Ask for less (resources_per_trial, with_resources), or join a larger node."


def _listed(amounts: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{name}: {amount:g}" for name, amount in amounts.items()) + "}"


def _times(wanted: Mapping[str, float], there: Mapping[str, float]) -> int:
    counts = [int(there.get(name, 0.0) / amount + 1e-9) for name, amount in wanted.items() if amount]
    return min(counts) if counts else FREE_TRIALS_MAX


def with_resources(trainable: Any, resources: Any) -> Any:
    """The trainable with the resources of its trials.

    Args:
        trainable: a function, a class or a registered name.
        resources: a dict, a PlacementGroupFactory, or a function of the configuration that returns one.

    Returns:
        The trainable, for `Tuner` and `tune.run`; the one that was given does not change.

    Raises:
        TuneError: an unknown key, or an amount that is no number.

    Example:
        tune.Tuner(tune.with_resources(train, {"cpu": 2, "gpu": 0.5}))
    """
    if not callable(resources):
        as_request(resources)
    if isinstance(trainable, type):
        made: Any = type(trainable.__name__, (trainable,), {"__module__": trainable.__module__})
        made.__doc__ = trainable.__doc__
    else:
        import functools

        from .registry import trainable_of

        _, found = trainable_of(trainable, is_whole=False)
        made = functools.partial(found)
        functools.update_wrapper(made, found)
    made._tune_resources = resources
    return made


def varies_by_config(trainable: Any, given: Any) -> bool:
    """Whether the resources of a trial are computed from its configuration."""
    wanted = given if given is not None else getattr(trainable, "_tune_resources", None)
    if wanted is not None:
        return callable(wanted) and not hasattr(wanted, "bundles")
    from .trainable import Trainable

    own = getattr(trainable, "default_resource_request", None)
    return own is not None and getattr(own, "__func__", own) is not Trainable.default_resource_request.__func__  # type: ignore[attr-defined]


def resources_of(trainable: Any, given: Any, config: dict[str, Any]) -> PlacementGroupFactory:
    """Return the resources of a trial: given by the user, carried by the trainable, or one CPU."""
    wanted = given if given is not None else getattr(trainable, "_tune_resources", None)
    if wanted is None and hasattr(trainable, "default_resource_request"):
        wanted = trainable.default_resource_request(config)
    if callable(wanted) and not hasattr(wanted, "bundles"):
        wanted = wanted(config)
    return as_request(wanted)


def resources_to_json(request: PlacementGroupFactory) -> dict[str, float]:
    """The sum of the resources, by name."""
    return request.required_resources


def json_to_resources(data: Any) -> Resources | None:
    """The resources of a dict as {"cpu": 1, "gpu": 0}.

    Raises:
        TuneError: an unknown key.
    """
    if data is None or data == "null":
        return None
    import json

    found = json.loads(data) if isinstance(data, str) else dict(data)
    unknown = [key for key in found if key not in Resources._fields and key not in _IGNORED]
    if unknown:
        raise TuneError(unknown_name("The dict of resources", "key", unknown[0], Resources._fields))
    return Resources(**{key: value for key, value in found.items() if key in Resources._fields})


shadows.name_absent(__name__)
