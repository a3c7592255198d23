"""The code of jobs on other nodes: published by drivers, and announced to nodes (docs/design/storage.md).

    PublishCode -> the job's facts name the new bundles, objects that the driver holds, and no longer the bundles
    replaced since; or another sys_path; or
    another reload, to end workers with modules of the program
    with the first task or actor that leaves, bundles are shared at the shards like arguments; later bundles at once
    tasks and actors carry the facts along, and CodeAdded precedes calls; a node with older facts tells the
    workers of the job (JobStarted)

A detached actor takes the bundles existing at its creation like arguments of the constructor.  They live as long as the
actor, on its node and on the backup node.  Other bundles go with the driver.

The bytes are opaque to the node; workers fetch and unpack them (host/code/cache.py).

Code of functions and classes on a node: published by local processes, or fetched from shards.

    PublishFunction -> known to the job locally, and on to the function's shard, which keeps the code until the job ends
    a task without its code waits: FetchFunction -> FetchFunctionReply

The code that a job may publish from a node is limited.  A program with a remote function defined in a loop publishes a
new function each time, and each stays until the job ends.  Code not needed by unfinished local tasks is a cache,
because the shard still has the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ....wire import scheduling, tasks
from ....wire.gcs import FetchFunction, FetchFunctionReply, ReleaseFunctions
from ....wire.tasks import FUNCTIONS_BYTES_MAX, FUNCTIONS_COUNT_MAX, Function, PublishFunction, why_too_many
from ...role import on
from ..tables import Actor, Job
from ..task import Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# More are not kept: a driver that says more is not ours.
BUNDLES_MAX = 256


class JobCode:
    """The code of a node's jobs."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    @on(scheduling.PublishCode)
    def publish(self, message: scheduling.PublishCode) -> None:
        """PublishCode, from a local driver."""
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
        reloads, sys_path = facts.reloads + message.has_reloaded, message.sys_path or facts.sys_path
        job.learns(replace(facts, code=code, sys_path=sys_path, reloads=reloads, revision=facts.revision + 1))
        if message.sys_path or message.has_reloaded:
            self._tell_workers(job)
        if job.has_left:
            self._tell_shards(job, self._known([bundle.object_id for bundle in message.bundles]))
            for peer in node.members.peers:
                node.send(peer, scheduling.CodeAdded(job.job_id, job.facts))

    def leaving(self, job: Job) -> list[bytes]:
        """Return the job's code to be shared at the shards with a task or actor that leaves.

        The code is shared until all shards have acknowledged it once.  Otherwise a later task, recorded at another
        shard, could arrive first; its code would be requested too early, and taken for lost.
        """
        if job.has_left and not job.code_unheard:
            return []
        # Elsewhere it was shared before it came there.
        is_from_here = job.driver is not None or job.home == self.node.address
        code = self._known([bundle.object_id for bundle in job.facts.code]) if is_from_here else []
        if not job.has_left:
            job.leaves()
            self._tell_shards(job, code)
        return code

    def _tell_shards(self, job: Job, object_ids: list[bytes]) -> None:
        """Share the code at the shards; until they acknowledge, no task may leave without a record."""
        request = self.node.acks.next_request()
        job.code_is_said()
        self.node.acks.expect(request, self.node.remote._share(object_ids, request), job.code_is_heard)

    def _known(self, object_ids: list[bytes]) -> list[bytes]:
        return [object_id for object_id in object_ids if object_id in self.node.objects.entries]

    def job_of(self, job_id: bytes, facts: scheduling.JobFacts, *, is_detached: bool = False) -> Job:
        """Return the job of an arriving task; the job's workers are told of new code.

        is_detached: for an actor that outlives the job, without an announcement of the job's end.
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
        """Send an actor's new home the code added, and not announced to that node, during the move."""
        if job.driver is not None and job.facts.revision:
            self.node.send(home, scheduling.CodeAdded(job.job_id, job.facts))

    @on(scheduling.CodeAdded)
    def added(self, message: scheduling.CodeAdded) -> None:
        """CodeAdded, ahead of calls on actors here."""
        node, job_id = self.node, message.job_id
        jobs = [job] if (job := node.jobs.get(job_id)) else []
        jobs += [actor.job for actor in node.calls.actors.values() if actor.job.job_id == job_id]
        for job in jobs:
            if node.sender == job.home:
                self._learn(job, message.facts)
        node.guards.code_added(message)

    # --- what outlives its driver ---

    def lasts(self, actor: Actor) -> None:
        """Keep the code of a starting detached actor, if its job's driver has ended and only the actor holds code."""
        if actor.options.detached and self._is_orphan(actor.job):
            self._keep_own(actor)

    def job_ended(self, job_id: bytes, home: str) -> None:
        """Drop the code of an ended job, except code held by detached actors."""
        for actor in self.node.calls.actors.values():
            if actor.options.detached and actor.job.job_id == job_id and actor.job.home == home:
                self._keep_own(actor)

    def home_lost(self, home: str) -> None:
        """Drop the code of all jobs from a lost node, except code held by detached actors."""
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
            job.learns(replace(job.facts, code=code))

    def _learn(self, job: Job, told: scheduling.JobFacts) -> None:
        facts = job.facts.updated(told)
        if facts is not job.facts and job.driver is None:
            job.learns(facts)
            self._tell_workers(job)

    def _tell_workers(self, job: Job) -> None:
        for worker in self.node.pool.workers.values():
            if worker.job is job:
                self.node.send(worker.address, tasks.JobStarted(job.job_id, job.facts, worker.environment))


