"""Programs that change while they run: sys.path grows, modules are edited and reloaded.  Tasks see it from then on."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import zray
from tests.changing import (
    Keeper,
    Project,
    edit,
    edit_and_import_again,
    edit_only,
    fail_to_import_again,
    fail_to_reload,
    fresh_worker_version,
    get,
    importer,
    keeper_of,
    project_in,
)
from tests.scripts import environment
from zray.host import context


@pytest.fixture
def project(tmp_path, monkeypatch):
    yield from project_in(tmp_path, monkeypatch)


# --- sys.path ---


def test_path_that_grows_after_init_is_that_of_tasks(start, project):
    """A function of a module that was imported from there, too: it is pickled by its name."""
    start(num_cpus=1)
    get(zray.remote(lambda: 1).remote())
    sys.path.append(str(project.folder))
    late = project.load()
    assert get(zray.remote(late.version).remote()) == "first"
    assert get(zray.remote(lambda: late.version()).remote()) == "first"


@pytest.mark.parametrize("is_first", [False, True])
def test_path_that_grows_is_seen_by_functions_and_actors_that_were_there(start, project, is_first):
    """The program imports nothing itself; the entry is no absolute path."""
    start(num_cpus=1)
    version_of, keeper = importer(project.name), zray.remote(Keeper).options(num_cpus=0).remote(None)
    with pytest.raises(zray.exceptions.TaskError, match="No module named"):
        get(version_of.remote())
    with pytest.raises(zray.exceptions.TaskError, match="No module named"):
        get(keeper.version_of.remote(project.name))
    sys.path.insert(0 if is_first else len(sys.path), os.path.relpath(project.folder))
    assert get([version_of.remote(), keeper.version_of.remote(project.name)]) == ["first", "first"]


def test_entries_of_the_path_that_are_no_text_are_passed_over(start, project):
    """The order is Python's own."""
    sys.path.append(Path("/"))
    start(num_cpus=1)
    sys.path += [None, "/\udc80", Path(project.folder), str(project.folder)]
    assert get(importer(project.name).remote()) == "first"


def test_path_that_shrinks_is_that_of_tasks(start, project, tmp_path_factory):
    """A program that adds folder after folder, and takes each away again, does not fill the path of its workers."""
    other = Project(tmp_path_factory.mktemp("other"), "helper")
    other.name = project.name
    other.write("another")
    start(num_cpus=1)
    path = [*sys.path]
    sys.path[:] = [*path, str(project.folder)]
    assert get(importer(project.name).remote()) == "first"
    sys.path[:] = [*path, str(other.folder), "/further"]
    shown = get(zray.remote(lambda: list(sys.path)).remote())
    assert str(other.folder) in shown and str(project.folder) not in shown


