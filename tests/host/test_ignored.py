"""Patterns of files that stay behind: as git reads them."""

import shutil
import subprocess

import pytest

from zray.exceptions import TaskError
from zray.host.client.error_hints import note_missing_module
from zray.host.code.module_discovery import Ignored, files_below

PATHS = (
    "a.log",
    "x/a.log",
    "x/b/a.log",
    "data/big.bin",
    "x/data/big.bin",
    "keep.log",
    "doc/a.txt",
    "doc/x/a.txt",
    "#x",
)


@pytest.mark.parametrize(
    "patterns",
    [
        ["*.log"],
        ["*.log", "!keep.log"],
        ["!keep.log", "*.log"],
        ["/a.log"],
        ["x/*.log"],
        ["x/**/a.log"],
        ["**/b/a.log"],
        ["x/**"],
        ["data/"],
        ["/data"],
        ["a.log/"],
        ["doc/*.txt"],
        ["doc/**/*.txt"],
        ["# a comment", "", "\\#x"],
        ["[a-c].log"],
        ["[!k]*.log"],
        ["?.log"],
        ["*"],
        ["*", "!*/", "!*.txt"],
        ["./a.log"],
        ["["],
    ],
    ids=repr,
)
def test_excludes_leave_what_git_would_leave(patterns, tmp_path):
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    ours = sorted(file.path for file in files_below(str(tmp_path), excludes=patterns))
    if shutil.which("git") is None:
        pytest.skip("there is no git to compare with")
    (tmp_path / ".git/info").mkdir(parents=True)
    (tmp_path / ".git/info/exclude").write_text("\n".join(patterns) if patterns != ["./a.log"] else "/a.log")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ours == sorted(listed.stdout.splitlines())


def test_gitignore_files_apply_below_their_folder_and_excludes_have_the_last_word(tmp_path):
    for path in ("a.tmp", "x/a.tmp", "x/b.tmp", "y/b.tmp", "y/c.tmp"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / ".gitignore").write_text("a.tmp\n")
    (tmp_path / "x/.gitignore").write_text("!a.tmp\n/b.tmp\n")
    found = [file.path for file in files_below(str(tmp_path), excludes=["c.tmp", "!/a.tmp"])]
    assert sorted(found) == [".gitignore", "a.tmp", "x/.gitignore", "x/a.tmp", "y/b.tmp"]
    assert len(files_below(str(tmp_path))) == 7  # modules that a program has imported travel in any case


def test_folders_only_and_verdicts():
    patterns = Ignored(["build/", "!build/keep"])
    assert patterns.verdict("build", is_folder=True) is True
    assert patterns.verdict("build", is_folder=False) is None
    assert patterns.verdict("build/keep", is_folder=False) is False


@pytest.mark.parametrize(
    "text", ["No module named 'pkg.time_pb2'", "cannot import name 'time_pb2' from 'pkg' (/tmp/x/__init__.py)"]
)
def test_error_of_a_module_that_was_left_behind_says_so(tmp_path, text):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "time_pb2.py").write_text("x = 5")
    (tmp_path / ".gitignore").write_text("*_pb2.py")
    assert [file.path for file in files_below(str(tmp_path), excludes=())] == [".gitignore"]
    error = TaskError("f", f"ImportError: {text}\n", ImportError(text))
    note_missing_module(error)
    assert "pkg/time_pb2.py was left behind" in str(error) and 'excludes=["!pkg/time_pb2.py"]' in str(error)
    other = TaskError("f", "ImportError: No module named 'pkg.other'\n", ImportError("No module named 'pkg.other'"))
    note_missing_module(other)
    assert "left behind" not in str(other)
