"""Options of remote functions, actors and their calls: checked when given, then encoded once.

Names and meanings are Ray's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ..ray_names import absent
from ..wire.amounts import STORE_MEMORY
from ..wire.groups import BUNDLES_MAX
from ..wire.task_spec import ITEMS_OF_GENERATOR_MAX, NUM_RETURNS_MAX, RESOURCE_UNIT
from ..wire.where import LABELS_MAX, NODE_ID_LABEL, LabelRule, Where
from .checks import check_number, check_whole
from .runtime_env import check_runtime_env

# Ray's options that zray does not have yet: refused with a sentence that says what to do instead.
NOT_YET = tuple(absent.OPTIONS)
# Ray's, without a meaning in zray that a program could miss.
WITHOUT_EFFECT = ("enable_task_events", "_metadata")
# Number of the returns of a generator whose items come one by one.
STREAMING = -1
RESOURCE_OPTIONS = ("num_cpus", "num_gpus", "memory", "resources")
GROUP_OPTIONS = ("placement_group", "placement_group_bundle_index", "placement_group_capture_child_tasks")
WHERE_OPTIONS = ("scheduling_strategy", "label_selector", "fallback_strategy", *GROUP_OPTIONS)
# Ray's name for `max_buffered`; -1 is no limit.
RAYS_MAX_BUFFERED = "_generator_backpressure_num_objects"
TASK_OPTIONS = (
    *RESOURCE_OPTIONS,
    *WHERE_OPTIONS,
    "runtime_env",
    "num_returns",
    "max_retries",
    "retry_exceptions",
    "max_calls",
    "name",
    "writable",
    "max_buffered",
    "timeout",
    "priority",
    "deterministic",
)
ACTOR_OPTIONS = (
    *RESOURCE_OPTIONS,
    *WHERE_OPTIONS,
    "runtime_env",
    "name",
    "namespace",
    "lifetime",
    "get_if_exists",
    "hosted",
    "max_restarts",
    "max_task_retries",
    "max_concurrency",
    "max_pending_calls",
    "concurrency_groups",
    "allow_out_of_order_execution",
    "checkpoint_interval",
)
METHOD_OPTIONS = (
    "num_returns",
    "max_task_retries",
    "retry_exceptions",
    "name",
    "readonly",
    "max_buffered",
    "deterministic",
    "concurrency_group",
)
CONCURRENCY_MAX = 100_000
# Each has threads of its own.
CONCURRENCY_GROUPS_MAX = 100
# They travel with every task, and are compared with each node where one is placed.
RESOURCES_MAX = 1_000
# Of a node: each member of a cluster is told of all that it has, some 250 KB, when it joins.
NODE_RESOURCES_MAX = 10_000
# They travel with every task, and are looked through wherever one is placed.
FALLBACKS_MAX = 20
PRIORITY_MAX = 1_000_000
# Of a task: a thread of its worker waits for so long, which the platform limits.
TIMEOUT_SECONDS_MAX = 1_000_000
SMALLEST_AMOUNT = 1 / RESOURCE_UNIT
# What a hosted actor cannot have, and why.
_NO_RESOURCES = "the actor shares its process, and holds no resources"
NOT_HOSTED = {
    **dict.fromkeys(("num_cpus", "num_gpus", "memory", "resources"), _NO_RESOURCES),
    "runtime_env": "the actor shares its process, and has the environment of its program",
    "checkpoint_interval": "the actor shares its process, which has no call log",
    "concurrency_groups": "the calls of all actors of its process share threads",
}
# The resource that is counted in bytes.  What runs is not held to it: it only counts for where there is room.
MEMORY = "memory"
MEMORY_BYTES_MAX = 10**14  # in RESOURCE_UNITs that is an eighth of what a message can say


def check_options(options: dict[str, Any], valid: tuple[str, ...], what: str) -> dict[str, Any]:
    """Refuse options that are unknown, of a wrong type, out of range, or absent.

    Returns:
        The options, with numbers as Python's own: 2.0 as 2 where only whole numbers are valid.

    Raises:
        ValueError: an unknown option, or a value out of range.
        TypeError: a value of the wrong type.
        NotImplementedError: an option of Ray's that zray does not have yet.
    """
    changed: dict[str, Any] = {}
    if RAYS_MAX_BUFFERED in options:
        limit = options[RAYS_MAX_BUFFERED]
        options = {**options, "max_buffered": None if type(limit) is int and limit == -1 else limit}
        del options[RAYS_MAX_BUFFERED]
    for name, value in options.items():
        if name in WITHOUT_EFFECT:
            continue
        if name in NOT_YET:
            if value is None or value == {}:
                continue
            raise absent.not_built(absent.OPTIONS, name, f"the option {name!r} of {what}")
        if name not in valid:
            raise ValueError(f"{what} has no option {name!r}.  Valid ones: {', '.join(valid)}.")
        check = _CHECKS.get(name)
        if check is not None and value is not None:
            checked = check(name, value)
            if checked is not None and checked is not value:
                changed[name] = checked
    return {**options, **changed} if changed else options


def _number(name: str, value: Any) -> int | float:
    number = check_number(name, value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} must be finite and not negative, not {value}.")
    if number > 1e9:
        raise ValueError(f"{name}={value} is more than any machine has.")
    if 0 < number < SMALLEST_AMOUNT:
        raise ValueError(f"{name}={value} is less than {SMALLEST_AMOUNT}, the smallest amount of a resource but 0.")
    return number


def _seconds(name: str, value: Any) -> float:
    number = check_number(name, value)
    if not 0 < number <= TIMEOUT_SECONDS_MAX:
        raise ValueError(f"{name} must be a number of seconds above 0 and up to {TIMEOUT_SECONDS_MAX:,}, not {value}.")
    return float(number)


def _gpus(name: str, value: Any) -> int | float:
    number = _number(name, value)
    if number > 1 and number != int(number):
        raise ValueError(f"num_gpus above 1 must be whole, not {value}.")
    return number


def _concurrency_groups(name: str, value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dict of names and numbers of calls at once, not {type(value).__name__}.")
    if len(value) > CONCURRENCY_GROUPS_MAX:
        raise ValueError(f"{name} has {len(value)} groups; at most {CONCURRENCY_GROUPS_MAX}.")
    for group in value:
        check_text(f"The name of a group in {name}", group)
        if not group:
            raise ValueError(f"{name}: a group needs a name.")
    check = _whole(1, CONCURRENCY_MAX)
    return {group: check(f"{name}[{group!r}]", count) for group, count in value.items()}


def check_memory(name: str, value: Any) -> int | float:
    """Bytes of memory.  Raises: TypeError, ValueError."""
    number = check_number(name, value)
    if not 0 <= number <= MEMORY_BYTES_MAX:
        raise ValueError(f"{name} must be from 0 to {MEMORY_BYTES_MAX:,} bytes, not {value}.")
    return number


def check_resources(name: str, value: Any, most: int = RESOURCES_MAX) -> dict[str, int | float]:
    """Amounts of resources by name.  Raises: TypeError, ValueError."""
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dict of names to amounts, not {type(value).__name__}.")
    if len(value) > most:
        raise ValueError(f"{name} names {len(value):,} resources; at most {most:,}.")
    checked: dict[str, int | float] = {}
    for resource, amount in value.items():
        if not isinstance(resource, str):
            raise TypeError(f"A resource's name must be a str, not {type(resource).__name__}.")
        if resource in ("CPU", "GPU"):
            raise ValueError(f"Use num_{resource.lower()}s instead of resources={{{resource!r}: ...}}.")
        if resource == MEMORY:
            raise ValueError("Use memory=... (bytes) instead of resources={'memory': ...}.")
        if resource == STORE_MEMORY:
            raise ValueError(
                f"{STORE_MEMORY!r} is the size of a node's object store: no task or actor can request a part of it."
            )
        if not resource or len(resource) > 200 or not resource.isprintable():
            raise ValueError("A resource's name must have 1 to 200 printable characters.")
        checked[resource] = _number(f"{name}[{resource!r}]", amount)
    return checked


def _whole(minimum: int, maximum: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        number = check_number(name, value)
        if not math.isfinite(number) or number != int(number):
            raise TypeError(f"{name} must be a whole number, not {value}.")  # as Ray, which takes none but an int
        return check_whole(name, value, minimum, maximum)

    return check


def _num_returns(name: str, value: Any) -> int:
    if value in ("streaming", "dynamic"):
        return value  # type: ignore[no-any-return]  # `returns_of` reads it
    return _whole(0, NUM_RETURNS_MAX)(name, value)


def _pending_calls(name: str, value: Any) -> int:
    number = _whole(-1, 1 << 30)(name, value)
    if not number:
        raise ValueError(f"{name} must be -1 for no limit, or at least 1, not 0.")
    return number


def returns_of(options: dict[str, Any], *, is_generator: bool) -> int:
    """The number of refs that a call returns; STREAMING: its items come one by one."""
    count = options.get("num_returns")
    if count is None:
        return STREAMING if is_generator else 1
    return STREAMING if count == "streaming" else 1 if count == "dynamic" else int(count)


def _retry_exceptions(name: str, value: Any) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, type) and issubclass(item, BaseException) for item in value):
            return
        raise ValueError("retry_exceptions must list exception classes only.")
    raise TypeError(f"retry_exceptions must be a bool or a list of exception classes, not {type(value).__name__}.")


def check_text(name: str, value: Any) -> None:
    """A str that can be sent.  Raises: TypeError, ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}.")
    if not value:
        raise ValueError(f"{name} must not be empty.")
    if len(value) > 1_000:
        raise ValueError(f"{name} has {len(value)} characters; at most 1000.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} {value!r} cannot be encoded as UTF-8: {error.reason}.") from None


