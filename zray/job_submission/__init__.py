"""Programs that a cluster runs: submitted, followed, stopped and listed, under the names of Ray's job submission.

client = JobSubmissionClient()
submission_id = client.submit_job(entrypoint="python train.py", runtime_env={"working_dir": "."})
"""

from __future__ import annotations

from ..on_import import shadows
from .client import JobSubmissionClient
from .details import DriverInfo, JobDetails, JobInfo, JobStatus, JobType

__all__ = ["DriverInfo", "JobDetails", "JobInfo", "JobStatus", "JobSubmissionClient", "JobType"]

shadows.name_absent(__name__)
