"""The versions of a program's modules that are kept for its workers, and imports from there."""

import importlib
import importlib.util
import os
import sys

import pytest

import zray
from tests.gates import until
from zray.cluster_utils import Cluster
from zray.host import context
from zray.host.code import module_versions
from zray.host.code.module_versions import Sources, kept_version
from zray.host.code.pinned_imports import PinnedFinder
from zray.host.code.reloads import Reloaded, Version


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the program, which is imported."""
    name = f"kept_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("VERSION = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(name)
    sys.modules.pop(name, None)


@pytest.fixture
def kept(tmp_path):
    return Sources(str(tmp_path / "sources"))


def write(module, text):
    with open(module.__file__, "w") as file:
        file.write(text)


def test_source_is_kept_as_it_was_when_the_module_was_first_seen(kept, module):
    assert kept.learn() == []
    write(module, "VERSION = 22\n")
    assert kept.learn() == []
    assert kept_version(kept.folder, module.__file__).data == b"VERSION = 1\n"
    assert kept.data_of(module.__file__) == b"VERSION = 1\n"


def test_another_version_that_is_imported_under_another_name_is_told(kept, module, tmp_path):
    kept.learn()
    write(module, "VERSION = 22\n")
    spec = importlib.util.spec_from_file_location(f"again_{tmp_path.name}", module.__file__)
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        assert kept.learn() == [spec.name]
    finally:
        del sys.modules[spec.name]
    assert kept_version(kept.folder, module.__file__).data == b"VERSION = 22\n"


def test_kept_bytes_are_bounded(kept, module, monkeypatch):
    monkeypatch.setattr(module_versions, "SOURCES_BYTES_MAX", 0)
    kept.learn()
    assert not kept.size and kept_version(kept.folder, module.__file__) is None
    monkeypatch.setattr(module_versions, "SOURCES_BYTES_MAX", 20)
    for version, expected in (("1", "1"), ("2" * 30, None), ("3", "3")):
        kept.reloaded([Reloaded(module.__name__, module.__file__, Version(1, 1, version.encode()))])
        found = kept_version(kept.folder, module.__file__)
        assert (found and found.data.decode()) == expected


def test_folder_that_takes_no_more_leaves_imports_as_they_are(module, tmp_path):
    (tmp_path / "sources").write_text("a file")
    kept = Sources(str(tmp_path / "sources"))
    assert kept.learn() == [] and kept.data_of(module.__file__) == b"VERSION = 1\n"
    assert PinnedFinder(kept.folder).find_spec(module.__name__).loader.get_data(module.__file__) == b"VERSION = 1\n"


def test_loader_is_pythons_own_until_the_file_changes(kept, module):
    kept.learn()
    finder = PinnedFinder(kept.folder)
    assert type(finder.find_spec(module.__name__).loader) is importlib.machinery.SourceFileLoader
    write(module, "VERSION = (")
    spec = finder.find_spec(module.__name__)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.VERSION == 1 and made.__file__ == module.__file__
    assert spec.loader.get_source(module.__name__) == "VERSION = 1\n"


def test_kept_version_that_is_damaged_counts_as_none(kept, module):
    kept.learn()
    index = os.path.join(kept.folder, module_versions.INDEX)
    with open(index, "rb") as file:
        whole = file.read()
    # The index has the other modules of this process too: it is cut behind the first digits of this one's.
    cut = whole[: whole.index(digest := module_versions._digest(module.__file__)) + len(digest) + 5]
    for data in (b"", b"1\n", b"one two\nx", whole.replace(b" ", b" x"), cut):
        with open(f"{index}.new", "wb") as file:
            file.write(data)
        os.replace(f"{index}.new", index)
        module_versions._read.clear()
        assert kept_version(kept.folder, module.__file__) is None
    module_versions._read.clear()
    with open(f"{index}.new", "wb") as file:
        file.write(whole)
    os.replace(f"{index}.new", index)
    assert kept_version(kept.folder, module.__file__).data == b"VERSION = 1\n"
    os.truncate(os.path.join(kept.folder, "data-0"), 1)
    assert kept_version(kept.folder, module.__file__) is None


def test_former_versions_leave_the_data_file_once_it_is_large(kept, module, monkeypatch):
    monkeypatch.setattr(module_versions, "DATA_BYTES_MAX", 200)
    (other := Version(1, 1, b"other"), kept._keep("/other.py", other))
    for number in range(50):
        kept.reloaded([Reloaded(module.__name__, module.__file__, Version(1, number, b"%010d" % number))])
        assert kept_version(kept.folder, module.__file__) == Version(1, number, b"%010d" % number)
        assert kept_version(kept.folder, "/other.py") == other
    found = [name for name in os.listdir(kept.folder) if name.startswith("data-")]
    assert len(found) == 1 and os.path.getsize(os.path.join(kept.folder, found[0])) < 250


def test_versions_are_removed_with_their_job(nothing_left):
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        with zray.init(address=cluster.address):
            zray.get(zray.remote(lambda: 1).remote())
            folder = context.runtime.sources.folder
            assert os.listdir(folder)  # this module, for one
        until(lambda: not os.path.exists(folder))


def test_ended_session_gets_no_folder_again(module, tmp_path):
    kept = Sources(str(tmp_path / "ended" / "sources" / "job"))
    assert kept.learn() == [] and kept.data_of(module.__file__) == b"VERSION = 1\n"
    assert not (tmp_path / "ended").exists()
