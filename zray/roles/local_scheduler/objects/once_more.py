"""Calls that have ended, and are made once more: what they returned that is large went with the node of their actor.

It is as if this node had called (recovery chooses it): wherever the actor is now, and in the state that it has now.
One that is dead for good says so, as to any call.  An actor that recovers gives again what it had returned, from its
log (answers), so none of this is for it, nor for calls that it has made itself (`TaskOptions.may_run_again`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ....wire.gcs import ANSWER_IS_LOST
from ....wire.task_spec import TaskOptions, TaskSpec
from ..tables import Actor, Job
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


def call(node: LocalScheduler, spec: TaskSpec, options: TaskOptions, job: Job, attempts: int) -> None:
    """Have it called.  attempts: as in Recovery.accept."""
    if options.actor_id not in node.calls.actors and options.actor_id not in node.ends.graves:
        node.routes.name_found(options.actor_id, "")
    # A caller of its own: another call of the one that it had, made once more behind it, may make what it takes.
    task = node.recovery.accept(replace(spec, caller=spec.task_id), options, job, attempts)
    for entry in node.lifecycle.returns_of(task):
        node.objects.retain(entry.object_id)
        node.objects.drop(entry.object_id)  # held again, until it has ended
    submit(node, task)


def submit(node: LocalScheduler, task: Task) -> None:
    """Any call, unless it is such a one and could never run."""
    actor = node.calls.actors.get(task.options.actor_id)
    if actor is None or task.spec.caller != task.spec.task_id or not _waits_for(node, actor, task):
        node.calls.submit(task)
        return
    task.queued()
    node.lifecycle.retain_arguments(task)
    text = f"{ANSWER_IS_LOST}; the actor itself waits for it, and runs no other call meanwhile."
    node.lifecycle.fail(task, "ObjectReconstructionFailedError", f"Object {task.entry.object_id.hex()}, {text}")


def _waits_for(node: LocalScheduler, actor: Actor, task: Task) -> bool:
    """Whether the call that the actor runs stands still for what this one returns."""
    if actor.options.is_async or actor.options.max_concurrency > 1 or actor.worker is None:
        return False
    waits = [wait for entry in node.lifecycle.returns_of(task) for wait in entry.watchers or ()]
    return any(wait.block and wait.process.worker is actor.worker for wait in waits)
