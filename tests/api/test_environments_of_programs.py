"""Environments of whole programs; installers that hang or die; what is left of them: nothing."""

import os
import signal
import sys
import zipfile
from pathlib import Path

import psutil
import pytest

import zray
from tests.gates import until, until_ended
from tests.wheels import make_wheel
from zray.cluster_utils import Cluster
from zray.exceptions import RuntimeEnvSetupError
from zray.host import context


@zray.remote
def look(*modules):
    return os.getcwd(), sorted(os.listdir()), [__import__(name).NAME for name in modules]


@zray.remote
class Looker:
    def look(self, *modules):
        return [__import__(name).NAME for name in modules]


@zray.remote
def prefix():
    import wheeled

    return sys.prefix, wheeled.NAME


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/inside.py").write_text("NAME = 'inside'")
    return tmp_path / "work"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    (folder / "single.py").write_text("NAME = 'single'")
    wheel = make_wheel(folder / "wheels", "wheeled", "1.0", "NAME = 'wheeled'")
    return {"single": folder / "single.py", "wheeled": wheel}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Packages that one test has installed are there for the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZRAY_ENV_CACHE", str(tmp_path_factory.mktemp("cache") / "environments"))
        yield Path(os.environ["ZRAY_ENV_CACHE"])


@pytest.fixture
def uv(tmp_path, monkeypatch):
    """`uv(body)`: a program of that name is found first; it notes its pid, then runs the body.  Returns the notes."""

    def make(body):
        calls = tmp_path / "calls"
        for each in (calls, tmp_path / "bin"):
            each.mkdir()
        (tmp_path / "bin/uv").write_text(
            f'#!/bin/sh\necho "$@" > {calls}/$$.new\nmv {calls}/$$.new {calls}/$$\n{body}\n'
        )
        (tmp_path / "bin/uv").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        return calls

    return make


def pids_of(calls):
    return [int(name) for name in os.listdir(calls) if name.isdecimal()]


def test_the_files_of_a_program_may_be_archives(start, folder, library, tmp_path):
    with zipfile.ZipFile(tmp_path / "work.zip", "w") as file:
        file.write(folder / "inside.py", "inside.py")
    env = {"working_dir": str(tmp_path / "work.zip"), "py_modules": [str(library["wheeled"]), str(library["single"])]}
    start(num_cpus=1, runtime_env=env)
    here, names, found = zray.get(look.remote("inside", "wheeled", "single"), timeout=30)
    assert (
        here.startswith(f"{context.runtime.paths.folder}/code/")
        and found == ["inside", "wheeled", "single"]
        and "inside.py" in names
    )
    assert zray.get_runtime_context().runtime_env == env
    context.runtime.packer.refs.clear()  # as after many other packed folders
    assert zray.get(Looker.remote().look.remote("single")) == ["single"]


def test_a_program_shows_its_folder_to_its_tasks(start, folder):
    @zray.remote
    def tell():
        return zray.get_runtime_context().runtime_env

    env = {"working_dir": str(folder), "excludes": ["*.csv"], "env_vars": {"A": "1"}}
    start(num_cpus=1, runtime_env=env)
    assert zray.get(tell.remote()) == zray.get_runtime_context().runtime_env == env


def test_functions_outlive_sessions(start, folder):
    """The files are put once for each session."""
    own = look.options(runtime_env={"working_dir": folder})
    for _ in range(2):
        start(num_cpus=1)
        assert zray.get(own.remote("inside"), timeout=30)[2] == ["inside"]
        zray.shutdown()


def test_all_tasks_of_a_program_have_its_packages(start, cache, library):
    start(num_cpus=1, runtime_env={"pip": ["--no-index", str(library["wheeled"])]})
    found, name = zray.get(prefix.remote(), timeout=60)
    assert found.startswith(str(cache)) and name == "wheeled"
    assert zray.get(Looker.remote().look.remote("wheeled")) == ["wheeled"]


