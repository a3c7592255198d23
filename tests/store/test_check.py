"""Logs looked at from outside: whole, torn, damaged, and where."""

import os

import pytest
from click.testing import CliRunner

from cli.gcs import gcs
from zray.store.check import check
from zray.store.log import Log
from zray.store.records import FILE_HEADER_BYTES, HEADER_BYTES
from zray.store.redis_store import MARK


@pytest.fixture
def folder(tmp_path):
    """Of a shard that has written a snapshot, and two records after it."""
    path = tmp_path / "gcs-0"
    path.mkdir(mode=0o700)
    log = Log(str(path))
    log.append([b"one"])
    log.save_snapshot([b"state"])
    log.append([b"two", b"three"])
    log.close()
    return tmp_path


def files(folder):
    return {os.path.basename(file.path).partition("-")[0]: file for file in check(str(folder))}


def test_whole_files_are_said_to_be_whole(folder):
    found = files(folder)
    assert (found["log"].records, found["log"].reason) == (2, "")
    assert not found["snapshot"].reason and found["snapshot"].end == found["snapshot"].size


def test_a_flipped_bit_is_found_at_its_record(folder):
    path = files(folder)["log"].path
    second = FILE_HEADER_BYTES + HEADER_BYTES + len(b"two")
    with open(path, "r+b") as file:
        file.seek(second + HEADER_BYTES)
        file.write(b"T")
    found = files(folder)["log"]
    assert (found.is_damaged, found.end, found.records) == (True, second, 1)


def test_a_torn_end_is_no_damage_and_nothing_is_changed(folder):
    path = files(folder)["log"].path
    size = os.stat(path).st_size - 1
    os.truncate(path, size)
    found = files(folder)["log"]
    assert (found.is_damaged, found.records) == (False, 1) and "not all there" in found.reason
    assert os.stat(path).st_size == size


def test_a_snapshot_that_ends_early_is_damaged(folder):
    path = files(folder)["snapshot"].path
    os.truncate(path, os.stat(path).st_size - 1)
    assert files(folder)["snapshot"].is_damaged


def test_the_command_tells_the_place_and_fails_only_for_damage(folder):
    def run(*arguments):
        return CliRunner().invoke(gcs, ["check", *map(str, arguments)])

    assert run(folder).exit_code == 0 and "2 records" in run(folder).output
    path = files(folder)["log"].path
    os.truncate(path, os.stat(path).st_size - 1)
    assert run(folder).exit_code == 0 and "torn at byte" in run(folder).output
    with open(path, "r+b") as file:
        file.write(b"no log")
    assert run(folder).exit_code == 1 and f"{path}: 0 records" in run(folder).output
    assert "DAMAGED at byte 0" in run(folder).output
    os.mkdir(folder / "nothing")
    assert run(folder / "nothing").exit_code == 1


def test_records_on_a_server_are_said_to_be_there(folder):
    (folder / "gcs-0" / MARK).write_bytes(b"%020d" % 12)
    done = CliRunner().invoke(gcs, ["check", str(folder)])
    note = f"Note: the records of {folder}/gcs-0, at least 12, are on a server: a head checks them at its start.\n"
    assert done.exit_code == 0 and note in done.output
