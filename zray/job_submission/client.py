"""The client of job submission: it has a cluster run programs."""

from __future__ import annotations

import asyncio
import random
import string
from collections.abc import AsyncIterator, Iterator
from typing import Any

import zray
from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from zray.util.state import list_jobs

from .details import DriverInfo, JobDetails, JobStatus, JobType
from .supervisor import NAMESPACE, REGISTRY, Registry, Supervisor, supervisor_name

__all__ = ["JobSubmissionClient"]

HEAD = "node:__internal_head__"  # the resource of the head's node
ID_CHARACTERS = 16
ID_CHARACTERS_MAX = 200
# Seconds that a question about output waits for more of it.
PATIENCE_S = 2.0
# Seconds that a supervisor has for its answer; one that waits for resources gives none.
ANSWER_S = 1.0
# Calls that a supervisor answers at once, beside the program.
CALLS_AT_ONCE = 16
LOST = "The process that ran the program has died, and the program with it."


class JobSubmissionClient:
    """Has a cluster run programs.  A program outlives its submitter, and ends with its cluster.

    Args:
        address: HOST:PORT of a cluster, as of `zray.init`; None: the present session, else ZRAY_ADDRESS, else the
            session of `zray start` on this machine.  The addresses of Ray's dashboard on this machine,
            "http://127.0.0.1:8265" and "http://localhost:8265", stand for that session too.
        create_cluster_if_needed, cookies, metadata, headers, verify: accepted for Ray's programs; nothing is sent by
            HTTP.

    Raises:
        ConnectionError: there is no cluster.

    Example:
        client = JobSubmissionClient()
        name = client.submit_job(entrypoint="python train.py", runtime_env={"working_dir": "."})
        print(client.get_job_status(name))

    Source: Ray's `ray.job_submission`.
    """

    def __init__(
        self,
        address: str | None = None,
        create_cluster_if_needed: bool = False,
        cookies: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        verify: bool | str | None = True,
    ) -> None:
        if not zray.is_initialized():
            zray.init(address=_address_of(address), log_to_driver=False)
        self._registry: Any = (
            zray.remote(Registry)
            .options(name=REGISTRY, namespace=NAMESPACE, lifetime="detached", num_cpus=0, get_if_exists=True)
            .remote()
        )

    def get_address(self) -> str:
        """Return the address of the cluster."""
        return str(zray.get_runtime_context().gcs_address)

    def submit_job(
        self,
        *,
        entrypoint: str,
        job_id: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        metadata: dict[str, str] | None = None,
        submission_id: str | None = None,
        entrypoint_num_cpus: float | None = None,
        entrypoint_num_gpus: float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: dict[str, float] | None = None,
        entrypoint_label_selector: dict[str, str] | None = None,
    ) -> str:
        """Have the cluster run a command, on the node of the head unless it asks for resources.

        Args:
            entrypoint: command for a shell, as "python train.py --steps 100".
            job_id: former name of submission_id.
            runtime_env: environment of the command and of its tasks: working_dir, env_vars, py_modules, pip or uv.
            metadata: texts by name, for `get_job_info`.
            submission_id: id of the program; None: one is drawn.
            entrypoint_num_cpus, entrypoint_num_gpus, entrypoint_memory, entrypoint_resources,
                entrypoint_label_selector: what the command itself holds, beside its tasks.  Default: nothing.

        Returns:
            The id of the program.

        Raises:
            ValueError: the id is taken, or an argument is none.
        """
        if not isinstance(entrypoint, str) or not entrypoint.strip():
            raise ValueError(f'entrypoint is a command such as "python train.py", not {entrypoint!r}.')
        name = submission_id or job_id or _drawn_id()
        _check_texts(name, metadata)
        env = dict(runtime_env or {})
        details = _details_of(name, entrypoint, metadata, runtime_env)
        wanted = {
            "num_cpus": entrypoint_num_cpus,
            "num_gpus": entrypoint_num_gpus,
            "memory": entrypoint_memory,
            "resources": entrypoint_resources,
            "label_selector": entrypoint_label_selector,
        }
        options: dict[str, Any] = {key: value for key, value in wanted.items() if value}
        if not options:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(_head(), soft=True)
        options = {"num_cpus": 0, **options, "runtime_env": env or None}
        actor_class = zray.remote(Supervisor).options(
            name=supervisor_name(name),
            namespace=NAMESPACE,
            lifetime="detached",
            max_concurrency=CALLS_AT_ONCE,
            **options,
        )
        if not zray.get(self._registry.add.remote(details)):
            raise ValueError(f"A program with the id {name!r} was submitted before: give another submission_id.")
        inherited = {key: value for key, value in env.items() if key in ("env_vars", "pip", "uv")}
        try:
            actor_class.remote(details, "working_dir" in env, inherited, self._registry)
            self._supervisor(name)  # the cluster knows the actor now, and this process may end
        except BaseException:
            zray.get(self._registry.delete.remote(name))
            raise
        return name

    def get_job_info(self, job_id: str) -> JobDetails:
        """Return the facts on a program.

        Args:
            job_id: the id that `submit_job` returned.

        Raises:
            RuntimeError: there is no such program.
        """
        return self._found(job_id)[0]

    def get_job_status(self, job_id: str) -> JobStatus:
        """Return the status of a program.

        Args:
            job_id: the id that `submit_job` returned.

        Raises:
            RuntimeError: there is no such program.
        """
        return self._found(job_id)[0].status

    def get_job_logs(self, job_id: str) -> str:
        """Return the output of a program so far: its last 16 MiB.

        Args:
            job_id: the id that `submit_job` returned.

        Raises:
            RuntimeError: there is no such program.
        """
        data, _, _ = self._output(job_id, 0, 0.0)
        return data.decode("utf-8", "replace")

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """Yield the output of a program, as it comes, until its end.

        Args:
            job_id: the id that `submit_job` returned.

        Raises:
            RuntimeError: there is no such program.
        """
        offset, is_over = 0, False
        while not is_over:
            data, offset, is_over = await asyncio.to_thread(self._output, job_id, offset, PATIENCE_S)
            if data:
                yield data.decode("utf-8", "replace")

    def follow_job_logs(self, job_id: str) -> Iterator[str]:
        """Yield the output of a program, as `tail_job_logs`, without an event loop.

        Args:
            job_id: the id that `submit_job` returned.

        Raises:
            RuntimeError: there is no such program.
        """
        offset, is_over = 0, False
        while not is_over:
            data, offset, is_over = self._output(job_id, offset, PATIENCE_S)
            if data:
                yield data.decode("utf-8", "replace")

    def stop_job(self, job_id: str) -> bool:
        """Stop a program: SIGTERM to its processes, and SIGKILL after 3 s.

        Args:
            job_id: the id that `submit_job` returned.

        Returns:
            Whether it ran, or was about to.

        Raises:
            RuntimeError: there is no such program.
        """
        details, _ = self._found(job_id)
        if details.status.is_terminal():
            return False
        try:
            supervisor = self._supervisor(job_id)
            if details.status == JobStatus.PENDING:  # it may wait for resources, and answers no call then
                zray.kill(supervisor)
                details.status, details.message = JobStatus.STOPPED, "The program was stopped before it began."
                zray.get(self._registry.note.remote(details, b""))
                return True
            return bool(zray.get(supervisor.stop.remote()))
        except (zray.exceptions.ActorDiedError, ValueError):  # it has ended meanwhile
            return False

    def delete_job(self, job_id: str) -> bool:
        """Forget a program that has ended, with its output.

        Args:
            job_id: the id that `submit_job` returned.

        Returns:
            True.

        Raises:
            RuntimeError: there is no such program, or it has not ended.
        """
        details, _ = self._found(job_id)
        if not details.status.is_terminal():
            raise RuntimeError(f"The program {job_id!r} is {details.status}: stop it first, with stop_job().")
        zray.get(self._registry.delete.remote(job_id))
        return True

    def list_jobs(self) -> list[JobDetails]:
        """Return the programs that were submitted, the latest first, and the other programs of the session."""
        submitted = [self._found(each.submission_id)[0] for each in zray.get(self._registry.all.remote())]
        drivers = [
            JobDetails(
                JobType.DRIVER,
                JobStatus.RUNNING,
                job_id=row["job_id"],
                driver_info=DriverInfo(row["job_id"], "", str(row["pid"])),
                driver_node_id=row["node_id"],
            )
            for row in list_jobs(limit=10_000)
        ]
        return [*submitted, *drivers]

    def _supervisor(self, submission_id: str) -> Any:
        return zray.get_actor(supervisor_name(submission_id), NAMESPACE)

    def _found(self, submission_id: str) -> tuple[JobDetails, tuple[bytes, int] | None]:
        found = zray.get(self._registry.get.remote(submission_id))
        if found is None:
            raise RuntimeError(
                f"No program was submitted with the id {submission_id!r}: list_jobs() has those there are."
            )
        details, output = found
        if details.status.is_terminal() or self._is_alive(submission_id):
            return details, output
        found = zray.get(self._registry.get.remote(submission_id))  # it may have ended between the two
        if found is not None and found[0].status.is_terminal():
            return found  # type: ignore[no-any-return]
        details.status, details.message, details.error_type = JobStatus.FAILED, LOST, "JOB_SUPERVISOR_ACTOR_DIED"
        zray.get(self._registry.note.remote(details, b"", 0))
        return details, (b"", 0)

    def _is_alive(self, submission_id: str) -> bool:
        try:
            self._supervisor(submission_id)
        except ValueError:
            return False
        return True

    def _output(self, submission_id: str, offset: int, patience: float) -> tuple[bytes, int, bool]:
        details, kept = self._found(submission_id)
        if not details.status.is_terminal():
            try:
                answer = self._supervisor(submission_id).logs.remote(offset, patience)
                if not zray.wait([answer], timeout=patience + ANSWER_S)[0]:
                    return b"", offset, False  # it waits for resources
                found: tuple[bytes, int, bool] = zray.get(answer)
                return found
            except (zray.exceptions.ActorDiedError, ValueError):  # it has ended meanwhile
                _, kept = self._found(submission_id)
        data, begin = kept or (b"", 0)
        return data[max(offset - begin, 0) :], begin + len(data), True


