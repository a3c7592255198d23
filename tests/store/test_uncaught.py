"""Uncaught errors without zray's own frames, in IPython too, which asks the error itself for its lines."""

import sys
import traceback
from types import SimpleNamespace

import pytest

import zray.api.sessions  # noqa: F401 (hands errors to IPython)
from zray import exceptions
from zray.store.folding import OWN_FOLDER, VARIABLE


@pytest.fixture
def ipython(monkeypatch):
    def structured_traceback(kind, error, trace):
        return traceback.format_exception(kind, error, trace)

    shell = SimpleNamespace(InteractiveTB=SimpleNamespace(structured_traceback=structured_traceback))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


def raised(error):
    own = {}
    exec(compile("def get(error):\n    raise error", f"{OWN_FOLDER}api/objects.py", "exec"), own)
    try:
        own["get"](error)
    except exceptions.ZrayError as found:
        return found


@pytest.mark.parametrize("shows_all", [False, True])
def test_ipython_shows_no_frame_of_zray(ipython, monkeypatch, shows_all):
    monkeypatch.setenv(VARIABLE, "1" if shows_all else "")
    dual = exceptions.TaskError("f", "...", ValueError("no")).as_instanceof_cause()
    for error in (exceptions.GetTimeoutError("late"), dual):
        text = "".join(raised(error)._render_traceback_())
        assert __file__ in text and (OWN_FOLDER + "api/objects.py" in text) is shows_all
