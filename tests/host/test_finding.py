"""Addresses of sessions on this machine, without any process of a session."""

import os

import pytest

from zray.exceptions import AuthenticationError
from zray.host.session.discovery import find_session, session_at
from zray.host.session.session import Session
from zray.host.session.session_info import SessionInfo
from zray.store.sweeper import lock_session


@pytest.fixture
def made(monkeypatch, tmp_path):
    """A function that makes the folder of a session as its node would, in a root of its own."""
    monkeypatch.setenv("ZRAY_TMPDIR", str(tmp_path))
    descriptors = []

    def make(name="0123456789abcdef", **info):
        session = Session(name)
        session.make_folder()
        descriptors.append(lock_session(session.folder))
        open(session.socket_path, "w").close()
        session.write_info(SessionInfo(name, 17, **info))
        return session

    yield make
    for descriptor in descriptors:
        os.close(descriptor)


def test_session_is_found_by_the_address_of_its_socket(made, monkeypatch):
    session = made(driver_pid=5)
    monkeypatch.setenv("ZRAY_TMPDIR", "/tmp/another")  # of the program that joins
    found, pid = session_at(session.address)
    assert (found.name, found.address, pid) == (session.name, session.address, 17)


def test_folder_that_is_named_from_the_working_folder_has_an_address_for_other_programs(made, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZRAY_TMPDIR", ".")
    session = made("fedcba9876543210")
    monkeypatch.chdir("/")
    assert session_at(session.address)[0].address == session.address


@pytest.mark.parametrize(
    "address",
    ["ipc://", "ipc:///node.sock", "ipc://folder/name/node.sock", "ipc:///tmp/a/b"],
)
def test_address_of_no_session_is_refused(address):
    with pytest.raises(ValueError, match="FOLDER/node.sock"):
        session_at(address)


@pytest.mark.parametrize("which", ["session", "root"])
def test_session_whose_folder_others_may_enter_is_not_joined(made, which):
    session = made()
    os.chmod(session.folder if which == "session" else os.path.dirname(session.folder), 0o755)  # noqa: S103
    with pytest.raises(AuthenticationError, match="open to others"):
        session_at(session.address)


def test_link_in_the_place_of_a_session_is_not_followed(made):
    session = made()
    os.symlink(session.folder, link := os.path.join(os.path.dirname(session.folder), "fedcba9876543210"))
    with pytest.raises(AuthenticationError, match="not a folder"):
        session_at(f"ipc://{link}/node.sock")


def test_session_that_has_ended_is_said_to_have(made):
    session = made()
    os.unlink(session.socket_path)
    for address in (session.address, f"ipc://{session.folder}0/node.sock"):
        with pytest.raises(ConnectionError, match="has ended, or never began"):
            session_at(address)


def test_node_of_a_program_outside_of_its_cluster_is_not_joined(made):
    session = made(driver_pid=5, cluster="10.0.0.1:6379", kind="driver")
    with pytest.raises(ConnectionError, match=r"process 5.*init\(address='10.0.0.1:6379'\)"):
        session_at(session.address)
    with pytest.raises(ConnectionError, match="no session of this user"):
        find_session()


def test_sessions_of_zray_start_come_before_those_of_programs(made):
    older = made("0000000000000001", driver_pid=5)
    assert find_session()[0].name == older.name
    newer = made("0000000000000002", driver_pid=6)
    os.utime(os.path.join(older.folder, "node.json"), (1, 1))
    assert find_session()[0].name == newer.name
    lasting = made("0000000000000003", is_embedded=False, cluster="127.0.0.1:6379", kind="head")
    os.utime(os.path.join(lasting.folder, "node.json"), (0, 0))
    assert find_session()[0].name == lasting.name