def _lifetime(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"lifetime must be a str or None, not {type(value).__name__}.")
    if value not in ("detached", "non_detached"):
        raise ValueError(f"lifetime must be 'detached', 'non_detached' or None, not {value!r}.")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}.")


def _runtime_env(name: str, value: Any) -> None:
    check_runtime_env(value, "a task or an actor")


def _strategy(name: str, value: Any) -> None:
    if value not in ("DEFAULT", "SPREAD") and not hasattr(value, "_where"):
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(
            f'{name} must be "DEFAULT", "SPREAD", or an object of zray.util.scheduling_strategies, not {value!r}.'
        )


def _group(name: str, value: Any) -> None:
    if value != "default" and not hasattr(value, "is_empty"):
        raise TypeError(f'{name} must be a PlacementGroup, None or "default", not {type(value).__name__}.')


def _label_selector(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dict of labels to values, not {type(value).__name__}.")
    if len(value) > LABELS_MAX:
        raise ValueError(f"{name} has {len(value)} labels; at most {LABELS_MAX}.")
    for key, text in value.items():
        check_text(f"A label of {name}", key)
        check_text(f"{name}[{key!r}]", text)
        _label_rule(key, text)


def _fallback(name: str, value: Any) -> None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, dict) for item in value):
        raise TypeError(f'{name} must be a list of dicts like {{"label_selector": {{...}}}}, not {value!r}.')
    if len(value) > FALLBACKS_MAX:
        raise ValueError(f"{name} has {len(value)} entries; at most {FALLBACKS_MAX}.")
    for item in value:
        if list(item) != ["label_selector"]:
            raise ValueError(f"Each entry of {name} has a label_selector and nothing else, not {item!r}.")
        _label_selector(f"The label_selector of {name}", item["label_selector"])


