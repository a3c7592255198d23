"""A host that ends says so, and why; the others hear it, however late they come to listen."""

import select

import pytest

from tests.gates import DEADLINE_S
from tests.host.wires import Host, are_up, join, pump


@pytest.mark.parametrize("is_caller", [True, False])
def test_a_goodbye_is_heard_by_who_listens_only_after_the_connection_has_ended(is_caller):
    """A node that has no turn, on a busy machine, until its head is gone: libzmq holds both for it by then."""
    with Host("node" if is_caller else "head") as late:
        early = Host("head" if is_caller else "node")
        join(*((late, early) if is_caller else (early, late)))
        pump((late, early), lambda: are_up(late, early))
        said = []
        late.links.on_goodbye = lambda host, reason: said.append((host, reason))
        monitor = late.links.by_host[early.name].dealer.monitor if is_caller else late.links.listener.monitor
        early.links.close("told to")
        early.loop.epoll.close()
        assert select.select([monitor.fd], [], [], DEADLINE_S)[0]  # the news of the end
        pump((late,), lambda: said)
        assert said == [(early.name, "told to")]