def test_working_folder_that_changes_is_where_the_empty_entry_leads(project):
    """python -c, the prompt and notebooks have "" at the head of their path."""
    code = f"""
import os, zray
zray.init(num_cpus=1)
zray.get(zray.remote(lambda: 1).remote())
os.chdir({str(project.folder)!r})
import {project.name} as late
print(zray.get(zray.remote(late.version).remote(), timeout=40))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=50, cwd="/"
    )
    assert done.stdout == "first\n", done.stderr


# --- modules that are reloaded ---


@pytest.mark.parametrize("change", [edit_only, fail_to_reload, fail_to_import_again])
def test_workers_use_the_version_that_the_program_has_in_memory(start, project, change):
    """Fresh workers and actors, those that run, and what imports the module itself; until the next reload."""
    sys.path.append(str(project.folder))
    helper = project.load()
    start(num_cpus=2)
    fresh, by_import, actor_class = fresh_worker_version(helper), importer(project.name), keeper_of(helper)

    def seen():
        refs = [fresh.remote(), fresh.remote(), by_import.remote(), zray.remote(helper.version).remote()]
        return {*get([*refs, actor_class.remote().version.remote()])}

    assert seen() == {"first"}
    change(project, helper)
    assert seen() == {"first"}
    sys.modules[project.name] = helper
    edit(project, helper)
    assert seen() == {"the second one"}
    change(project, helper)
    assert seen() == {"the second one"}


def test_traceback_of_an_edited_module_shows_the_lines_that_have_run(start, project):
    text = "VERSION = 1\ndef version():\n    raise ValueError(VERSION)  # as imported\n"
    (project.folder / f"{project.name}.py").write_text(text)
    sys.path.append(str(project.folder))
    helper = project.load()
    start(num_cpus=1)
    get(zray.remote(lambda: 1).remote())
    project.write("edited")
    with pytest.raises(zray.exceptions.TaskError, match="as imported"):
        get(fresh_worker_version(helper).remote())


def test_second_session_goes_on_with_the_version_in_memory(start, project):
    sys.path.append(str(project.folder))
    helper = project.load()
    start(num_cpus=1)
    assert get(fresh_worker_version(helper).remote()) == "first"
    zray.shutdown()
    project.write("edited")
    start(num_cpus=1)
    assert get(fresh_worker_version(helper).remote()) == "first"


@pytest.mark.parametrize("change", [edit, edit_and_import_again])
def test_reloaded_module_is_that_of_new_tasks_and_actors(start, project, change):
    """A function by its name, one that uses the module, one that imports it; an actor that runs keeps its own."""
    sys.path.append(str(project.folder))
    helper = project.load()
    start(num_cpus=2)

    @zray.remote
    def by_use():
        return helper.version()

    by_import, actor_class = importer(project.name), keeper_of(helper)
    old = actor_class.remote()

    def seen():
        refs = [zray.remote(sys.modules[project.name].version).remote(), by_use.remote(), by_import.remote()]
        return get([*refs, actor_class.remote().version.remote()])

    assert seen() == ["first"] * 4
    assert get(old.version.remote()) == "first"  # it runs
    change(project, helper)
    assert seen() == ["the second one"] * 4
    assert get(old.version.remote()) == "first"


def test_reload_is_seen_by_what_runs_inside_a_task_that_waits(start, project):
    """That task's worker cannot be replaced, and runs the new task itself."""
    sys.path.append(str(project.folder))
    helper = project.load()
    start(num_cpus=1)
    told, asked = zray.remote(Flag).options(num_cpus=0).remote(), zray.remote(Flag).options(num_cpus=0).remote()

    @zray.remote
    def child():
        return helper.version()

    @zray.remote
    def parent(told, asked):
        before = helper.version()
        zray.get(asked.set.remote())
        zray.get(told.wait.remote())
        return before, zray.get(child.remote())

    ref = parent.remote(told, asked)
    get(asked.wait.remote())
    edit(project, helper)
    after = child.remote()
    get(told.set.remote())
    assert get(ref) == ("first", "the second one")
    assert get(after) == "the second one"


class Flag:
    """Set by one, waited for by another."""

    def __init__(self):
        import asyncio

        self.event = asyncio.Event()

    async def set(self):
        self.event.set()

    async def wait(self):
        await self.event.wait()


def test_workers_without_modules_of_the_program_stay(start, project):
    sys.path.append(str(project.folder))
    helper = project.load()
    start(num_cpus=1)
    pid = zray.remote(os.getpid)
    before = get(pid.remote())
    edit(project, helper)
    assert get(pid.remote()) == before
    importlib.reload(importlib.import_module("colorsys"))
    get(zray.remote(helper.version).remote())
    before = get(pid.remote())
    importlib.reload(importlib.import_module("colorsys"))  # not of the program
    assert get(pid.remote()) == before


def test_fork_server_has_no_module_of_the_program(start, project):
    """Workers are born without any; `tests` is the program here."""
    start(num_cpus=1)
    kept = get(zray.remote(lambda: [name for name in sys.modules if name.partition(".")[0] == "tests"]).remote())
    assert kept == []


def test_watch_over_imports_ends_with_the_session(start):
    before = [*sys.meta_path]
    start(num_cpus=1)
    assert context.runtime.watch in sys.meta_path
    zray.shutdown()
    assert sys.meta_path == before
