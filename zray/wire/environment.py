"""The environment of a worker: what its tasks find beyond what their job has."""

from typing import Annotated

from msgspec import Meta, Struct

from ..ids import ObjectID
from .limits import Several, Text
from .message import Natural

# Environment variables, by name.
EnvVars = Several[tuple[Text, Text]]


class Parcel(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """Files of an environment, packed into one object.  `size` is in bytes."""

    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]  # sha256 of the bytes
    object_id: ObjectID
    size: Natural
    source: Text = ""  # the path that the program named


class Environment(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The environment of a worker, for good.  Child tasks have the same one, with their own fields on top.

    `packages` is the text of a request to install packages (options/package_requests.py); "" means none.  Each such
    text has its own fork server on a node, which forks the workers.  A library looks for GPUs once in a process: tasks
    that use GPUs have workers of their own (`uses_gpus`), which no task without GPUs has run in.
    """

    env_vars: EnvVars = ()
    working_dir: Parcel | None = None
    py_modules: Several[Parcel] = ()
    packages: Text = ""
    uses_gpus: bool = False

    @property
    def parcels(self) -> tuple[Parcel, ...]:
        """All its files."""
        return self.py_modules if self.working_dir is None else (*self.py_modules, self.working_dir)


NO_ENVIRONMENT = Environment()
