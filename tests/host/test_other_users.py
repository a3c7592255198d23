"""Other users of this machine: the kernel names the caller, beside the modes of folders (docs/security.md, S1)."""

import os
import socket
import subprocess
import sys
import tempfile

import pytest
import zmq

from tests.host.wires import Loop
from zray.host.links.process_links import Peers
from zray.host.links.relay_tunnel import Tunnels

NOBODY = 65534
# Calls as another user, and says how much it was sent.  What it needs is imported before it is nobody.
CALL = """
import os, socket, sys
path, uid = sys.argv[1], int(sys.argv[2])
os.setuid(uid)
with socket.socket(socket.AF_UNIX) as call:
    call.settimeout(30)
    call.connect(path)
    try:
        print(len(call.recv(10)))
    except ConnectionResetError:
        print(0)
"""


@pytest.fixture
def folder():
    """One that everybody may enter, with a path that everybody may walk."""
    if os.geteuid() != 0:
        pytest.skip("only root can call as somebody else")
    made = tempfile.mkdtemp(dir="/tmp")
    os.chmod(made, 0o755)  # noqa: S103
    yield made
    for name in os.listdir(made):
        os.unlink(os.path.join(made, name))
    os.rmdir(made)


def call(path, uid):
    """How many bytes of a greeting that user hears there."""
    os.chmod(path, 0o777)  # noqa: S103
    done = subprocess.run([sys.executable, "-c", CALL, path, str(uid)], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_another_user_is_hung_up_on_though_the_folder_is_open(folder):
    context = zmq.Context()
    peers = Peers(context, f"ipc://{folder}/s", print)
    try:
        assert call(f"{folder}/s", 0) > 0
        assert call(f"{folder}/s", NOBODY) == 0
        assert call(f"{folder}/s", 0) > 0
    finally:
        peers.close()
        context.destroy(linger=0)


def test_nor_may_it_use_a_tunnel(folder):
    loop = Loop()
    tunnels = Tunnels("a" * 16, "", folder, print)
    tunnels.attach(loop, lambda message: None)
    try:
        path = tunnels.open("b" * 16).removeprefix("ipc://")
        (stream,) = tunnels.streams.values()
        os.chmod(path, 0o777)  # noqa: S103
        with subprocess.Popen([sys.executable, "-c", CALL, path, str(NOBODY)], stdout=subprocess.PIPE) as caller:
            assert loop.epoll.poll(30)
            loop.actions[stream.listener.fileno()]()
            assert caller.communicate(timeout=50)[0] == b"0\n"
        assert stream.socket is None  # it still waits for the one that it is for
        with socket.socket(socket.AF_UNIX) as ours:
            ours.connect(path)
            loop.actions[stream.listener.fileno()]()
            assert stream.socket is not None
    finally:
        tunnels.close()
        loop.epoll.close()