def _rules(selector: dict[str, str]) -> tuple[LabelRule, ...]:
    return tuple(_label_rule(key, text) for key, text in selector.items())


def _label_rule(key: str, text: str) -> LabelRule:
    """Parse a rule: "value", "!value", "in(a, b)" or "!in(a, b)"."""
    is_negated = text.startswith("!")
    said = text[is_negated:].strip()
    if said.startswith("in(") and said.endswith(")"):
        values = tuple(value.strip() for value in said[3:-1].split(","))
    else:
        values = (said,)
    if not all(values) or any(set(value) & set("()!,") for value in values):
        raise ValueError(f'The value of label {key!r} must be like "a", "!a", "in(a, b)" or "!in(a, b)", not {text!r}.')
    return LabelRule(key, values, is_negated)


_CHECKS: dict[str, Any] = {
    "runtime_env": _runtime_env,
    "scheduling_strategy": _strategy,
    "label_selector": _label_selector,
    "fallback_strategy": _fallback,
    "placement_group": _group,
    "placement_group_bundle_index": _whole(-1, BUNDLES_MAX - 1),
    "placement_group_capture_child_tasks": check_flag,
    "num_cpus": _number,
    "num_gpus": _gpus,
    "memory": check_memory,
    "resources": check_resources,
    "num_returns": _num_returns,
    "max_buffered": _whole(1, ITEMS_OF_GENERATOR_MAX),
    "max_retries": _whole(-1, 1 << 30),
    "retry_exceptions": _retry_exceptions,
    "max_calls": _whole(0, 1 << 30),
    "deterministic": check_flag,
    "timeout": _seconds,
    "priority": _whole(-PRIORITY_MAX, PRIORITY_MAX),
    "name": check_text,
    "namespace": check_text,
    "lifetime": _lifetime,
    "get_if_exists": check_flag,
    "hosted": check_flag,
    "writable": check_flag,
    "max_restarts": _whole(-1, 1 << 30),
    "max_task_retries": _whole(-1, 1 << 30),
    "max_concurrency": _whole(1, CONCURRENCY_MAX),
    "max_pending_calls": _pending_calls,
    "concurrency_groups": _concurrency_groups,
    "concurrency_group": check_text,
    "allow_out_of_order_execution": check_flag,
    "checkpoint_interval": _whole(0, 1 << 30),
    "readonly": check_flag,
}


