"""What a local scheduler keeps at most so many of: the simulator asserts it after each turn (USERS 2.4, 10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import actor_ends, code, drain, explain, flights, infeasible, lending, scheduler, waits

if TYPE_CHECKING:
    from .scheduler import LocalScheduler


def bounds_of(node: LocalScheduler) -> Iterator[tuple[str, int, int]]:
    """(what, how many there are, how many there may be)"""
    yield "jobs known to have ended", len(node.ended_jobs), scheduler.ENDED_JOBS_MAX
    yield "actors known to have died", len(node.ends.graves), actor_ends.GRAVES_MAX
    yield "global schedulers that are gone", len(node.flights.gone), flights.GONE_MAX
    yield "questions of others", len(node.explanations.asked), explain.ASKED_COUNT_MAX
    yield "objects that leave with the node", len(node.drain.moving), drain.MOVING_MAX
    for process in node.processes.values():
        yield f"waits of {process.address}", len(process.wait_by_request), waits.WAITS_MAX
    for worker in node.pool.workers.values():
        yield f"tasks within tasks of {worker.address}", len(worker.frames), lending.FRAMES_COUNT_MAX
    for job in node.jobs.values():
        yield f"bundles of job {job.job_id.hex()}", len(job.facts.code), code.BUNDLES_MAX
        yield f"notices to job {job.job_id.hex()}", len(job.noticed), infeasible.NOTICES_MAX
