"""What is left of a node that its cluster has given up: it tries to join again, until it does or is told not to."""

import os
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from cli.stop import stop
from tests.gates import until, until_ended
from tests.scripts import ROOT
from zray.host import control, nodes
from zray.host.processes import children_of

PROGRAM = """
import sys
from zray.host.keys import KeyPair, Token
from zray.host.processes import adopt_orphans
from zray.host.rejoin import rejoin
adopt_orphans()
cluster = {"address": sys.argv[1], "called": "the-first", "former": "n", "rejoin": True}
options = {"session": "the-second", "total": {"CPU": 10_000}, "capacity": None, "labels": {}, "cluster": cluster}
rejoin(options, Token.draw(KeyPair.draw().public).encode())
"""


@pytest.fixture
def nobody():
    """An address where somebody listens who never says a word: joining there takes as long as it may."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def trying(nobody, nothing_left):
    """A process that tries to join there."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, nobody], env=environment)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("name", ["the-first", "the-second", "--all"])
def test_zray_stop_ends_it_with_whatever_it_has_started(trying, name):
    """By the name that `zray start` gave the node, or by its last one."""
    until(lambda: control.returning() and children_of(trying.pid))
    started = children_of(trying.pid)
    ((session, info),) = control.returning()
    assert (info.session, info.called, info.node_pid) == ("the-second", "the-first", trying.pid)
    assert session not in [found for found, _ in control.sessions()] and not nodes.lasting_sessions()
    done = CliRunner().invoke(stop, [name])
    assert done.output == "Session the-second (first called the-first) does not join its cluster again.\n"
    until_ended([trying.pid, *started])
    assert not control.returning() and not os.path.exists(session.folder)
