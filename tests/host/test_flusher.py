"""The helper that sends what its process has said."""

import threading
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
