"""The program that ssh runs on each host: it looks at the host, writes files, and runs commands.

The text goes over standard input, so that a host without zray can say what is missing.  Requests are lines
of JSON; answers are lines of JSON behind MARK, since start files of a shell print too.  The end of standard input is
the end of the launcher: set-up and programs are then ended.  Output that is shown has no token.

The program runs in any Python from 3.6 on, and with the standard library alone where zray is missing.
"""

import hashlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile

MARK = b"\x1e"
CHUNK = 1 << 16
# A command that has ended may leave children that hold its output.
LOOK_SECONDS = 0.1
TERM_SECONDS = 3.0
IS_SAME = re.compile(r"ZRAY_TOKEN=(\S+) zray start --address (\S+)")
SESSION = re.compile(r"session ([0-9a-f]+)")
ADDRESS = re.compile(r"of the cluster at (\d[\d.]*:\d+)")


class Failure(Exception):
    """A failure, as facts for the launcher."""

    def __init__(self, **facts):
        super().__init__(str(facts))
        self.facts = facts


class Channel:
    """Requests and answers."""

    def __init__(self):
        self.buffer = b""
        self.has_ended = False

    def fill(self):
        data = os.read(0, CHUNK)
        self.buffer += data
        self.has_ended = self.has_ended or not data

    def line(self):
        """Return a request, or None at the end."""
        while b"\n" not in self.buffer and not self.has_ended:
            self.fill()
        line, newline, rest = self.buffer.partition(b"\n")
        if not newline:
            return None
        self.buffer = rest
        return json.loads(line.decode())

    def data(self, size):
        """Yield the bytes behind a request."""
        while size:
            while not self.buffer:
                self.fill()
                if self.has_ended:
                    raise EOFError
            part, self.buffer = self.buffer[:size], self.buffer[size:]
            size -= len(part)
            yield part

    def say(self, answer, data=b""):
        text = MARK + json.dumps(answer).encode() + b"\n" + data
        try:
            while text:
                text = text[os.write(1, text) :]
        except OSError:
            self.has_ended = True  # nobody reads


channel = Channel()


def expanded(path):
    """Return a path; a relative one is in the user's home folder."""
    return os.path.normpath(os.path.join(os.path.expanduser("~"), os.path.expanduser(path)))


def record_path(request):
    base = os.environ.get("XDG_STATE_HOME", "")
    base = base if os.path.isabs(base) else os.path.expanduser("~/.local/state")
    return os.path.join(base, "zray", "hosts", request["cluster_name"], request["label"] + ".json")


def read_record(request):
    try:
        with open(record_path(request)) as file:
            found = json.load(file)
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def write_record(request, **facts):
    """Add facts to the record of this host."""
    path = record_path(request)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    found = read_record(request)
    found.update(facts)
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(found, file)
    os.replace(path + ".new", path)


def forget(request):
    """Remove the record, and its folders where they are empty."""
    path = record_path(request)
    try:
        os.unlink(path)
        for _ in range(2):
            path = os.path.dirname(path)
            os.rmdir(path)
    except OSError:
        pass  # it is gone, or other hosts have records there
    return {}


def version():
    """Return (version of zray, why there is none)."""
    try:
        from zray.version import __version__
    except Exception as error:  # whatever a broken installation raises
        return "", f"{type(error).__name__}: {error}"
    return __version__, ""


def sessions():
    """Return the lasting sessions of this user, and nodes that are about to join again."""
    from zray.host.session.session import lasting_sessions, returning_sessions

    infos = [(session, session.read_info()) for session in [*lasting_sessions(), *returning_sessions()]]
    return [
        {"name": s.name, "kind": i.kind, "cluster": i.cluster, "node_id": i.node_id, "called": i.called}
        for s, i in infos
        if i is not None
    ]


