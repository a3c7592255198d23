"""Notices of failures that zray repairs itself: retried tasks, restarted actors, lost nodes.

Each is a line on the terminal of the job's driver and in the node's log.  A job has at most NOTICES_MAX notices in
NOTICE_SECONDS, followed by the number of further ones.  A node sends the notices of its processes to the driver's node,
which limits the notices of all nodes together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ....exceptions import FIRST_MARK, PAST_MARKS
from ....wire.amounts import name_of
from ....wire.scheduling import JobNotice
from ...unfetched import of_constructor, unheard
from ...work_effects import WriteLine
from ..tables import in_words

if TYPE_CHECKING:
    from ....wire.gcs import NodeLost
    from ...effects import WorkerExited
    from ..scheduler import LocalScheduler
    from ..tables import Actor, Job
    from ..task import Task

NOTICES_MAX = 5
NOTICE_SECONDS = 10.0
# Jobs with notices in that time; those of further ones are left out.
JOBS_MAX = 1_000


class Window(Struct, gc=False, eq=False):
    """The notices of a job in NOTICE_SECONDS."""

    count: int = 0
    left_out: int = 0


class Notices:
    """A node's notices to the drivers of its jobs."""

    LASTING = {"windows": "JOBS_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.windows: dict[bytes, Window] = {}  # by job that had some lately

    # --- events ---

    def worker_died(self, task: Task, death: WorkerExited) -> None:
        """Report the retry of a task that may have killed a worker."""
        output = f"; output: zray logs {death.pid}" if death.log else ""
        node = name_of(self.node.address)
        self._retried(task, f"its worker died (pid={death.pid}, node={node}: {death.cause}{output})")

    def node_died(self, task: Task, node: str) -> None:
        """Report the retry of a task that may have begun on a lost node."""
        self._retried(task, f"its node {name_of(node)} is lost")

    def raised(self, task: Task) -> None:
        """Report a retry by retry_exceptions of a task or call."""
        self._retried(task, "it raised an exception of its retry_exceptions")

    def item_lost(self, task: Task) -> None:
        """Report a further run of a generator that had not ended."""
        self._retried(task, "an item that it has made was lost, and is made again")

    def failed(self, task: Task, value: object) -> None:
        """Report a failed local task to the user, if no ref can fetch the error."""
        if not (type(value) is bytes and FIRST_MARK <= value < PAST_MARKS) or task.origin or of_constructor(value):
            return
        returns = self.node.lifecycle.returns_of(task)
        if all(entry.actor is entry.holders is entry.watchers is None and not entry.count for entry in returns):
            # No other node has a ref to an object that is not recorded at the shards, or was never shared.
            is_known_elsewhere = task.entry.is_recorded and task.entry.shared is not None
            if not is_known_elsewhere and (text := unheard(value)):
                self.tell(task.job, text)

    def constructor_failed(self, actor: Actor, error: bytes) -> None:
        """Report a failed constructor to the user, if no ref can fetch the error, from a call or later."""
        tasks = (actor.creation, *actor.inflight.values(), *actor.queue)
        entries = [entry for task in tasks for entry in self.node.lifecycle.returns_of(task) if entry is not None]
        if all(entry.holders is entry.watchers is None and not entry.count for entry in entries):
            if not any(task.origin for task in tasks):
                self.tell(actor.job, unheard(error))

    def _retried(self, task: Task, why: str) -> None:
        name = task.options.name or task.options.method or self.node.lifecycle.function_name(task.spec.function_id)
        limit = task.options.max_retries
        attempts = f"attempt {task.attempts + 1}" + (f" of {limit + 1}" if limit >= 0 else "")
        self.tell(task.job, f"task {name} is retried ({attempts}): {why}")

    def restarted(self, actor: Actor, why: str) -> None:
        """Report the restart of an actor."""
        limit, count = actor.options.max_restarts, actor.life.restart_count
        restarts = f"restart {count}" + (f" of {limit}" if limit >= 0 else "")
        self.tell(actor.job, f"{in_words(actor.options)} is restarted ({restarts}): {why}")

    def node_lost(self, message: NodeLost) -> None:
        """Report a lost node to every local program, because any may have had work on the node.

        (The host adds a line of its own to the node's log.)
        """
        if not message.is_drained:
            text = f"node {name_of(message.node)} is lost: {message.reason}"
            for job in [job for job in self.node.jobs.values() if job.driver is not None]:
                self.tell(job, text, is_logged=False)

    # --- the way to the user ---

    def tell(self, job: Job, text: str, *, is_logged: bool = True) -> None:
        """Send a notice, or count it as left out."""
        if job.is_over:
            return
        window = self.windows.get(job.job_id)
        if window is None:
            if len(self.windows) >= JOBS_MAX:
                return
            window = self.windows[job.job_id] = Window()
            self.node.after(NOTICE_SECONDS, self.end_window, job.job_id)
        if window.count >= NOTICES_MAX:
            window.left_out += 1
        else:
            window.count += 1
            self._say(job, text, is_logged=is_logged)

    def _say(self, job: Job, text: str, *, is_logged: bool = True) -> None:
        if is_logged:
            self.node.perform(WriteLine(text))
        if job.facts.log_to_driver:
            self.node.infeasible.tell(JobNotice(job.job_id, text, True), job)

    def end_window(self, job_id: bytes) -> None:
        """End the period in which a job may have NOTICES_MAX notices."""
        window = self.windows.pop(job_id, None)
        job = self.node.jobs.get(job_id)
        if window is not None and window.left_out and job is not None:
            many = "s" * (window.left_out > 1)
            self._say(job, f"{window.left_out:,} further notice{many} in {NOTICE_SECONDS:g} s left out here")
