"""Keys of a cluster: pairs, the files they lie in, the ring of those that are let in, and join tokens.

A host draws a key pair when it starts, and it dies with the process.  A token is the head's public key and the
secret key of a pair of its own, whose only right is to have a fresh key entered (JoinCluster).
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
from ...roles.latest import LOST_MAX, Latest
from ...wire.hosts import WAS_LOST, HostAdded
from .token_input import VARIABLE

KEY_BYTES = 32
# Behind a secret: no damaged one passes for a sound one.
CHECK_BYTES = 4
# Of a token: base64 of two keys and their check.
TOKEN_CHARACTERS = -(-4 * (2 * KEY_BYTES + CHECK_BYTES) // 3)
# The lifetime of a join token, and its number of uses (docs/security.md, S4).
TOKEN_SECONDS = 24 * 3600.0
TOKEN_USES = 1_000
# Older versions of libzmq could be brought down by bytes before or inside the handshake.
LIBZMQ_MIN = (4, 3, 5)


def require_curve() -> None:
    """Raises:
    ZrayError: this libzmq cannot encrypt, or is too old to be shown to a network; names its version.
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
        """A new one."""
        public, secret = zmq.curve_keypair()
        return cls(raw(public), raw(secret))

    @classmethod
    def of_secret(cls, secret: bytes) -> KeyPair:
        """The pair that a secret key belongs to."""
        return cls(raw(zmq.curve_public(text(secret))), secret)

    def __repr__(self) -> str:
        return f"KeyPair({self.public.hex()})"


def raw(z85: bytes) -> bytes:
    """A key as 32 bytes."""
    from zmq.utils import z85 as coding

    return coding.decode(z85)


def text(key: bytes) -> bytes:
    """A key as libzmq's functions take it: 40 characters."""
    from zmq.utils import z85 as coding

    return coding.encode(key)


# --- files ---


def write_secret(path: str, secret: bytes) -> None:
    """A new file that only this user can read.

    Raises:
        FileExistsError: something is there, be it a link.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, secret)
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error  # which disk is full
    finally:
        os.close(descriptor)


def replace_secret(path: str, secret: bytes) -> None:
    """As write_secret, in the place of whatever was there: the file is the old one or the new one, whole."""
    aside = f"{path}.new"
    try:
        os.unlink(aside)  # a death has left it
    except FileNotFoundError:
        pass
    write_secret(aside, secret)
    os.replace(aside, path)


def read_secret(path: str) -> bytes:
    """What write_secret wrote, or a user by hand.

    Raises:
        ZrayError: a link, no plain file, another user's, or open to others; says the mode.
        OSError: it cannot be read.
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
    """One public key that is, or was, let in."""

    public: bytes
    kind: str  # "head", "node", "driver", "replica", "scheduler", "joiner", "reader"
    name: str  # of a host: its id
    expires_at: float = float("inf")  # wall clock
    uses_left: int = -1  # joins that a joiner's key still buys; -1: does not matter
    is_revoked: bool = False
    is_lost: bool = False  # revoked by the verdict on its host, and by nothing else
    roles: list[str] = []  # of a replica: the only ones that it may speak for
    node: str = ""  # of a replica: the node that runs it; "": the head


def key_of(added: HostAdded) -> Key:
    """Of a host that is no node, as the head tells of it."""
    return Key(added.public_key, added.kind, added.host, roles=list(added.roles), node=added.node)


class KeyRing:
    """Public key -> what it may do."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.keys: dict[bytes, Key] = {}
        # Keys of hosts that are gone, the last so many: those before them are refused as unknown ones.
        self.gone: Latest[bytes, None] = Latest(LOST_MAX)

    def add(self, key: Key) -> None:
        """Let it in; one that was revoked stays so."""
        self.keys.setdefault(key.public, key)

    def why_not(self, public: bytes) -> str:
        """Why the key is refused; "" when it is not."""
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
        """The key, when it is let in now."""
        return None if self.why_not(public) else self.keys[public]

    def spend(self, key: Key) -> None:
        """One use of a joiner's key."""
        if key.uses_left > 0:
            key.uses_left -= 1

    def revoke(self, name: str) -> list[Key]:
        """Refuse the keys of that name from now on; which they are."""
        found = [key for key in self.keys.values() if key.name == name and not key.is_revoked]
        for key in found:
            key.is_revoked = True
        return found

    def forget(self, name: str, *, is_lost: bool = False) -> None:
        """A host is gone for good, and so is its key: it is refused as revoked, whoever shows it."""
        for key in self.revoke(name):
            key.is_lost = is_lost
            oldest = next(iter(self.gone), b"")
            self.gone[key.public] = None
            if oldest not in self.gone and oldest in self.keys and self.keys[oldest].is_revoked:
                del self.keys[oldest]


def hosts_gone() -> Latest[str, None]:
    """Those that are gone for good, the last so many: what is said of one arrives long before so many others go."""
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
    """What a newcomer is given: whom to trust, and the secret key that it may join with."""

    __slots__ = ("head_public", "pair")

    def __init__(self, head_public: bytes, pair: KeyPair) -> None:
        self.head_public = head_public
        self.pair = pair

    @classmethod
    def draw(cls, head_public: bytes) -> Token:
        """A new one for the cluster of that head."""
        return cls(head_public, KeyPair.draw())

    def encode(self) -> str:
        """As it is handed on.  A secret."""
        both = self.head_public + self.pair.secret
        return base64.urlsafe_b64encode(both + check_of(both)).decode().rstrip("=")

    @classmethod
    def decode(cls, encoded: str, wanted: str = JOINS) -> Token:
        """wanted: the kind of token that is asked for, as an error names it.

        Raises:
            ValueError: this is no token (the error does not quote it).
        """
        encoded = encoded.strip().removeprefix(f"{VARIABLE}=")  # as `zray keys token` prints it
        try:
            decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        both, check = decoded[: 2 * KEY_BYTES], decoded[2 * KEY_BYTES :]
        if len(both) != 2 * KEY_BYTES or check != check_of(both):
            raise ValueError(f"This is not {wanted} printed on the head's machine.")
        return cls(both[:KEY_BYTES], KeyPair.of_secret(both[KEY_BYTES:]))

    def key(self, now: float, seconds: float = TOKEN_SECONDS, uses: int = TOKEN_USES) -> Key:
        """Its entry in the head's ring."""
        return Key(self.pair.public, "joiner", f"token-{self.pair.public.hex()[:8]}", now + seconds, uses)

    def __repr__(self) -> str:
        return "Token(...)"
