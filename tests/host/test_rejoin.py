"""What is left of a node that its cluster has given up: it tries to join again, until it does or is told not to."""

import json
import os
import re
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from cli.status import status
from cli.stop import stop
from tests.gates import until, until_ended
from tests.host.wires import Host, pump
from tests.scripts import ROOT
from zray.host.client import control
from zray.host.process.process_utils import children_of
from zray.host.session.discovery import find_session
from zray.host.session.session import lasting_sessions

PROGRAM = """
import sys
from zray.host.security.keyring import KeyPair, Token
from zray.host.process.process_utils import adopt_orphans
from zray.host.cluster.rejoin import rejoin
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


def returning_to(address):
    """A process that tries to join there."""
    return subprocess.Popen([sys.executable, "-c", PROGRAM, address], env=dict(os.environ, PYTHONPATH=str(ROOT)))


@pytest.fixture
def trying(nobody, nothing_left):
    process = returning_to(nobody)
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
    assert session not in [found for found, _ in control.sessions()] and not lasting_sessions()
    done = CliRunner().invoke(stop, [name])
    assert done.output == "Session the-second (first called the-first) does not join its cluster again.\n"
    until_ended([trying.pid, *started])
    assert not control.returning() and not os.path.exists(session.folder)


def test_one_that_is_refused_for_good_says_why_in_the_log_of_its_machine(nothing_left):
    """Its own is gone with it."""
    with Host("head") as head:  # which lets no token in
        code = "import syslog; syslog.syslog = lambda *said: print('noted:', *said, flush=True)\n"
        code += PROGRAM.replace("KeyPair.draw().public", f"bytes.fromhex('{head.keys.public.hex()}')")
        program = [sys.executable, "-c", code, head.endpoint]
        with subprocess.Popen(program, env=dict(os.environ, PYTHONPATH=str(ROOT)), stdout=subprocess.PIPE) as process:
            pump((head,), lambda: process.poll() is not None)
            said = process.stdout.read().decode()
    assert "noted: 3 the node of session the-first was declared dead by the cluster" in said, said
    assert "and does not join it again" in said and "does not know this token" in said


def test_zray_status_shows_it_and_what_it_waits_for(nothing_left):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = f"127.0.0.1:{listener.getsockname()[1]}"
    process = returning_to(free)  # nobody listens there any more
    try:
        until(lambda: [info for _, info in control.returning() if info.notice])
        shown = CliRunner().invoke(status, []).output
        (line,) = shown.splitlines()
        assert (
            f"session the-second (first called the-first) was declared dead by its cluster, and tries to join {free}"
            in line
        )
        (fact,) = json.loads(CliRunner().invoke(status, ["--format", "json"]).output)["returning"]
        with pytest.raises(ConnectionError, match=f"the-first.* and tries to join {re.escape(free)} again"):
            find_session()
        assert (fact["session"], fact["called"], fact["pid"]) == ("the-second", "the-first", process.pid)
        assert fact["cluster"] == free and fact["trouble"] in line and "127.0.0.1" in fact["trouble"]
    finally:
        CliRunner().invoke(stop, ["--all"])
        process.wait()
    assert CliRunner().invoke(status, []).output == "No session runs on this machine.\n"
