"""The files of a program's own project, and their bundle."""

import os
import sys
import textwrap
import types

import numpy
import pytest
from msgspec import msgpack

import zray
from zray.exceptions import TaskError
from zray.host.client.error_hints import note_missing_module
from zray.host.code import module_discovery
from zray.host.code.module_discovery import (
    Project,
    TooLarge,
    files_at,
    files_below,
    imports_of,
    is_installed,
    names_in,
    pack,
)


def make(folder, files):
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def paths(files):
    return sorted(file.path for file in files)


@pytest.fixture
def main_in(tmp_path, monkeypatch):
    """The program's script lies in a folder of its own."""
    main = types.ModuleType("__main__")
    main.__file__ = str(tmp_path / "main.py")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        if str(tmp_path) in f"{getattr(module, '__file__', '')} {getattr(module, '__path__', '')}":
            del sys.modules[name]


def test_pythons_own_and_what_is_installed_stays(tmp_path):
    assert is_installed(os.__file__) and is_installed(numpy.__file__) and is_installed(zray.__file__)
    assert not is_installed(str(tmp_path / "x.py")) and not is_installed(__file__)


def test_equal_files_make_equal_bundles(tmp_path):
    one = make(tmp_path / "one", {"b.py": "b", "a/x.sh": "a", "a/y": "y"})
    two = make(tmp_path / "two", {"a/y": "y", "a/x.sh": "a", "b.py": "b"})
    for folder in (one, two):
        (folder / "a/x.sh").chmod(0o755)
    data = pack(files_below(str(one)), "it")
    assert data == pack(reversed(files_below(str(two))), "it")
    assert msgpack.decode(data) == [["a/x.sh", True, b"a"], ["a/y", False, b"y"], ["b.py", False, b"b"]]


def test_what_is_never_part_of_a_project(tmp_path):
    kept = {"a.py": "", "sub/b.py": "", "sub/data.txt": "", ".env": "", "environment/c.py": ""}
    dropped = [".git/x", "sub/.git/x", ".venv/x.py", "venv/x.py", "mine/pyvenv.cfg", "mine/lib/x.py", ".hg/x", ".svn/x"]
    dropped += ["__pycache__/x.pyc", "x.pyc", ".mypy_cache/x", "node_modules/x.js", "thing.egg-info/PKG", ".tox/x"]
    make(tmp_path, kept | dict.fromkeys(dropped, ""))
    assert paths(files_below(str(tmp_path))) == sorted(kept)


@pytest.mark.parametrize(
    "excludes, left",
    [
        (["*.bin"], ["a.py", "data/x.csv", "data/y/z.csv"]),
        (["data"], ["a.py", "b.bin"]),
        (["data/"], ["a.py", "b.bin"]),
        (["data/y"], ["a.py", "b.bin", "data/x.csv"]),
        (["data/*.csv"], ["a.py", "b.bin", "data/y/z.csv"]),
        (["x.csv", "z.csv", "b.*"], ["a.py"]),
    ],
    ids=str,
)
def test_what_a_program_leaves_behind(tmp_path, excludes, left):
    make(tmp_path, dict.fromkeys(["a.py", "b.bin", "data/x.csv", "data/y/z.csv"], ""))
    assert paths(files_below(str(tmp_path), excludes=excludes)) == left


def test_too_much_is_refused_with_the_largest_files(tmp_path, monkeypatch):
    monkeypatch.setattr(module_discovery, "BUNDLE_BYTES_MAX", 10_000)
    make(tmp_path, {f"file-{number:02}": b"x" * (100 * number) for number in range(20)})
    with pytest.raises(TooLarge) as raised:
        pack(files_below(str(tmp_path)), "working_dir /here")
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("working_dir /here is 19,000 bytes in 20 files; at most 10,000 travel to other nodes.")
    assert "excludes" in lines[0]
    assert [line.split() for line in lines[1:]] == [[f"{100 * n:,}", f"file-{n}"] for n in range(19, 9, -1)]


def test_a_module_or_a_package_by_its_path(tmp_path):
    make(tmp_path, {"lib/__init__.py": "", "lib/a.py": "", "one.py": ""})
    assert paths(files_at(str(tmp_path / "lib/"))) == ["lib/__init__.py", "lib/a.py"]
    assert paths(files_at(str(tmp_path / "one.py"))) == ["one.py"]