# A shard that may not keep more questions for code is asked again so soon.
FETCH_AGAIN_SECONDS = 1.0
# Kept although no task needs them: more than a program has, and little beside what its workers take.
IDLE_COUNT_MAX = 10_000
IDLE_BYTES_MAX = 256 << 20


class Functions:
    """The functions of a node."""

    PASSING = {"waiters": "node.tasks"}
    LASTING = {"by_id": "count_max", "size": "bytes_max"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.by_id: dict[bytes, Function] = {}
        self.waiters: dict[bytes, list[Task]] = {}
        self.size = 0  # bytes of code here
        # When so much is here, what no task needs goes.
        self.count_max, self.bytes_max = IDLE_COUNT_MAX, IDLE_BYTES_MAX

    @on(PublishFunction)
    def publish(self, message: PublishFunction) -> None:
        """PublishFunction, from a local process."""
        node, function = self.node, message.function
        process = node.processes.get(node.sender)
        if process is None or process.job.is_over:
            node.reject("code of a process that is gone, or of a job that is over")
            return
        job = process.job
        if function.function_id in job.functions:
            return
        size = job.code_bytes + len(function.code)
        if len(job.functions) >= FUNCTIONS_COUNT_MAX or size > FUNCTIONS_BYTES_MAX:
            job.refuses(function)
            node.reject("code of a job that has published as much as it may")
            return
        self._own(job, function)
        if function.function_id not in self.by_id:
            self.is_here(function)

    # --- whose it is ---

    def _own(self, job: Job, function: Function) -> None:
        """Publish a function for the job: its shard keeps the code until the job ends, or the owner's node is lost."""
        node = self.node
        job.owns(function)
        owner = node.address if job.facts.is_heir else job.home
        node.send(node.addresses.shard_of(function.function_id), PublishFunction(function, owner, job.job_id))

    def keep(self, actor: Actor) -> None:
        """Publish the class of an actor about to start: the actor may outlive the job."""
        function = self.by_id[actor.creation.spec.function_id]
        if actor.job.facts.is_heir and function.function_id not in actor.job.functions:
            self._own(actor.job, function)

    def outlives(self, actor: Actor, job: Job) -> None:
        """Give a detached actor, after the end of the job, its class and all locally published code."""
        functions, heir = self.by_id, actor.job
        if job.home == self.node.address:
            heir.inherits(job)  # ours to release as it is
            return
        for function_id in dict.fromkeys((*job.functions, actor.creation.spec.function_id)):
            if function_id in functions:
                self._own(heir, functions[function_id])

    def job_ended(self, job_id: bytes) -> None:
        """Release the functions of a locally ended job, or of a job after the end of the last detached actor."""
        node = self.node
        actors = node.calls.actors.values()
        if not any(actor.job.job_id == job_id and actor.options.detached for actor in actors):
            for shard in node.addresses.shards:
                node.send(shard, ReleaseFunctions(node.address, job_id))

    def actor_ended(self, actor: Actor) -> None:
        """Release the functions of a dead detached actor."""
        if actor.job.facts.is_heir and actor.job.functions and actor.job.job_id not in self.node.jobs:
            self.job_ended(actor.job.job_id)

    # --- what waits for it ---

    def why_refused(self, actor: Actor) -> str:
        """Explain why the class of a new actor was refused; "": it was not."""
        function_id = actor.creation.spec.function_id
        if function_id in self.by_id or function_id not in actor.job.refused:
            return ""
        return f"The actor {actor.options.class_name} cannot be created: its job {why_too_many()}"

    def refuse(self, task: Task) -> None:
        """Fail a task whose function was refused."""
        task.ended()
        self.forget_waiters()
        self.node.lifecycle.fail(task, "TaskUnschedulableError", f"The task cannot run: its job {why_too_many()}")

    def wait_for(self, task: Task) -> None:
        """Let the task wait for its code."""
        function_id = task.spec.function_id
        waiters = self.waiters.setdefault(function_id, [])
        waiters.append(task)
        if len(waiters) == 1:
            self._fetch(function_id)

    def _fetch(self, function_id: bytes) -> None:
        node = self.node
        node.send(node.addresses.shard_of(function_id), FetchFunction(node.address, function_id))

    @on(FetchFunctionReply)
    def on_reply(self, message: FetchFunctionReply) -> None:
        """FetchFunctionReply."""
        function = message.function
        if function.code:
            self.is_here(function)
        else:
            self.node.after(FETCH_AGAIN_SECONDS, self.fetch_again, function.function_id)

    def fetch_again(self, function_id: bytes) -> None:
        """Fetch code again, if any task waits for it."""
        if function_id in self.waiters:
            self._fetch(function_id)

    def is_here(self, function: Function) -> None:
        """Store code, and resume the waiting tasks."""
        node, function_id = self.node, function.function_id
        known = self.by_id.pop(function_id, None)
        self.by_id[function_id] = known or function
        if known is None:
            self.size += len(function.code)
        for task in self.waiters.pop(function_id, ()):
            node.lifecycle.argument_is_here(task)
        if len(self.by_id) > self.count_max or self.size > self.bytes_max:
            self._make_room(function_id)

    def _make_room(self, newest: bytes) -> None:
        """Evict idle code down to half of the limit, the oldest first, to make scans of all tasks rare."""
        functions = self.by_id
        needed = self.needed()
        needed.add(newest)
        for function_id, function in list(functions.items()):
            if 2 * len(functions) <= IDLE_COUNT_MAX and 2 * self.size <= IDLE_BYTES_MAX:
                break
            if function_id not in needed:
                del functions[function_id]
                self.node.ended.forget_code(function)
                self.size -= len(function.code)
        self.count_max = max(IDLE_COUNT_MAX, 2 * len(functions))
        self.bytes_max = max(IDLE_BYTES_MAX, 2 * self.size)

    def needed(self) -> set[bytes]:
        """Return the functions of unfinished tasks and of actors."""
        needed = {task.spec.function_id for task in self.node.tasks.values()}
        for actor in self.node.calls.actors.values():
            needed.add(actor.creation.spec.function_id)
            if actor.job.facts.is_heir:
                needed.update(actor.job.functions)
        return needed

    def forget_waiters(self) -> None:
        """Forget finished tasks that waited for code; the shard is told, because the publisher may be gone."""
        node, waiters = self.node, self.waiters
        for function_id, waiting in list(waiters.items()):
            waiting[:] = [task for task in waiting if task.state != TaskState.DONE]
            if not waiting:
                del waiters[function_id]
                shard = node.addresses.shard_of(function_id)
                node.send(shard, FetchFunction(node.address, function_id, is_over=True))

    def check_everything(self) -> None:
        """Assert that the bytes add up, and that ready tasks have their code."""
        functions = self.by_id
        assert self.size == sum(len(function.code) for function in functions.values()), "bytes of code"
        for task in self.node.tasks.values():
            is_due = task.state in (TaskState.READY, TaskState.SENT) and not task.options.actor_id
            assert not is_due or task.spec.function_id in functions, "a task that is to run, without its code"
