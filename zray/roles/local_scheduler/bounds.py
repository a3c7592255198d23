"""The bounds of a local scheduler's tables: the simulator asserts them after each turn.

The number of tasks, objects and actors is the user's: each is asked for by a program, and goes with its last ref.  All
else is bounded by a number of its own, or by these: what can be at most one per task must not be more than the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...wire.tasks import FUNCTIONS_BYTES_MAX, FUNCTIONS_COUNT_MAX
from ..latest import LOST_MAX
from . import (
    actor_ends,
    actor_names,
    actor_room,
    batches,
    behind_waits,
    calls,
    code,
    dispatch,
    drain,
    ended,
    explain,
    fates,
    flights,
    infeasible,
    journals,
    lineage,
    listing,
    load,
    members,
    nested,
    notices,
    scheduler,
    small_values,
    suspension,
    waits,
    weak_handles,
)
from .tables import TaskState

if TYPE_CHECKING:
    from .scheduler import LocalScheduler


def bounds_of(node: LocalScheduler) -> Iterator[tuple[str, int, int]]:
    """(what, how many there are, how many there may be)"""
    yield "jobs known to have ended", len(node.ended_jobs), scheduler.ENDED_JOBS_MAX
    yield "tasks that ended while they were away", len(node.fates.ended), fates.ENDED_MAX
    yield "tasks that are not to come", len(node.fates.unwanted), fates.ENDED_MAX
    yield "actors known to have died", len(node.ends.graves), actor_ends.GRAVES_MAX
    yield "actors known to have died without handles", len(node.names.weak.deaths), weak_handles.DEATHS_MAX
    yield "actors that have left", len(node.names.left), actor_names.LEFT_MAX
    yield "routes of weak handles", len(node.names.weak.routes), weak_handles.ROUTES_MAX
    yield "lost nodes", len(node.recovery.lost), LOST_MAX
    yield "global schedulers that are gone", len(node.flights.gone), flights.GONE_MAX
    yield "questions of others", len(node.explanations.asked), explain.ASKED_COUNT_MAX
    yield "finished tasks that are remembered", len(node.ended.finished), ended.FINISHED_MAX
    yield "failed tasks that are remembered", len(node.ended.failed), ended.FAILED_MAX
    yield "names of forgotten functions", len(node.ended.names), ended.NAMES_MAX
    yield "dead actors that are remembered", len(node.ended.actors), ended.ACTORS_MAX
    yield "lists that others have part of", len(node.listings.open), listing.LISTINGS_MAX
    yield "objects that leave with the node", len(node.drain.moving), drain.MOVING_MAX
    yield "functions whose run times are known", len(node.dispatch.mean_us), dispatch.MEANS_MAX
    beats_max = int(node.members.lease.seconds / members.LOAD_SECONDS) + 2
    # A portion for several shards may take two requests.
    yield "portions of lineage without an answer", len(node.lineage.unheard), lineage.UNHEARD_MAX + 1
    yield "messages of a suspended node", len(node.members.suspension.kept), suspension.KEPT_MAX
    yield "heartbeats without an answer", len(node.members.lease.sent), beats_max
    for process in node.processes.values():
        yield f"waits of {process.address}", len(process.wait_by_request), waits.WAITS_MAX
    if not node.small_values.are_many:
        yield "bytes of small values", node.objects.inline_bytes, small_values.INLINE_BYTES_TOTAL
    yield "functions", len(node.functions), node.function_table.count_max
    yield "bytes of code", node.function_table.size, node.function_table.bytes_max
    for worker in node.pool.workers.values():
        yield f"functions of {worker.address}", len(worker.functions), batches.LEARNED_COUNT_MAX
        yield f"tasks within tasks of {worker.address}", len(worker.frames), behind_waits.FRAMES_COUNT_MAX
        yield f"tasks sent to {worker.address}", len(worker.inflight), batches.INFLIGHT_COUNT_MAX
    for job in node.jobs.values():
        yield f"functions of job {job.job_id.hex()}", len(job.functions), FUNCTIONS_COUNT_MAX
        yield f"kinds of tasks of job {job.job_id.hex()}", len(job.queues), job.queues_max
        yield f"bytes of code of job {job.job_id.hex()}", job.code_bytes, FUNCTIONS_BYTES_MAX
        yield f"bundles of job {job.job_id.hex()}", len(job.facts.code), code.BUNDLES_MAX
        # Of groups twice as many: their errors come from others.
        yield f"notices to job {job.job_id.hex()}", len(job.noticed), 2 * infeasible.NOTICES_MAX
    yield "jobs that had notices lately", len(node.notices.windows), notices.JOBS_MAX
    for actor in node.calls.actors.values():
        most = max(calls.CALLS_IN_FLIGHT_MAX, actor.options.max_concurrency)
        yield f"calls sent to actor {actor.actor_id.hex()}", len(actor.inflight), most
        if actor.shipping is not None:
            held = len(actor.shipping.withheld) + len(actor.inflight)
            yield f"calls of {actor.actor_id.hex()} without a result that was seen", held, most
        journal = actor.journal
        if journal is not None:
            yield f"calls that actor {actor.actor_id.hex()} may replay", len(journal.calls), journals.JOURNAL_CALLS_MAX
            yield f"bytes of the calls of {actor.actor_id.hex()}", journal.size, journals.JOURNAL_BYTES_MAX
            yield f"calls by those of {actor.actor_id.hex()}", journal.nested.count, nested.NESTED_CALLS_MAX
            yield f"bytes that these returned to {actor.actor_id.hex()}", journal.nested.size, nested.NESTED_BYTES_MAX
    for actor_id, guard in node.guards.guarded.items():
        if guard.copy is not None:
            calls_count = len(guard.copy.journal.calls)
            yield f"calls that guarded actor {actor_id.hex()} may replay", calls_count, journals.JOURNAL_CALLS_MAX
    yield from _of_tasks(node)
    yield from _of_objects(node)
    yield from _of_members(node)


def _of_tasks(node: LocalScheduler) -> Iterator[tuple[str, int, int]]:
    """At most one per task."""
    tasks = len(node.tasks)
    yield "forwarded tasks", sum(map(len, node.forwarded.index.values())), tasks
    unaccepted = node.results.unaccepted
    yield "tasks whose origin has not heard that they are here", len(unaccepted), tasks
    yield "tasks that are gone, and said to be here later", len(unaccepted.keys() - node.tasks.keys()), 0
    deferred = node.forwarded.index[TaskState.DEFERRED]
    yield "kinds of tasks that go up again", len(node.forwarded.deferred_kinds), len(deferred)
    yield "functions that tasks wait for", len(node.function_waiters), tasks
    yield "ready tasks", node.dispatch.ready_count, tasks
    yield "calls on actors of others", sum(len(route.sent) for route in node.routes.by_actor.values()), tasks


def _of_objects(node: LocalScheduler) -> Iterator[tuple[str, int, int]]:
    """At most one per object."""
    objects = len(node.objects.entries)
    yield "objects whose place is asked for", len(node.remote.subscribed), objects
    yield "objects that are here, and not said to be", len(node.remote.unsaid), len(node.acks.expected)
    unheld = len(node.fetches.unheld)
    yield "values with refs inside that shards are to hold", unheld, len(node.acks.expected)
    # Those stay ordered until the shards have answered, also where nobody wants them any more.
    yield "objects on their way here", len(node.fetches.ordered), objects + unheld
    yield "large objects on their way here", len(node.load.fetching), len(node.fetches.ordered)


def _of_members(node: LocalScheduler) -> Iterator[tuple[str, int, int]]:
    """At most one per node of the cluster, worker, or actor."""
    peers = len(node.members.peers)
    yield "messages of nodes that are none yet", node.members.early_count, members.EARLY_MAX
    yield "labels of nodes", len(node.members.labels), peers
    yield "actors that were killed from here", len(node.names.killed), actor_names.KILLED_MAX
    yield "nodes outside of the cluster", len(node.members.outside), peers
    yield "nodes that are to leave", len(node.members.leaving), peers
    yield "global schedulers that place tasks here", len(node.load.placed_counts), load.PLACERS_MAX
    workers = len(node.pool.workers)
    yield "idle workers", sum(map(len, node.pool.idle.values())), workers
    yield "kinds of idle workers", len(node.pool.idle), workers + 1
    yield "leased workers", len(node.dispatch.leased), workers
    yield "actors of other nodes that want resources", len(node.actor_room.wishes), actor_room.WISHES_MAX
    yield "actors that want a worker", len(node.calls.wanting), len(node.calls.actors)
