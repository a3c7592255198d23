"""Facts on a submitted program: its status, its times, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["DriverInfo", "JobDetails", "JobInfo", "JobStatus", "JobType"]


class JobStatus(str, Enum):
    """The status of a submitted program, a text too."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    def __str__(self) -> str:
        return self.value

    def is_terminal(self) -> bool:
        """Whether the program has ended, and no other status follows."""
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class JobType(str, Enum):
    """Whether a program was submitted, or has joined the cluster by itself."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"

    def __str__(self) -> str:
        return self.value


@dataclass
class DriverInfo:
    """The process of a program.

    Args:
        id: of the program in the session, in hexadecimal.
        node_ip_address: address of its node.
        pid: of its process, as text.
    """

    id: str
    node_ip_address: str
    pid: str


@dataclass
class JobDetails:
    """A program.

    Args:
        type: "SUBMISSION" or "DRIVER".
        status: of a program that was submitted; "RUNNING" for another.
        entrypoint: command that runs the program; "" for one that was not submitted.
        job_id: id of a program that was not submitted.
        submission_id: id of one that was.
        message: what the status means, for people.
        error_type: kind of the failure; None: there is none.
        start_time, end_time: milliseconds since 1970; None: not yet.
        metadata: texts that the submitter gave.
        runtime_env: environment that the submitter gave; values of env_vars are left out.
        driver_info: the process of a program that was not submitted.
        driver_node_id: the node that runs a submitted program.
        driver_exit_code: exit status of its process; None: it has not ended.
    """

    type: JobType
    status: JobStatus
    entrypoint: str = ""
    job_id: str | None = None
    submission_id: str | None = None
    message: str | None = None
    error_type: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    runtime_env: dict[str, Any] = field(default_factory=dict)
    driver_info: DriverInfo | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None


JobInfo = JobDetails
