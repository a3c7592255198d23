"""Facts on the task, actor, worker and node that code runs in.  Ids are hexadecimal strings, as in Ray."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from ..host import context
from ..host.process import visible_gpus
from .sessions import require_runtime

if TYPE_CHECKING:
    from ..host.client.runtime import Runtime


class HexID(str):
    """Id in hexadecimal, with the methods that ids have in Ray."""

    def hex(self) -> str:
        """The id in hexadecimal."""
        return str(self)

    def binary(self) -> bytes:
        """The id as bytes."""
        return bytes.fromhex(self)


def worker_id(node_id: str, name: str, pid: int) -> str:
    """Id of a process, from what its node knows of it.

    Args:
        node_id: the node's id in hexadecimal.
        name: the worker's name on its node; "driver" for a program.
        pid: the process's.
    """
    return hashlib.blake2b(f"{node_id}/{name}/{pid}".encode(), digest_size=28).hexdigest()


class RuntimeContext:
    """Facts on the current task, actor, worker and node, from `zray.get_runtime_context()`.  Ids are hexadecimal."""

    __module__ = "zray.runtime_context"  # as programs import it

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def get(self) -> dict[str, Any]:
        """Ids as a dict: job_id, node_id and namespace; task_id in a task, and actor_id in an actor."""
        facts: dict[str, Any] = {"job_id": self.job_id, "node_id": self.node_id, "namespace": self.namespace}
        if (task_id := self.task_id) is not None:
            facts["task_id"] = task_id
        if (actor_id := self.actor_id) is not None:
            facts["actor_id"] = actor_id
        return facts

    @property
    def job_id(self) -> HexID:
        """Return the same as get_job_id(): Ray\'s older name.  The text has the methods hex() and binary()."""
        return HexID(self.get_job_id())

    @property
    def node_id(self) -> HexID:
        """Return the same as get_node_id(): Ray\'s older name."""
        return HexID(self.get_node_id())

    @property
    def worker_id(self) -> HexID:
        """Return the same as get_worker_id(): Ray\'s older name."""
        return HexID(self.get_worker_id())

    @property
    def task_id(self) -> HexID | None:
        """Return the same as get_task_id(): Ray\'s older name."""
        found = self.get_task_id()
        return None if found is None else HexID(found)

    @property
    def actor_id(self) -> HexID | None:
        """Return the same as get_actor_id(): Ray\'s older name."""
        found = self.get_actor_id()
        return None if found is None else HexID(found)

    def get_job_id(self) -> str:
        """Id of the program."""
        return self._runtime.job_id.hex()

    def get_node_id(self) -> str:
        """Id of the node."""
        return self._runtime.node_id.hex()

    @property
    def gcs_address(self) -> str:
        """Address for `zray.init` of other programs: HOST:PORT of a cluster, or the socket of a session."""
        from ..host.driver.startup import address_of

        return address_of(self._runtime)

    def get_session_name(self) -> str:
        """Name of the session, as init() returns it: the same in all processes of a cluster on one machine."""
        return self._runtime.session

    def get_node_labels(self) -> dict[str, str]:
        """Labels of the node."""
        from .cluster_info import nodes

        own = self.get_node_id()
        found: dict[str, str] = next((node["Labels"] for node in nodes() if node["NodeID"] == own), {})
        return found

    def get_worker_id(self) -> str:
        """Id of the worker process: no other process of the cluster has it."""
        return worker_id(self.get_node_id(), getattr(self._runtime, "worker_name", "driver"), os.getpid())

    def get_task_id(self) -> str | None:
        """Id of the task; None in a program."""
        return self._runtime.submitter().task_id.hex() if self._runtime.is_worker else None

    def get_task_name(self) -> str | None:
        """Name of the task; None in a program."""
        return self._runtime.submitter().name if self._runtime.is_worker else None

    def get_task_function_name(self) -> str | None:
        """Name of the function of the task, or Class.method of a call, whatever its options say; None in a program."""
        call = self._call
        if call is None:
            return None
        from ..wire.task_spec import parse_options

        runtime: Any = self._runtime
        if (actor := self._own_actor()) is not None:
            return f"{actor.options.class_name}.{parse_options(call.spec.options).method or '__init__'}"
        name: str = runtime.executor.functions[call.spec.function_id].name
        return name

    @property
    def _call(self) -> Any:
        """The task or call that this thread runs; None: none."""
        if not self._runtime.is_worker:
            return None
        from ..host.client.task_context import current_call

        return current_call.get() or getattr(self._runtime, "call", None)

    def _own_actor(self) -> Any:
        """Return the actor that runs here; None: none."""
        actor: Any = getattr(self._runtime, "actor", None)
        if getattr(self._runtime, "hosting", None) is None:
            return actor
        call = self._call
        return actor.of(call.spec) if call is not None else None

    def is_canceled(self) -> bool:
        """Whether `zray.cancel` was called for the task or call that runs here; False in a driver.

        Raises:
            RuntimeError: this is a call of an async actor, where `asyncio.CancelledError` is raised instead.
        """
        cancelling = getattr(self._runtime, "cancelling", None)
        if cancelling is None:
            return False
        if getattr(self._own_actor(), "async_calls", None) is not None:
            raise RuntimeError("is_canceled() is not for calls of async actors: they see asyncio.CancelledError.")
        return bool(cancelling.is_canceled())

    def get_actor_id(self) -> str | None:
        """Id of the actor; None outside of actors."""
        actor = self._own_actor()
        return actor.actor_id.hex() if actor is not None else None

    def get_actor_name(self) -> str | None:
        """Name of the actor, from its options; None without a name or outside of actors."""
        actor = self._own_actor()
        return (actor.options.name or None) if actor is not None else None

    @property
    def namespace(self) -> str:
        """Namespace of the program's named actors."""
        return self._runtime.namespace

    @property
    def runtime_env(self) -> dict[str, Any]:
        """The runtime_env of the program, with the fields of the task or actor on top.

        Paths are those that the program named.
        """
        from ..host.code.environments import described
        from ..options.runtime_env import from_words

        facts, own = self._runtime.facts, described(self._runtime.current_environment())
        found = {**from_words(facts.given), **own}
        if env_vars := {**dict(facts.env_vars), **own.get("env_vars", {})}:
            found["env_vars"] = env_vars
        return found

    def get_runtime_env_string(self) -> str:
        """The runtime_env as JSON."""
        return json.dumps(self.runtime_env, sort_keys=True)

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor has been restarted."""
        actor = self._own_actor()
        return actor is not None and actor.restart_count > 0

    def get_assigned_resources(self) -> dict[str, float]:
        """Resources that the current task or actor holds, by name; memory in bytes."""
        from ..wire.groups import plain_name
        from ..wire.task_spec import RESOURCE_UNIT, parse_options

        actor = self._own_actor()
        call = getattr(self._runtime, "call", None)
        if actor is not None:
            units = {plain_name(name): amount for name, amount in actor.options.resources.items()}
        elif call is not None:
            units = parse_options(call.spec.options).resources
        else:
            units = {}
        return {name: amount / RESOURCE_UNIT for name, amount in units.items()}

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """GPUs of the current task or actor, as {"GPU": [...]}; in a program, those that it may use."""
        return {"GPU": visible_gpus.of_current(self._runtime)}

    def get_resource_ids(self) -> dict[str, list[str]]:
        """Return the same as get_accelerator_ids(): Ray\'s older name."""
        return self.get_accelerator_ids()

    @property
    def current_placement_group_id(self) -> str | None:
        """Return the same as get_placement_group_id(): Ray\'s older name."""
        return self.get_placement_group_id()

    def get_placement_group_id(self) -> str | None:
        """Id of the placement group that the task or actor runs in; None outside of groups."""
        where = None
        if (actor := getattr(self._runtime, "actor", None)) is not None:
            where = actor.options.where
        elif (call := getattr(self._runtime, "call", None)) is not None:
            from ..wire.task_spec import parse_options

            where = parse_options(call.spec.options).where
        return where.group.hex() if where is not None and where.group else None

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether children of this task or actor run in its placement group by default."""
        return self._runtime.submitter().captured is not None

    @property
    def current_actor(self) -> Any:
        """Handle of the actor that this code runs in.

        Raises:
            RuntimeError: the code runs in no actor.
        """
        from .actor_handle import handle_of

        actor = self._own_actor()
        if actor is None:
            raise RuntimeError("current_actor needs an actor, but this code runs in none.")
        return handle_of(self._runtime, actor.actor_id, actor.options.handle)


def get_gpu_ids() -> list[int | str]:
    """List the GPUs of this task or actor; in a program, all that it may use.

    Returns:
        Whole numbers; a str where CUDA_VISIBLE_DEVICES names a GPU otherwise, as by its UUID.
    """
    return [int(name) if name.isdecimal() else name for name in visible_gpus.of_current(context.runtime)]


def get_runtime_context() -> RuntimeContext:
    """Return facts on the task, actor, worker and node that this code runs in."""
    return RuntimeContext(require_runtime())
