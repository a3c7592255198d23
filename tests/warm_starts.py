"""Sessions of tests, started by a process that has zray's modules and forks: each saves 0.2 s of CPU time.

    pytest -> zygote: arguments, variables, folder, path, descriptors
    zygote -> pytest: pid of a node, which is a child of pytest as any node

The zygote forks a node.  The node forks its fork server before anything else, and has it begin when it would start one.
From there on, both run the code of any session.

`ZRAY_WARM=0` switches this off.  Sessions with other variables of the environment start without the zygote, and so do
those of programs and commands in tests, and those of tests with the fixture `cold_starts`.
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import marshal
import os
import pkgutil
import signal
import socket
import sys

from zray import on_import

PR_SET_CHILD_SUBREAPER = 36
REQUEST_BYTES_MAX = 1 << 17
DESCRIPTORS_MAX = 16
SOCKET = 3
ASIDE = 100
NODE, FORK_SERVER = "zray.host.node.main", "zray.host.process.fork_server"
# Variables that may differ, since no module reads them when it is imported.
FREE = ("PYTEST_", "ZRAY_", "TMPDIR", "TUNE_", "KMP_", "PYGAME_", "CRC32C_", "PYTHONPATH")
SEED = "PYTHONHASHSEED"


def is_on():
    """Return whether sessions start warm."""
    return os.environ.get("ZRAY_WARM", "1") == "1"


class WarmStarts:
    """The zygote's side in pytest: replaces `spawn` in the module that starts nodes."""

    def __init__(self):
        from zray.host.process import interpreter, node_processes
        from zray.host.process.spawn import import_path, spawn, standard_first

        self.interpreter, self.module, self.cold = interpreter, node_processes, spawn
        self.path = lambda: standard_first(import_path())
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.seed = interpreter.chosen_hash_seed()
        self.began_with = self.fixed_variables()
        with theirs:
            self.pid = spawn(
                __name__,
                [],
                output=2,
                descriptors={theirs.fileno(): SOCKET},
                runs_user_code=True,
                variables={SEED: self.seed},
            )
        self.socket.recv(1)  # its variables can be read from now on: a look for what is left has to know it
        node_processes.spawn = self.spawn

    def end(self):
        """End the zygote."""
        self.module.spawn = self.cold
        self.socket.close()
        os.waitpid(self.pid, 0)

    def fixed_variables(self):
        variables = self.interpreter.child_environment()
        return {name: value for name, value in variables.items() if not name.startswith(FREE)}

    def spawn(self, module, arguments, *, output, descriptors, runs_user_code=False, variables=None):
        """Start a process, as zray.host.process.spawn.spawn."""
        is_own = self.interpreter.interpreter() == sys.executable and not self.interpreter.is_foreign()
        is_cold = not is_on() or module != NODE or variables or not is_own
        if is_cold or self.fixed_variables() != self.began_with:
            options = {"output": output, "descriptors": descriptors, "runs_user_code": runs_user_code}
            return self.cold(module, arguments, variables=variables, **options)
        request = arguments, self.interpreter.child_environment(), _folder(), self.path(), self.seed
        set_subreaper(True)
        try:
            send(self.socket, request, output, descriptors)
            return int(self.socket.recv(100))
        finally:
            set_subreaper(False)


def _folder():
    with contextlib.suppress(FileNotFoundError):
        return os.getcwd()
    return "/"


