"""A connection to a Redis or Valkey server that is fit to keep records: its checks, and its errors as those of stores.

Redis keeps what it has acknowledged only with `appendonly yes` and `appendfsync always`.  Other settings lose records
without a word, so a server with them is refused, with the words to set.

Nothing is repeated by the client library: after an error the caller must find out first what came of the command.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from .durable import StoreAway, StoreBroken, StoreError, StoreFull, StoreUnfit
from .redis_address import ALWAYS, EVERYSEC, RedisAddress

if TYPE_CHECKING:
    from redis import Redis

# A server that is silent for so long is away: a shard stalls then, and says so.
SILENT_SECONDS = 2.0
VERSION_MIN = (6, 2)
LIBRARY_MIN = 6  # version 5 waits for ever for a server that stands still
SETTINGS = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory-policy")
# The first words of errors after which nothing was written, and which end by themselves or by an order to the server.
_REFUSES = {
    "OOM": ("the server has no memory left (maxmemory)", "it has room again, and"),
    "MISCONF": ("the server cannot write to its own disk", "it can, and"),
    "READONLY": ("the server is a replica now, which takes no writes", "it is none, and"),
    "NOREPLICAS": ("the server lacks replicas (min-replicas-to-write)", "it has them, and"),
    "BUSY": ("the server is busy with a script", "it has ended, and"),
    "NOPERM": ("the server forbids this user a command", "it permits it, and"),
}


class Script:
    """A script of the server's, in Lua: it is carried out as a whole or not at all."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class Server:
    """A connection.  name: of the connection, for others that look for its owner."""

    def __init__(self, address: RedisAddress, password: str, name: str) -> None:
        """Raises:
        StoreUnfit: the client library is not installed, or too old.
        """
        try:
            import redis
        except ImportError as error:
            raise StoreUnfit(f"{address.text} needs the package redis: pip install 'zray[redis]'") from error
        if int(redis.__version__.partition(".")[0]) < LIBRARY_MIN:
            found = redis.__version__
            raise StoreUnfit(f"{address.text} needs the package redis {LIBRARY_MIN} or newer, but {found} is installed")
        self.address = address
        self.name = name
        self.redis: Any = redis
        self._password = password
        self._client: Redis | None = None

    @property
    def client(self) -> Any:
        """Return the client of the present connection."""
        assert self._client is not None, "not connected"
        return self._client

    def connect(self) -> None:
        """Connect anew, and check the server.

        Raises:
            StoreAway: no connection.
            StoreUnfit: the server could lose records; the text says what to set.
        """
        self.close()
        address = self.address
        where: dict[str, Any] = {"host": address.host, "port": address.port, "socket_keepalive": True}
        if address.path:
            where = {"unix_socket_path": address.path}
        elif address.is_encrypted:
            where |= {"ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
            where["ssl_ca_certs"] = address.certificates or None
        try:
            self._client = self.redis.Redis(
                **where,
                db=address.database,
                username=address.user or None,
                password=self._password or None,
                socket_timeout=SILENT_SECONDS,
                socket_connect_timeout=SILENT_SECONDS,
                retry=self.redis.retry.Retry(self.redis.backoff.NoBackoff(), 0),
                client_name=self.name,
                protocol=2,
                single_connection_client=True,
            )
            self._check(self.client.info(), self._settings())
        except (self.redis.RedisError, OSError) as error:
            self.close()
            raise self.translated(error) from error
        except BaseException:
            self.close()
            raise

    def _settings(self) -> dict[str, str]:
        try:
            return dict(self.client.config_get(*SETTINGS))
        except self.redis.ResponseError:
            pass  # a server of version 6.2 takes one name at a time
        try:
            return {name: value for each in SETTINGS for name, value in self.client.config_get(each).items()}
        except self.redis.ResponseError as error:
            raise StoreUnfit(
                f"{self.address.text} does not tell how it keeps records ({error}): allow this user `CONFIG GET`"
            ) from error

    def _check(self, info: dict[str, Any], settings: dict[str, str]) -> None:
        if troubles := why_unfit(info, settings, self.address.durability):
            raise StoreUnfit(f"{self.address.text} is not fit to keep the control state: {'; '.join(troubles)}")

    def run(self, script: Script, keys: list[str], arguments: list[Any]) -> list[Any]:
        """Run a script once.

        Raises:
            StoreAway: it was carried out, or was not, or will be.
            StoreFull: it was not carried out.
            StoreBroken: the server does not know what to make of it.
        """
        client = self.client
        try:
            try:
                return list(client.evalsha(script.digest, len(keys), *keys, *arguments))
            except self.redis.exceptions.NoScriptError:
                return list(client.eval(script.text, len(keys), *keys, *arguments))
        except (self.redis.RedisError, OSError) as error:
            raise self.translated(error) from error

    def read(self, key: str, start: int, count: int) -> list[bytes]:
        """Return elements of a list.

        Raises: as run.
        """
        try:
            return list(self.client.lrange(key, start, start + count - 1))
        except (self.redis.RedisError, OSError) as error:
            raise self.translated(error) from error

    def field(self, key: str, name: str) -> str:
        """Return a field of a hash; "" where it is absent.

        Raises: as run.
        """
        try:
            return (self.client.hget(key, name) or b"").decode(errors="replace")
        except (self.redis.RedisError, OSError) as error:
            raise self.translated(error) from error

    def older_owner(self) -> str:
        """Describe another connection of the same name that was there first; "" for none.

        Raises: as run.
        """
        try:
            own = self.client.client_id()
            found = self.client.client_list()
        except (self.redis.RedisError, OSError) as error:
            raise self.translated(error) from error
        for client in found:
            if client["name"] == self.name and int(client["id"]) < own:
                return f"the connection {client['id']} from {client['addr']}, silent for {client['idle']} s"
        return ""

    def translated(self, error: Exception) -> StoreError:
        """Return an error of the client library as a store's."""
        place = self.address.text
        if isinstance(error, self.redis.TimeoutError):
            why = f"the server does not answer for {SILENT_SECONDS:g} s"
            return StoreAway(f"{place}: {why}", why, place, is_silent=True)
        if isinstance(error, (self.redis.ConnectionError, OSError)):
            why = str(error).rstrip(".") or type(error).__name__
            if isinstance(error, self.redis.AuthenticationError):
                why += " (ZRAY_GCS_STORE_PASSWORD, or --gcs-store-password-file)"
            return StoreAway(f"{place}: {why}", why, place)
        said = str(error)
        for word, (why, until) in _REFUSES.items():
            # A server of version 6.2 names the script first, and then what became of it.
            begins = said.startswith(f"{word} ") or any(words in said for words in _IN_SCRIPTS.get(word, ()))
            if begins or f"-{word} " in said or type(error).__name__ == _CLASSES.get(word):
                return StoreFull(f"{place}: {said}", why, place, until)
        return StoreBroken(f"{place}: {said}")

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client.connection_pool.disconnect()  # older versions of the library keep the connection
            self._client = None


# The client library takes the first word away from the errors that it knows.
_IN_SCRIPTS = {"NOPERM": ("can't run this command", "has no permissions to run")}
_CLASSES = {"OOM": "OutOfMemoryError", "READONLY": "ReadOnlyError", "NOPERM": "NoPermissionError"}


def why_unfit(info: dict[str, Any], settings: dict[str, str], durability: str) -> list[str]:
    """Return each reason for which a server may lose records, with what to set."""
    troubles = []
    version = str(info.get("valkey_version") or info.get("redis_version") or "")
    numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdecimal())
    if numbers < VERSION_MIN:
        troubles.append(f"its version is {version or 'not known'}: Redis 6.2, Valkey or newer is needed")
    if info.get("cluster_enabled") or info.get("redis_mode", "standalone") != "standalone":
        troubles.append("it is part of a cluster, or a sentinel: name a server with `cluster-enabled no`")
    if info.get("role", "master") != "master":
        troubles.append("it is a replica: name its master, or order `REPLICAOF NO ONE`")
    if settings.get("appendonly") != "yes":
        troubles.append("it keeps its data in memory alone: set `appendonly yes`")
    accepted = (ALWAYS, EVERYSEC) if durability == EVERYSEC else (ALWAYS,)
    if (found := settings.get("appendfsync")) not in accepted:
        troubles.append(
            f"appendfsync is {found}, so a crash loses acknowledged records: set `appendfsync {ALWAYS}`"
            + (f", or accept the loss of a second by ?durability={EVERYSEC}" if found == EVERYSEC else "")
        )
    if settings.get("no-appendfsync-on-rewrite", "no") != "no":
        troubles.append("it does not wait for the disk while it rewrites its file: set `no-appendfsync-on-rewrite no`")
    if (policy := settings.get("maxmemory-policy")) != "noeviction":
        troubles.append(f"it drops records when its memory is full ({policy}): set `maxmemory-policy noeviction`")
    return troubles
