"""Folders of sessions: a driver makes none, and the node makes its own whatever others remove meanwhile."""

import os

import pytest

from zray.host.session.session import Session, live_sessions, returning_sessions, session_root


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Path of the folder of sessions; there is none yet."""
    monkeypatch.setenv("ZRAY_TMPDIR", str(tmp_path))
    return tmp_path / f"zray-{os.getuid()}"


@pytest.mark.parametrize("ask", [session_root, Session.named_anew, live_sessions, returning_sessions])
def test_driver_makes_no_folder_that_its_death_would_leave(root, monkeypatch, ask):
    """A driver that is killed between the making of a folder and its removal would leave the folder."""

    def mkdir(path, *args, **kwargs):
        raise AssertionError(f"{path} is made by {ask.__name__}")

    monkeypatch.setattr(os, "mkdir", mkdir)
    ask()
    assert not root.exists()


def test_node_makes_its_folder_though_the_last_other_session_takes_the_root_along(root, monkeypatch):
    session = Session("0123456789abcdef", str(root))
    real, made = os.mkdir, []

    def mkdir(path, *args, **kwargs):
        made.append(path)
        if made == [str(root), session.folder]:
            os.rmdir(root)
        real(path, *args, **kwargs)

    monkeypatch.setattr(os, "mkdir", mkdir)
    session.make_folder()
    assert os.path.isdir(session.logs) and made.count(session.folder) == 2
    session.remove()
    assert not root.exists()


@pytest.mark.parametrize("make", [lambda root: root.write_text("a file"), lambda root: root.symlink_to("nowhere")])
def test_node_refuses_a_root_that_is_no_folder(root, make):
    make(root)
    with pytest.raises(OSError, match="cannot make the folder of its sessions; ZRAY_TMPDIR says where it may"):
        Session("0123456789abcdef", str(root)).make_folder()


def test_node_refuses_a_root_that_cannot_be_made():
    with pytest.raises(OSError, match="cannot make the folder of its sessions; ZRAY_TMPDIR says where it may"):
        Session("0123456789abcdef", "/proc/zray-0").make_folder()
