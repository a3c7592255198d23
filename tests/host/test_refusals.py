"""Refusals at the gate give nothing away, by their words or by the steps to them (docs/security.md, B08)."""

import sys

import pytest
import zmq

from zray.host.security import zap
from zray.host.security.keyring import Key, KeyPair, KeyRing
from zray.host.security.zap import DOMAIN, Gate

NOW = 1_000.0
KEYS = {
    "unknown": None,
    "revoked": {"is_revoked": True},
    "lost": {"is_revoked": True, "is_lost": True},
    "expired": {"expires_at": NOW},
    "used up": {"uses_left": 0},
}


class Door:
    """A gate, and a libzmq that asks; what it said, and by which of its steps."""

    def __init__(self):
        self.context, self.lines = zmq.Context(), []
        self.ring = KeyRing(lambda: NOW)
        self.gate = Gate(self.context, self.ring, self.lines.append)
        self.socket = self.context.socket(zmq.REQ)
        self.socket.connect(zap.ENDPOINT)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.gate.close()
        self.context.destroy(linger=0)

    def ask(self, public):
        self.socket.send_multipart([b"1.0", b"1", DOMAIN, b"127.0.0.1", b"", b"CURVE", public])
        steps = []

        def note(frame, event, argument):
            if event == "call" and frame.f_code.co_filename == zap.__file__:
                steps.append(frame.f_code.co_name)

        assert self.gate.socket.poll(10_000)
        sys.setprofile(note)
        try:
            self.gate.answer()
        finally:
            sys.setprofile(None)
        return self.socket.recv_multipart(), steps


@pytest.fixture
def door():
    with Door() as door:
        yield door


def test_all_are_refused_in_the_same_words_by_the_same_steps_and_told_apart_in_the_log(door):
    """Equal time, without a clock: whoever comes here has proven that it has the secret of its key (libzmq's CURVE, of
    equal time itself), and is looked up by the public one.  No secret is compared with another one, byte by byte.
    """
    answers = []
    for state in KEYS.values():
        public = KeyPair.draw().public
        if state is not None:
            door.ring.add(Key(public, "joiner", "token-1", **state))
        answers.append(door.ask(public))
    (answer, steps), *others = answers
    assert all(other == (answer, steps) for other in others)
    assert answer[2:] == [b"400", b"denied", b"", b""] and steps == ["answer", "_reply", "_refuse", "_denied"]
    assert len(set(door.lines)) == len(KEYS)  # each its own line


def test_a_key_that_is_let_in_is_looked_up_likewise(door):
    public = KeyPair.draw().public
    door.ring.add(Key(public, "joiner", "token-1"))
    answer, steps = door.ask(public)
    assert answer[2] == b"200" and steps == ["answer", "_reply"] and not door.lines
