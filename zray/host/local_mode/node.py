"""The single node of local mode: its resources and labels, its placement groups, and answers to programs' questions.

Requests are checked against the whole node, as in a session.  Nothing waits for free resources.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from ...exceptions import encode_system_error
from ...wire import actors, groups, hosts, listing, task_spec, tasks
from ...wire.amounts import HEAD_NODE, NODE_PREFIX, STORE_MEMORY, in_words, init_arguments, is_enough, why_nowhere
from ...wire.message import Message
from ...wire.where import NODE_ID_LABEL, Where, matches, no_such_labels, no_such_node, nobody_can
from ..process import visible_gpus

if TYPE_CHECKING:
    from .runtime import LocalRuntime

# Limit of cached feasible options, a handful in most programs.
FEASIBLE_MAX = 10_000
LOOPBACK = "127.0.0.1"


class LocalNode:
    """The node, as seen by the program."""

    def __init__(self, runtime: LocalRuntime, total: dict[str, int], labels: dict[str, str]) -> None:
        self.runtime = runtime
        self.name = runtime.node_id.hex()
        self.address = f"{self.name}/local"
        own = {f"{NODE_PREFIX}{LOOPBACK}": task_spec.RESOURCE_UNIT, HEAD_NODE: task_spec.RESOURCE_UNIT}
        self.total = {**total, **own, STORE_MEMORY: runtime.objects.capacity * task_spec.RESOURCE_UNIT}
        self.labels = {**labels, NODE_ID_LABEL: self.name}
        count = math.ceil(total.get("GPU", 0) / task_spec.RESOURCE_UNIT)
        self.gpus = visible_gpus.visible()[:count] or [str(index) for index in range(count)]
        self.feasible: set[bytes] = set()  # encoded options of tasks that the node can run
        self.groups: dict[bytes, groups.GroupFact] = {}

    # --- requests ---

    def why_no_task(self, blob: bytes, options: task_spec.TaskOptions) -> bytes:
        """The error value of a task that the node can never run; b"" if it can.  blob: the encoded options."""
        where = options.where
        if where is not None and where.group:
            return self._why_not_in_group(where, options.resources, "Task")
        if blob in self.feasible:
            return b""
        if text := self._why_never("run this task", where, options.resources):
            return encode_system_error("TaskUnschedulableError", text)
        if len(self.feasible) >= FEASIBLE_MAX:
            self.feasible.clear()
        self.feasible.add(blob)
        return b""

    def why_no_actor(self, options: task_spec.ActorOptions) -> bytes:
        """The error value of an actor that the node can never hold; b"" if it can."""
        where = options.where
        if where is not None and where.group:
            return self._why_not_in_group(where, options.resources, "Actor")
        text = self._why_never("hold this actor", where, options.resources)
        return encode_system_error("ActorUnschedulableError", text) if text else b""

    def _why_never(self, what: str, where: Where | None, request: dict[str, int]) -> str:
        if where is not None:
            if where.node and where.node != self.name and not where.is_soft:
                return nobody_can(what, no_such_node(where.node))
            if not any(matches(self.labels, rules) for rules in (where.hard, *where.fallbacks)):
                return nobody_can(what, no_such_labels(where))
        if is_enough(self.total, request):
            return ""
        reason = why_nowhere(request, {self.address: self.total})
        fix = f"Start a session that has it ({init_arguments(request, self.total)}), or ask for less"
        return f"{nobody_can(what, reason)}  {fix}."

    def _why_not_in_group(self, where: Where, request: dict[str, int], kind: str) -> bytes:
        group = where.group.hex()
        fact = self.groups.get(where.group)
        if fact is None:
            return encode_system_error(f"{kind}PlacementGroupRemoved", f"The placement group {group} was removed.")
        if fact.state == groups.UNSCHEDULABLE:
            return encode_system_error(f"{kind}UnschedulableError", fact.reason)
        bundles = [bundle for index, bundle in enumerate(fact.spec.bundles) if where.bundle in (-1, index)]
        if any(is_enough(bundle, request) for bundle in bundles):
            return b""
        said = f"bundle {where.bundle}" if where.bundle >= 0 else "no bundle"
        has = f"has {in_words(bundles[0])}" if where.bundle >= 0 and bundles else "has that much"
        text = f"It asks for {in_words(request)}, but {said} of the placement group {group} {has}."
        return encode_system_error(f"{kind}UnschedulableError", text)

    def gpus_of(self, call: Any) -> list[str] | None:
        """Return the GPUs of a call, by name; without a call, the program's visible GPUs."""
        if call is None:
            return visible_gpus.visible()
        options = call.options if call.actor is None else call.actor.options
        return self.gpus[: math.ceil(options.resources.get("GPU", 0) / task_spec.RESOURCE_UNIT)]

    def _free(self) -> dict[str, int]:
        """Return the resources held by no group, no living actor, and no call around this one."""
        holders = [actor.options for actor in self.runtime.actors.living.values()]
        call = self.runtime.call
        while call is not None:
            if call.actor is None:
                holders.append(call.options)
            call = call.outer
        held = [options.resources for options in holders if options.where is None or not options.where.group]
        held += [
            bundle for fact in self.groups.values() if fact.state == groups.CREATED for bundle in fact.spec.bundles
        ]
        free = dict(self.total)
        for request in held:
            for name, amount in request.items():
                free[name] = max(0, free.get(name, 0) - amount)
        free[STORE_MEMORY] -= self.runtime.objects.stored_bytes * task_spec.RESOURCE_UNIT
        return free

    # --- placement groups ---

    def _create_group(self, message: groups.CreateGroup) -> groups.CreateGroupReply:
        spec, group_id = message.spec, message.group_id
        for known, fact in self.groups.items():
            if spec.name and (fact.spec.name, fact.spec.namespace) == (spec.name, spec.namespace):
                return groups.CreateGroupReply(message.request, known)
        places = [self.address] * len(spec.bundles)
        large = next((bundle for bundle in spec.bundles if not is_enough(self.total, bundle)), None)
        if large is None:
            self.groups[group_id] = groups.GroupFact(group_id, spec, groups.CREATED, places)
        else:
            reason = self._why_never(f"hold placement group {group_id.hex()}", None, large)
            self.groups[group_id] = groups.GroupFact(group_id, spec, groups.UNSCHEDULABLE, [""] * len(places), reason)
        return groups.CreateGroupReply(message.request, b"")

    def _remove_group(self, group_id: bytes, reason: str) -> None:
        if self.groups.pop(group_id, None) is not None:
            text = f"The placement group {group_id.hex()} was removed: {reason}."
            self.runtime.actors.end_group(group_id, encode_system_error("ActorPlacementGroupRemoved", text))

    def actor_ended(self, actor_id: bytes) -> None:
        """Remove the placement groups of an ended actor."""
        for group_id, fact in list(self.groups.items()):
            if fact.spec.actor_id == actor_id and not fact.spec.is_detached:
                self._remove_group(group_id, "the actor that made it has ended")

    def _find_groups(self, message: groups.FindGroups) -> groups.GroupsFound:
        def is_meant(group_id: bytes, spec: groups.GroupSpec) -> bool:
            if message.group_id:
                return group_id == message.group_id
            return not message.name or (spec.name, spec.namespace) == (message.name, message.namespace)

        found = [fact for group_id, fact in self.groups.items() if is_meant(group_id, fact.spec)]
        return groups.GroupsFound(message.request, found)

    # --- questions ---

    def tell(self, message: Message) -> None:
        """Carry out a message of the program."""
        if type(message) is actors.KillActor:
            self.runtime.actors.kill(message.actor_id, no_restart=message.no_restart)
        elif type(message) is groups.RemoveGroup:
            self._remove_group(message.group_id, message.reason)

    def answer(self, message: Any) -> Any:
        """The reply to a question.

        Raises:
            NotImplementedError: a session alone can answer it.
        """
        kind = type(message)
        if kind not in _ANSWERS:
            raise NotImplementedError(
                f"Local mode has no answer to {kind.__name__}, a question to the processes of a session: leave out "
                "local_mode=True."
            )
        return _ANSWERS[kind](self, message)

    def _find_actor(self, message: actors.FindActor) -> actors.FindActorReply:
        actor = self.runtime.actors.named(message.namespace, message.name)
        if actor is None:
            return actors.FindActorReply(message.request, b"", b"")
        node = self.address if message.is_weak else ""
        return actors.FindActorReply(message.request, actor.actor_id, actor.options.handle, node)

    def _find_names(self, message: actors.FindActorNames) -> actors.ActorNamesFound:
        names = sorted(
            (namespace, name)
            for namespace, name in self.runtime.actors.names
            if message.in_all or namespace == message.namespace
        )
        return actors.ActorNamesFound(message.request, names)

    def _nodes(self, message: hosts.GetNodes) -> hosts.NodesReply:
        fact = hosts.NodeFact(
            self.address,
            "head",
            self.total,
            self._free(),
            0,
            labels=self.labels,
            endpoint=f"{LOOPBACK}:0",
            hostname=os.uname().nodename,
        )
        return hosts.NodesReply(message.request, [fact])

    def _list(self, message: listing.ListWork) -> listing.WorkListed:
        """List the living actors and the program; or the largest values.  Ended tasks are not remembered."""
        runtime, pid = self.runtime, os.getpid()
        if message.are_objects:
            values = runtime.objects.sizes()[: message.most]
            objects = [listing.ObjectFact(*value, self.address, holders=[pid]) for value in values]
            return listing.WorkListed(message.request, [], [], objects=objects)
        living = [
            listing.ActorFact(
                actor.actor_id,
                actor.options.class_name,
                actor.options.name,
                actor.options.namespace,
                actor.state_name,
                runtime.job_id,
                self.address,
                pid,
            )
            for actor in [*runtime.actors.living.values()][: message.most]
        ]
        program = listing.WorkerFact("driver", "driver", pid, self.address, runtime.job_id)
        return listing.WorkListed(message.request, living, [], workers=[program])


_ANSWERS: dict[type, Any] = {
    # A task has ended when `.remote()` returns: there is nothing to cancel.
    tasks.CancelTask: lambda node, message: tasks.CancelTaskReply(message.request),
    groups.CreateGroup: LocalNode._create_group,
    groups.FindGroups: LocalNode._find_groups,
    actors.FindActor: LocalNode._find_actor,
    actors.FindActorNames: LocalNode._find_names,
    hosts.GetNodes: LocalNode._nodes,
    listing.ListWork: LocalNode._list,
}
