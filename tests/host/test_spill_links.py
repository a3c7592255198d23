"""Tests of values that are mapped where they lie on disk: hard links to spill files."""

import os

import pytest
from xxhash import xxh3_64

from zray.host.node.spill_folder import SpillFolder
from zray.roles import effects

FIRST, SECOND = bytes(range(256)) * 8, b"second" * 100


@pytest.fixture
def folder(tmp_path):
    """A spill folder with file 1: two parts, the second one at 2048."""
    made = SpillFolder(None, "session", str(tmp_path), {}, lambda role, outcome: None)
    made._make()
    with open(made._path(1), "wb") as file:
        file.write(FIRST + SECOND)
    return made


def restored(folder, offset, checksum=None):
    digest = xxh3_64(SECOND).intdigest() if checksum is None else checksum
    return folder._restore(effects.RestoreRange(1, len(FIRST), 3, offset, len(SECOND), digest, 5)).reason


def create(folder):
    return folder._create_segment(effects.CreateSegmentFile(3, len(SECOND), True, 1, len(FIRST)))


def test_value_is_mapped_where_it_lies_and_checked(folder, monkeypatch):
    monkeypatch.setattr("zray.store.segment.Segment.create_file", None)  # takes no space
    outcome = create(folder)
    assert (outcome.reason, outcome.offset) == ("", len(FIRST))
    changed = os.stat(folder._path(1)).st_mtime_ns
    assert restored(folder, outcome.offset) == "" and "damaged" in restored(folder, outcome.offset, checksum=7)
    assert bytes(folder.segments[3].bytes_of(outcome.offset, len(SECOND))) == SECOND
    folder._remove_file(1)
    assert bytes(folder.segments[3].bytes_of(outcome.offset, len(SECOND))) == SECOND
    assert os.stat(os.path.join(folder.links, "3")).st_mtime_ns == changed
    folder._remove_segment(3)
    assert not folder.linked and os.listdir(folder.folder) == []


@pytest.mark.parametrize("fault", ["no links", "no file", "cut off"])
def test_value_has_a_file_of_its_own_where_there_is_no_link(folder, fault, monkeypatch):
    if fault == "no links":

        def refused(*paths):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refused)
    elif fault == "no file":
        os.unlink(folder._path(1))
    else:
        os.truncate(folder._path(1), len(FIRST) + 5)
    outcome = create(folder)
    assert (outcome.reason, outcome.offset) == ("", 0) and not folder.linked
    assert folder.segments[3].size == len(SECOND)
    words = {"no links": "", "no file": "cannot be read", "cut off": "was cut off"}[fault]
    assert words in restored(folder, 0) if words else restored(folder, 0) == ""
    folder._remove_segment(3)
