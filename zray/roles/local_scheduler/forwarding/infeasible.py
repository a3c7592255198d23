"""Requests that no node can ever hold (docs/design/scheduling.md).

    in an embedded session, which no node can join    an error at once: the request, the largest node, the fix
    in a cluster                                      wait for a suitable node; after WARN_SECONDS the user is told
    as its job says (init(infeasible=...))            either

A waiting task is parked, and spilled when a node joins that could run it.  A waiting actor asks again and again
(actor_moves), like an actor that finds no room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ....wire.amounts import init_arguments, is_enough, why_nowhere
from ....wire.scheduling import JobNotice
from ....wire.where import nobody_can
from ...role import on
from ..tables import Actor, ActorState, Job
from ..task import Event, Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

WARN_SECONDS = 10.0
# A node may be known here before a global scheduler has heard of it: what that one refuses then is passed up once more.
ONCE_MORE_SECONDS = 1.0
# A timer that is early by less is on time.
TIMER_SECONDS = 1e-3
# Different things that the user of one job is told of.
NOTICES_MAX = 20
NOTICED_MAX = 2 * NOTICES_MAX  # with those of groups: their errors come from others


class Suspect(Struct, gc=False, eq=False):
    """An infeasible request of a job whose user has not been warned."""

    job: Job
    what: str  # for the user: "task f", "actor A"
    request: dict[str, int]
    is_actor: bool
    since: float
    reason: str  # "": by what nodes have
    group_id: bytes


class Infeasible:
    """Local tasks and actors too large for every node."""

    LASTING = {"suspects": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.suspects: dict[Any, Suspect] = {}

    # --- what can be, and what cannot ---

    def is_patient(self, job: Job) -> bool:
        """Whether infeasible requests of the job wait, instead of failing."""
        wanted = job.facts.infeasible
        return wanted == "wait" or (wanted != "raise" and not self.node.is_embedded)

    def totals(self) -> dict[str, Mapping[str, int]]:
        """Return the total resources of each node that runs tasks."""
        members = self.node.members
        found: dict[str, Mapping[str, int]] = {}
        if not members.is_guest:
            found[self.node.address] = self.node.resources.total
        found.update((peer, total) for peer, total in members.peers.items() if peer not in members.outside)
        return found

    def is_met_elsewhere(self, request: Mapping[str, int]) -> bool:
        """Whether another node could hold the request."""
        members = self.node.members
        return any(is_enough(total, request) for peer, total in members.peers.items() if peer not in members.outside)

    def text(self, what: str, reason: str, request: Mapping[str, int]) -> str:
        """Return the error text for the user."""
        if self.node.is_embedded:
            fix = f"Start a session that has it ({init_arguments(request, self.node.resources.total)}), or ask for less"
        else:
            fix = (
                "Add a node that has it (`zray start --address ...`), ask for less, or have it wait for such a node "
                '(infeasible="wait" in zray.init)'
            )
        return f"{nobody_can(what, reason)}  {fix}."

    # --- tasks ---

    def cannot_run_here(self, task: Task) -> None:
        """Spill, refuse or park a task that the local node could never run."""
        request = task.options.resources
        if self.is_met_elsewhere(request):
            self.node.departures.spill(task)
        else:
            self.refuse_or_park(task, why_nowhere(request, self.totals()))

    def refuse_or_park(self, task: Task, reason: str) -> None:
        """Refuse or park a task that no known node can run."""
        node, request = self.node, task.options.resources
        if node.strategies.is_met(task.options.where, request):
            node.after(ONCE_MORE_SECONDS, self.pass_up_once_more)
        elif not self.is_patient(task.job):
            node.lifecycle.fail(task, "TaskUnschedulableError", self.text("run this task", reason, request))
            return
        node.task_states.happened(task, Event.REFUSED)
        name = task.options.name or node.lifecycle.function_name(task.spec.function_id)
        self._note(task.job, f"task {name}", request, is_actor=False, reason=reason if task.options.where else "")

    def node_joined(self, total: Mapping[str, int]) -> None:
        """Spill parked tasks that the new node could run."""
        if self.node.task_states.index[TaskState.PARKED]:
            self._release(total)
            self.node.after(ONCE_MORE_SECONDS, self.pass_up_once_more)

    def pass_up_once_more(self) -> None:
        """Spill tasks again that were refused just after a node had joined."""
        for node, total in self.totals().items():
            if node != self.node.address:
                self._release(total)

    def _release(self, total: Mapping[str, int]) -> None:
        parked = self.node.task_states.index[TaskState.PARKED].values()
        for task in [task for task in parked if is_enough(total, task.options.resources)]:
            self.node.departures.spill(task)

    # --- actors ---

    def why_not_ever(self, actor: Actor) -> str:
        """Explain to the user why a new actor can never start; "" if it can, or should wait."""
        request = actor.options.resources
        if actor.options.where is not None and actor.options.where.group:
            return ""  # its bundle has what it asks for, or not
        if reason := self.node.strategies.why_no_actor(actor.options):
            return nobody_can("hold this actor", reason)
        if self.node.resources.could_ever_fit(request) or self.is_met_elsewhere(request):
            return ""
        if self.is_patient(actor.job):
            self.note_actor(actor)
            return ""
        return self.text("hold this actor", why_nowhere(request, self.totals()), request)

    def may_find_room_elsewhere(self, actor: Actor) -> bool:
        """Whether other nodes exist, or the actor can only wait for a new node."""
        node = self.node
        return bool(node.members.peers) or not (
            node.is_embedded or node.resources.could_ever_fit(actor.options.resources)
        )

    def note_actor(self, actor: Actor) -> None:
        """Note an actor that no known node can hold."""
        self._note(actor.job, f"actor {actor.options.class_name}", actor.options.resources, is_actor=True)

    def note_group(self, job: Job, what: str, group_id: bytes, reason: str) -> None:
        """Note an infeasible placement group."""
        self._note(job, what, {}, is_actor=False, reason=reason, group_id=group_id)

    # --- telling the user ---

    def _note(
        self,
        job: Job,
        what: str,
        request: dict[str, int],
        *,
        is_actor: bool,
        reason: str = "",
        group_id: bytes = b"",
    ) -> None:
        key = (job.job_id, is_actor, tuple(sorted(request.items())), reason, group_id)
        if key in self.suspects or key in job.noticed or len(job.noticed) >= NOTICES_MAX:
            return
        job.notes(key)
        if not self.suspects:
            self.node.after(WARN_SECONDS, self.warn)
        self.suspects[key] = Suspect(job, what, request, is_actor, self.node.now, reason, group_id)

    def warn(self) -> None:
        """Warn users of requests that have waited for WARN_SECONDS."""
        now = self.node.now
        for key, suspect in list(self.suspects.items()):
            if now - suspect.since < WARN_SECONDS - TIMER_SECONDS:
                continue
            del self.suspects[key]
            if self._still_waits(suspect):
                self._warn(suspect)
            else:
                suspect.job.notes_no_more(key)
        if self.suspects:
            first = min(suspect.since for suspect in self.suspects.values())
            self.node.after(first + WARN_SECONDS - now, self.warn)

    def _still_waits(self, suspect: Suspect) -> bool:
        job, request = suspect.job, suspect.request
        if suspect.group_id:
            return self.node.keeping.is_without_place(suspect.group_id)
        if not suspect.is_actor:
            parked = self.node.task_states.index[TaskState.PARKED].values()
            return any(task.job is job and task.options.resources == request for task in parked)
        if self.node.resources.could_ever_fit(request) or self.is_met_elsewhere(request):
            return False
        early = (ActorState.REGISTERING, ActorState.PENDING)
        return any(
            actor.job is job and actor.state in early and actor.options.resources == request
            for actor in self.node.calls.actors.values()
        )

    def _warn(self, suspect: Suspect) -> None:
        reason = suspect.reason or why_nowhere(suspect.request, self.totals())
        how = "it waits for a node that has it" if not self.node.is_embedded else "it will wait for ever"
        text = (
            f"{suspect.what} has waited for {WARN_SECONDS:g} s: {reason}; {how} "
            '(infeasible="raise" in zray.init, or ZRAY_INFEASIBLE=raise, makes this an error)'
        )
        job = suspect.job
        self.tell(JobNotice(job.job_id, text), job)

    def tell(self, message: JobNotice, job: Job) -> None:
        """Send a notice to the job's driver, on any node."""
        if job.driver is not None:
            self.node.send(job.driver.address, message)
        elif job.home and job.home != self.node.address:
            self.node.send(job.home, message)

    @on(JobNotice)
    def on_job_notice(self, message: JobNotice) -> None:
        """JobNotice, from another node: for a local driver."""
        job = self.node.jobs.get(message.job_id)
        if message.is_event and job is not None and job.driver is not None:
            self.node.notices.tell(job, message.text)
            return
        if job is None or job.driver is None or len(job.noticed) >= NOTICED_MAX:
            return
        job.notes(message.text)
        self.node.send(job.driver.address, message)
