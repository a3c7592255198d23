"""Threads of the math libraries of a task or actor: as many as its CPUs, unless the user has set a number.

The fork server imports numpy with one thread.  A worker that runs a task with more CPUs raises the number, for loaded
libraries and for later ones.  A user's number, in `env_vars` or in the environment of the node, holds for loaded
libraries too.  OMP_NUM_THREADS also holds for libraries without a variable of their own.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ...wire.groups import plain_name
from ...wire.task_spec import RESOURCE_UNIT

FIRST = "OMP_NUM_THREADS"
VARIABLES = (FIRST, "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_OPENBLAS = [f"{start}openblas_set_num_threads{end}" for start in ("scipy_", "") for end in ("64_", "", "64", "_64")]


class Threads:
    """Numbers of threads of the math libraries of a process."""

    def __init__(self) -> None:
        self.own: set[str] = set()  # variables that the user has not set
        self.told = dict.fromkeys(VARIABLES, 1)  # the numbers set in the loaded libraries

    def begin(self) -> None:
        """Set the variables that the user has not set, in a fork server before numpy is imported."""
        self.own = set(VARIABLES) - os.environ.keys()
        for name in self.own:
            os.environ[name] = os.environ.get(FIRST, "1")
        self._settle()
        self.tell()

    def user_has_set(self, names: Iterable[str]) -> None:
        """Note variables set by the user meanwhile."""
        known = self.own.intersection(names)
        if known:
            self.own -= known
            if FIRST in known:
                for name in self.own:
                    os.environ[name] = os.environ[FIRST]
            self._settle()
            self.tell()

    def _settle(self) -> None:
        """Stop following the CPUs if the user has set a number for all."""
        if FIRST not in self.own:
            self.own.clear()

    def fit(self, resources: Mapping[str, int]) -> None:
        """Use as many threads as a request has CPUs, at most as many as this process may use."""
        if self.own:
            cpus = sum(amount for name, amount in resources.items() if plain_name(name) == "CPU") // RESOURCE_UNIT
            count = max(1, min(cpus, len(os.sched_getaffinity(0))))
            for name in self.own:
                os.environ[name] = str(count)
            self.tell()

    @property
    def count(self) -> int:
        """The number for libraries without a variable of their own."""
        return self.told[FIRST]

    def tell(self) -> None:
        """Set the numbers of the variables in the loaded libraries."""
        for name, before in self.told.items():
            with suppress(ValueError):
                count = int(os.environ.get(name, "1").partition(",")[0])  # perhaps a list, a number per level
                if count != before and count >= 1:
                    self.told[name] = count
                    _tell_libraries(name, count)


def _tell_libraries(variable: str, count: int) -> None:
    """Set the number of a variable in the loaded libraries that read it."""
    for name, read in (("torch", "MKL_NUM_THREADS"), ("numexpr", "NUMEXPR_NUM_THREADS")):
        told = getattr(sys.modules.get(name), "set_num_threads", None)
        if told is not None and read == variable:
            told(count)
    if variable == "OPENBLAS_NUM_THREADS":
        for path in _loaded_openblas():
            library = ctypes.CDLL(path)
            function = next((getattr(library, name) for name in _OPENBLAS if hasattr(library, name)), None)
            if function is not None:
                function(ctypes.c_int(count))


def _loaded_openblas() -> list[str]:
    with suppress(OSError), open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if "openblas" in line and "/" in line})
    return []


threads = Threads()  # of this process; a worker inherits its fork server's
