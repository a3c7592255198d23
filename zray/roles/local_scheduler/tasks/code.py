"""The code of jobs on other nodes: what drivers publish, and who is told of it (docs/design/storage.md).

    PublishCode -> the job's facts name the bundles, which are objects that the driver holds, and no more those that
    later ones have replaced; or another sys_path; or
    one more reload, upon which workers that have modules of the program leave
    with the first task or actor that leaves, they are shared at the shards like its arguments; later ones at once
    whatever leaves takes the facts along, and CodeAdded goes ahead of calls; a node that had older ones tells its
    workers of the job (JobStarted)

A detached actor takes the bundles that there were when it was made like arguments of its constructor: they live as long
as it does, and are where it is, and where its guardian is.  The others go with the driver.

The bytes are opaque here; workers fetch and unpack them (host/code/cache.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ....wire import scheduling, tasks
from ...role import on
from ..tables import Actor, Job

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# More are not kept: a driver that says more is not ours.
BUNDLES_MAX = 256


class JobCode:
    """Of the jobs of one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    @on(scheduling.PublishCode)
    def publish(self, message: scheduling.PublishCode) -> None:
        """PublishCode, of a driver of ours."""
        node = self.node
        process = node.processes.get(node.sender)
        job = process.job if process is not None else None
        if job is None or process is not job.driver:
            node.reject("code that is not its sender's to publish")
            return
        facts, replaced = job.facts, frozenset(message.replaced)
        code = (*(bundle for bundle in facts.code if bundle.object_id not in replaced), *message.bundles)
        if len(code) > BUNDLES_MAX:
            node.reject("more code than a program publishes")
            return
        job.facts = replace(
            facts,
            code=code,
            sys_path=message.sys_path or facts.sys_path,
            reloads=facts.reloads + message.has_reloaded,
            revision=facts.revision + 1,
        )
        if message.sys_path or message.has_reloaded:
            self._tell_workers(job)
        if job.has_left:
            self._tell_shards(job, self._known([bundle.object_id for bundle in message.bundles]))
            for peer in node.members.peers:
                node.send(peer, scheduling.CodeAdded(job.job_id, job.facts))

    def leaving(self, job: Job) -> list[bytes]:
        """A task or an actor of the job is about to leave: what others must find at the shards with it.

        That is the code, until all shards have acknowledged it once: what leaves second goes by another shard, perhaps,
        and where it comes the code would be asked for too early, and taken for lost.
        """
        if job.has_left and not job.code_unheard:
            return []
        # Elsewhere it was shared before it came there.
        is_from_here = job.driver is not None or job.home == self.node.address
        code = self._known([bundle.object_id for bundle in job.facts.code]) if is_from_here else []
        if not job.has_left:
            job.has_left = True
            self._tell_shards(job, code)
        return code

    def _tell_shards(self, job: Job, object_ids: list[bytes]) -> None:
        """What leaves without a word to the shards must not leave ahead of what they are told here."""
        request = self.node.acks.next_request()

        def heard() -> None:
            job.code_unheard -= 1

        job.code_unheard += 1
        self.node.acks.expect(request, self.node.remote._share(object_ids, request), heard)

    def _known(self, object_ids: list[bytes]) -> list[bytes]:
        return [object_id for object_id in object_ids if object_id in self.node.objects.entries]

    def job_of(self, job_id: bytes, facts: scheduling.JobFacts, *, is_detached: bool = False) -> Job:
        """The job of a task that comes; its workers are told of code that is new here.

        is_detached: of an actor that outlives it, so that nobody says here when it ends.
        """
        node = self.node
        job = node.jobs.get(job_id)
        if job is None:
            job = Job(job_id, replace(facts, is_heir=facts.is_heir or is_detached))
            if not is_detached:
                node.jobs[job_id] = job
        else:
            self._learn(job, facts)
        return job

    def moved(self, job: Job, home: str) -> None:
        """An actor is there from now on.  What was added while it was on its way was told to nobody there."""
        if job.driver is not None and job.facts.revision:
            self.node.send(home, scheduling.CodeAdded(job.job_id, job.facts))

    @on(scheduling.CodeAdded)
    def added(self, message: scheduling.CodeAdded) -> None:
        """CodeAdded: ahead of calls on actors that are here."""
        node, job_id = self.node, message.job_id
        jobs = [job] if (job := node.jobs.get(job_id)) else []
        jobs += [actor.job for actor in node.calls.actors.values() if actor.job.job_id == job_id]
        for job in jobs:
            if node.sender == job.home:
                self._learn(job, message.facts)
        node.guards.code_added(message)

    # --- what outlives its driver ---

    def lasts(self, actor: Actor) -> None:
        """It is to start: of a job whose driver has ended, there is only the code that the actor itself holds."""
        if actor.options.detached and self._is_orphan(actor.job):
            self._keep_own(actor)

    def job_ended(self, job_id: bytes, home: str) -> None:
        """Its driver, of that node, is gone, and the code that no detached actor holds."""
        for actor in self.node.calls.actors.values():
            if actor.options.detached and actor.job.job_id == job_id and actor.job.home == home:
                self._keep_own(actor)

    def home_lost(self, home: str) -> None:
        """Likewise of all jobs from there."""
        for actor in self.node.calls.actors.values():
            if actor.options.detached and actor.job.home == home:
                self._keep_own(actor)

    def _is_orphan(self, job: Job) -> bool:
        node, home = self.node, job.home
        if home == node.address:
            return job.job_id not in node.jobs
        return node.ended_jobs.get(job.job_id) == home or home not in node.members.peers

    @staticmethod
    def _keep_own(actor: Actor) -> None:
        job, own = actor.job, actor.creation.spec.deps
        code = tuple(bundle for bundle in job.facts.code if bundle.object_id in own)
        if code != job.facts.code:
            job.facts = replace(job.facts, code=code)

    def _learn(self, job: Job, told: scheduling.JobFacts) -> None:
        facts = job.facts.updated(told)
        if facts is not job.facts and job.driver is None:
            job.facts = facts
            self._tell_workers(job)

    def _tell_workers(self, job: Job) -> None:
        for worker in self.node.pool.workers.values():
            if worker.job is job:
                self.node.send(worker.address, tasks.JobStarted(job.job_id, job.facts, worker.environment))
