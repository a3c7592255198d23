"""Keys of a cluster: pairs, their files, the ring of admitted keys, and join tokens.

A host draws a key pair at its start, valid until its end.  A token is the head's public key and the secret key of a
separate pair, with the sole right to have a fresh key entered (JoinCluster).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
import time
from collections.abc import Callable

import msgspec
import zmq

from ...exceptions import ZrayError
from ...roles.kept import LOST_MAX, Latest
from ...wire.hosts import WAS_LOST, HostAdded
from .token_input import VARIABLE

KEY_BYTES = 32
# Length of the checksum behind a secret, against damaged tokens.
CHECK_BYTES = 4
# Length of a token: base64 of two keys and their checksum.
TOKEN_CHARACTERS = -(-4 * (2 * KEY_BYTES + CHECK_BYTES) // 3)
# The lifetime of a join token, and its number of uses (docs/security.md, S4).
TOKEN_SECONDS = 24 * 3600.0
TOKEN_USES = 1_000
# Older versions of libzmq could be brought down by bytes before or inside the handshake.
LIBZMQ_MIN = (4, 3, 5)


def require_curve() -> None:
    """Refuse an unfit libzmq.

    Raises:
        ZrayError: this libzmq cannot encrypt, or is too old for use on a network; names its version.
    """
    found = zmq.zmq_version()
    if not zmq.has("curve"):
        raise ZrayError(f"A cluster needs libzmq with CURVE, but libzmq {found} here was built without it.")
    if zmq.zmq_version_info() < LIBZMQ_MIN:
        needed = ".".join(map(str, LIBZMQ_MIN))
        raise ZrayError(f"A cluster needs libzmq {needed} or newer, but libzmq {found} is here.")


class KeyPair:
    """A CURVE key pair, raw bytes.  Its repr shows no secret."""

    __slots__ = ("public", "secret")

    def __init__(self, public: bytes, secret: bytes) -> None:
        self.public = public
        self.secret = secret

    @classmethod
    def draw(cls) -> KeyPair:
        """Return a new pair."""
        public, secret = zmq.curve_keypair()
        return cls(raw(public), raw(secret))

    @classmethod
    def of_secret(cls, secret: bytes) -> KeyPair:
        """Return the pair of a secret key."""
        return cls(raw(zmq.curve_public(text(secret))), secret)

    def __repr__(self) -> str:
        return f"KeyPair({self.public.hex()})"


def raw(z85: bytes) -> bytes:
    """A key as 32 bytes."""
    from zmq.utils import z85 as coding

    return coding.decode(z85)


def text(key: bytes) -> bytes:
    """Return a key as 40 characters for libzmq's functions."""
    from zmq.utils import z85 as coding

    return coding.encode(key)


# --- files ---


def write_secret(path: str, secret: bytes) -> None:
    """Write a new file that only this user can read.

    Raises:
        FileExistsError: the path exists, perhaps as a link.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, secret)
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error  # name the full disk
    finally:
        os.close(descriptor)


def replace_secret(path: str, secret: bytes) -> None:
    """Write as write_secret, over an old file: readers see the old or the new file, whole."""
    aside = f"{path}.new"
    try:
        os.unlink(aside)  # left behind by a killed process
    except FileNotFoundError:
        pass
    write_secret(aside, secret)
    os.replace(aside, path)


def read_secret(path: str) -> bytes:
    """Read a file of write_secret, or made by hand.

    Raises:
        ZrayError: a link, no plain file, another user's, or open to others; says the mode.
        OSError: the file cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise ZrayError(f"{path} is a link: secrets are read from plain files only.") from error
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ZrayError(f"{path} is no plain file.")
        if found.st_uid != os.geteuid():
            raise ZrayError(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}.")
        if found.st_mode & 0o077:
            mode = stat.S_IMODE(found.st_mode)
            raise ZrayError(f"{path} holds a secret and is open to others (mode {mode:04o}): chmod 600 it.")
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


# --- the ring ---


class Key(msgspec.Struct):
    """A public key that is, or was, admitted."""

    public: bytes
    kind: str  # "head", "node", "driver", "replica", "scheduler", "joiner", "reader"
    name: str  # of a host: its id
    expires_at: float = float("inf")  # wall clock
    uses_left: int = -1  # remaining joins of a joiner's key; -1: unlimited
    is_revoked: bool = False
    is_lost: bool = False  # revoked only because its host was declared dead
    roles: list[str] = []  # of a replica: its only roles
    node: str = ""  # of a replica: the node that runs the process; "": the head


