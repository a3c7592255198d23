"""The helper that sends what its process has said."""

import threading
from collections import deque
from queue import SimpleQueue
from types import SimpleNamespace

from zray.host.client import send_thread

DEADLINE_S = 20.0


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

    link = SimpleNamespace(sent=0)
    runtime = SimpleNamespace(
        armed=SimpleQueue(),
        client=SimpleNamespace(leaving=()),
        connection=SimpleNamespace(link=link, is_closed=False),
        is_armed=True,
        is_over=False,
        lock=threading.Lock(),
        look_around=look_around,
        send_buffered=send_buffered,
        unread=(),
    )
    helper = threading.Thread(target=send_thread.flush_forever, args=(runtime,), daemon=True)
    helper.start()
    try:
        assert sent.wait(DEADLINE_S)
    finally:
        runtime.is_over = True
        helper.join(DEADLINE_S)
    assert not helper.is_alive() and not runtime.is_armed
    shown = capsys.readouterr().err
    assert "OSError: no" in shown and "ValueError: nor that" in shown


def test_it_goes_on_until_all_items_of_a_generator_that_was_left_are_released(monkeypatch):
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

    link = SimpleNamespace(sent=0)
    runtime = SimpleNamespace(
        arm=arm,
        armed=SimpleQueue(),
        client=SimpleNamespace(leaving=leaving),
        connection=SimpleNamespace(link=link, is_closed=False, over=""),
        is_armed=False,
        is_over=False,
        lock=threading.Lock(),
        look_around=lambda: None,
        send_buffered=send_buffered,
        unread=(),
    )
    arm()
    monkeypatch.setattr(send_thread, "Rest", lambda: SimpleNamespace(look=lambda now: None))
    helper = threading.Thread(target=send_thread.flush_forever, args=(runtime,), daemon=True)
    helper.start()
    try:
        assert released.wait(DEADLINE_S)
    finally:
        runtime.is_over = True
        runtime.armed.put(None)
        helper.join(DEADLINE_S)
    assert not helper.is_alive() and counts == list(range(20, 0, -1))
