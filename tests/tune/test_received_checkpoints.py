"""Checkpoints that come to the program as bytes."""

import io
import os
import tarfile
from types import SimpleNamespace

import pytest

from zray.tune import storage
from zray.tune.errors import CheckpointError
from zray.tune.runner import Runner


def test_checkpoint_that_cannot_be_written_is_an_error_of_its_trial(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "old").touch()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("./weights")
        link.type, link.linkname = tarfile.SYMTYPE, "/nowhere/at/all"
        archive.addfile(link)
    for data in (buffer.getvalue(), b"no archive"):
        with pytest.raises(CheckpointError, match=f"cannot be written to {target}"):
            storage.receive(data, str(target))
    assert os.listdir(target) == ["old"] and os.listdir(tmp_path) == ["target"]
    runner = Runner.__new__(Runner)
    dropped = []
    runner._drop = dropped.append
    runner._release = lambda *args, **options: None
    runner.controller, runner._heard_at = SimpleNamespace(waits={}), {}
    runner._addresses, runner._calls = {}, {}
    answer = {"is_over": False, "results": [(1, {"loss": 1.0}, 0.1, 0.1, str(target), b"no archive")]}
    events = runner._events_of("a", answer, 5.0)
    assert [(type(event).__name__, event.trial_id) for event in events] == [("Failed", "a")] and dropped == ["a"]
    halted = {"checkpoint": (str(target), b"no archive"), "is_stopped": True, "iteration": 1}
    (event,) = runner._take_halted("a", halted, 5.0)
    assert event.checkpoint == "" and "cannot be written" in event.reason
