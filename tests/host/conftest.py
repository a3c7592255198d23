"""Fixtures for links between hosts."""

import pytest

from tests.host.wires import Host, are_up, join, pump


@pytest.fixture
def pair():
    """A head, and a node that has connected to it."""
    with Host("head") as head, Host() as node:
        join(node, head)
        pump((head, node), lambda: are_up(head, node))
        yield head, node
