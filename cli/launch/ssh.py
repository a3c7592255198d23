"""Command lines of the system's ssh."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable

from .hosts_file import Cluster, Host

# sshd cuts logins beyond ten that have not ended (MaxStartups).
LOGINS_MAX = 8
# A connection serves further commands for so long.
PERSIST_SECONDS = 120
# ssh takes the first value of an option: `ssh:` of the file comes before these.
OPTIONS = ("ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3")
# A Unix socket's path has at most 107 bytes: ssh adds a digest of 40, and 17 while it makes the socket.
FOLDER_BYTES_MAX = 48
# Reads the agent's text, up to a zero byte.  The shell of the login may be any.
READER = "import os;exec(bytes().join(iter(lambda:os.read(0,1)or bytes(1),bytes(1))))"


def control_folder() -> str:
    """Return the folder of the connections, closed to others; it is made.

    Raises:
        OSError: it cannot be made, or another user owns it.
    """
    from zray.store.sweeper import check_private

    base = os.environ.get("ZRAY_TMPDIR") or os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp"
    folder = os.path.join(os.path.abspath(base), f"zray-ssh-{os.getuid()}")
    if len(os.fsencode(folder)) > FOLDER_BYTES_MAX:
        folder = f"/tmp/zray-ssh-{os.getuid()}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    check_private(folder)
    return folder


def line(cluster: Cluster, host: Host, folder: str, *, is_batch: bool = True, further: Iterable[str] = ()) -> list[str]:
    """Return the command line of ssh to a host, up to the command.

    is_batch: ssh asks nobody; unknown keys and passwords are errors.
    """
    options = [f"BatchMode={'yes' if is_batch else 'no'}", *OPTIONS]
    options += ["ControlMaster=auto", f"ControlPath={folder}/%C", f"ControlPersist={PERSIST_SECONDS}"]
    words = ["ssh", *(["-T"] if is_batch else []), *cluster.ssh]
    for option in options:
        words += ["-o", option]
    if host.port:
        words += ["-p", str(host.port)]
    if host.key:
        words += ["-i", os.path.join(cluster.folder, os.path.expanduser(host.key))]
    if host.user:
        words += ["-l", host.user]
    return [*words, *further, "--", host.name.strip("[]")]


def closing_line(cluster: Cluster, host: Host, folder: str) -> list[str]:
    """Return the command line that ends the connection to a host."""
    return line(cluster, host, folder, further=["-O", "exit"])


def path_word(path: str) -> str:
    """Return a path for the shell of a login; `~` stands for the home folder there."""
    found = re.fullmatch(r"(~[-A-Za-z0-9_.]*)(/.*)?", path)
    if not found:
        return shlex.quote(path)
    return found[1] + (shlex.quote(found[2]) if found[2] else "")


def agent_command(host: Host) -> str:
    """Return the command that runs the agent on a host."""
    return f'exec {path_word(host.python)} -c "{READER}"'


def user_command(host: Host, command: str, address: str, *, is_login: bool = False) -> str:
    """Return a command of the user's for a host: programs beside its Python come first on its PATH.

    address: of the head, for ZRAY_ADDRESS.  is_login: an interactive shell in the command's place.
    """
    variables = [f"ZRAY_ADDRESS={address}"] if address else []
    if "/" in host.python:
        folder = path_word(os.path.dirname(host.python))
        script = f"PATH={folder}:$PATH; export PATH; "
    else:
        script = ""
    script += 'exec "${SHELL:-/bin/sh}" -i' if is_login else command
    words = ["exec", *(["env", *variables] if variables else []), "/bin/sh", "-c", shlex.quote(script)]
    return " ".join(words)
