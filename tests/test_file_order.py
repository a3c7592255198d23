"""The order in which the files of a run come."""

from collections import namedtuple
from pathlib import Path

from tests.file_order import in_turns

Item = namedtuple("Item", "path name")


def items(folder, files, tests=1):
    return [Item(Path(folder, f"test_{file}.py"), f"{folder}{file}{test}") for file in files for test in range(tests)]


def test_files_of_all_folders_come_in_turns():
    ordered = in_turns(items("host", "abcd") + items("sim", "ab"))
    assert [item.name for item in ordered] == ["hosta0", "sima0", "hostb0", "hostc0", "simb0", "hostd0"]


def test_tests_of_a_file_stay_together_in_their_order():
    given = items("host", "ab", tests=3) + items("sim", "abc", tests=2)
    ordered = in_turns(given)
    assert sorted(ordered) == sorted(given)
    for path in {item.path for item in given}:
        places = [place for place, item in enumerate(ordered) if item.path == path]
        assert places == list(range(places[0], places[0] + len(places)))
        assert [item.name for item in ordered if item.path == path] == [it.name for it in given if it.path == path]


def test_files_of_one_folder_keep_their_order():
    given = items("sim", "abcd", tests=2)
    assert in_turns(given) == given
