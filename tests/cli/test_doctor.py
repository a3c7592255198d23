"""`zray doctor`: each step of the way to a cluster fails with a sentence of its own."""

import contextlib
import socket
import threading

import pytest
from click.testing import CliRunner

from cli.doctor import doctor as command
from tests.host.wires import Host, pump, reads_a_line, strangers_port
from zray.host.cluster import doctor
from zray.host.cluster.admission import Admission
from zray.host.cluster.membership import addresses_of
from zray.host.cluster.membership_log import Roster
from zray.host.cluster.read_only import Readers
from zray.host.security.keyring import KeyPair, Token
from zray.wire.message import PROTOCOL_VERSION


@pytest.fixture
def head(tmp_path):
    with Host("head") as host:
        roster = Roster(str(tmp_path / "members"))
        host.ring.clock = roster.ring.clock
        roster.ring = host.ring
        admission = Admission(host.name, roster, addresses_of(host.name, host.name, [], 1))
        admission.neighbours = host.links
        host.links.on_join = admission.join
        host.links.on_read = Readers(host.links, lambda *question: None).hear
        yield host
        roster.close()


def token_of(head, kind="joiner"):
    token = Token.draw(head.keys.public)
    key = token.key(head.ring.clock(), uses=1)
    key.kind = kind
    head.ring.add(key)
    return token


def steps(head, token):
    """What is found, while the head does its part."""
    found = []
    thread = threading.Thread(target=lambda: found.extend(doctor.examine(head.endpoint, token.encode())))
    thread.start()
    pump((head,), lambda: not thread.is_alive())
    assert all(step.is_done for step in found[:-1])
    return found


def test_a_way_that_is_open(head):
    token = token_of(head)
    for _ in range(2):  # no use is spent
        found = steps(head, token)
        assert len(found) == 5 and found[-1].is_done and "may join it" in found[-1].text
    assert head.ring.find(token.pair.public).uses_left == 1 and not head.links.by_host


def test_the_token_of_a_reader(head):
    last = steps(head, token_of(head, "reader"))[-1]
    assert last.is_done and "a reader's" in last.text


def test_a_token_that_is_not_let_in(head):
    last = steps(head, Token.draw(head.keys.public))[-1]
    assert not last.is_done and "expired (by the head's clock), been used up or revoked" in last.text


def test_a_token_of_another_cluster(head):
    last = steps(head, Token.draw(KeyPair.draw().public))[-1]
    assert not last.is_done and "belongs to another cluster" in last.text


def test_another_version(head, monkeypatch):
    monkeypatch.setattr(doctor, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    last = steps(head, token_of(head))[-1]
    assert not last.is_done and "would refuse this zray" in last.text and "protocol" in last.text


@pytest.fixture
def ask(monkeypatch):
    """`ask(target)`: the command's exit code, and its last line."""
    monkeypatch.setattr(doctor, "CALL_SECONDS", 0.3)
    monkeypatch.setattr("zray.host.security.token_input._taken", "")

    def run(target, token=None):
        done = CliRunner().invoke(command, ["--to", target], env={"ZRAY_TOKEN": token})
        return done.exit_code, done.output.splitlines()[-1]

    return run


def test_without_a_token_the_rest_is_tried(head, ask):
    code, line = ask(head.endpoint)
    assert code == 0 and line.startswith("ok ") and "ZRAY_TOKEN holds no token" in line


def test_a_token_that_is_none(head, ask):
    code, line = ask(head.endpoint, "nonsense")
    assert code == 1 and line.startswith("FAILED ") and "not a join token" in line


def test_a_name_that_nobody_knows(ask):
    code, line = ask("nobody.invalid:6379")
    assert code == 1 and "'nobody.invalid' is not known here" in line


def test_what_is_no_address(ask):
    assert ask("nonsense")[0] == 2


def test_nobody_listens(ask):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"127.0.0.1:{listening.getsockname()[1]}"
    code, line = ask(endpoint)
    assert code == 1 and "answers, and nothing listens on port" in line


def test_a_call_that_is_dropped(ask):
    """The kernel of one whose backlog is full does what a firewall does."""
    with socket.socket() as listening, contextlib.ExitStack() as callers:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(8):
            caller = callers.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listening.getsockname())
        code, line = ask(f"127.0.0.1:{listening.getsockname()[1]}")
    assert code == 1 and "no answer in 0.3 s" in line and "firewall" in line and "NAT" in line


@pytest.mark.parametrize(
    "words, found",
    [(b"SSH-2.0-OpenSSH\r\n", "than zray listens there: its first bytes are 'SSH"), (b"", "nothing was sent")],
)
def test_somebody_else_listens(ask, words, found):
    with socket.create_server(("127.0.0.1", 0)) as listening, contextlib.ExitStack() as taken:

        def answer():
            call = taken.enter_context(listening.accept()[0])
            call.sendall(words)

        thread = threading.Thread(target=answer)
        thread.start()
        code, line = ask(f"127.0.0.1:{listening.getsockname()[1]}")
        thread.join()
    assert code == 1 and found in line


def test_a_program_that_waits_for_a_question_listens(ask):
    with strangers_port(reads_a_line) as endpoint:
        code, line = ask(endpoint)
    assert (
        code == 1 and "than zray listens there: its first bytes are 'HTTP" in line and line.endswith("Check the port.")
    )