def file_digest(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def differs(place, size, mode, digest):
    path = expanded(place)
    try:
        status = os.stat(path)
        return (
            status.st_size != size or bool(status.st_mode & 0o100) != bool(mode & 0o100) or file_digest(path) != digest
        )
    except OSError:
        return True


def look(request):
    """The state of the host."""
    zray, error = version()
    there = []
    if zray and zray.split(".")[:2] == request["zray"].split(".")[:2]:
        try:
            there = sessions()
        except Exception as raised:  # a package that zray needs is missing, say
            zray, error = "", f"{type(raised).__name__}: {raised}"
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = {"python": python, "zray": zray, "zray_error": error, "sessions": there}
    found["record"] = read_record(request)
    found.update(compare(request))
    return found


def examine(request):
    """Facts on the host that a cluster depends on; the port of the request is tried, if it has one."""
    import resource
    import time

    folder = os.environ.get("ZRAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "time": time.time(),
        "memory": memory,
        "shared": room_in("/dev/shm") if os.access("/dev/shm", os.W_OK) else None,
        "files": hard_limit(resource.RLIMIT_NOFILE, resource),
        "folder": folder,
        "disk": (room_in(folder) or [0, 0])[1],
        "port": request["port"],
        "port_taken": bool(request["port"]) and is_taken(request["port"]),
        "logins": login_limit(),
    }


def room_in(folder):
    """Return [total, free] bytes of a file system; None: the folder is absent."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    if not status.f_blocks:  # a tmpfs without a limit
        return [1 << 62, 1 << 62]
    return [status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize]


def hard_limit(kind, resource):
    hard = resource.getrlimit(kind)[1]
    return 1 << 30 if hard == resource.RLIM_INFINITY else hard


def is_taken(port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


def login_limit(folder="/etc/ssh"):
    """Return MaxStartups of sshd; "": its files do not say, or cannot be read."""
    paths = [os.path.join(folder, "sshd_config")]
    try:
        further = os.path.join(folder, "sshd_config.d")
        paths = [os.path.join(further, name) for name in sorted(os.listdir(further))] + paths
    except OSError:
        pass
    for path in paths:  # the first one counts
        try:
            with open(path, errors="replace") as file:
                found = re.search(r"^[ \t]*MaxStartups[ \t=]+(\S+)", file.read(), re.I | re.M)
        except OSError:
            continue
        if found:
            return found.group(1)
    return ""


def compare(request):
    """The files that are absent or other than those of the launcher."""
    return {"differing": [place for place, *facts in request.get("files", []) if differs(place, *facts)]}


def write_file(request):
    """Write a file, whole or not at all; the bytes are read in any case."""
    path = expanded(request["path"])
    part = f"{path}.zray-{os.getpid()}"
    error, file = None, None
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, request["mode"]), "wb")
    except OSError as raised:
        error = raised
    for data in channel.data(request["size"]):
        try:
            if error is None:
                file.write(data)
        except OSError as raised:
            error = raised
    try:
        if file is not None:
            file.close()
        if error is None:
            os.chmod(part, request["mode"])
            os.replace(part, path)
    except OSError as raised:
        error = error or raised
    if error is not None:
        if file is not None and os.path.exists(part):
            os.unlink(part)
        raise Failure(file=request["path"], error=error.strerror or str(error), number=error.errno)
    return {}


def names_below(path, exclude):
    """Yield the names of the files below a folder, relative to it; links to folders are not followed."""
    import fnmatch

    for folder, folders, files in os.walk(path):
        here = os.path.relpath(folder, path)
        for names in (folders, files):
            names[:] = sorted(
                name
                for name in names
                if not any(
                    fnmatch.fnmatch(text, pattern.rstrip("/"))
                    for pattern in exclude
                    for text in (name, os.path.normpath(os.path.join(here, name)))
                )
            )
        for name in files:
            if os.path.isfile(os.path.join(folder, name)):
                yield os.path.normpath(os.path.join(here, name))


def read_files(request):
    """Send the files of a place that the launcher lacks."""
    path = expanded(request["path"])
    try:
        if not os.path.exists(path):
            raise OSError(2, "no such file or folder")
        names = [""] if os.path.isfile(path) else list(names_below(path, request["exclude"]))
        sent = 0
        for name in names:
            source = os.path.join(path, name) if name else path
            status = os.stat(source)
            have = request["have"].get(name)
            if have and have[0] == status.st_size and have[1] == file_digest(source):
                continue
            with open(source, "rb") as file:
                left = os.fstat(file.fileno()).st_size
                channel.say({"file": name, "size": left, "mode": status.st_mode & 0o777})
                while left:
                    data = file.read(min(left, CHUNK)) or bytes(min(left, CHUNK))  # it was cut meanwhile
                    left -= len(data)
                    send(data)
            sent += 1
    except OSError as error:
        raise Failure(file=request["path"], error=error.strerror or str(error), number=error.errno) from None
    return {"sent": sent}


def send(data):
    while data:
        data = data[os.write(1, data) :]


def environment(further=()):
    """Return the environment of commands: programs beside this Python come first."""
    found = dict(os.environ)
    found["PATH"] = os.path.dirname(sys.executable) + os.pathsep + found.get("PATH", os.defpath)
    found.update(further)
    return found


def run(command, given=b"", further=(), is_shown=True, is_kept=False, has_errors=False):
    """Run a command to its end; return (status, output).

    is_kept: it goes on if the launcher goes away.  has_errors: standard error is shown apart.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if has_errors else subprocess.STDOUT,
        cwd=os.path.expanduser("~"),
        env=environment(further),
        start_new_session=True,
    )
    try:
        child.stdin.write(given)
        child.stdin.close()
    except OSError:
        pass  # it has ended
    streams = {child.stdout.fileno(): "out"}
    if has_errors:
        streams[child.stderr.fileno()] = "err"
    output = follow(child, streams, is_shown, is_kept)
    return child.wait(), output.decode(errors="replace")


