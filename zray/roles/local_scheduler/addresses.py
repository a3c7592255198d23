"""Addresses of the other roles, as a local scheduler knows them."""

from __future__ import annotations

from collections.abc import Container

from msgspec import Struct

from ...wire.shards import SlotTable

ONE_SHARD = SlotTable.at_birth(1)


class Addresses(Struct, eq=False):
    """The roles with which a local scheduler communicates."""

    object_manager: str
    global_schedulers: list[str]
    shards: list[str]
    monitor: str
    slots: SlotTable = ONE_SHARD  # not given: the first table for so many shards

    def __post_init__(self) -> None:
        if self.slots is ONE_SHARD:
            self.slots = SlotTable.at_birth(len(self.shards))

    def add_schedulers(self, roles: list[str], gone: Container[str]) -> list[str]:
        """Add the global schedulers of a new host.  gone: hosts.

        Returns schedulers of hosts that are gone, which were kept for lack of others.
        """
        stale = [role for role in self.global_schedulers if role.partition("/")[0] in gone]
        self.global_schedulers[:] = dict.fromkeys(
            [*(role for role in self.global_schedulers if role not in stale), *roles]
        )
        return stale

    def head_changed(self, head: str, global_schedulers: list[str]) -> None:
        """Take the monitor and the global schedulers of another head."""
        self.monitor = f"{head}/monitor"
        self.global_schedulers[:] = global_schedulers

    def remove_schedulers(self, host: str) -> list[str]:
        """Remove the global schedulers of an ended host, and return them."""
        gone = [role for role in self.global_schedulers if role.partition("/")[0] == host]
        left = [role for role in self.global_schedulers if role not in gone]
        if left:  # otherwise: until its successor is there, which is soon
            self.global_schedulers[:] = left
        return gone

    def take_slots(self, table: SlotTable) -> None:
        """Take a newer table of slots, all of whose shards are known."""
        self.slots = table

    def shard_of(self, task_or_object_id: bytes) -> str:
        """Return the shard with sole authority for a task, its lineage and objects (docs/design/gcs-chain.md)."""
        if len(self.shards) == 1:
            return self.shards[0]
        return self.shards[self.slots.owner(task_or_object_id)]

    def by_shard(self, object_ids: list[bytes]) -> dict[str, list[bytes]]:
        """Group the objects by shard.  With a single shard, the same list object is used."""
        if len(self.shards) == 1:
            return {self.shards[0]: object_ids} if object_ids else {}
        groups: dict[str, list[bytes]] = {}
        for object_id in object_ids:
            groups.setdefault(self.shard_of(object_id), []).append(object_id)
        return groups
