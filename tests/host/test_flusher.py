"""The helper that sends what its process has said."""

import threading
from collections import deque
from contextlib import contextmanager
from queue import SimpleQueue
from types import SimpleNamespace

from zray.host.client import send_thread

DEADLINE_S = 20.0


def runtime_of(**own):
    """The parts of a runtime that the helper looks at; some of the test's own."""
    parts = {
        "armed": SimpleQueue(),
        "client": SimpleNamespace(leaving=()),
        "connection": SimpleNamespace(link=SimpleNamespace(sent=0), is_closed=False, over=""),
        "is_armed": False,
        "is_over": False,
        "lock": threading.Lock(),
        "look_around": lambda: None,
        "unread": (),
    }
    return SimpleNamespace(**{**parts, **own})


@contextmanager
def helping(runtime):
    """Run the helper of a runtime, and end it."""
    helper = threading.Thread(target=send_thread.flush_forever, args=(runtime,), daemon=True)
    helper.start()
    try:
        yield
    finally:
        runtime.is_over = True
        runtime.armed.put(None)
        helper.join(DEADLINE_S)
    assert not helper.is_alive()


def test_what_goes_wrong_in_it_does_not_end_it(monkeypatch, capsys):
    """It died, and what the process said after that stayed where it was."""
    monkeypatch.setattr(send_thread, "RELEASE_SECONDS", 0.01)
    sent, troubles = threading.Event(), [OSError("no"), ValueError("nor that")]

    def look_around():
        if troubles:
            raise troubles.pop(0)

    def send_buffered():
        if not troubles:
            runtime.is_over = True
            sent.set()

    runtime = runtime_of(is_armed=True, look_around=look_around, send_buffered=send_buffered)
    with helping(runtime):
        assert sent.wait(DEADLINE_S)
    assert not runtime.is_armed
    shown = capsys.readouterr().err
    assert "OSError: no" in shown and "ValueError: nor that" in shown


def test_helper_goes_on_until_all_items_of_a_generator_that_was_left_are_released(monkeypatch):
    """Each frame takes some of them, and nobody else says anything."""
    monkeypatch.setattr(send_thread, "RELEASE_SECONDS", 1_000.0)
    monkeypatch.setattr(send_thread, "FLUSH_IDLE_TICKS", 0)  # each look is the last one before it rests
    leaving, released, counts = deque(range(20)), threading.Event(), []

    def send_buffered():
        if not leaving:
            return
        link.sent += 1
        counts.append(len(leaving))
        leaving.popleft()
        if not leaving:
            released.set()

    def arm():
        runtime.is_armed = True
        runtime.armed.put(None)

    runtime = runtime_of(arm=arm, client=SimpleNamespace(leaving=leaving), send_buffered=send_buffered)
    link = runtime.connection.link
    arm()
    monkeypatch.setattr(send_thread, "Rest", lambda: SimpleNamespace(look=lambda now: None))
    with helping(runtime):
        assert released.wait(DEADLINE_S)
    assert counts == list(range(20, 0, -1))
