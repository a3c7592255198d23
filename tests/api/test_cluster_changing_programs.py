"""Programs that change while they run, in a cluster: tasks on all nodes see the same version."""

import importlib
import sys
import warnings

import pytest

import zray
from tests.changing import (
    Keeper,
    Project,
    edit,
    edit_only,
    fail_to_reload,
    fresh_worker_version,
    get,
    importer,
    keeper_of,
    project_in,
)
from zray.cluster_utils import Cluster
from zray.host import context
from zray.host.code import upload

NODES = ("a", "b")


@pytest.fixture
def project(tmp_path, monkeypatch):
    yield from project_in(tmp_path, monkeypatch)


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
    """Imports of the task travel to nodes that do not see the folder, or are found there."""
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
    project.write("version three")
    importlib.reload(helper)
    assert seen() == {"version three"}
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
    monkeypatch.setattr(upload, "BUNDLES_MAX", 5)
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
    monkeypatch.setattr(upload, "BUNDLES_MAX", 5)
    sys.path.append(str(project.folder))
    made = [Project(project.folder, f"module{number}") for number in range(12)]
    for one in made:
        one.write(one.name)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert {*on_all(fresh_worker_version(one.load()))} == {one.name}
    assert len(context.runtime.shipper.sent) <= 5
    assert {*on_all(fresh_worker_version(made[0].load()))} == {made[0].name}
