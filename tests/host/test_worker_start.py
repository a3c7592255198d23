"""A worker on a machine so busy that it has no turn in the middle of its making."""

import signal
import threading
from types import SimpleNamespace

import pytest

from zray import object_ref
from zray.host.worker import main, startup
from zray.wire.link import Link
from zray.wire.session import Welcome


class Joined:
    """A connection to a node that says nothing."""

    def __init__(self, address, node_pidfd):
        self.lock = threading.RLock()
        self.is_inside = self.lock._is_owned
        self.link, self.is_closed, self.over = Link(), False, ""

    def join(self, hello):
        return Welcome("worker-1", bytes(8), "a-session", 1_000), []

    def refuse_in_the_middle(self):
        pass

    def close(self):
        self.is_closed = True


@pytest.fixture
def hooks(monkeypatch):
    """Hooks that a runtime sets for its process, and that would keep the worker alive."""
    for name in ("on_restore", "resolve_future"):
        monkeypatch.setattr(object_ref, name, getattr(object_ref, name))
    monkeypatch.setattr(main, "begun_lines", SimpleNamespace())
    handler = signal.getsignal(signal.SIGURG)
    yield
    signal.signal(signal.SIGURG, handler)


def test_its_helper_starts_when_all_that_it_looks_at_is_there(hooks, monkeypatch, tmp_path):
    """It looked at what was not there yet, and died; what the worker's tasks said went nowhere then."""
    running = []

    def note(*given):
        running.extend(thread.name for thread in threading.enumerate())
        return SimpleNamespace(look=lambda: None)

    monkeypatch.setattr(main, "Connection", Joined)
    monkeypatch.setattr(main.posix_ipc, "Semaphore", lambda name: SimpleNamespace(acquire=lambda seconds: None))
    for name in ("LogRoom", "CoreWaits"):
        monkeypatch.setattr(main, name, note)
    monkeypatch.setattr(main, "event_log", lambda *given: None)
    session = SimpleNamespace(
        address="",
        folder=str(tmp_path),
        window_name=str,
        worker_log_path=lambda number, pid: str(tmp_path / "log"),
        note_output=print,
    )
    worker = main.Worker(session, "worker-1", 1, -1)
    try:
        assert running and "zray-flush" not in running
        assert worker._helper.is_alive()
    finally:
        worker.close()
    assert not worker._helper.is_alive()


def test_worker_without_room_for_a_thread_ends_with_one_line(monkeypatch, capsys):
    def no_room(*args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(startup, "Worker", no_room)
    assert startup.main(None, "worker-1", 1, -1) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "could not start a thread" in line and "`ulimit -u`" in line
    monkeypatch.setattr(startup, "Worker", lambda *args: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        startup.main(None, "worker-1", 1, -1)
