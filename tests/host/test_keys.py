"""Keys, tokens and their files (docs/security.md, S4, S6, B08, B25, B26)."""

import errno
import os
import stat

import pytest

from zray.exceptions import ZrayError
from zray.host.cluster.admission import found_cluster
from zray.host.cluster.membership import join_cluster
from zray.host.security import keyring
from zray.host.security.keyring import Key, KeyPair, KeyRing, Token, read_secret, require_curve, write_secret
from zray.store.log import lock_folder


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


def test_a_secret_file_is_for_its_owner_only_and_new(tmp_path):
    path = tmp_path / "secret"
    write_secret(str(path), b"s3cret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_secret(str(path)) == b"s3cret"
    with pytest.raises(FileExistsError):
        write_secret(str(path), b"other")
    assert path.read_bytes() == b"s3cret"


def test_where_a_disk_is_full_is_said(tmp_path, monkeypatch):
    def full(descriptor, data, *offset):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/secret'"):
        write_secret(str(tmp_path / "secret"), b"s")
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        lock_folder(str(tmp_path))
    monkeypatch.undo()
    os.close(lock_folder(str(tmp_path)))  # nobody has it


def test_a_link_is_not_followed(tmp_path):
    target, link, dangling = tmp_path / "target", tmp_path / "link", tmp_path / "dangling"
    write_secret(str(target), b"s3cret")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ZrayError, match="is a link"):
        read_secret(str(link))
    for path in (link, dangling):
        with pytest.raises(OSError):
            write_secret(str(path), b"other")
    assert target.read_bytes() == b"s3cret" and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o601])
def test_a_file_that_others_may_open_is_refused_and_its_mode_said(tmp_path, mode):
    path = tmp_path / "secret"
    write_secret(str(path), b"s3cret")
    path.chmod(mode)
    with pytest.raises(ZrayError, match=f"mode {mode:04o}.*chmod 600"):
        read_secret(str(path))


def test_what_is_no_plain_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ZrayError, match="no plain file"):
        read_secret(str(tmp_path / "pipe"))


def test_nothing_shows_a_secret():
    pair = KeyPair.draw()
    token = Token.draw(pair.public)
    for text in (repr(pair), str(pair), repr(token), str(token), repr(token.key(0.0))):
        for secret in (pair.secret, token.pair.secret):
            assert secret.hex() not in text and token.encode() not in text


# --- tokens ---


def test_a_token_says_whom_to_trust_and_what_to_join_with():
    token = Token.draw(KeyPair.draw().public)
    again = Token.decode(f"  {token.encode()}\n")
    assert again.head_public == token.head_public
    assert (again.pair.public, again.pair.secret) == (token.pair.public, token.pair.secret)


def test_it_may_stand_behind_the_name_of_its_variable():
    """As `zray keys token` prints it, for a file or a pipe."""
    token = Token.draw(KeyPair.draw().public)
    assert Token.decode(f"ZRAY_TOKEN={token.encode()}\n").pair.secret == token.pair.secret


def test_a_token_with_one_character_changed_is_none():
    token = Token.draw(KeyPair.draw().public).encode()
    for index, letter in enumerate(token[:-1]):
        changed = token[:index] + ("A" if letter != "A" else "B") + token[index + 1 :]
        with pytest.raises(ValueError, match="not a join token") as caught:
            Token.decode(changed)
        assert changed not in str(caught.value)


@pytest.mark.parametrize("text", ["", "x", "A" * 86, "=" * 90, "ü" * 91, "A" * 10_000, "\0" * 91])
def test_rubbish_is_no_token(text):
    with pytest.raises(ValueError, match="not a join token"):
        Token.decode(text)


# --- the ring ---


def test_who_is_let_in():
    clock = Clock()
    ring = KeyRing(clock)
    node, joiner, stranger = (KeyPair.draw().public for _ in range(3))
    ring.add(Key(node, "node", "n"))
    ring.add(Key(joiner, "joiner", "token", clock.now + 10.0, 2))
    assert ring.find(node).name == "n" and ring.find(joiner).kind == "joiner"
    assert ring.why_not(stranger) == "unknown key"
    ring.spend(ring.keys[joiner])
    assert ring.find(joiner)
    ring.spend(ring.keys[joiner])
    assert "used up" in ring.why_not(joiner)
    ring.keys[joiner].uses_left = 1
    clock.now += 10.0
    assert "expired" in ring.why_not(joiner) and ring.find(node)
    ring.revoke("n")
    assert "revoked" in ring.why_not(node)
    ring.add(Key(node, "head", "n"))
    assert "revoked" in ring.why_not(node)


# --- what libzmq must be able to do (B36) ---

# Before anything else is looked at: a head that is founded, and a node that joins one.
CLUSTER_MODE = (
    require_curve,
    lambda: found_cluster(None, "", None, None, print),
    lambda: join_cluster("", "", {}, b"", print),
)


def test_a_libzmq_without_curve_is_refused_by_its_version(monkeypatch):
    monkeypatch.setattr(keyring.zmq, "has", lambda feature: False)
    for refuses in CLUSTER_MODE:
        with pytest.raises(ZrayError, match=r"with CURVE, but libzmq \d+\.\d+"):
            refuses()


def test_an_old_libzmq_is_refused_by_its_version(monkeypatch):
    monkeypatch.setattr(keyring.zmq, "zmq_version_info", lambda: (4, 3, 1))
    for refuses in CLUSTER_MODE:
        with pytest.raises(ZrayError, match="4.3.5 or newer"):
            refuses()


def test_of_keys_whose_hosts_are_gone_the_last_so_many_are_remembered(monkeypatch):
    """The others are refused all the same; one that was revoked by hand stays."""
    monkeypatch.setattr(keyring, "LOST_MAX", 5)
    ring = KeyRing()
    by_hand = KeyPair.draw().public
    ring.add(Key(by_hand, "node", "by-hand"))
    ring.revoke("by-hand")
    publics = [number.to_bytes(32, "big") for number in range(1, 21)]
    for number, public in enumerate(publics):
        ring.add(Key(public, "node", f"n{number}"))
        ring.forget(f"n{number}", is_lost=True)
    assert list(ring.keys) == [by_hand, *publics[-5:]]
    assert ring.why_not(publics[0]) == "unknown key" and "revoked" in ring.why_not(publics[-1])
    assert "revoked" in ring.why_not(by_hand)
