"""An `ssh` of this machine: each host is a folder, the home of its user and of its sessions.

A host may be in a namespace of its own.  `fails` has what ssh says of a host that cannot be reached.
"""

import json
import os
import sys

from tests.cli.commands import zray
from tests.scripts import environment

SSH = """\
#!/bin/sh
order=
while [ $# -gt 0 ]; do
    case $1 in
        -o|-i|-F|-p|-l) shift 2;;
        -O) order=$2; shift 2;;
        -t|-T) shift;;
        --) shift; break;;
        *) echo "unknown option -- $1" >&2; exit 255;;
    esac
done
host=$1
shift
[ -n "$order" ] && exit 0
cd "$FAKE_HOSTS/$host" || exit 255
echo "$host" >> "$FAKE_HOSTS/logins"
while [ -f ../hold ]; do touch waits; sleep 0.02; done
[ -f cut ] && { rm cut; echo "kex_exchange_identification: Connection closed by remote host" >&2; exit 255; }
[ -f fails ] && { cat fails >&2; exit 255; }
echo "a start file prints this"
export HOME="$PWD" ZRAY_TMPDIR="$PWD" XDG_STATE_HOME="$PWD/state" SSH_CONNECTION="127.0.0.1 50000 127.0.0.1 22"
exec $(cat inside 2>/dev/null) /bin/sh -c "$*"
"""


class Hosts:
    """Folders that a fake ssh takes for hosts, and `zray` as run beside them."""

    def __init__(self, folder):
        self.folder = folder
        self.work = folder / "w"
        for path in (self.work, folder / "bin", folder / "home"):
            path.mkdir()
        (folder / "bin" / "ssh").write_text(SSH)
        (folder / "bin" / "ssh").chmod(0o700)

    def add(self, *names):
        for name in names:
            (self.folder / name).mkdir()

    def write(self, text, name="hosts.yaml"):
        """A file of hosts, with the Python of the tests."""
        (self.work / name).write_text(f"python: {sys.executable}\n{text}")

    def variables(self):
        found = {
            **environment(),
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "FAKE_HOSTS": str(self.folder),
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder),
        }
        found.pop("XDG_STATE_HOME", None)
        return found

    def zray(self, *arguments, status=0, timeout_s=50, text=None):
        """A command to its end, which must have the status; the result has stdout and stderr."""
        done = zray(*arguments, env=self.variables(), cwd=self.work, timeout_s=timeout_s, text=text)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def sessions(self):
        """The names of sessions on each host."""
        return {
            path.name: sorted(entry.name for entry in path.glob("zray-*/*") if (entry / "node.json").exists())
            for path in sorted(self.folder.glob("?"))
            if path != self.work
        }

    def info(self, host):
        """The facts of the only session on a host."""
        (session,) = self.sessions()[host]
        (path,) = (self.folder / host).glob(f"zray-*/{session}/node.json")
        return json.loads(path.read_text())

    def logs(self):
        """All logs of the launcher."""
        return {path.name: path.read_text() for path in (self.folder / "home").rglob("*.log")}

    def logins(self):
        """How often ssh was called for commands."""
        path = self.folder / "logins"
        return len(path.read_text().splitlines()) if path.exists() else 0