def test_imports_are_found_wherever_they_stand(tmp_path):
    text = """
        import a, b.c as d
        from e.f import g
        from . import h
        def later():
            import i  # here
            from j import (
                k,
            )
        '''
        import in_a_text
        '''
        not_import = "import m"
        """
    (tmp_path / "x.py").write_text(textwrap.dedent(text))
    assert imports_of(str(tmp_path / "x.py")) - {""} == {"a", "b", "e", "i", "j", "in_a_text"}
    assert imports_of(str(tmp_path / "connection.py")) == set()


def test_the_names_that_code_uses():
    def function():
        import first

        def inner():
            from second import third

            return third

        return first, inner, lambda: __import__

    class Actor:
        def method(self):
            import fourth

            return fourth

        @classmethod
        def other(cls):
            import fifth

            return fifth

    assert {"first", "second"} <= names_in(function)
    assert {"fourth", "fifth"} <= names_in(Actor)
    assert names_in(len) == names_in(3) == set()


def test_what_is_imported_is_taken_once_with_all_that_it_imports(main_in):
    make(
        main_in,
        {
            "main.py": "",
            "alpha.py": "def f():\n    import beta\n",
            "beta.py": "import gamma_unheard_of, delta\n",
            "delta/__init__.py": "",
            "delta/data.json": "{}",
            "unused.py": "",
            "spaces/one/__init__.py": "",
            "spaces/readme.txt": "",
        },
    )
    import alpha  # noqa: F401

    taken = Project()

    def take(*names):
        return paths(file for file in taken.take(names) if str(main_in) in file.source)

    assert take() == ["alpha.py", "beta.py", "delta/__init__.py", "delta/data.json"]
    assert take() == []
    import spaces.one  # noqa: F401

    assert take() == ["spaces/one/__init__.py"]
    assert take("unused", "nothing_of_that_name") == ["unused.py"]


def test_what_the_program_itself_would_not_find_here_is_left_alone(main_in, tmp_path_factory, monkeypatch):
    """The same name comes first from elsewhere: from what is installed, or from a folder further ahead."""
    make(
        main_in, {"msgspec.py": "", "twice.py": "", "main.py": "", "alpha.py": "def f():\n    import twice, yaml_like"}
    )
    ahead = make(tmp_path_factory.mktemp("ahead"), {"twice.py": "", "site-packages/yaml_like.py": ""})
    make(main_in, {"yaml_like.py": ""})
    for folder in (ahead, ahead / "site-packages"):
        monkeypatch.syspath_prepend(str(folder))
    import alpha  # noqa: F401

    sources = [file.source for file in Project().take(["msgspec"])]
    assert [source for source in sources if str(main_in) in source or str(ahead) in source] == [
        str(main_in / "alpha.py"),
        str(ahead / "twice.py"),
    ]


def test_modules_that_are_not_what_they_seem_are_left_alone(main_in, monkeypatch):
    make(main_in, {"real.py": ""})
    for name, file in (("ghost", str(main_in / "connection.py")), ("renamed", str(main_in / "real.py")), ("number", 7)):
        module = types.ModuleType(name)
        module.__file__ = file
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "nothing", None)
    assert not [file for file in Project().take() if str(main_in) in file.source]


def test_a_package_with_too_much_data_travels_without_it(main_in, monkeypatch):
    monkeypatch.setattr(module_discovery, "BUNDLE_BYTES_MAX", 1_000)
    make(main_in, {"heavy/__init__.py": "x = 1", "heavy/model.bin": b"x" * 900, "heavy/fast.so": "elf"})
    import heavy  # noqa: F401

    found = [file.path for file in Project().take() if str(main_in) in file.source]
    assert sorted(found) == ["heavy/__init__.py", "heavy/fast.so"]


def test_package_of_pythonpath_travels_whole_or_not_at_all(main_in, monkeypatch, tmp_path_factory):
    monkeypatch.setattr(module_discovery, "BUNDLE_BYTES_MAX", 2_000)
    monkeypatch.setattr(module_discovery, "stayed", {})
    other = make(
        tmp_path_factory.mktemp("target"),
        {f"{name}/__init__.py": "" for name in ("big", "named", "small")},
    )
    make(other, {"big/lib.so.26": "x" * 1_001, "named/lib.so.26": "x" * 1_001, "small/lib.so.26": "x"})
    make(main_in, {"own/__init__.py": "", "own/data": "x" * 1_001, "main.py": ""})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(other), str(main_in), "")))
    monkeypatch.syspath_prepend(str(other))
    for name in ("big", "small", "own"):
        __import__(name)
    found = Project()
    taken = paths(found.take(["named"]))
    assert [path for path in taken if path.partition("/")[0] in ("big", "named", "small", "own")] == [
        "own/__init__.py",
        "small/__init__.py",
        "small/lib.so.26",
    ]
    error = TaskError("f", "ModuleNotFoundError: No module named 'big'\n", ImportError("No module named 'big.inner'"))
    note_missing_module(error)
    assert f"{other}/big does not travel" in str(error) and "PYTHONPATH" in str(error)
    for name in ("big", "small"):
        sys.modules.pop(name, None)


