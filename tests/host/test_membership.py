"""Joining a cluster: what a token buys, and what it does not (docs/security.md, S4, S5, B08)."""

import os
import socket
import threading

import pytest

from tests.host.wires import Host, Stranger, pump, reads_a_line, strangers_port
from zray.exceptions import AuthenticationError, ZrayError
from zray.host.cluster import membership
from zray.host.cluster.admission import Admission
from zray.host.cluster.membership import HeadSilence, addresses_of
from zray.host.cluster.membership_log import Roster
from zray.host.links import dialer
from zray.host.links.compatibility import python_version
from zray.host.links.probe import SIGNATURE
from zray.host.security.keyring import KeyPair, Token
from zray.roles.effects import Finding
from zray.version import __version__
from zray.wire.codec import Letter, Mail, decode_mail, encode
from zray.wire.gcs import Heartbeat
from zray.wire.hosts import HostHello, HostRefused, HostWelcome, JoinCluster, JoinClusterReply, JoinRefused
from zray.wire.link import open_unnumbered, unnumbered
from zray.wire.message import PROTOCOL_VERSION


@pytest.fixture
def head(tmp_path):
    """A head that admits, and the token that it was made with."""
    with Host("head") as host:
        roster = Roster(str(tmp_path / "members"))
        host.ring.clock = roster.ring.clock
        roster.ring = host.ring
        admission = Admission(host.name, roster, addresses_of(host.name, host.name, [], 1))
        admission.neighbours = host.links
        host.links.on_join = admission.join
        host.token = Token.draw(host.keys.public)
        host.ring.add(host.token.key(host.ring.clock(), uses=2))
        yield host
        roster.close()


def request(keys=None, **changed):
    fields = {
        "protocol": PROTOCOL_VERSION,
        "version": __version__,
        "python": python_version(),
        "host": os.urandom(8).hex(),
        "kind": "node",
        "public_key": (keys or KeyPair.draw()).public,
    }
    return JoinCluster(**{**fields, **changed})


def say(head, stranger, message):
    """Say it outside the numbering; the answer."""
    stranger.socket.send(unnumbered(message))
    pump((head,), lambda: stranger.socket.poll(0))
    return open_unnumbered(decode_mail(stranger.socket.recv()))


def test_a_token_buys_the_entry_of_a_key_and_that_key_is_let_in(head):
    keys = KeyPair.draw()
    with Stranger(head, head.token.pair) as newcomer:
        join = request(keys)
        reply = say(head, newcomer, join)
        assert type(reply) is JoinClusterReply
        assert (reply.head, reply.monitor) == (head.name, head.role("monitor"))
        assert reply.seen_address == "127.0.0.1"
    with Stranger(head, keys) as member:
        assert say(head, member, HostHello(PROTOCOL_VERSION, __version__, join.host)) == HostWelcome(head.name)


def test_it_buys_nothing_else(head):
    with Stranger(head, head.token.pair) as newcomer:
        refused = say(head, newcomer, HostHello(PROTOCOL_VERSION, __version__, head.name))
        assert type(refused) is HostRefused
        letter = Letter(f"{os.urandom(8).hex()}/local", head.role("monitor"), [Heartbeat("x")])
        newcomer.socket.send(encode(Mail(1, 1, 0, [letter])))
        pump((head,), lambda: newcomer.socket.poll(0))
        assert type(open_unnumbered(decode_mail(newcomer.socket.recv()))) is HostRefused
    assert not head.heard


def test_a_token_is_good_for_so_many_joins(head):
    with Stranger(head, head.token.pair) as newcomer:
        for _ in range(2):
            assert type(say(head, newcomer, request())) is JoinClusterReply
        newcomer.socket.send(unnumbered(request()))
        pump((head,), lambda: head.links.dropped_frames)
        assert len(head.links.by_host) == 2
    with Stranger(head, head.token.pair) as newcomer:
        newcomer.socket.send(unnumbered(request()))
        pump((head,), lambda: head.has_logged("used up key of joiner"))


def test_an_expired_token_is_refused_at_the_gate(head):
    head.ring.clock = lambda: float("1e12")
    with Stranger(head, head.token.pair) as newcomer:
        newcomer.socket.send(unnumbered(request()))
        pump((head,), lambda: head.has_logged("expired key of joiner"))
        assert not newcomer.socket.poll(50)


