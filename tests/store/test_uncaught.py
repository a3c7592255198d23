"""Uncaught errors without zray's own frames, in IPython too, of each class."""

import importlib.util
import os
import re
import subprocess
import sys
import traceback
from types import SimpleNamespace

import pytest

import zray.api.sessions  # noqa: F401 (hands errors to IPython)
from tests.scripts import environment, write_script
from zray import exceptions
from zray.on_import import uncaught
from zray.store.folding import OWN_FOLDER, VARIABLE

OWN_FILE = OWN_FOLDER + "api/objects.py"


class Shell:
    """The part of IPython's shell that shows errors."""

    def __init__(self):
        self.InteractiveTB = SimpleNamespace(structured_traceback=traceback.format_exception)
        self.shown = []

    def showtraceback(self, exc_tuple=None, filename=None, tb_offset=None, running_compiled_code=False):
        self.shown.append("".join(traceback.format_exception(*(exc_tuple or sys.exc_info()))))


@pytest.fixture
def shell(monkeypatch):
    shell = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    uncaught.install()
    return shell


def raised(error, file=OWN_FILE):
    own = {}
    exec(compile("def get(error):\n    raise error", file, "exec"), own)
    try:
        own["get"](error)
    except BaseException as found:
        return found


def dual():
    return exceptions.TaskError("f", "...", ValueError("no")).as_instanceof_cause()


@pytest.mark.parametrize("shows_all", [False, True])
def test_shell_that_a_program_starts_itself_shows_no_frame_of_zray_for_errors_of_zray(shell, monkeypatch, shows_all):
    monkeypatch.setenv(VARIABLE, "1" if shows_all else "")
    for error in (exceptions.GetTimeoutError("late"), dual()):
        text = "".join(raised(error)._render_traceback_())
        assert __file__ in text and (OWN_FILE in text) is shows_all


@pytest.mark.parametrize("shows_all", [False, True])
@pytest.mark.parametrize("error", [TypeError, ValueError, KeyboardInterrupt, dual])
def test_shell_shows_no_frame_of_zray_for_any_class(shell, monkeypatch, error, shows_all):
    monkeypatch.setenv(VARIABLE, "1" if shows_all else "")
    error = raised(error())
    shell.showtraceback((type(error), error, error.__traceback__), tb_offset=0)
    try:
        raise RuntimeError("later") from raised(TypeError("cause"))
    except RuntimeError:
        shell.showtraceback(running_compiled_code=True)
    assert len(shell.shown) == 2
    for text in shell.shown:
        assert __file__ in text and (OWN_FILE in text) is shows_all


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_members_of_a_group_are_cut_too():
    inner = ExceptionGroup("inner", [raised(TypeError("no"))])  # noqa: F821 (new in 3.11)
    group = ExceptionGroup("outer", [inner, raised(TypeError("no"), "/lib/other.py")])  # noqa: F821
    uncaught.cut_all(group)
    text = "".join(traceback.format_exception(group))
    assert "/lib/other.py" in text and OWN_FILE not in text


def test_shell_shows_errors_of_other_libraries_unchanged(shell):
    error = raised(TypeError("no"), "/lib/other.py")
    text = "".join(traceback.format_exception(error))
    shell.showtraceback((type(error), error, error.__traceback__))
    assert shell.shown == [text] and "/lib/other.py" in text


def test_shell_is_changed_once(shell):
    changed = shell.showtraceback
    uncaught.install()
    assert shell.showtraceback == changed


MISTAKES = {
    "an unknown option": "ray.remote(num_cpu=1)(print)",
    "a wrong option of a call": "ray.remote(print).options(num_cpus='x')",
    "a direct call": "ray.remote(print)(1)",
    "a wrong timeout": "ray.get(ray.ObjectRef, timeout='x')",
    "a wrong trainable": "ray.tune.Tuner(3)",
    "a name that is absent": "ray.util.ActorPooll",
    "a module that is absent": "import zray.util.colective",
    "an error of zray": "ray.get_actor('nobody', namespace='n')",
    "an error of a library": "import json; json.loads('{')",
}
IN_SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
shell.run_cell("import zray as ray; import zray.tune; ray.init(local_mode=True)")
for code in sys.argv[1:]:
    print("<cell>")
    shell.run_cell(code)
"""


@pytest.mark.skipif(not importlib.util.find_spec("IPython"), reason="IPython is not installed here")
def test_ipython_shows_no_frame_of_zray_for_any_mistake(tmp_path):
    command = [sys.executable, write_script(tmp_path, IN_SHELL), *MISTAKES.values()]
    variables = {**environment(), "IPYTHONDIR": str(tmp_path), VARIABLE: ""}
    cells = {}
    for variables[VARIABLE] in ("", "1"):
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=50)
        assert not done.returncode, done.stderr
        cells[variables[VARIABLE]] = dict(zip(MISTAKES, done.stdout.split("<cell>\n")[1:], strict=True))
    frames = re.compile(rf"{re.escape(OWN_FOLDER)}|{re.escape(os.path.relpath(OWN_FOLDER, tmp_path))}")
    for mistake, text in cells[""].items():
        whole = cells["1"][mistake]
        assert not frames.search(text) and MISTAKES[mistake] in text, text
        assert text.splitlines()[-1] == whole.splitlines()[-1]
        assert bool(frames.search(whole)) is ("of a library" not in mistake), whole
    assert "json/decoder.py" in text and text == whole