FROM_FILES = "from pathlib import Path\nvalue = (Path(__file__).parent / '{}').read_text()"


@pytest.fixture
def python_path(main_in, tmp_path_factory, monkeypatch):
    """A folder that PYTHONPATH names; the modules in it are forgotten afterwards."""
    monkeypatch.setattr(module_discovery, "stayed", {})
    other = tmp_path_factory.mktemp("target")
    make(main_in, {"main.py": ""})
    monkeypatch.setenv("PYTHONPATH", str(other))
    monkeypatch.syspath_prepend(str(other))
    before = set(sys.modules)
    yield other
    for name in set(sys.modules) - before:
        if str(other) in f"{getattr(sys.modules[name], '__file__', '')} {getattr(sys.modules[name], '__path__', '')}":
            del sys.modules[name]


def taken_of(folder, *names):
    """The files of a folder that travel after the imports, by their paths in the bundle."""
    for name in names:
        __import__(name)
    return paths(file for file in Project().take() if str(folder) in file.source)


def test_namespace_package_of_pythonpath_travels_with_its_data(python_path):
    files = {"google/thing/__init__.py": FROM_FILES.format("data/t.txt"), "google/thing/data/t.txt": "ns"}
    files |= {"flat/part.py": FROM_FILES.format("t.txt"), "flat/t.txt": "ns"}
    make(python_path, files)
    assert taken_of(python_path, "google.thing", "flat.part") == sorted(files)


def test_namespace_package_of_pythonpath_that_is_too_large_stays(python_path, monkeypatch):
    monkeypatch.setattr(module_discovery, "BUNDLE_BYTES_MAX", 2_000)
    make(python_path, {"google/thing/__init__.py": "", "google/thing/data": "x" * 1_001})
    assert taken_of(python_path, "google.thing") == []
    assert "google does not travel" in module_discovery.stayed["google"]


@pytest.mark.parametrize("name", ["single.txt", "data/single.txt"])
def test_module_of_pythonpath_that_reads_files_beside_it_stays(python_path, name):
    make(python_path, {"single.py": FROM_FILES.format(name), name: "s", "plain.py": ""})
    assert taken_of(python_path, "single", "plain") == ["plain.py"]
    error = TaskError("f", "ModuleNotFoundError: x", ImportError("No module named 'single'"))
    note_missing_module(error)
    assert f"{python_path}/single.py does not travel to other nodes: it reads files beside it" in str(error)


def test_module_of_pythonpath_that_reads_nothing_travels_without_data_beside_it(python_path):
    make(python_path, {"single.py": "resources = {'GPU': 1}", "data.txt": "s", "README.md": ""})
    assert taken_of(python_path, "single") == ["single.py"]


def test_module_of_pythonpath_that_names_its_file_among_code_travels(python_path):
    make(
        python_path,
        {
            "single.py": "here = __file__",
            "beside_it/__init__.py": "",
            "x-1.dist-info/RECORD": "",
            "README.md": "",
            "setup.cfg": "",
        },
    )
    assert taken_of(python_path, "single") == ["single.py"]


def test_libraries_beside_a_package_of_pythonpath_travel_with_it(python_path, monkeypatch):
    monkeypatch.setattr(module_discovery, "BUNDLE_BYTES_MAX", 2_000)
    make(
        python_path,
        {
            "top/__init__.py": FROM_FILES.format("../small.libs/l.so"),
            "small.libs/l.so": "s",
            "compiled/__init__.py": "",
            "compiled/fast.so": b"\x7fELF $ORIGIN/../large.libs\0",
            "large.libs/l.so": "x" * 1_001,
            "plain/__init__.py": "",
        },
    )
    assert taken_of(python_path, "top", "compiled", "plain") == [
        "plain/__init__.py",
        "small.libs/l.so",
        "top/__init__.py",
    ]
    assert "compiled does not travel" in module_discovery.stayed["compiled"]
