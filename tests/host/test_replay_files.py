"""Files of failed tasks: limits of a session, and files that are damaged."""

import os

import pytest

from zray.api.replays import Replay
from zray.host.session import replay_files
from zray.host.session.replay_files import ReplayFacts, present, write


def add(folder, key, number, size=10):
    facts = ReplayFacts(task_id=f"{number:032x}", name="work", code_bytes=size)
    write(str(folder), key, facts, [b"x" * size])
    name = f"replay-{key}-{number:032x}.zray"
    os.utime(folder / name, (number, number))
    return folder / name


def test_oldest_files_of_the_commonest_failure_go(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_files, "FILES_MAX", 5)
    add(tmp_path, "rare", 1)
    for number in range(2, 10):
        add(tmp_path, "common", number)
    assert [(name.split("-")[1], status.st_mtime) for name, status in present(str(tmp_path))] == [
        ("rare", 1),
        *(("common", number) for number in range(6, 10)),
    ]


def test_files_have_a_limit_of_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_files, "BYTES_MAX", 3_500)
    for number in range(1, 6):
        add(tmp_path, "key", number, 1_000)
    assert [status.st_mtime for _, status in present(str(tmp_path))] == [3, 4, 5]


def test_file_replaces_that_of_an_earlier_attempt(tmp_path):
    add(tmp_path, "key", 1)
    path = add(tmp_path, "key", 1, 20)
    assert [name for name, _ in present(str(tmp_path))] == [path.name]
    assert sorted(os.listdir(tmp_path)) == [path.name]


@pytest.mark.parametrize("size", [0, 10, 20, 40])
def test_damaged_file_is_refused(tmp_path, size):
    path = add(tmp_path, "key", 1)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match="cannot be replayed"):
        Replay(str(path))


def test_file_cut_off_in_its_content_ends_with_an_error(tmp_path):
    path = add(tmp_path, "key", 1, 100)
    path.write_bytes(path.read_bytes()[:-1])
    replay = Replay(str(path))
    ending = replay.run()
    replay.close()
    assert "it is cut off" in str(ending.error)
