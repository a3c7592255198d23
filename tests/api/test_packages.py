"""pip and uv of a runtime_env: workers with packages of their own.  All packages are made here, without a network."""

import os
import sys

import pytest

import zray
from tests.wheels import make_wheel
from zray.exceptions import RuntimeEnvSetupError
from zray.host import context
from zray.host.process.process_utils import children_of


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A folder with two versions of a package, and one that needs it."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        make_wheel(folder, "tinylib", version, f"VERSION = {version!r}\n")
    make_wheel(folder, "upperlib", "1.0", "import tinylib\n", requires=["tinylib==1.0"])
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("environments")
    os.chmod(folder, 0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZRAY_ENV_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def program(nothing_left, cache, wheels):
    """A session whose programs find these packages by variables of pip."""
    with zray.init(
        num_cpus=2, runtime_env={"env_vars": {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}}
    ) as session:
        yield session


def pip(*packages):
    return {"pip": list(packages)}


@zray.remote
def version():
    import tinylib

    return tinylib.VERSION


@zray.remote
def surroundings():
    import numpy

    return sys.prefix, os.environ["VIRTUAL_ENV"], numpy.__file__, os.getppid(), hash("a text")


@zray.remote
class Actor:
    def version(self):
        return zray.get(version.remote())


def test_tasks_have_their_packages_and_others_do_not(program):
    one, two = (version.options(runtime_env=pip(f"tinylib=={number}")) for number in ("1.0", "2.0"))
    assert zray.get([one.remote(), two.remote(), one.remote()], timeout=60) == ["1.0", "2.0", "1.0"]
    with pytest.raises(ModuleNotFoundError):
        zray.get(version.remote())


def test_workers_of_an_environment_have_their_own_fork_server_and_the_nodes_packages(program, cache):
    import numpy

    own = surroundings.options(runtime_env=pip("tinylib==1.0"))
    prefix, named, found, parent, hashed = zray.get(own.remote(), timeout=60)
    assert prefix == named and prefix.startswith(str(cache)) and found == numpy.__file__
    plain = zray.get(surroundings.options(runtime_env={"env_vars": {"VIRTUAL_ENV": ""}}).remote())
    assert parent != plain[3] and parent in children_of(context.runtime.node_pid)
    assert hashed == plain[4], "equal strings have equal hashes in all tasks"
    again = zray.get(own.remote())
    assert again == (prefix, named, found, parent, hashed)


def test_children_and_actors_have_the_packages(program):
    actor = Actor.options(runtime_env=pip("tinylib==2.0")).remote()
    assert zray.get(actor.version.remote(), timeout=60) == "2.0"


def test_fields_on_top_keep_the_packages(program):
    @zray.remote
    def parent():
        own = version.options(runtime_env={"env_vars": {"SIZE": "1"}})
        return zray.get(own.remote()), zray.get_runtime_context().runtime_env["pip"]["packages"]

    assert zray.get(parent.options(runtime_env=pip("tinylib==1.0")).remote(), timeout=60) == ("1.0", ["tinylib==1.0"])


@pytest.mark.parametrize("form", ["path", "dict", "include"])
def test_requests_have_many_forms(program, wheels, tmp_path, form):
    (tmp_path / "requirements.txt").write_text("# the one\n-r more/rest.txt\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/rest.txt").write_text("tinylib==1.0  # as before\n")
    env = {
        "path": {"pip": str(tmp_path / "more/rest.txt")},
        "dict": {"pip": {"packages": [str(wheels / "upperlib-1.0-py3-none-any.whl")], "pip_check": True}},
        "include": {"pip": {"packages": str(tmp_path / "requirements.txt"), "pip_check": False}},
    }[form]
    assert zray.get(version.options(runtime_env=env).remote(), timeout=60) == "1.0"


def test_equal_requests_are_one_environment(program, tmp_path):
    (tmp_path / "requirements.txt").write_text("\ntinylib==1.0\n")
    first = zray.get(surroundings.options(runtime_env=pip("tinylib==1.0")).remote(), timeout=60)
    second = zray.get(
        surroundings.options(runtime_env={"pip": str(tmp_path / "requirements.txt")}).remote(), timeout=60
    )
    assert first[0] == second[0]


def test_failed_installation_is_an_error_with_the_last_lines(program, cache):
    before = sorted(name for name in os.listdir(cache) if name != "room")
    own = version.options(runtime_env=pip("nosuchlib==7"))
    with pytest.raises(
        RuntimeEnvSetupError, match=r"(?s)pip exited with code 1.*No matching distribution.*nosuchlib==7"
    ):
        zray.get(own.remote(), timeout=60)
    with pytest.raises(RuntimeEnvSetupError):
        zray.get([own.remote() for _ in range(3)], timeout=5)
    actor = Actor.options(runtime_env=pip("nosuchlib==7")).remote()
    with pytest.raises(RuntimeEnvSetupError, match="nosuchlib"):
        zray.get(actor.version.remote(), timeout=60)
    assert sorted(name for name in os.listdir(cache) if name != "room") == before


def test_versions_that_do_not_fit_are_an_error_where_that_is_asked_for(program, wheels):
    make_wheel(wheels, "unfitlib", "1.0", "", requires=["tinylib==9"])
    packages = [str(wheels / "unfitlib-1.0-py3-none-any.whl")]
    env = {"pip": {"packages": packages, "pip_check": True, "pip_install_options": ["--no-deps"]}}
    with pytest.raises(RuntimeEnvSetupError, match=r"(?s)pip check exited with code 1.*unfitlib 1.0 requires tinylib"):
        zray.get(version.options(runtime_env=env).remote(), timeout=60)
