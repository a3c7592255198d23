"""Spill files in a directory that the user has named: the last process of a dead session removes them."""

import os

from zray.store.sweeper import SPILLED_AT, lock_session, remove_spill_files


def spilled(tmp_path, name="zray-0123"):
    """A session's folder, and the folder of its spill files in another directory."""
    session, files = tmp_path / name, tmp_path / "disk" / "zray-spilled-0" / name
    for folder in (session, files):
        folder.mkdir(parents=True, mode=0o700)
    (files / "1").write_bytes(b"left")
    (session / SPILLED_AT).symlink_to(files)
    return session, files


def test_spill_files_elsewhere_go_with_their_dead_session(tmp_path):
    session, files = spilled(tmp_path)
    remove_spill_files(session.name, str(session))
    assert not files.parent.exists() and files.parent.parent.exists()
    remove_spill_files(session.name, str(session))  # another process of the session


def test_spill_files_of_a_node_that_lives_stay(tmp_path):
    session, files = spilled(tmp_path)
    lock = lock_session(str(files))
    remove_spill_files(session.name, str(session))
    assert (files / "1").exists()
    os.close(lock)


def test_link_to_anything_else_is_left_alone(tmp_path):
    session, files = spilled(tmp_path)
    remove_spill_files("zray-4567", str(session))
    files.chmod(0o755)
    remove_spill_files(session.name, str(session))
    assert (files / "1").exists()
