"""Files to whose end trials write: what arrives when, and what a full disk leaves."""

import errno
import io

import pytest

from zray.tune.records import appended_text
from zray.tune.records.appended_text import PENDING_MAX, AppendedText


@pytest.fixture
def path(tmp_path):
    return tmp_path / "result.json"


def test_text_is_written_behind_that_of_others_at_a_flush(path):
    path.write_text("first\n")
    file = AppendedText(str(path))
    file.write("second\n")
    file.write("third\n")
    assert path.read_text() == "first\n"
    file.flush()
    assert path.read_text() == "first\nsecond\nthird\n"
    file.write("fourth\n")
    file.close()
    assert path.read_text() == "first\nsecond\nthird\nfourth\n"


def test_file_without_text_is_not_made(path):
    file = AppendedText(str(path))
    file.flush()
    file.close()
    assert not path.exists()


def test_much_text_does_not_wait_for_a_flush(path):
    file = AppendedText(str(path))
    for _ in range(PENDING_MAX):
        file.write("line\n")
    assert path.read_text() == "line\n" * PENDING_MAX
    file.close()


def test_characters_that_the_encoding_lacks_are_escaped(path):
    file = AppendedText(str(path))
    file.write("caf\u00e9 \udc80\n")
    file.close()
    assert path.read_bytes().endswith(b" \\udc80\n")


class FullDisk(io.FileIO):
    """A file that takes a few bytes at a time, until there is room."""

    has_room = False

    def write(self, data):
        if self.tell() >= 4 and not FullDisk.has_room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(bytes(data)[:4])


def test_rest_of_a_failed_write_follows_when_there_is_room(path, monkeypatch):
    monkeypatch.setattr(appended_text.io, "FileIO", FullDisk)
    monkeypatch.setattr(FullDisk, "has_room", False)
    file = AppendedText(str(path))
    file.write("0123456789\n")
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            file.flush()
    assert path.read_text() == "0123"
    FullDisk.has_room = True
    file.write("next\n")
    file.close()
    assert path.read_text() == "0123456789\nnext\n"


def test_file_is_closed_where_its_rest_cannot_be_written():
    file = AppendedText("/dev/full")
    file.write("line\n")
    with pytest.raises(OSError, match="No space left"):
        file.flush()
    descriptor = file._file
    with pytest.raises(OSError, match="No space left"):
        file.close()
    assert descriptor.closed
