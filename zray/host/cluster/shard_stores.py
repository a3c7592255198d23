"""The choice between the stores of shards: logs in the head's state folder, or a Redis or Valkey server.

    store = ShardStore(plan.store, plan.store_id, password)
    ShardLog(folder, member, deliver, store.open)

The head's own process and the processes of its replicas have one each.  The password goes to them by pipes, and is
in no argument, environment, file or log.
"""

from __future__ import annotations

import os
from typing import Any

from ...store.durable import Store
from ...store.log import Log
from ...store.redis_address import RedisAddress, parse

# The connection of a killed head is open until the server hears of its end.
LOCK_SECONDS = 2.0
ID_BYTES = 8


class ShardStore:
    """Where the shards of a cluster keep their records.  text: an address, or "" for logs; its id is the cluster's."""

    def __init__(self, text: str = "", store_id: str = "", password: str = "") -> None:
        self.text = text
        self.id = store_id
        self.password = password
        self.address: RedisAddress | None = parse(text) if text else None

    @property
    def notices(self) -> list[str]:
        """Return what the user has accepted, for `zray status`."""
        return [self.address.notice] if self.address is not None and self.address.notice else []

    def options(self) -> dict[str, Any]:
        """Return the start options of a replica's process, without the password."""
        return {"store": self.text, "store_id": self.id}

    def open(self, folder: str, *, is_lasting: bool = True) -> Store:
        """Open the store of the replica whose folder this is.

        Raises:
            StoreError, PermissionError: as Log and RedisStore.
        """
        if self.address is None:
            return Log(folder, is_lasting=is_lasting)
        from ...store.redis_store import RedisStore

        shard, number = os.path.split(folder)
        prefix = f"zray:{self.id}:{os.path.basename(shard)}:{number}"
        how: dict[str, Any] = {"is_lasting": is_lasting, "patience": LOCK_SECONDS}
        return RedisStore(folder, self.address, prefix, self.password, **how)
