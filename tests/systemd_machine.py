"""A machine with a real systemd: PID 1 of namespaces, with given units and nothing of this machine's own."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.gates import until

SYSTEMD = "/lib/systemd/systemd"
STUBS = ("sysinit", "basic", "network-online", "multi-user", "shutdown", "umount", "final")
UP = ("running", "degraded", "starting")
BOOT = """
mount -t proc proc /proc
ip link set lo up
for folder in /run /dev/shm /var/lib; do mount -t tmpfs -o mode=0755 tmpfs $folder; done
chmod 1777 /dev/shm
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec env -i PATH="$PATH" container=x SYSTEMD_UNIT_PATH={units} {systemd} --system --unit=all.target \
    --log-target=console --show-status=no
"""


def why_not():
    """Why no such machine can be had here; "" where it can."""
    if os.geteuid() != 0:
        return "a machine with systemd needs root"
    if not os.path.exists(SYSTEMD):
        return "systemd is not installed: apt-get install systemd"
    tried = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount", "--cgroup", "true"], capture_output=True, text=True
    )
    return f"no namespaces can be made here: {tried.stderr.strip()}" if tried.returncode else ""


CGROUPS, GROUPS = Path("/sys/fs/cgroup/unified"), {"init.scope", "system.slice"}


def groups():
    """Which of the control groups of a systemd are here."""
    return {name for name in GROUPS if (CGROUPS / name).is_dir()}


class Machine:
    """A machine with units {name: text}, all of them started."""

    def __init__(self, units):
        self.groups_before = groups()
        self.folder = Path(tempfile.mkdtemp(prefix="zs", dir="/tmp"))
        place = self.folder / "units"
        place.mkdir()
        for name in STUBS:
            (place / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
        for name, text in units.items():
            (place / name).write_text(text)
        wanted = "".join(f"Wants={name}\n" for name in units)
        (place / "all.target").write_text(f"[Unit]\nDefaultDependencies=no\n{wanted}")
        boot = self.folder / "boot"
        boot.write_text(BOOT.format(units=place, systemd=SYSTEMD))
        spaces = ["--pid", "--mount", "--uts", "--net", "--ipc", "--cgroup"]
        self.log = open(self.folder / "log", "wb")
        self.outer = subprocess.Popen(
            ["unshare", *spaces, "--fork", "--kill-child", "sh", str(boot)],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        self.pid = int(until(self._first_process))

    def has_come_up(self):
        """Whether systemd answers within some seconds."""
        try:
            until(lambda: os.readlink(f"/proc/{self.pid}/exe").endswith("systemd"))
            until(lambda: self.run("systemctl", "is-system-running").stdout.strip() in UP)
        except (AssertionError, OSError):
            return False
        return True

    def said(self):
        """The last line of the machine's log."""
        return (self.folder / "log").read_text().strip().rpartition("\n")[2] or "it says nothing"

    def _first_process(self):
        path = Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children")
        return path.read_text().split()[0] if path.read_text() else ""

    def command(self, *words):
        """The line that runs a command there."""
        spaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup"]
        return ["nsenter", "-t", str(self.pid), *spaces, "--", *words]

    def run(self, *words, **options):
        """Run a command there to its end."""
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60, **options)

    def state(self, unit, name="ActiveState"):
        return self.run("systemctl", "show", "--value", "-p", name, unit).stdout.strip()

    def is_up(self, unit):
        return self.state(unit) == "active"

    def close(self):
        """Switch it off, with everything that runs there."""
        subprocess.run(["kill", "-9", str(self.pid)], stderr=subprocess.DEVNULL)
        self.outer.wait(20)
        self.log.close()
        shutil.rmtree(self.folder)
        until(self._is_without_groups)

    def _is_without_groups(self):
        """Remove the control groups that came with it, the inner ones first; busy ones go when their processes have."""
        for name in GROUPS - self.groups_before:
            for folder in (*sorted((CGROUPS / name).rglob("*/"), reverse=True), CGROUPS / name):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        return groups() <= self.groups_before
