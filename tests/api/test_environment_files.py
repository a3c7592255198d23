"""working_dir and py_modules of a task, an actor, and archives of a program."""

import os
import shutil
import sys
import zipfile

import pytest

import zray
from tests.wheels import make_wheel
from zray.host import context


@zray.remote
def look(*modules):
    return os.getcwd(), sorted(os.listdir()), [__import__(name).NAME for name in modules]


@zray.remote
class Looker:
    def look(self, *modules):
        return [__import__(name).NAME for name in modules]

    def ask(self, *modules):
        return zray.get(look.remote(*modules))[2]


@pytest.fixture
def folder(tmp_path):
    """A working folder with a module."""
    for path, text in {"inside.py": "NAME = 'inside'", "data.csv": "1", "logs/a.log": "2", "deep/b.txt": "3"}.items():
        (tmp_path / "work" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / path).write_text(text)
    return tmp_path / "work"


@pytest.fixture
def library(tmp_path):
    """Modules of all kinds: {kind: path}."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("NAME = 'package'")
    (tmp_path / "single.py").write_text("NAME = 'single'")
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as file:
        file.writestr("zipped/__init__.py", "NAME = 'zipped'")
    make_wheel(tmp_path, "wheeled", "1.0", "NAME = 'wheeled'")
    paths = ("package", "single.py", "zipped.zip", "wheeled-1.0-py3-none-any.whl")
    return {path.partition(".")[0].partition("-")[0]: tmp_path / path for path in paths}


def code_folder():
    return os.path.join(context.runtime.paths.folder, "code")


def test_a_task_runs_in_a_copy_of_its_folder_and_imports_from_it(session, folder):
    own = look.options(runtime_env={"working_dir": folder, "excludes": ["logs/", "*.csv"]})
    here, names, found = zray.get(own.remote("inside"), timeout=30)
    assert here.startswith(code_folder()) and found == ["inside"]
    assert [name for name in names if name != "__pycache__"] == ["deep", "inside.py"]
    assert zray.get(look.remote())[0] == os.getcwd(), "a task without an environment is in the program's folder"


def test_equal_files_are_one_copy_whatever_they_are_called(session, folder, tmp_path):
    (folder.parent / "same").symlink_to(folder)
    first, second = (look.options(runtime_env={"working_dir": path}) for path in (folder, tmp_path / "same"))
    assert zray.get(first.remote())[0] == zray.get(second.remote())[0]
    (folder / "new.txt").write_text("new")
    third = look.options(runtime_env={"working_dir": folder})
    here, names, _ = zray.get(third.remote(), timeout=30)
    assert "new.txt" in names and here != zray.get(first.remote())[0]


def test_modules_of_all_kinds_can_be_imported(session, library):
    own = look.options(runtime_env={"py_modules": [str(path) for path in library.values()]})
    assert zray.get(own.remote(*library), timeout=30)[2] == list(library)


def test_an_imported_module_stands_for_its_files(session, library, monkeypatch):
    monkeypatch.syspath_prepend(str(library["package"].parent))
    modules = [__import__("package"), __import__("single")]
    for name in ("package", "single"):
        del sys.modules[name]  # for good: other tests have modules of these names
    own = look.options(runtime_env={"py_modules": modules})
    assert zray.get(own.remote("package", "single"), timeout=30)[2] == ["package", "single"]


def test_actors_and_children_have_the_files_too(session, folder, library):
    env = {"working_dir": str(folder), "py_modules": [str(library["single"])]}
    actor = Looker.options(runtime_env=env).remote()
    assert zray.get(actor.look.remote("inside", "single"), timeout=30) == ["inside", "single"]
    assert zray.get(actor.ask.remote("inside", "single"), timeout=30) == ["inside", "single"]


def test_children_replace_one_field_and_keep_the_others(session, folder, library):
    @zray.remote
    def parent(paths):
        child = look.options(runtime_env={"py_modules": paths, "env_vars": {"B": "2"}})

        @zray.remote
        def grandchild():
            return zray.get_runtime_context().runtime_env

        both = grandchild.options(runtime_env={"env_vars": {"B": "2"}})
        return zray.get(child.remote("inside", "package"))[2], zray.get(both.remote())

    env = {"working_dir": str(folder), "py_modules": [str(library["single"])], "env_vars": {"A": "1"}}
    found, shown = zray.get(parent.options(runtime_env=env).remote([str(library["package"])]), timeout=30)
    assert found == ["inside", "package"]
    assert shown == {**env, "env_vars": {"A": "1", "B": "2"}}


def test_files_that_are_too_large_are_refused_with_their_names(session, folder, monkeypatch):
    monkeypatch.setattr("zray.host.code.module_discovery.BUNDLE_BYTES_MAX", 10)
    with pytest.raises(ValueError, match=r"(?s)working_dir .*at most 10 .*inside.py"):
        look.options(runtime_env={"working_dir": folder}).remote()


def test_a_file_that_leads_elsewhere_is_refused_where_it_is_packed(session, tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
        file.writestr("../escaped.py", "")
    with pytest.raises(ValueError, match="outside of its folder"):
        look.options(runtime_env={"py_modules": [tmp_path / "bad.zip"]}).remote()


def test_files_live_as_long_as_what_needs_them(session, folder, gate):
    """The program has forgotten the function, and the parcel, before the task can begin."""

    @zray.remote
    def wait():
        gate.wait()

    own = look.options(runtime_env={"working_dir": folder})
    ref = own.options(num_cpus=2, name="later").remote("inside")
    first = zray.get(ref, timeout=30)
    blocker = wait.options(num_cpus=2).remote()
    ref = own.options(num_cpus=2, runtime_env={"working_dir": folder, "env_vars": {"NEW": "1"}}).remote("inside")
    del own
    context.runtime.packer.refs.clear()
    context.runtime.packer.known.clear()
    gate.open()
    assert zray.get(ref, timeout=30) == first
    zray.get(blocker)


def test_functions_and_classes_with_files_can_be_passed_on(session, folder, library):
    """Where they come the paths may not be: the files go with them."""
    function = look.options(runtime_env={"working_dir": folder, "py_modules": [library["single"]]})
    cls = Looker.options(runtime_env={"working_dir": folder})

    @zray.remote
    def parent(passed):
        shutil.rmtree(folder)
        found = zray.get(function.remote("inside", "single"))[2], zray.get(passed.remote("inside"))[2]
        return *found, zray.get(cls.remote().look.remote("inside"))

    ref = parent.remote(function)
    assert zray.get(ref, timeout=30) == (["inside", "single"], ["inside"], ["inside"])
