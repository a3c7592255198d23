"""What a shard, and a member of its chain, keep at most so many of: as in `local_scheduler/bounds`.

A shard keeps what nodes hold: tasks, objects, actors and groups are as many as users have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...wire.tasks import FUNCTIONS_BYTES_MAX, FUNCTIONS_COUNT_MAX
from ..latest import LOST_MAX
from . import aside, client, entrance, flushing, functions, homes, journal, keeping
from . import shard as shard_module

if TYPE_CHECKING:
    from .chain import ChainMember
    from .shard import GcsShard


def bounds_of_shard(shard: GcsShard) -> Iterator[tuple[str, int, int]]:
    """(what, how many there are, how many there may be)"""
    dead = len(shard.homes.dead_without_handles())
    yield "actors lost with their nodes and without a handle", dead, homes.LOST_ACTORS_MAX
    asked = sum(actor_id not in shard.homes.homes for actor_id in shard.homes.askers)
    yield "unknown actors that are asked for", asked, homes.ASKERS_MAX
    yield "functions that are awaited", len(shard.function_waiters), shard_module.AWAITED_MAX
    table = shard.functions
    yield "functions without an owner", len(table.orphans), functions.ORPHANS_COUNT_MAX
    yield "bytes of functions without an owner", table.orphan_bytes, functions.ORPHANS_BYTES_MAX
    yield "jobs that have ended", len(table.ended), functions.ENDED_MAX
    for (_, job_id, node), published in table.owners.items():
        yield f"functions of job {job_id.hex()} of {node}", len(published.functions), FUNCTIONS_COUNT_MAX
        yield f"bytes of code of job {job_id.hex()} of {node}", published.size, FUNCTIONS_BYTES_MAX
    yield "actors with names", len(shard.name_by_actor), len(shard.actor_by_name)
    yield "names of groups", len(shard.groups.by_name), len(shard.groups.records)
    yield "tasks in hand", len(shard.tasks.makers), len(shard.tasks.records)
    yield "tasks that have run again", len(shard.tasks.attempts), len(shard.tasks.records)
    yield "tasks that others take which run once only", len(shard.tasks.once), len(shard.tasks.records)
    kept = shard.tasks.keeping
    if kept is not None:
        yield "other shards", len(kept.peers), kept.shards
        yield "tasks that other shards need", len(kept.kept_for), len(shard.tasks.records)
        for number, peer in kept.peers.items():
            yield f"requests to shard {number} under way", len(peer.needed) + len(peer.freed), keeping.WORDS_MAX
            yield f"nodes that carry them to shard {number}", len(peer.carriers), keeping.CARRIERS_MAX


def bounds_of_member(member: ChainMember) -> Iterator[tuple[str, int, int]]:
    """(what, how many there are, how many there may be)"""
    for sender, count in member.aside.counts.items():
        yield f"messages of {sender} that wait", count, max(aside.ASIDE_MAX, client.REQUESTS_MAX)
    if member.journal is not None:
        most = journal.GATHERED_MAX + 2 * entrance.HISTORY_MAX  # one that is appended; with as many epochs
        yield "records that wait for the disk", member.journal.waiting, most
    yield "pages under way", len(member.flushing._going), flushing.PAGES_MAX
    replica = member.replica
    if replica is not None:
        # Those that a member which joins lacked, and those under way.
        yield "updates that others may lack", len(member.history), 2 * entrance.HISTORY_MAX
        # A tail whose disk is behind says nothing: it has not looked, either, who of them is lost.
        if member.is_tail and member.has_caught_up and member.acknowledged >= member.forgotten:
            yield "clients that were told something", len(member.results.told), len(replica.sessions)
        yield "clients that are to confirm more", len(member.entrance.owing), len(replica.sessions)
        yield "clients that are lost", len(replica.lost), LOST_MAX
        yield from bounds_of_shard(replica.shard)
