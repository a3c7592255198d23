"""The Python of zray's own processes, and its seed of hash().

The Python is this program's, or named by ZRAY_PYTHON.  A frozen program (PyInstaller) has no Python beside it: its
sys.executable is the program itself, and running that would start the program once more.

The seed is a number per cluster, so that equal strings have equal hashes on all nodes.  The head chooses the seed, and
tells joining nodes (JoinClusterReply).  The fork server has it in its environment, and so do its workers and its
replacements.
"""

from __future__ import annotations

import os
import re
import sys

from ... import on_import
from ..security.token_input import environment_without_it

VARIABLE = "ZRAY_PYTHON"
WHAT_TO_SET = (
    "zray needs a Python for its own processes: install zray in a Python "
    f"{sys.version_info.major}.{sys.version_info.minor} on this machine, and set {VARIABLE}=/path/to/python in the "
    "environment of this program."
)


def interpreter() -> str:
    """Return the path of the Python.

    Raises:
        ZrayError: no Python is available; says why, and what to set.
    """
    named = os.environ.get(VARIABLE, "")
    why = _why_not_named(named) if named else _why_not_own(sys.executable)
    if why:
        raise _no_interpreter(why)
    return os.path.abspath(named) if named else sys.executable


def _why_not_named(path: str) -> str:
    return "" if _can_be_run(path) else f"{VARIABLE} is {path!r}, which is not an executable file"


def _why_not_own(path: str | None) -> str:
    if is_frozen():
        return f"This program is frozen: sys.executable is the program itself ({path})"
    if not path:
        return "sys.executable is empty: this program runs in a process that does not say where its Python is"
    if not _can_be_run(path):
        return f"sys.executable is {path!r}, which is not an executable file"
    is_itself = os.path.realpath(path) == os.path.realpath("/proc/self/exe")
    if is_itself and not re.search("py|ython", os.path.basename(os.path.realpath(path))):
        return f"sys.executable is {path!r}, a program that embeds Python, not a Python interpreter"
    return ""


def _can_be_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _no_interpreter(why: str) -> Exception:
    from ...exceptions import ZrayError  # brings msgspec (main.py)

    return ZrayError(f"{why}.  {WHAT_TO_SET}")


def started_again() -> Exception:
    """For a program whose sys.executable has begun the program once more, which has ended (on_import/__init__.py)."""
    path = os.environ.get(VARIABLE) or sys.executable
    return _no_interpreter(f"{path!r} is not a Python interpreter: it has started this program a second time")


def is_frozen() -> bool:
    """Return whether a tool has packed this program and its Python into a single file."""
    return bool(getattr(sys, "frozen", False)) or hasattr(sys, "_MEIPASS")


def is_foreign() -> bool:
    """Return whether the Python is another than this program's, with other packages."""
    return os.path.abspath(interpreter()) != os.path.abspath(sys.executable or "")


def child_environment() -> dict[str, str]:
    """The environment of zray's own processes, without what is not theirs."""
    environment = {**environment_without_it(), on_import.MARK: "1"}
    if is_frozen():
        # PyInstaller has its own libraries found first, and keeps the variable's former value.
        before = environment.pop("LD_LIBRARY_PATH_ORIG", "")
        environment.pop("LD_LIBRARY_PATH", "")
        if before:
            environment["LD_LIBRARY_PATH"] = before
    return environment


HASH_SEED_VARIABLE = "PYTHONHASHSEED"
SEED_MAX = 4_294_967_295


def is_hash_seed(text: str) -> bool:
    """Return whether Python accepts the seed: a number, in which 0 means that nothing is random."""
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= SEED_MAX


def chosen_hash_seed() -> str:
    """Return the seed named in this process's environment, else a random one.

    A running interpreter cannot tell the seed that it has drawn.
    """
    named = os.environ.get(HASH_SEED_VARIABLE, "")
    return named if is_hash_seed(named) else str(int.from_bytes(os.urandom(4), "big") or 1)


def checked_hash_seed(told: str) -> str:
    """Return the seed from a head, or a new one if invalid: with another text in its environment no Python starts."""
    return told if is_hash_seed(told) else chosen_hash_seed()