def follow(child, streams, is_shown, is_kept):
    """Show the output of a child until it has ended; end it with the launcher."""
    output = b""
    poll = select.poll()
    for descriptor in streams:
        poll.register(descriptor, select.POLLIN)
    if not channel.has_ended:
        poll.register(0, select.POLLIN)
    while streams:
        ready = poll.poll(LOOK_SECONDS * 1000)
        if not ready and child.poll() is not None:
            break
        for descriptor, _ in ready:
            if descriptor == 0:
                if not obey(child, is_kept):
                    poll.unregister(0)
                continue
            data = os.read(descriptor, CHUNK)
            if not data:
                poll.unregister(descriptor)
                del streams[descriptor]
            elif is_shown:
                channel.say({streams[descriptor]: data.decode("latin-1")})
            output = (output + data)[-CHUNK:]
    return output


def obey(child, is_kept):
    """Pass a signal of the launcher on; return False at its end, which is the child's."""
    channel.fill()
    while b"\n" in channel.buffer:
        request = channel.line()
        if request.get("do") == "signal":
            kill(child, request["number"])
    if channel.has_ended and not is_kept:
        kill(child, signal.SIGTERM)
        try:
            child.wait(TERM_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        kill(child, signal.SIGKILL)
    return not channel.has_ended


def kill(child, number):
    try:
        os.killpg(child.pid, number)
    except OSError:
        pass  # all of the group have ended


def zray(arguments, given=b"", **options):
    return run([sys.executable, "-m", "zray.cli.main", *arguments], given, **options)


def setup(request):
    """Run the commands of the set-up, each in a shell in the home folder."""
    commands = request["commands"]
    for number, command in enumerate(commands, 1):
        channel.say({"step": f"setup {number} of {len(commands)}: {command.splitlines()[0]}"})
        status, output = run(["/bin/sh", "-c", command])
        if status:
            raise Failure(status=status, output=output[-4000:], what=f"setup command {number} ({command})")
    write_record(request, setup=request["digest"])
    return {}


def own_address(others):
    """Return the address of this host for the others: that which ssh called, or that towards another host."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    found = words[2].replace("::ffff:", "") if len(words) == 4 else ""
    if re.match(r"\d+\.\d+\.\d+\.\d+$", found) and not found.startswith("127."):
        return found
    if not others:
        return ""
    for other in others:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((other, 9))  # no packet is sent
                found = probe.getsockname()[0]
        except OSError:
            continue
        if not found.startswith("127."):
            return found
    raise Failure(trouble="its address for the other hosts is not known", remedy="add `address:` to the head's table")


def start(request):
    """Start a session, and note it in the record."""
    arguments = [os.path.expanduser(word) if word.startswith("~/") else word for word in request["arguments"]]
    if "--head" in arguments and "--host" not in arguments:
        address = own_address(request["others"])
        arguments += ["--host", address] if address else []
    token = request.get("token", "").encode()
    channel.say({"step": "zray " + " ".join(arguments)})
    status, output = zray(arguments, token + b"\n" if token else b"", is_shown=False, is_kept=True)
    join = IS_SAME.search(output)
    shown = IS_SAME.sub(r"ZRAY_TOKEN=... zray start --address \2", output)
    channel.say({"out": shown.encode().decode("latin-1")})
    session = SESSION.search(output)
    if status or session is None:
        raise Failure(status=status, output=shown[-4000:], what="zray start")
    cluster = join.group(2) if join else ADDRESS.search(output).group(1)
    write_record(request, session=session.group(1), options=request["digest"], cluster=cluster)
    return {"session": session.group(1), "cluster": cluster, "token": join.group(1) if join else ""}


def new_token(request):
    """Have the head make a token."""
    words = ["keys", "token", "--hours", "1", "--uses", str(request["uses"]), "--session", request["session"]]
    status, output = zray(words, is_shown=False)
    join = IS_SAME.search(output)
    if status or join is None:
        raise Failure(status=status, output=output[-4000:] if join is None else "", what="zray keys token")
    return {"token": join.group(1)}


def drain(request):
    """Tell the head that a node shall leave, and look how far it is; asked again and again."""
    from zray.host.client import control
    from zray.wire.drains import DrainReply, OrderDrain

    with control.find_head(request["session"]) as head:
        found = head.order(OrderDrain(1, request["node"], request["timeout"]), DrainReply)
    return {"is_gone": found.is_gone, "reason": found.reason, "waits_for": list(found.waits_for)}


def stop(request):
    """End sessions."""
    for session in request["sessions"]:
        words = ["stop", session, *(["--force"] if request["force"] else [])]
        channel.say({"step": "zray " + " ".join(words)})
        status, output = zray(words)
        if status and "no session" not in output and "ended" not in output:
            raise Failure(status=status, output=output[-4000:], what="zray stop")
    return {}


def program(request):
    """Run a program beside the head, in the home folder; the launcher's end is its end."""
    with tempfile.TemporaryDirectory(prefix="zray-program-") as folder:
        path = os.path.join(folder, request["name"])
        with open(path, "wb") as file:
            for data in channel.data(request["size"]):
                file.write(data)
        home = os.path.expanduser("~")
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        further = {**request["env"], "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        status, _ = run([sys.executable, path, *request["arguments"]], further=further, has_errors=True)
    return {"status": status}


def nothing(request):
    """A signal for a command that has ended meanwhile."""
    return None


DEEDS = {
    "signal": nothing,
    "look": look,
    "examine": examine,
    "compare": compare,
    "file": write_file,
    "read": read_files,
    "setup": setup,
    "start": start,
    "token": new_token,
    "drain": drain,
    "stop": stop,
    "forget": forget,
    "program": program,
}


def main():
    sys.path[:] = [path for path in sys.path if path]  # a clone in the home folder is no package
    channel.say({"hello": 1})
    while True:
        request = channel.line()
        if request is None:
            return
        try:
            done = DEEDS[request["do"]](request)
            if done is not None:
                channel.say({"done": done})
        except Failure as failure:
            channel.say({"failed": failure.facts})
        except EOFError:
            return
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            number = error.errno if isinstance(error, OSError) else None
            channel.say({"failed": {"error": text, "number": number, "what": request["do"]}})


if __name__ == "__main__":
    main()
