"""State folder of a head: the files from which a later head continues; one head at a time.

    <folder>/lock            held by the head
    <folder>/plan.json       numbers of shards (ids are hashed to them), replicas, global schedulers, the address, and
                             the seed of hash() in tasks; 0600
    <folder>/head.key        the secret key: hosts that trust the head go on trusting it; 0600
    <folder>/token           the token by which others join; 0600
    <folder>/members/        admitted keys, members, lost hosts (membership_log.py)
    <folder>/gcs-0/1/        the log of a replica (store/log.py), or its files beside a server (store/redis_store.py)

Without a folder of the user's, the state lies in the session's folder and ends with the session.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ...exceptions import ZrayError
from ...roles.gcs.flushing import LINEAGE_BYTES
from ...roles.monitor import DRIVER_WAIT_SECONDS
from ...store.durable import StoreLocked
from ...store.log import lock_folder
from ...store.sweeper import check_private
from ...wire.scheduling import BOTTOM_UP
from ..security.keyring import (
    CHECK_BYTES,
    KEY_BYTES,
    TOKEN_CHARACTERS,
    KeyPair,
    Token,
    check_of,
    read_secret,
    replace_secret,
)
from ..session.session import PLAN
from .membership_log import Roster
from .shard_stores import ID_BYTES, ShardStore

# The lock of a killed head is held until the kernel has ended the process.
LOCK_SECONDS = 2.0
POLL_SECONDS = 0.02
LOOPBACK = "127.0.0.1"
# Of a token that is in the folder before the head: others keep it where they cannot be given a new one each day.
PREPARED_SECONDS, PREPARED_USES = 10 * 366 * 24 * 3600.0, 1_000_000
# The checksum in the plan's file: no other field can change without it.
CHECK = "check"


class Plan(msgspec.Struct):
    """Number and place of all that a head hosts."""

    shards: int = 1
    replicas: int = 1
    schedulers: int = 1
    schedulers_max: int = 0  # where their number may change; 0: it is fixed
    policy: str = BOTTOM_UP
    host: str = LOOPBACK
    port: int = 0  # 0: not settled yet
    lineage_bytes: int = LINEAGE_BYTES  # limit for specs in memory, per shard
    driver_wait: float = DRIVER_WAIT_SECONDS  # how long a program outside of the cluster may be silent
    hash_seed: str = ""  # seed of hash() in all tasks: nodes that still run have it (interpreter.py)
    store: str = ""  # the address of the server that keeps the shards' records; "": logs in this folder
    store_id: str = ""  # of this cluster among others on that server

    def changed(self, asked: dict[str, Any]) -> Plan:
        """Return the plan with the requested changes; None, "" and port 0 change nothing."""
        given = {name: asked.get(name) or getattr(self, name) for name in self.__struct_fields__}
        if asked.get("schedulers"):
            given["schedulers_max"] = asked.get("schedulers_max") or 0
        return Plan(**given)


class StateFolder:
    """The state folder of one head. asked: requested fields of the Plan.

    is_lasting: False if the folder ends with the session; shards' writes need not survive the machine then.
    """

    def __init__(
        self,
        path: str,
        asked: dict[str, Any],
        log: Callable[[str], None] = lambda line: None,
        *,
        is_lasting: bool = True,
    ) -> None:
        """Open the folder.

        Raises:
            ZrayError: the folder cannot be made, another head holds it, it was made for another number of shards, its
                nodes
                wait on another port, or something in it is damaged.
            PermissionError: other users may enter it.
        """
        self.path = os.path.abspath(path)
        self.is_lasting = is_lasting
        make_folder(self.path)
        check_private(self.path)
        self._lock = lock_patiently(self.path)
        self.written: Plan | None = None  # the plan that an earlier head wrote
        try:
            self.plan = self._plan(asked)
            self.roster = Roster(os.path.join(self.path, "members"), log)
            self._refuse_to_move()
        except BaseException:
            self._unlock()
            raise
        for shard in range(self.plan.shards):
            os.makedirs(os.path.join(self.path, f"gcs-{shard}"), mode=0o700, exist_ok=True)

    def _plan(self, asked: dict[str, Any]) -> Plan:
        path = os.path.join(self.path, PLAN)
        try:
            with open(path, "rb") as file:
                fields: dict[str, Any] = msgspec.json.decode(file.read(), type=dict)
            check = fields.pop(CHECK, None)  # heads of former versions wrote none
            found = msgspec.convert(fields, Plan)
        except FileNotFoundError:
            return self._with_store_id(Plan().changed(asked))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ZrayError(f"{path} is not a valid plan of a head: {error}") from error
        if check is not None and check != _check_of(fields):
            raise ZrayError(f"{path} is damaged: its fields are not those that the head has written.")
        self.written = found
        plan = found.changed({**asked, "hash_seed": found.hash_seed})
        if found.shards != plan.shards:
            raise ZrayError(
                f"{self.path} holds the state of {found.shards} shards, not of {plan.shards}: "
                f"give --gcs-shards {found.shards}"
            )
        if plan.store and not found.store:
            raise ZrayError(
                f"{self.path} holds the records of its shards itself, and they cannot move to {plan.store}: leave "
                "--gcs-store out, or give another --state-dir for a new cluster"
            )
        return plan

    @staticmethod
    def _with_store_id(plan: Plan) -> Plan:
        if plan.store:
            plan.store_id = os.urandom(ID_BYTES).hex()
        return plan

    def shard_store(self, password: str) -> ShardStore:
        """Return the store of the shards' records."""
        return ShardStore(self.plan.store, self.plan.store_id, password)

    @property
    def former_port(self) -> int:
        """Return the port of an earlier head; 0: there was none."""
        return self.written.port if self.written is not None else 0

    def _refuse_to_move(self) -> None:
        """Refuse another port while nodes of an earlier head wait at the old one."""
        former, nodes = self.former_port, [node for node in self.roster.members.values() if node.kind != "head"]
        if former and self.plan.port != former and nodes:
            port = self.plan.port
            self.roster.close()
            raise ZrayError(
                f"{self.path} holds the state of a cluster on port {former}, where its nodes and programs look for it, "
                f"and not on {port}: leave --port out, or give --port {former}.  A cluster moves when no node of "
                f"it runs: start it on port {former}, end it by `zray stop`, and start it on port {port} then"
            )

    def settle(self, port: int) -> None:
        """Record the port, so that a later head on this folder listens there again.

        Raises:
            ZrayError: the file cannot be written.
        """
        self.plan.port = port
        if self.plan == self.written:
            return  # so a full disk does no harm
        path = os.path.join(self.path, PLAN)
        try:
            fields = msgspec.to_builtins(self.plan)
            replace_secret(path, msgspec.json.encode({**fields, CHECK: _check_of(fields)}))
        except OSError as error:
            raise ZrayError(f"This head cannot write {path}: {error.strerror or error}") from error

    def head_keys(self) -> KeyPair:
        """The head's own: drawn once.

        Raises:
            ZrayError: the file cannot be trusted, or holds no key.
        """
        path = os.path.join(self.path, "head.key")
        try:
            secret = read_secret(path)
        except FileNotFoundError:
            keys = KeyPair.draw()
            replace_secret(path, keys.secret + check_of(keys.secret))
            return keys
        secret, check = secret[:KEY_BYTES], secret[KEY_BYTES:]
        if len(secret) != KEY_BYTES or len(check) not in (0, CHECK_BYTES):  # heads of former versions wrote no check
            size = len(secret) + len(check)
            raise ZrayError(f"{path} holds no key: {KEY_BYTES} bytes are one, and {CHECK_BYTES} its check, not {size}")
        if check and check != check_of(secret):
            raise ZrayError(
                f"{path} is damaged: its bytes are not those that the head has written.  Restore it from a backup: "
                "with another key no node and no program would trust this head."
            )
        return KeyPair.of_secret(secret)

    def token(self, head_public: bytes) -> Token:
        """Return the token by which others join: the recorded token while valid, else a new one.

        Raises:
            ZrayError, StoreError: the token cannot be read or written.
        """
        path = os.path.join(self.path, "token")
        text = ""
        try:
            text = read_secret(path).decode("ascii", "replace")
            token = Token.decode(text)
            is_own, ring = token.head_public == head_public, self.roster.ring
            if is_own and self.written is None and not ring.keys:
                # A folder with keys that were distributed before the head's first start (`zray manifests`).
                self.roster.enter(token.key(ring.clock(), PREPARED_SECONDS, PREPARED_USES))
            if is_own and ring.find(token.pair.public) is not None:
                return token
        except FileNotFoundError:
            pass
        except ValueError as error:
            if len(text) >= TOKEN_CHARACTERS:  # a shorter text is the remains of a power cut
                raise ZrayError(
                    f"{path} is damaged: its check does not fit.  Remove it, and the head writes a new token; nodes "
                    "join by the old one too, as long as that is good."
                ) from error
        token = Token.draw(head_public)
        self.roster.enter(token.key(self.roster.ring.clock()))
        replace_secret(path, token.encode().encode())
        return token

    def logs(self, shard: str, count: int) -> list[str]:
        """Return the folders of the replicas' logs, at least `count`: each may hold records that no other has."""
        folder = os.path.join(self.path, shard)
        found = [int(name) for name in os.listdir(folder) if name.isdecimal()]
        numbers = sorted({*found, *range(count)})
        return [os.path.join(folder, str(number)) for number in numbers]

    def close(self) -> None:
        """Release the folder for another head."""
        self.roster.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _check_of(fields: dict[str, Any]) -> str:
    return check_of(msgspec.json.encode(dict(sorted(fields.items())))).hex()


def make_folder(path: str) -> None:
    """Make the folder if it is absent.

    Raises:
        ZrayError: the folder cannot be made.
    """
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        if isinstance(error, FileExistsError):
            why = "that is no folder"
        elif isinstance(error, NotADirectoryError):
            why = "a part of that path is no folder"
        raise ZrayError(
            f"A head cannot keep its state in {path}: {why}.  Give --state-dir a folder of your own, or the name of "
            "one that can be made."
        ) from error


def lock_patiently(folder: str) -> int:
    """Lock the folder, with some patience.

    Raises:
        ZrayError: another process holds the lock, and keeps it.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return lock_folder(folder)
        except StoreLocked as error:
            if time.monotonic() > deadline:
                raise ZrayError(
                    f"another head keeps its state in {folder} ({error.owner}): `zray stop` ends it"
                ) from error
        time.sleep(POLL_SECONDS)
