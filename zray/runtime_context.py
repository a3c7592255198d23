"""get_runtime_context(): where this code runs.  Ids are hexadecimal strings, as Ray's are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .host.runtime import Runtime


class RuntimeContext:
    """A look at the current process and task."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def get_job_id(self) -> str:
        """The driver's program."""
        return self._runtime.job_id.hex()

    def get_node_id(self) -> str:
        """The node."""
        return self._runtime.node_id.hex()

    @property
    def gcs_address(self) -> str:
        """HOST:PORT of the cluster, as `zray.init` takes it; "" in a session that is none."""
        from .host.joining import cluster_of

        return cluster_of(self._runtime)

    def get_node_labels(self) -> dict[str, str]:
        """The node's labels."""
        from .cluster_info import nodes

        own = self.get_node_id()
        found: dict[str, str] = next((node["Labels"] for node in nodes() if node["NodeID"] == own), {})
        return found

    def get_worker_id(self) -> str:
        """The process: its number in the session."""
        return getattr(self._runtime, "worker_name", "driver")

    def get_task_id(self) -> str | None:
        """The task; None in a driver."""
        return self._runtime.submitter().task_id.hex() if self._runtime.is_worker else None

    def get_task_name(self) -> str | None:
        """The task's name; None in a driver."""
        return self._runtime.submitter().name if self._runtime.is_worker else None

    def get_actor_id(self) -> str | None:
        """The actor; None where there is none."""
        actor = getattr(self._runtime, "actor", None)
        return actor.actor_id.hex() if actor is not None else None

    def get_actor_name(self) -> str | None:
        """The name that the actor was given; None where there is none."""
        actor = getattr(self._runtime, "actor", None)
        return (actor.options.name or None) if actor is not None else None

    @property
    def namespace(self) -> str:
        """Where the job's named actors live."""
        return self._runtime.namespace

    @property
    def runtime_env(self) -> dict[str, Any]:
        """What was asked for: the program's, and on top of that the task's or actor's own."""
        runtime = self._runtime
        env_vars = dict((*runtime.facts.env_vars, *runtime.env_vars))
        return {"env_vars": env_vars} if env_vars else {}

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor has been restarted."""
        actor = getattr(self._runtime, "actor", None)
        return actor is not None and actor.restart_count > 0

    def get_assigned_resources(self) -> dict[str, float]:
        """What the current task or actor holds."""
        from .wire.groups import plain_name
        from .wire.task_spec import RESOURCE_UNIT, parse_options

        actor = getattr(self._runtime, "actor", None)
        call = getattr(self._runtime, "call", None)
        if actor is not None:
            units = {plain_name(name): amount for name, amount in actor.options.resources.items()}
        elif call is not None:
            units = parse_options(call.spec.options).resources
        else:
            units = {}
        return {name: amount / RESOURCE_UNIT for name, amount in units.items()}

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Which GPUs the current task or actor has; in a program, those that it may use."""
        from .host import gpus

        return {"GPU": gpus.of_current(self._runtime)}

    def get_placement_group_id(self) -> str | None:
        """The placement group that the task or actor runs in; None where there is none."""
        where = None
        if (actor := getattr(self._runtime, "actor", None)) is not None:
            where = actor.options.where
        elif (call := getattr(self._runtime, "call", None)) is not None:
            from .wire.task_spec import parse_options

            where = parse_options(call.spec.options).where
        return where.group.hex() if where is not None and where.group else None

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether what this code starts runs in its placement group, unless that says otherwise."""
        return self._runtime.submitter().captured is not None

    @property
    def current_actor(self) -> Any:
        """A handle on the actor that this code runs in.

        Raises:
            RuntimeError: it runs in no actor.
        """
        from .actor_handle import handle_of

        actor = getattr(self._runtime, "actor", None)
        if actor is None:
            raise RuntimeError("current_actor is there in an actor only.")
        return handle_of(self._runtime, actor.actor_id, actor.options.handle)
