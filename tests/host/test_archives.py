"""Archives of a runtime_env: nothing in them can lead out of their folder."""

import stat
import zipfile

import pytest

from zray.host.code.archives import read_archive

MAX = 1 << 20


def archive(path, *members):
    with zipfile.ZipFile(path, "w") as file:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            file.writestr(info, data)
    return str(path)


def test_files_come_with_their_mode_and_order(tmp_path):
    path = archive(tmp_path / "a.zip", ("b/run", b"x", 0o755), ("a.py", b"y", 0o644), ("empty/", b"", 0o755))
    assert read_archive(path, MAX) == [("a.py", False, b"y"), ("b/run", True, b"x")]


def test_libraries_of_a_wheel_are_imported_from_its_root(tmp_path):
    members = ("a-1.data/purelib/a.py", "a-1.data/scripts/a", "a-1.dist-info/METADATA")
    path = archive(tmp_path / "a.whl", *((name, b"", 0o644) for name in members))
    assert [entry[0] for entry in read_archive(path, MAX)] == ["a-1.data/scripts/a", "a-1.dist-info/METADATA", "a.py"]


@pytest.mark.parametrize("name", ["../a.py", "/etc/a.py", "a/../../b", "a//b", "./a", "a\\..\\b"])
def test_names_that_lead_elsewhere_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match="outside of its folder"):
        read_archive(archive(tmp_path / "a.zip", (name, b"", 0o644)), MAX)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_special_files_are_refused(kind, tmp_path):
    with pytest.raises(ValueError, match="only regular files"):
        read_archive(archive(tmp_path / "a.zip", ("a", b"/etc/passwd", kind | 0o777)), MAX)


def test_an_archive_that_would_be_too_large_is_refused_before_it_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(MAX + 1))
    with pytest.raises(ValueError, match=r"1,048,577 bytes in 1 files when unpacked; at most 1,048,576"):
        read_archive(str(tmp_path / "a.zip"), MAX)


def test_an_archive_that_lies_about_its_size_is_refused(tmp_path):
    path = archive(tmp_path / "a.zip", ("a", b"0123456789", 0o644))
    data = bytearray((tmp_path / "a.zip").read_bytes())
    place = data.index(b"PK\1\2") + 24  # the size, in the directory
    data[place : place + 4] = (5).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(ValueError, match="cannot be read as an archive|not as many bytes"):
        read_archive(path, MAX)


def test_file_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "a.zip").write_text("no archive")
    with pytest.raises(ValueError, match="cannot be read as an archive"):
        read_archive(str(tmp_path / "a.zip"), MAX)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_damaged_archives_are_refused_with_their_path(method, tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("a.py", b"abcdefgh" * 20)
        file.writestr("b.py", b"x" * 50)
    whole = path.read_bytes()
    damaged = [whole[:place] + bytes((byte,)) + whole[place + 1 :] for place in range(len(whole)) for byte in (0, 255)]
    for data in [*damaged, *(whole[:length] for length in range(0, len(whole), 7))]:
        path.write_bytes(data)
        try:
            read_archive(str(path), MAX)
        except ValueError as error:
            assert str(path) in str(error)
    with pytest.raises(FileNotFoundError):
        read_archive(str(tmp_path / "none.zip"), MAX)