def key_of(added: HostAdded) -> Key:
    """Return the key of a host that is no node, as announced by the head."""
    return Key(added.public_key, added.kind, added.host, roles=list(added.roles), node=added.node)


class KeyRing:
    """The admitted keys, by public key."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.keys: dict[bytes, Key] = {}
        # Keys of the latest lost hosts: older ones are refused as unknown.
        self.gone: Latest[bytes, None] = Latest(LOST_MAX)

    def add(self, key: Key) -> None:
        """Admit a key; a revoked key stays revoked."""
        self.keys.setdefault(key.public, key)

    def why_not(self, public: bytes) -> str:
        """Return why the key is refused, or ""."""
        key = self.keys.get(public)
        if key is None:
            return "unknown key"
        if key.is_lost:
            return f"revoked key of {key.kind} {key.name}: {WAS_LOST}"
        if key.is_revoked:
            return f"revoked key of {key.kind} {key.name}"
        if self.clock() >= key.expires_at:
            return f"expired key of {key.kind} {key.name}"
        if not key.uses_left:
            return f"used up key of {key.kind} {key.name}"
        return ""

    def find(self, public: bytes) -> Key | None:
        """Return the key if admitted now."""
        return None if self.why_not(public) else self.keys[public]

    def spend(self, key: Key) -> None:
        """Spend a use of a joiner's key."""
        if key.uses_left > 0:
            key.uses_left -= 1

    def revoke(self, name: str) -> list[Key]:
        """Refuse the keys of that name from now on, and return them."""
        found = [key for key in self.keys.values() if key.name == name and not key.is_revoked]
        for key in found:
            key.is_revoked = True
        return found

    def forget(self, name: str, *, is_lost: bool = False) -> None:
        """Revoke the key of a host that is gone for good, for every bearer."""
        for key in self.revoke(name):
            key.is_lost = is_lost
            oldest = next(iter(self.gone), b"")
            self.gone[key.public] = None
            if oldest not in self.gone and oldest in self.keys and self.keys[oldest].is_revoked:
                del self.keys[oldest]


def hosts_gone() -> Latest[str, None]:
    """Return a table of the latest lost hosts: messages about a host arrive long before so many others are lost."""
    return Latest(LOST_MAX)


# --- tokens ---


def check_of(secret: bytes) -> bytes:
    """The bytes behind a secret: a slip of the pen is seen before it is tried (not all bits of a CURVE key count)."""
    return hashlib.sha256(secret).digest()[:CHECK_BYTES]


# The kinds of tokens, and the commands that print them.
JOINS = "a join token: it must be the text that `zray start --head` or `zray keys token`"
READS = "a token for readers: it must be the text that `zray keys reader`"
JOINS_OR_READS = "a join token or one for readers: it must be the text that `zray start --head` or `zray keys`"


class Token:
    """A token for newcomers: the head's public key, and a secret key to join with."""

    __slots__ = ("head_public", "pair")

    def __init__(self, head_public: bytes, pair: KeyPair) -> None:
        self.head_public = head_public
        self.pair = pair

    @classmethod
    def draw(cls, head_public: bytes) -> Token:
        """Return a new token for the cluster of that head."""
        return cls(head_public, KeyPair.draw())

    def encode(self) -> str:
        """Return the token as text.  A secret."""
        both = self.head_public + self.pair.secret
        return base64.urlsafe_b64encode(both + check_of(both)).decode().rstrip("=")

    @classmethod
    def decode(cls, encoded: str, wanted: str = JOINS) -> Token:
        """Return the token of a text.  wanted: the requested kind, for the error.

        Raises:
            ValueError: the text is no token (the error does not quote it).
        """
        encoded = encoded.strip().removeprefix(f"{VARIABLE}=")  # the form of `zray keys token`
        try:
            decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        both, check = decoded[: 2 * KEY_BYTES], decoded[2 * KEY_BYTES :]
        if len(both) != 2 * KEY_BYTES or check != check_of(both):
            raise ValueError(f"This is not {wanted} printed on the head's machine.")
        return cls(both[:KEY_BYTES], KeyPair.of_secret(both[KEY_BYTES:]))

    def key(self, now: float, seconds: float = TOKEN_SECONDS, uses: int = TOKEN_USES) -> Key:
        """Return the token's entry for the head's ring."""
        return Key(self.pair.public, "joiner", f"token-{self.pair.public.hex()[:8]}", now + seconds, uses)

    def __repr__(self) -> str:
        return "Token(...)"
