"""JobConfig: options of a program in one object, for `zray.init(job_config=...)`."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["JobConfig"]


class JobConfig:
    """Options of a program, for `zray.init(job_config=JobConfig(ray_namespace="training"))`.

    Arguments of `zray.init` itself come first.

    Args:
        runtime_env: as the argument of `zray.init`.
        ray_namespace: as `namespace` of `zray.init`.
        metadata: a dict of strings, which `zray` keeps in this object and uses for nothing.
        further: other options of Ray's.  None, False and "non_detached" are accepted.

    Raises:
        NotImplementedError: an option that zray does not have.
    """

    __module__ = "zray.job_config"  # as programs import it

    def __init__(
        self,
        *,
        runtime_env: dict[str, Any] | None = None,
        ray_namespace: str | None = None,
        metadata: dict[str, str] | None = None,
        **further: Any,
    ) -> None:
        for name, value in further.items():
            if value and (name, value) != ("default_actor_lifetime", "non_detached"):
                raise NotImplementedError(
                    f"zray does not have {name}={value!r} of JobConfig.  Give options to `zray.init`, and "
                    '`lifetime="detached"` to each actor.'
                )
        self.runtime_env = runtime_env
        self.ray_namespace = ray_namespace
        self.metadata = dict(metadata or {})

    def set_runtime_env(self, runtime_env: dict[str, Any] | None, validate: bool = False) -> None:
        """Set the runtime_env.

        Args:
            runtime_env: as the argument of `zray.init`.
            validate: accepted without effect; `zray.init` validates.
        """
        self.runtime_env = runtime_env

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Set the namespace of named actors.

        Args:
            ray_namespace: as `namespace` of `zray.init`.
        """
        self.ray_namespace = ray_namespace

    def set_metadata(self, key: str, value: str) -> None:
        """Set one entry of the metadata.

        Args:
            key: the entry's name.
            value: the entry's text.
        """
        self.metadata[key] = value


# Set by the supervisor of a submitted program (zray/job_submission/supervisor.py): its runtime_env, as JSON.
SUBMITTED_VARIABLE = "ZRAY_JOB_RUNTIME_ENV"


def with_submitted_environment(runtime_env: dict[str, Any] | None) -> dict[str, Any] | None:
    """The runtime_env of init(), filled from that with which the program was submitted."""
    text = os.environ.get(SUBMITTED_VARIABLE)
    if not text:
        return runtime_env
    import json  # not before: a program may hide it

    submitted = json.loads(text)
    given = dict(runtime_env or {})
    variables = {**submitted.get("env_vars", {}), **given.get("env_vars", {})}
    merged = {**submitted, **given}
    return {**merged, "env_vars": variables} if variables else merged or None


def with_job_config(
    job_config: JobConfig | None, namespace: str | None, runtime_env: dict[str, Any] | None
) -> tuple[str | None, dict[str, Any] | None]:
    """The namespace and the runtime_env of init(), filled from its job_config.

    Raises:
        TypeError: job_config is no JobConfig.
    """
    runtime_env = with_submitted_environment(runtime_env)
    if job_config is None:
        return namespace, runtime_env
    if not isinstance(job_config, JobConfig):
        raise TypeError(f"job_config must be a JobConfig, not {type(job_config).__name__}.")
    return namespace or job_config.ray_namespace, runtime_env or job_config.runtime_env
