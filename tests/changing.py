"""Modules of programs that change while they run: written, edited, reloaded; and what uses them."""

import importlib
import os
import sys

import pytest

import zray

DEADLINE_S = 40


class Project:
    """A folder with modules, which differ from test to test by name."""

    def __init__(self, folder, name):
        self.folder = folder
        self.name = f"{name}_{os.path.basename(folder)}"

    def write(self, version):
        """No two versions have the same length, so that files of the same second differ for Python."""
        (self.folder / f"{self.name}.py").write_text(f"VERSION = {version!r}\ndef version():\n    return VERSION\n")

    def load(self):
        importlib.invalidate_caches()
        return importlib.import_module(self.name)


def project_in(tmp_path, monkeypatch):
    """A fixture's generator: a project with its first version, which is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = Project(tmp_path, "helper")
    made.write("first")
    yield made
    sys.modules.pop(made.name, None)


def get(refs):
    return zray.get(refs, timeout=DEADLINE_S)


def importer(name):
    """A task that imports a module in its body: the program need not have it."""

    @zray.remote
    def version_of():
        return importlib.import_module(name).version()

    return version_of


class Keeper:
    """An actor that uses a module."""

    def __init__(self, module):
        self.module = module

    def version(self):
        return self.module.version()

    def version_of(self, name):
        return importlib.import_module(name).version()

    def path_folders(self, part):
        return sum(part in entry for entry in sys.path)


def keeper_of(module):
    """The module is pickled by its name."""

    @zray.remote(num_cpus=0)
    class Holder:
        def version(self):
            return module.version()

    return Holder


def edit(project, module):
    project.write("the second one")
    importlib.reload(module)


def edit_and_import_again(project, module):
    project.write("the second one")
    del sys.modules[project.name]
    project.load()


def edit_only(project, module):
    project.write("edited, and not reloaded")


def fail_to_reload(project, module):
    (project.folder / f"{project.name}.py").write_text("VERSION = (")
    with pytest.raises(SyntaxError):
        importlib.reload(module)


def fail_to_import_again(project, module):
    (project.folder / f"{project.name}.py").write_text("1 / 0")
    del sys.modules[project.name]
    with pytest.raises(ZeroDivisionError):
        project.load()


def fresh_worker_version(module):
    """A task whose process runs no other task."""

    @zray.remote(max_calls=1)
    def version():
        return module.version()

    return version
