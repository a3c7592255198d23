"""Programs that change while they run: sys.path grows, modules are edited and reloaded.  Tasks see it from then on."""

import importlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import zray
from tests.scripts import environment
from zray.cluster_utils import Cluster
from zray.host import context, shipping

DEADLINE_S = 40
NODES = ("a", "b")


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


@pytest.fixture
def project(tmp_path, monkeypatch):
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


# --- several nodes ---


@pytest.fixture(scope="module")
def cluster(nothing_left):
    """Two nodes; the program is on the first one's."""
    with Cluster(True, head_node_args={"num_cpus": 1, "resources": {"a": 1}}) as cluster:
        for name in NODES[1:]:
            cluster.add_node(num_cpus=1, resources={name: 1})
        cluster.wait_for_nodes()
        yield cluster


@pytest.fixture
def joined(cluster):
    with zray.init(address=cluster.address):
        yield


def on_all(function):
    return get([function.options(resources={name: 0.1}).remote() for name in NODES])


def test_path_that_grows_reaches_all_nodes(joined, project):
    """What the task imports travels to nodes that do not see the folder, or is found there."""
    assert on_all(zray.remote(lambda: 1)) == [1, 1]
    sys.path.append(str(project.folder))
    version_of = importer(project.name)
    assert on_all(version_of) == ["first"] * 2
    late = project.load()
    assert on_all(zray.remote(late.version)) == ["first"] * 2
    files = on_all(zray.remote(lambda: late.__file__))
    assert files[0] == late.__file__ and all(file.endswith(f"/{project.name}.py") for file in files[1:])


def test_reloaded_module_is_that_of_new_tasks_and_actors_on_all_nodes(joined, project):
    sys.path.append(str(project.folder))
    helper = project.load()
    by_use, actor_class = zray.remote(lambda: helper.version()), keeper_of(helper)
    old = [actor_class.options(resources={name: 0.1}).remote() for name in NODES]

    def seen():
        new = [actor_class.options(resources={name: 0.1}).remote() for name in NODES]
        return {*on_all(by_use), *on_all(zray.remote(helper.version)), *get([actor.version.remote() for actor in new])}

    assert seen() == {"first"}
    assert get([actor.version.remote() for actor in old]) == ["first"] * 2
    edit(project, helper)
    assert seen() == {"the second one"}
    project.write("third")
    importlib.reload(helper)
    assert seen() == {"third"}
    project.write("first")  # the same bytes as once before
    importlib.reload(helper)
    assert seen() == {"first"}
    edit(project, helper)
    assert get([actor.version.remote() for actor in old]) == ["first"] * 2


@pytest.mark.parametrize("change", [edit_only, fail_to_reload])
def test_all_nodes_use_the_version_that_the_program_has_in_memory(joined, project, change):
    """On each node in fresh workers and actors; also where another module is reloaded, or imported, later."""
    sys.path.append(str(project.folder))
    helper = project.load()
    other = Project(project.folder, "other")
    other.write("first")
    fresh, actor_class = fresh_worker_version(helper), keeper_of(helper)

    def seen():
        actors = [actor_class.options(resources={name: 0.1}).remote() for name in NODES]
        return {*on_all(fresh), *on_all(zray.remote(helper.version)), *get([one.version.remote() for one in actors])}

    assert seen() == {"first"}
    change(project, helper)
    assert seen() == {"first"}
    loaded = other.load()
    assert {*on_all(fresh_worker_version(loaded))} == {"first"}
    edit(other, loaded)
    assert {*on_all(fresh_worker_version(loaded))} == {"the second one"} and seen() == {"first"}
    edit(project, helper)
    assert seen() == {"the second one"}


def test_part_of_a_package_that_is_edited_and_not_reloaded_stays_as_it_is(joined, project):
    """Although the package travels again, since another part of it was reloaded."""
    package = project.folder / f"package_{project.name}"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("one", "two"):
        (package / f"{name}.py").write_text("VERSION = 1\n")
    sys.path.append(str(project.folder))
    one, two = (importlib.import_module(f"{package.name}.{name}") for name in ("one", "two"))

    @zray.remote(max_calls=1)
    def versions():
        return one.VERSION, two.VERSION

    assert {*on_all(versions)} == {(1, 1)}
    (package / "one.py").write_text("VERSION = 22\n")
    (package / "two.py").write_text("VERSION = 22\n")
    importlib.reload(one)
    assert {*on_all(versions)} == {(22, 1)}
    importlib.reload(two)
    assert {*on_all(versions)} == {(22, 22)}


def test_newest_version_travels_however_often_a_module_is_reloaded(joined, project, monkeypatch):
    monkeypatch.setattr(shipping, "BUNDLES_MAX", 5)
    sys.path.append(str(project.folder))
    helper = project.load()
    fresh = fresh_worker_version(helper)
    keeper = zray.remote(Keeper).options(num_cpus=0, resources={NODES[1]: 0.1}).remote(helper)
    for number in range(10):
        project.write("x" * (number + 1))
        importlib.reload(helper)
        get([fresh.remote(), keeper.version.remote()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {*on_all(fresh)} == {"x" * 10}
    assert get(keeper.path_folders.remote("/code/")) <= 5
    assert len(context.runtime.shipper.sent) <= 5


def test_modules_that_are_imported_one_by_one_all_travel(joined, project, monkeypatch):
    monkeypatch.setattr(shipping, "BUNDLES_MAX", 5)
    sys.path.append(str(project.folder))
    made = [Project(project.folder, f"module{number}") for number in range(12)]
    for one in made:
        one.write(one.name)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert {*on_all(fresh_worker_version(one.load()))} == {one.name}
    assert len(context.runtime.shipper.sent) <= 5
    assert {*on_all(fresh_worker_version(made[0].load()))} == {made[0].name}