def set_subreaper(is_on):
    """Have this process adopt orphans: the zygote's child, the node's first parent, ends at once."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)


def send(connection, request, output, descriptors):
    """Send a request with descriptors, as `spawn` is given them: ours -> number in the receiver."""
    data = marshal.dumps((request, [1, 2, *descriptors.values()]))
    socket.send_fds(connection, [data], [output, output, *descriptors])


def receive(connection):
    """Return a request with its descriptors; None at the end."""
    data, received, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, DESCRIPTORS_MAX)
    if not data:
        return None
    request, numbers = marshal.loads(data)
    return request, dict(zip(numbers, received, strict=True))


def place(descriptors):
    """Give descriptors their numbers, and close all others."""
    aside = {number: fcntl.fcntl(ours, fcntl.F_DUPFD, ASIDE) for number, ours in descriptors.items()}
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, ours in aside.items():
        os.dup2(ours, number)
    kept = {0, *aside}
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def become(arguments, variables, folder, path):
    """Take over what a new interpreter is given."""
    os.setpgid(0, 0)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.environ.clear()
    os.environ.update(variables)
    os.environ.pop(on_import.MARK, None)
    with contextlib.suppress(OSError):
        os.chdir(folder)
    sys.path[:] = path
    sys.argv[:] = ["-c", *arguments]


class EarlyForkServer:
    """The fork of a node that has done nothing yet, which becomes the node's fork server."""

    def __init__(self, spawn, seed):
        self.cold, self.seed = spawn, seed
        self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()

    def spawn(self, module, arguments, *, output, descriptors, runs_user_code=False, variables=None):
        """Start a process of the node, as zray.host.process.spawn.spawn."""
        pid, self.pid = self.pid, 0
        if pid and module == FORK_SERVER and variables == {SEED: self.seed}:
            with self.socket:
                send(self.socket, arguments, output, descriptors)
            return pid
        if pid:
            self.socket.close()
            os.waitpid(pid, 0)
        options = {"output": output, "descriptors": descriptors, "runs_user_code": runs_user_code}
        return self.cold(module, arguments, variables=variables, **options)


def preload():
    """Import what a node and a worker need."""
    from zray.host import node
    from zray.host.process import fork_server, titles

    titles._library = titles._load()  # finds the space of arguments while the environment lies behind them
    for _ in fork_server.preload():
        pass
    for package in (node, importlib.import_module("zray.roles")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def run_node(arguments, variables, folder, path, seed, descriptors):
    """Run the node, or its fork server, to its end."""
    from zray.host.node import main as node
    from zray.host.process import fork_server, launch_fork_server

    place(descriptors)
    become(arguments, {**variables, SEED: seed}, folder, path)
    early = EarlyForkServer(launch_fork_server.spawn, seed)
    if early.pid:
        early.theirs.close()
        if variables.get(SEED) is None:
            del os.environ[SEED]
        node.chosen_hash_seed = lambda: seed
        launch_fork_server.spawn = early.spawn
        return node.main()
    early.socket.close()
    received = receive(early.theirs)
    if received is None:
        os._exit(0)
    arguments, descriptors = received
    early.theirs.detach()  # the number is another descriptor's from now on
    place(descriptors)
    sys.argv[:] = ["-c", *arguments]
    return fork_server.main()


def __getattr__(name):
    """`main`: the zygote, in code without a file and a module, as the first line of zray's processes."""
    if name != "main":
        raise AttributeError(name)
    namespace = {"__name__": "__main__"}
    with open(__file__, encoding="utf-8") as file:
        exec(compile(file.read(), "<string>", "exec"), namespace)
    return namespace["zygote"]


def zygote():
    """Fork nodes until pytest ends."""
    from zray.host.process.process_utils import end_with_parent

    end_with_parent()
    return serve(preload, run_node)


def serve(preload, run):
    """Import what is needed, and fork a process for each request, which runs it; until pytest ends."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # of the program, where tests look
    connection = socket.socket(fileno=SOCKET)
    connection.send(b"1")
    preload()
    while (received := receive(connection)) is not None:
        request, descriptors = received
        out, into = os.pipe()
        between = os.fork()
        if not between:
            pid = os.fork()
            if not pid:
                connection.detach()  # the number is another descriptor's from now on
                return run(*request, descriptors)
            os.write(into, b"%d" % pid)
            os._exit(0)
        for descriptor in (into, *descriptors.values()):
            os.close(descriptor)
        os.waitpid(between, 0)
        connection.send(os.read(out, 100))
        os.close(out)
    return None