def _address_of(address: str | None) -> str | None:
    if address is None or not address.startswith(("http://", "https://")):
        return address or "auto"
    host, _, port = address.partition("://")[2].rstrip("/").partition(":")
    if host in ("127.0.0.1", "localhost") and port in ("", "8265"):
        return "auto"
    raise ValueError(
        f"{address} is an address of Ray's dashboard, which zray does not have: give HOST:PORT of the cluster, as "
        "`zray start --head` prints it."
    )


def _head() -> str:
    nodes = [node for node in zray.nodes() if node["Alive"]]
    heads = [node for node in nodes if HEAD in node["Resources"]] or nodes
    return str(heads[0]["NodeID"])


def _details_of(
    name: str, entrypoint: str, metadata: dict[str, str] | None, runtime_env: dict[str, Any] | None
) -> JobDetails:
    """The facts on a program that is about to be submitted; values of variables may be secret, and are left out."""
    shown = dict(runtime_env or {})
    if shown.get("env_vars"):
        shown["env_vars"] = dict.fromkeys(shown["env_vars"], "...")
    return JobDetails(
        JobType.SUBMISSION,
        JobStatus.PENDING,
        entrypoint,
        submission_id=name,
        message="The program waits for its process.",
        metadata=dict(metadata or {}),
        runtime_env=shown,
    )


def _drawn_id() -> str:
    letters = string.ascii_letters + string.digits
    return "zraysubmit_" + "".join(random.SystemRandom().choices(letters, k=ID_CHARACTERS))


def _check_texts(name: Any, metadata: Any) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= ID_CHARACTERS_MAX or not name.isprintable() or "/" in name:
        raise ValueError(f"submission_id is a text of 1 to {ID_CHARACTERS_MAX} characters without '/', not {name!r}.")
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValueError(f"metadata has texts by name, not {key!r}: {value!r}.")
