"""The look-out for modules that a program imports anew, and sys.path in a worker."""

import importlib
import importlib.util
import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from zray.host.code.reloads import ReloadWatch, forget_own_modules, own_modules
from zray.host.worker.code_changes import CodeChanges


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the program, which is imported."""
    name = f"watched_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("VERSION = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(name)
    sys.modules.pop(name, None)


@pytest.fixture
def watch(module):
    noted = []
    watch = ReloadWatch(lambda: noted.append(1))
    watch.noted = noted
    yield watch
    watch.close()


def names(reloaded):
    return [each.name for each in reloaded]


def write(module, text):
    with open(module.__file__, "w") as file:
        file.write(text)


def test_reloads_of_own_modules_are_noted_once_in_the_version_that_was_executed(watch, module):
    assert watch.take() == []
    importlib.reload(module)
    write(module, "VERSION = 22\n")
    importlib.reload(module)
    write(module, "VERSION = 333\n")
    (reloaded,) = watch.take()
    assert watch.noted and reloaded[:2] == (module.__name__, module.__file__)
    assert reloaded.version.data == b"VERSION = 22\n" and watch.take() == []


@pytest.mark.parametrize("text, error", [("VERSION = (", SyntaxError), ("VERSION = 2\n1 / 0\n", ZeroDivisionError)])
def test_reloads_that_fail_are_not_noted(watch, module, text, error):
    write(module, text)
    with pytest.raises(error):
        importlib.reload(module)
    assert not watch.noted and watch.take() == []
    write(module, "VERSION = 33333333\n")
    importlib.reload(module)
    assert names(watch.take()) == [module.__name__] and module.VERSION == 33333333


def test_reloaded_module_is_as_without_the_watch(watch, module):
    importlib.reload(module)
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert "exec_module" not in vars(module.__loader__)


def test_second_import_of_an_own_module_is_noted(watch, module):
    del sys.modules[module.__name__]
    importlib.import_module(module.__name__)
    assert names(watch.take()) == [module.__name__]


def test_import_that_is_under_way_is_noted_when_it_has_ended(watch, module):
    del sys.modules[module.__name__]
    spec = watch.find_spec(module.__name__)
    again = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = again
    assert watch.take() == []
    spec.loader.exec_module(again)
    assert names(watch.take()) == [module.__name__] and watch.take() == []


def test_first_imports_and_those_that_fail_are_not_noted(watch, tmp_path):
    (tmp_path / f"new_{tmp_path.name}.py").write_text("")
    for name in (f"new_{tmp_path.name}", "no_such_module", "no_such_module"):
        try:
            importlib.import_module(name)
        except ImportError:
            pass
        watch.learn()
    assert not watch.noted
    del sys.modules[f"new_{tmp_path.name}"]
    importlib.import_module(f"new_{tmp_path.name}")
    assert names(watch.take()) == [f"new_{tmp_path.name}"]


def test_modules_that_are_not_the_programs_are_passed_over(watch):
    importlib.reload(importlib.import_module("colorsys"))
    assert watch.take() == []


def test_finder_of_another_library_does_not_hide_imports(watch, module, monkeypatch):
    """Such as instrument what they find stand at the head of sys.meta_path."""
    finder = SimpleNamespace(find_spec=importlib.machinery.PathFinder.find_spec)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    watch.learn()
    importlib.reload(module)
    assert names(watch.take()) == [module.__name__] and sys.meta_path.count(watch) == 1


def test_files_that_change_between_cells_count_as_reloaded_where_autoreload_is_on(module, monkeypatch):
    """IPython's %autoreload patches functions in place, and imports nothing."""
    callbacks = []
    events = SimpleNamespace(
        register=lambda name, call: callbacks.append((name, call)),
        unregister=lambda name, call: callbacks.remove((name, call)),
    )
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(events=events)))
    watch = ReloadWatch(lambda: None)
    ((name, begin_cell),) = callbacks
    assert name == "pre_run_cell"

    def edit(text):
        write(module, text)
        begin_cell(None)
        return names(watch.take())

    assert edit("VERSION = 22\n") == []
    monkeypatch.setitem(sys.modules, "IPython.extensions.autoreload", ModuleType("autoreload"))
    assert edit("VERSION = 333\n") == [module.__name__]
    assert edit("VERSION = 4444 +\n") == []  # %autoreload fails, too
    assert edit("VERSION = 55555\n") == [module.__name__]
    begin_cell(None)
    assert watch.take() == []
    os.unlink(module.__file__)
    begin_cell(None)
    assert watch.take() == []
    watch.close()
    assert callbacks == []


def test_own_modules_are_forgotten_and_others_stay(module, monkeypatch):
    """Modules that load themselves upon the first look are not looked at."""

    class Lazy(ModuleType):
        def __getattribute__(self, name):
            raise AssertionError(name)

    for name, value in (("lazy", Lazy("lazy")), ("odd", object()), ("__main__", module)):
        monkeypatch.setitem(sys.modules, name, value)
    monkeypatch.setattr("zray.host.code.reloads.own_modules", lambda: {module.__name__: module.__file__})
    assert module.__name__ in own_modules()
    assert not {"lazy", "odd", "os", "zray", "pytest", "__main__"} & own_modules().keys()
    forget_own_modules()
    assert module.__name__ not in sys.modules and "os" in sys.modules


def test_path_of_a_worker_follows_that_of_its_program(monkeypatch):
    """What tasks have added stays behind it; what has travelled stays ahead."""
    monkeypatch.setattr(sys, "path", ["/lib"])
    worker = SimpleNamespace(code=None)
    changes = CodeChanges(worker)
    changes.show_path(("/program", "/lib"))
    assert sys.path == ["/program", "/lib"]
    sys.path.append("/of_a_task")
    changes.show_path(("/program", "/more"))
    assert sys.path == ["/program", "/more", "/lib", "/of_a_task"]
    worker.code = SimpleNamespace(cache=SimpleNamespace(folder="/session/code"))
    sys.path.insert(0, "/session/code/1")
    changes.show_path(("/another",))
    assert sys.path == ["/session/code/1", "/another", "/lib", "/of_a_task"]
