"""Modules of zray that the fork server imports when a worker names them."""

import os
import sys

import pytest

import zray
from tests.gates import until
from zray.host.process import preloading


@pytest.fixture
def pipe():
    found = preloading.Preloading()
    yield found
    found.close()


@pytest.fixture
def as_worker(pipe, monkeypatch):
    """This process is a worker for `suggest`."""
    monkeypatch.setattr(preloading, "_current", pipe)


def lines_of(pipe):
    try:
        return os.read(pipe.lines, 100)
    except BlockingIOError:
        return b""


def test_a_module_of_zray_is_imported(pipe, monkeypatch):
    monkeypatch.delitem(sys.modules, "zray.tune.pickles", raising=False)
    os.write(pipe.lines_in, b"zray.tune.pickles\n")
    pipe.read()
    assert "zray.tune.pickles" in sys.modules


@pytest.mark.parametrize(
    "name", ["this", "?this", "zray", "zray.", ".zray.tune", "zray/tune", "zray.Nothing", "\xff", "zray..tune"]
)
def test_other_names_are_left_out(pipe, name):
    os.write(pipe.lines_in, f"{name}\n".encode("latin-1"))
    pipe.read()
    assert not pipe.modules


def test_a_module_that_cannot_be_imported_does_no_harm(pipe, capsys):
    os.write(pipe.lines_in, b"zray.nothing_of_that_name\nzray.tune.pickles\n")
    pipe.read()
    assert "zray.tune.pickles" in pipe.modules
    assert "ModuleNotFoundError" in capsys.readouterr().err


def test_the_number_of_modules_is_bounded(pipe):
    os.write(pipe.lines_in, b"".join(b"zray.nothing_%d\n" % number for number in range(50)))
    pipe.read()
    assert len(pipe.modules) == preloading.MODULES_MAX


def test_a_class_is_named_if_its_module_asks_for_it(pipe, as_worker):
    from zray.tune.worker import TrialActor

    preloading.suggest(TrialActor)
    assert lines_of(pipe) == b"zray.tune.worker\n"
    pipe.modules.add("zray.tune.worker")
    preloading.suggest(TrialActor)
    preloading.suggest(zray.ObjectRef)
    preloading.suggest(str)
    preloading.suggest(None)
    assert lines_of(pipe) == b""


def test_module_that_takes_seconds_is_imported_for_the_second_generation_of_workers(pipe, as_worker, monkeypatch):
    from zray.tune import worker

    monkeypatch.setattr(worker, "IS_PRELOADED", "zray.tune.pickles")
    preloading.suggest(worker.TrialActor)
    preloading.suggest(worker.TrialActor)  # another worker that was forked before the first one asked
    monkeypatch.delitem(sys.modules, "zray.tune.pickles", raising=False)
    pipe.read()
    assert "zray.tune.pickles" not in sys.modules
    preloading.suggest(worker.TrialActor)  # a worker forked since
    assert lines_of(pipe) == b"zray.tune.pickles\n"
    preloading.suggest(worker.TrialActor)
    pipe.read()
    assert "zray.tune.pickles" in sys.modules
    preloading.suggest(worker.TrialActor)
    assert lines_of(pipe) == b""


def test_a_full_pipe_does_not_stop_a_worker(pipe, as_worker):
    from zray.tune.worker import TrialActor

    with pytest.raises(BlockingIOError):
        while True:
            os.write(pipe.lines_in, bytes(1 << 16))
    preloading.suggest(TrialActor)


def test_later_workers_of_the_session_have_the_module(nothing_left):
    from zray.tune.worker import TrialActor

    @zray.remote
    class Other:
        def has(self):
            return "zray.tune.worker" in sys.modules

    with zray.init(num_cpus=1, log_to_driver=False):
        assert not zray.get(Other.remote().has.remote())
        trial = zray.remote(TrialActor).remote()
        zray.get(trial.facts.remote())
        del trial
        assert until(lambda: zray.get(Other.remote().has.remote()))
