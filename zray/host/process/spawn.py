"""Start zray's own Python processes: quickly, with a clean set of descriptors and signals."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ...on_import import MARK
from ...options.runtime_env import path_of_module
from .interpreter import child_environment, interpreter, is_foreign

# Limit of packets between the node and its fork server.
PACKET_BYTES_MAX = 1 << 16
# Above all numbers used in a child, so that placing a descriptor never covers another.
_ASIDE = 100

# The path first: a file of the program may have the name of a standard module.  Imported modules stay, so a collector
# would scan them in vain, which is a tenth of the start; the module enables it.
_PROGRAM = "import gc, sys; gc.disable(); sys.path[:] = {path}; import os; os.environ.pop({mark!r}, None); \
from zray.on_import import uncaught; uncaught.uninstall(); \
from zray.host import context; context.is_own = True; from {module} import main; main()"


# For processes without code of users: msgspec does without the module, which takes 8 ms to import.
_WITHOUT_EXTENSIONS = "import sys; sys.modules['typing_extensions'] = None; "

# No system accepts longer paths: nothing is imported from them.
PATH_CHARACTERS_MAX = 4_096


def import_path() -> list[str]:
    """Return sys.path, and the folders of packages in editable installs.

    Such a package is found by a finder that its installation put into this interpreter; zray's processes start without
    it.
    """
    # "": python -c, and at the prompt.  Other things than strings are nothing to Python itself.
    path = [entry or current_folder() for entry in sys.path if isinstance(entry, str)]
    for finder in sys.meta_path:
        places = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(places, dict):
            for name, place in places.items():
                folder = os.path.dirname(str(place))
                if os.path.basename(str(place)) == name and folder not in path:
                    path.append(folder)
    packed = getattr(sys, "_MEIPASS", None)  # of a frozen program: modules without files, for its own Python
    if packed:
        path = [entry for entry in path if entry != packed and not entry.startswith(packed + os.sep)]
    return [entry for entry in path if len(entry) <= PATH_CHARACTERS_MAX]


def current_folder() -> str:
    """Return the working folder, or the root if the folder was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def standard_first(path: list[str]) -> list[str]:
    """Return the path with standard folders first, for zray's own imports: a random.py beside the program must not hide
    the standard module.

    (The file may be the program itself, which would run again, and start a session.)
    """
    folder = os.path.dirname(os.__file__)
    standard = [entry for entry in path if entry in (folder, os.path.join(folder, "lib-dynload"))]
    return standard + [entry for entry in path if entry not in standard]


def with_packages(path: list[str], packages: Iterable[str]) -> list[str]:
    """Return the path with an environment's packages behind Python's own modules, so ahead of other packages."""
    folder = os.path.dirname(os.__file__)
    own = [*dict.fromkeys(packages)]
    others = [entry for entry in path if entry not in own]
    places = [place for place, entry in enumerate(others, 1) if entry in (folder, os.path.join(folder, "lib-dynload"))]
    place = max(places, default=0)
    return others[:place] + own + others[place:]


def paths_of(runtime_env: Mapping[str, Any], path: list[str]) -> tuple[tuple[str, ...], str]:
    """Return the module path and working folder for workers of the driver's own node: nothing is copied."""
    first = []
    folder = current_folder()
    if runtime_env.get("working_dir"):
        folder = os.path.abspath(runtime_env["working_dir"])
        first.append(folder)
    modules = map(path_of_module, runtime_env.get("py_modules") or ())
    first += [os.path.dirname(os.path.abspath(module)) for module in modules]
    path = [entry for entry in path if _is_utf8(entry)]
    return tuple(dict.fromkeys((*first, *map(os.path.abspath, path)))), folder


def _is_utf8(path: str) -> bool:
    """Return whether a message can contain the path."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def spawn(
    module: str,
    arguments: list[str],
    *,
    output: int,
    descriptors: dict[int, int],
    runs_user_code: bool = False,
    variables: Mapping[str, str] | None = None,
) -> int:
    """Run `module`.main() in a new interpreter, and return its pid.

    output: the descriptor for its standard output and error.  descriptors: ours -> the number in the child.  All other
    descriptors are closed in the child, provided that they are close-on-exec, as Python's are.

    runs_user_code: for the process or its forks, so the interpreter must be like the program's own.  Others do without
    `site`, which costs milliseconds: the path is handed over.

    variables: additions to the environment.
    """
    python, is_other = interpreter(), is_foreign()
    path = standard_first(import_path())
    # Another Python's own packages come first.
    paths = f"dict.fromkeys([*filter(None, sys.path), *{path!r}])" if is_other else f"{path!r}"
    program = _PROGRAM.format(mark=MARK, path=paths, module=module)
    if not runs_user_code:
        program = _WITHOUT_EXTENSIONS + program
    wanted = {1: output, 2: output, **{theirs: ours for ours, theirs in descriptors.items()}}
    aside = {theirs: fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, _ASIDE) for theirs, ours in wanted.items()}
    actions: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),  # type: ignore[list-item]
        *((os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in aside.items()),
    ]
    command = [python, *(() if runs_user_code or is_other else ("-S",)), "-c", program, *arguments]
    try:
        return os.posix_spawn(
            python,
            command,
            {**child_environment(), **(variables or {})},
            file_actions=actions,
            # A new process group: the terminal's Ctrl-C is for the driver only.
            setpgroup=0,
            # Signals ignored or blocked by the driver must reach a node: the ends of its children, and orders to end.
            setsigdef=(signal.SIGCHLD, signal.SIGTERM),
            setsigmask=(),
        )
    finally:
        for descriptor in aside.values():
            os.close(descriptor)