def where_of(options: dict[str, Any], request: dict[str, int], captured: Where | None = None) -> Where | None:
    """Return where checked options allow a run; None: anywhere.

    captured: where it runs if they say nothing, because whoever starts it runs in a group that captures.

    Raises:
        ValueError: it could not run there, with so many resources.
    """
    strategy, selector = _strategy_of(options, captured), options.get("label_selector")
    where: Where | None = None
    if strategy is None and captured is not None:
        where = replace(captured, bundle=_bundle_index_of(options))
        if options.get("placement_group_capture_child_tasks") is False:
            where = replace(where, captures=False)
    elif strategy == "SPREAD":
        where = Where(is_spread=True)
    elif strategy is not None and strategy != "DEFAULT":
        where = strategy._where()
        if where is not None and where.group:
            strategy._check(request)
            if captured is not None and strategy.placement_group_capture_child_tasks is None:
                where = replace(where, captures=True)
    if where is not None and where.group and selector:
        raise ValueError("label_selector cannot be used in a placement group: the node of a bundle is fixed.")
    if selector:
        hard = where.hard if where is not None else ()
        fallbacks = tuple((*hard, *_rules(item["label_selector"])) for item in options.get("fallback_strategy") or ())
        where = replace(where or Where(), hard=(*hard, *_rules(selector)), fallbacks=fallbacks)
    return where


def check_hosted(options: dict[str, Any]) -> None:
    """Refuse options that an actor cannot have where it shares its process.

    Raises:
        ValueError: one of them is given.
    """
    for name, value in options.items():
        if name in NOT_HOSTED and value is not None and (value or name == "checkpoint_interval"):
            raise ValueError(f"hosted=True: {NOT_HOSTED[name]}, so {name} cannot be given: leave out one of both.")
    if options.get("placement_group", "default") not in ("default", None) or hasattr(
        options.get("scheduling_strategy"), "placement_group"
    ):
        raise ValueError("hosted=True: the actor holds no resources, so it cannot run in a placement group.")


def where_of_actor(options: dict[str, Any], request: dict[str, int], captured: Where | None = None) -> Where | None:
    """Return as `where_of`.  Actors without a CPU request go to one node after the other, unless a node is named."""
    where = where_of(options, request, captured)
    if options.get("num_cpus") is not None or (where is not None and (where.node or where.group)):
        return where
    return replace(where or Where(), is_spread=True)


def _strategy_of(options: dict[str, Any], captured: Where | None) -> Any:
    """Return the scheduling strategy, even if spelled as in Ray's older programs; None: none given."""
    strategy, group = options.get("scheduling_strategy"), options.get("placement_group", "default")
    if strategy is not None:
        if group not in ("default", None):
            raise ValueError("Give the placement group by scheduling_strategy or by placement_group, not by both.")
        return strategy
    if group == "default":
        if captured is None and _bundle_index_of(options) != -1:
            raise ValueError("placement_group_bundle_index needs placement_group, which is not given.")
        return None
    if group is None or group.is_empty:
        return "DEFAULT"
    return group._strategy(_bundle_index_of(options), options.get("placement_group_capture_child_tasks"))


def _bundle_index_of(options: dict[str, Any]) -> int:
    index = options.get("placement_group_bundle_index")
    return -1 if index is None else index


def checked_labels(labels: dict[str, str] | None) -> dict[str, str]:
    """The labels of a node.

    Raises:
        TypeError, ValueError: none.
    """
    if labels is None:
        return {}
    if not isinstance(labels, dict):
        raise TypeError(f"labels must be a dict of str to str, not {type(labels).__name__}.")
    if len(labels) > LABELS_MAX:
        raise ValueError(f"labels has {len(labels)} entries; at most {LABELS_MAX}.")
    for key, value in labels.items():
        check_text("A label", key)
        check_text(f"The label {key!r}", value)
        if not (key + value).isprintable():
            raise ValueError(f"The label {key!r} with the value {value!r}: both must be of printable characters.")
        if key == NODE_ID_LABEL:
            raise ValueError(f"The label {key!r} is every node's id.")
    return dict(labels)


def in_units(amount: Any) -> int:
    """An amount of a resource in RESOURCE_UNITs; numbers of numpy would overflow."""
    return round((amount if type(amount) in (int, float) else float(amount)) * RESOURCE_UNIT)


def resource_units(options: dict[str, Any], default_cpus: float) -> dict[str, int]:
    """The resources that checked options ask for, in RESOURCE_UNITs."""
    amounts = {"CPU": options.get("num_cpus"), "GPU": options.get("num_gpus"), MEMORY: options.get("memory")}
    if amounts["CPU"] is None:
        amounts["CPU"] = default_cpus
    amounts.update(options.get("resources") or {})
    units = {name: in_units(amount) for name, amount in amounts.items() if amount}
    return {name: amount for name, amount in units.items() if amount}
