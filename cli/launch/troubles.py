"""Troubles of hosts: each in one line, with the remedy."""

from __future__ import annotations

import re

LAST_LINE_MAX = 300


class Trouble(Exception):
    """A failure on a host.  The text is one line: the failure, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: {remedy}")
        self.what, self.remedy = what, remedy


# Standard error of ssh (OpenSSH 7 to 10) that ends with status 255; %h is the host.
SSH_TEXTS = (
    ("could not resolve hostname", "the name is not known", "correct it, or add it to ~/.ssh/config or to the DNS"),
    (
        "remote host identification has changed",
        "its host key is another than the known one",
        "if the machine was installed anew, `ssh-keygen -R %h`; else somebody may be in between",
    ),
    (
        "host key verification failed",
        "its host key is not known",
        "`ssh %h` once, compare the fingerprint, and accept it",
    ),
    (
        r"(unprotected private key file|bad permissions)",
        "ssh refuses the private key, which others can read",
        "`chmod 600` of the key file",
    ),
    (
        "too many authentication failures",
        "it refuses further keys",
        "name the right one: `key:`, or IdentityFile and IdentitiesOnly in ~/.ssh/config",
    ),
    (
        "permission denied",
        "it refuses the key",
        "`ssh-copy-id %h`, load the key with ssh-add, or name `user:` and `key:`",
    ),
    ("connection refused", "no sshd listens there", "start sshd, or name its `port:`"),
    (
        r"(timed out|no route to host|network is unreachable|host is down)",
        "it cannot be reached",
        "look whether the machine is on, and whether a firewall lets ssh through",
    ),
    (
        r"(bad configuration option|unknown option|usage: ssh)",
        "ssh refuses its arguments",
        "correct `ssh:` or ~/.ssh/config",
    ),
)
# A login that sshd cut, since too many came at once (MaxStartups), or an earlier connection that is dead.
WAS_CUT = re.compile(
    r"kex_exchange_identification|ssh_exchange_identification|connection (reset|closed) by|mux_client_", re.I
)
# Output of `zray start` and of other commands.
COMMAND_TEXTS = (
    (
        r"port \d+ of \S+ is taken",
        "%t",
        "end what listens there (`zray status` on it), or choose `options: {port: ...}`",
    ),
    (r"no space left on device|disk quota exceeded|ENOSPC", "its disk is full", "make room on it: `df -h`"),
    (
        r"cannot allocate memory|out of memory|memoryerror|not enough memory",
        "it has no free memory",
        "end programs there, or choose a smaller `options: {object_store_memory: ...}`",
    ),
    (
        r"is no address of this machine",
        "%t",
        "`address:` must be an address of the machine itself: `hostname -I` shows them",
    ),
)


def is_cut(stderr: str) -> bool:
    """Whether sshd cut a login that may be tried again."""
    return bool(WAS_CUT.search(stderr)) and "permission denied" not in stderr.lower()


def of_ssh(stderr: str, status: int, host: str, python: str) -> Trouble:
    """Return why an ssh process ended before its agent had answered."""
    text = " ".join(stderr.split())
    if status == 255 or status < 0:
        for pattern, what, remedy in SSH_TEXTS:
            if re.search(pattern, text, re.I):
                return Trouble(what, remedy.replace("%h", host))
        if WAS_CUT.search(text):
            return Trouble("its sshd cut the login", "look at MaxStartups, DenyUsers and the log of its sshd")
        return Trouble(f"ssh failed ({last_line(stderr) or f'status {status}'})", f"try `ssh {host} true`")
    if status in (126, 127) or re.search(r"not found|no such file", text, re.I):
        return Trouble(
            f"the command {python} was not found or cannot run",
            "name the Python that has zray by `venv:` or `python:`; logins by ssh have no virtual environment on PATH",
        )
    if "syntaxerror" in text.lower():
        return Trouble(f"{python} is no Python 3", "name a Python that has zray: `venv:` or `python:`")
    for pattern, what, remedy in COMMAND_TEXTS:
        if found := re.search(pattern, text, re.I):
            return Trouble(what.replace("%t", found[0]), remedy)
    return Trouble(
        f"the login ended with status {status} ({last_line(stderr) or 'without a word'})",
        f"try `ssh {host} {python} --version`; a shell's start file may print or end too early",
    )


def of_loss(stderr: str, doing: str) -> Trouble:
    """Return the loss of a connection while its host did something."""
    why = f" ({last_line(stderr)})" if last_line(stderr) else ""
    return Trouble(
        f"the connection was lost while {doing}{why}", "look whether the machine is alive, then run this again"
    )


def of_command(output: str, status: int, what: str, log: str) -> Trouble:
    """Return the failure of a command on a host, by its output."""
    for pattern, said, remedy in COMMAND_TEXTS:
        if found := re.search(pattern, output, re.I):
            return Trouble(f"{what} failed: {said.replace('%t', found[0])}", remedy)
    return Trouble(f"{what} failed with status {status} ({last_line(output) or 'without a word'})", f"see {log}")


def of_file(error: str, number: int, place: str) -> Trouble:
    """Return the failure to write or read a file.  number: errno."""
    import errno

    if number in (errno.ENOSPC, errno.EDQUOT):
        return Trouble(f"{place} cannot be written: its disk is full", "make room on it: `df -h`")
    return Trouble(f"{place}: {error}", "look at the owner and the mode of the folder")


def last_line(text: str) -> str:
    """Return the last line of a text that is not empty, cut."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = lines[-1].removeprefix("Error: ") if lines else ""
    return found if len(found) <= LAST_LINE_MAX else found[:LAST_LINE_MAX] + "..."