@pytest.mark.parametrize(
    "changed, why",
    [
        ({"protocol": PROTOCOL_VERSION + 1}, "speaks protocol"),
        ({"python": "2.7"}, f"runs Python {python_version()}, the newcomer 2.7"),
        ({"python": ""}, f"runs Python {python_version()}, the newcomer unknown"),
        ({"version": "9.8.7"}, f"runs zray {__version__}, the newcomer 9.8.7"),
        ({"kind": "head"}, "cannot join"),
        ({"kind": "joiner"}, "cannot join"),
        ({"host": "x"}, "host id"),
        ({"host": "../../etc/passwd"}, "host id"),
        ({"host": "Z" * 16}, "host id"),
        ({"public_key": b""}, "key"),
        ({"public_key": b"k" * 33}, "key"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_in_words_and_costs_no_use(head, changed, why):
    with Stranger(head, head.token.pair) as newcomer:
        refused = say(head, newcomer, request(**changed))
        assert type(refused) is JoinRefused and why in refused.reason
    assert head.ring.find(head.token.pair.public).uses_left == 2


def test_another_protocol_whose_request_looks_different(head):
    with Stranger(head, head.token.pair) as newcomer:
        newcomer.socket.send(encode([0, 0, 0, [["", "", [[133, 77, {"version": "new"}, "what", "ever"]]]]]))
        pump((head,), lambda: newcomer.socket.poll(0))
        refused = open_unnumbered(decode_mail(newcomer.socket.recv()))
        assert type(refused) is JoinRefused
        assert f"protocol {PROTOCOL_VERSION}," in refused.reason and "77" in refused.reason


def test_another_patch_of_the_same_version_joins_and_is_noted(head):
    with Stranger(head, head.token.pair) as newcomer:
        assert type(say(head, newcomer, request(version=f"{__version__}.post7"))) is JoinClusterReply
    assert head.has_logged(f"{__version__}.post7")


def test_nobody_joins_as_somebody_who_is_there(head):
    with Stranger(head, head.token.pair) as newcomer:
        first = request()
        assert type(say(head, newcomer, first)) is JoinClusterReply
        assert type(say(head, newcomer, request(host=first.host))) is JoinRefused
        assert type(say(head, newcomer, request(public_key=first.public_key))) is JoinRefused
        assert type(say(head, newcomer, request(host=head.name))) is JoinRefused
        assert type(say(head, newcomer, request(public_key=head.token.pair.public))) is JoinRefused


def test_who_was_let_in_and_did_not_hear_of_it_may_ask_again(head):
    keys = KeyPair.draw()
    join = request(keys)
    for _ in range(2):
        with Stranger(head, head.token.pair) as newcomer:
            assert type(say(head, newcomer, join)) is JoinClusterReply
    assert head.ring.find(head.token.pair.public).uses_left == 1
    with Stranger(head, keys) as member:
        say(head, member, HostHello(PROTOCOL_VERSION, __version__, join.host))
        with Stranger(head, head.token.pair) as newcomer:
            assert type(say(head, newcomer, join)) is JoinRefused


def test_a_node_that_is_no_head_admits_nobody():
    with Host("node") as node:
        token = Token.draw(node.keys.public)
        node.ring.add(token.key(node.ring.clock()))
        with Stranger(node, token.pair) as newcomer:
            assert type(say(node, newcomer, request())) is HostRefused


def test_a_newcomer_to_a_port_where_nobody_listens_is_told_what_to_look_at(head, monkeypatch):
    monkeypatch.setattr(membership, "NOBODY_SECONDS", 0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(
        ZrayError, match=f"{endpoint}: that machine answers, and nothing listens there: the head has ended"
    ):
        membership.ask_head(endpoint, head.token, request())


def greets_first(call):
    call.sendall(b"SSH-2.0-OpenSSH\r\n")


def hangs_up(call):
    call.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "answer, found",
    [
        (greets_first, "its first bytes are 'SSH-2.0-"),
        (hangs_up, "closed the connection without"),
        (reads_a_line, "first bytes are 'HTTP"),
    ],
)
def test_a_newcomer_to_another_programs_port_is_told_so_and_does_not_wait(head, monkeypatch, answer, found):
    monkeypatch.setattr(dialer, "HANDSHAKE_MS", 300)
    monkeypatch.setattr(dialer, "UNANSWERED_MS", 200)
    with strangers_port(answer) as endpoint, pytest.raises(ZrayError) as refused:
        membership.ask_head(endpoint, head.token, request())
    assert f"{endpoint}: another program than zray listens there: " in str(refused.value) and found in str(
        refused.value
    )
    assert not isinstance(refused.value, AuthenticationError)


def test_a_head_that_ends_while_it_is_spoken_to_is_no_matter_of_keys(head, monkeypatch):
    """What breaks off once is tried once more."""
    monkeypatch.setattr(membership, "NOBODY_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def end():
            with listening.accept()[0] as call:
                listening.close()
                call.sendall(SIGNATURE)

        ending = threading.Thread(target=end)
        ending.start()
        endpoint = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ZrayError, match="nothing listens there") as refused:
            membership.ask_head(endpoint, head.token, request())
        ending.join()
    assert not isinstance(refused.value, AuthenticationError)


def test_a_newcomer_to_a_port_that_is_silent_waits(head, monkeypatch):
    """A head that stands still is: its kernel takes the calls."""
    monkeypatch.setattr(dialer, "HANDSHAKE_MS", 300)
    monkeypatch.setattr(dialer, "UNANSWERED_MS", 200)
    monkeypatch.setattr(membership, "JOIN_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ZrayError, match="the program that listens there does not answer"):
            membership.ask_head(endpoint, head.token, request())


def test_a_silent_head_that_answers_looks_is_noted_only_when_that_lasts():
    """At each join the first answer takes a moment."""
    lines = []
    silence = HeadSilence(lines.append)
    silence.looked("head:1", Finding.ANSWERS, 0.0)
    for at in (10.0, 10.5, 10.9):
        silence.looked("head:1", Finding.ANSWERS, at)
    assert not lines
    for at in (11.0, 11.5):
        silence.looked("head:1", Finding.ANSWERS, at)
    assert lines == ["the head at head:1 answers no heartbeats: the process answers"]
    for _ in range(2):
        silence.looked("head:1", Finding.ENDED, 12.0)
    assert lines[1:] == ["the head at head:1 answers no heartbeats: its machine reports that nothing listens there"]
    silence.looked("head:1", Finding.ENDED, 20.0)  # it was heard of in between
    assert len(lines) == 3
