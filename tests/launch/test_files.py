"""Files that go to hosts: which, where to, and with which facts."""

import os

import pytest

from cli.launch import agent, files


@pytest.fixture
def tree(tmp_path):
    for name in (
        "one.py",
        "inner/two.txt",
        "inner/skip.tmp",
        "inner/__pycache__/x.pyc",
        ".git/config",
        "deep/er/three",
    ):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "tree"


def places(found):
    return sorted(file.place for file in found)


def test_folder_is_sent_without_what_is_excluded(tree):
    found = files.collect([("there", str(tree))], ["*.tmp", "deep/er/"])
    assert places(found) == ["there/inner/two.txt", "there/one.py"]


def test_links_to_files_are_sent_as_files_and_links_to_folders_are_left_out(tree, tmp_path):
    (tmp_path / "beside").write_text("beside")
    (tree / "link").symlink_to(tmp_path / "beside")
    (tree / "dangling").symlink_to("nowhere")
    (tree / "loop").symlink_to(tree)
    found = {file.place: file for file in files.collect([("", str(tree))], ["inner", "deep"])}
    assert sorted(found) == ["link", "one.py"] and b"".join(found["link"].data()) == b"beside"


def test_later_place_replaces_an_earlier_one(tree):
    (file,) = files.collect([("x", str(tree / "one.py")), ("x", str(tree / "inner" / "two.txt"))], [])
    assert file.path.endswith("two.txt")


def test_file_that_shrinks_meanwhile_still_has_the_size_that_was_announced(tree):
    (file,) = files.collect([("x", str(tree / "one.py"))], [])
    (tree / "one.py").write_text("")
    assert len(b"".join(file.data())) == file.size == len("one.py")


def test_facts_tell_another_content_size_or_right_to_run(tree, monkeypatch):
    monkeypatch.setenv("HOME", str(tree))
    path = tree / "one.py"
    (file,) = files.collect([("one.py", str(path))], [])
    assert not agent.differs(*file.facts())
    path.write_text("two.py")
    assert agent.differs(*file.facts())
    path.write_text("one.py")
    os.chmod(path, 0o755)
    assert agent.differs(*file.facts())
    path.unlink()
    assert agent.differs(*file.facts())


def test_what_this_machine_has_is_told_by_name(tree):
    assert files.have(str(tree / "nowhere")) == {}
    assert files.have(str(tree / "one.py")) == {"": [6, agent.file_digest(tree / "one.py")]}
    assert files.have(str(tree))["inner/two.txt"] == [13, agent.file_digest(tree / "inner" / "two.txt")]