def test_uv_installs_where_it_is_asked_for_and_there(start, cache, library, uv):
    """Options reach the installer; a stand-in runs pip."""
    calls = uv('shift 2; shift; shift; py=$1; shift; exec "$py" -m pip install "$@"')
    start(num_cpus=1)
    env = {"uv": {"packages": [str(library["wheeled"])], "uv_pip_install_options": ["--no-index"]}}
    assert zray.get(prefix.options(runtime_env=env).remote(), timeout=60)[1] == "wheeled"
    (call,) = calls.iterdir()
    assert call.read_text().startswith("pip install --compile-bytecode --python ")
    assert call.read_text().endswith("requirements.txt --no-index\n")


def test_an_installer_that_hangs_is_given_up_after_its_time(start, cache, uv):
    calls = uv("exec sleep 1000")
    start(num_cpus=1)
    env = {"uv": ["wheeled"], "config": {"setup_timeout_seconds": 1.5}}
    with pytest.raises(RuntimeEnvSetupError, match="uv has not ended within 1.5 s"):
        zray.get(prefix.options(runtime_env=env).remote(), timeout=60)
    until_ended(pids_of(calls))


@pytest.mark.parametrize("victim", ["installer", "process that runs it"])
def test_an_installer_that_is_killed_is_an_error(start, cache, uv, victim):
    calls = uv("exec sleep 1000")
    start(num_cpus=1)
    ref = prefix.options(runtime_env={"uv": ["wheeled"]}).remote()
    (pid,) = until(lambda: pids_of(calls))
    installer = psutil.Process(pid)
    (installer if victim == "installer" else installer.parent()).kill()
    with pytest.raises(RuntimeEnvSetupError, match="exited with code -9|killed by signal 9"):
        zray.get(ref, timeout=60)
    until_ended([pid])
    assert zray.get(look.remote())[0] == os.getcwd(), "other tasks go on"


def test_nothing_is_left_of_an_installation_when_the_session_ends(start, cache, uv):
    calls = uv("sleep 1000 & exec sleep 1000")
    start(num_cpus=1)
    prefix.options(runtime_env={"uv": ["wheeled"]}).remote()
    (pid,) = until(lambda: pids_of(calls))
    node = psutil.Process(context.runtime.node_pid)
    everything = [process.pid for process in node.children(recursive=True)]
    assert pid in everything
    zray.shutdown()
    until_ended(everything)


def test_a_node_that_is_killed_takes_its_installers_along(start, cache, uv):
    calls = uv("exec sleep 1000")
    start(num_cpus=1)
    prefix.options(runtime_env={"uv": ["wheeled"]}).remote()
    (pid,) = until(lambda: pids_of(calls))
    everything = [process.pid for process in psutil.Process(context.runtime.node_pid).children(recursive=True)]
    os.kill(context.runtime.node_pid, signal.SIGKILL)
    until_ended([pid, *everything])


def test_a_fork_server_of_an_environment_that_dies_is_replaced(start, cache, library):
    start(num_cpus=1)
    own = prefix.options(runtime_env={"pip": ["--no-index", str(library["wheeled"])]})
    parent = zray.remote(os.getppid).options(runtime_env={"pip": ["--no-index", str(library["wheeled"])]})
    first, plain = zray.get(parent.remote(), timeout=60), zray.get(zray.remote(os.getppid).remote())
    os.kill(first, signal.SIGKILL)
    until_ended([first])  # until then its child may answer, and still is its child
    assert zray.get(own.remote(), timeout=60)[1] == "wheeled"
    assert zray.get(parent.remote()) != first and zray.get(zray.remote(os.getppid).remote()) == plain


@pytest.mark.slow
def test_other_nodes_have_environments_too(nothing_left, cache, folder, library):
    """The wheel is where the node finds it: both are this machine."""
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 0}) as cluster:
        node = cluster.add_node(num_cpus=1)
        env = {"working_dir": str(folder), "py_modules": [str(library["single"])]}
        with zray.init(address=cluster.address, runtime_env={"pip": ["--no-index", str(library["wheeled"])]}):
            own = look.options(runtime_env=env)
            here, _, found = zray.get(own.remote("inside", "single", "wheeled"), timeout=50)
            assert found == ["inside", "single", "wheeled"]
            assert Path(here).is_relative_to(Path(node.session.folder) / "code")
            actor = Looker.options(runtime_env=env).remote()
            assert zray.get(actor.look.remote("inside", "single", "wheeled"), timeout=50) == found
