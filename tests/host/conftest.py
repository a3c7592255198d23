"""Fixtures for links between hosts."""

import pytest

from tests.host.wires import Host, are_up, join, pump
from zray.host.links import dialer, tcp_connections


@pytest.fixture
def brief_handshakes(monkeypatch):
    """Whoever does not end one is hung up on sooner than in production, where machines may be slow."""
    monkeypatch.setattr(dialer, "HANDSHAKE_MS", 2_000)


@pytest.fixture
def brief_looks(monkeypatch):
    """What strangers have sent is seen almost at once."""
    monkeypatch.setattr(tcp_connections, "UNAUTHENTICATED_CHECK_SECONDS", 0.001)


@pytest.fixture
def pair():
    """A head, and a node that has connected to it."""
    with Host("head") as head, Host() as node:
        join(node, head)
        pump((head, node), lambda: are_up(head, node))
        yield head, node
