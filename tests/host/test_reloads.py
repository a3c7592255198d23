"""The look-out for modules that a program imports anew, and sys.path in a worker."""

import importlib
import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from zray.host.code_changes import CodeChanges
from zray.host.reloads import ReloadWatch, forget_own_modules, own_modules


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


def test_reloads_of_own_modules_are_noted_once(watch, module):
    assert watch.take() == []
    importlib.reload(module)
    importlib.reload(module)
    assert watch.noted and watch.take() == [module.__name__] and watch.take() == []


def test_second_import_of_an_own_module_is_noted(watch, module):
    del sys.modules[module.__name__]
    importlib.import_module(module.__name__)
    assert watch.take() == [module.__name__]


def test_import_that_is_under_way_is_noted_when_the_module_is_there(watch, module):
    """Another thread looks between the finder's answer and the module's appearance."""
    del sys.modules[module.__name__]
    watch.find_spec(module.__name__)
    assert watch.take() == []
    sys.modules[module.__name__] = module
    assert watch.take() == [module.__name__] and watch.take() == []


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
    assert watch.take() == [f"new_{tmp_path.name}"]


def test_modules_that_are_not_the_programs_are_passed_over(watch):
    importlib.reload(importlib.import_module("colorsys"))
    assert watch.take() == []


def test_finder_of_another_library_does_not_hide_imports(watch, module, monkeypatch):
    """Such as instrument what they find stand at the head of sys.meta_path."""
    finder = SimpleNamespace(find_spec=importlib.machinery.PathFinder.find_spec)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    watch.learn()
    importlib.reload(module)
    assert watch.take() == [module.__name__] and sys.meta_path.count(watch) == 1


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
        with open(module.__file__, "w") as file:
            file.write(text)
        begin_cell(None)
        return watch.take()

    assert edit("VERSION = 22\n") == []
    monkeypatch.setitem(sys.modules, "IPython.extensions.autoreload", ModuleType("autoreload"))
    assert edit("VERSION = 333\n") == [module.__name__]
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
    monkeypatch.setattr("zray.host.reloads.own_modules", lambda: {module.__name__: module.__file__})
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
