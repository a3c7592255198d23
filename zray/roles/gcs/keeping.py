"""Lineage over several shards: a record keeps the records of its task's arguments, in whatever shard.

A shard reports for each task of another shard whether its own records need it: once for the first such record, and once
after the last is gone.  The other shard keeps the record meanwhile, with its own needs.  So a chain of tasks is kept
from shard to shard, and released likewise.

    shard A    LineageNeeded         to a node, which takes it to shard B
    shard B    LineageNeededReply    to that node, which takes it back
    shard B    LineageMoved          likewise, if some of the tasks are another shard's by a newer table of slots

Shards have no connections of their own, and a replica has no clock: nodes carry their messages, as they reach every
shard in any case.  Messages from a shard to another are numbered batches, one in flight at a time; later entries are
gathered, and entries revoked before sending are dropped.  A batch is sent again if the carrying node is lost, or if
another node waits for it; its number identifies duplicates.

A reply to a node about records or holds implies that other shards were told: so those replies wait for the batches
before them.  A node keeps its holds on a task's arguments until the task's record is acknowledged
(`local_scheduler/objects/lineage.py`).  So the needs of a living record are kept at every moment.  If a node is lost
before, its records may lack arguments: no other node has a ref on their results, and they go when the shards have told
each other.

A slot may move from a shard to another, with its records and the other shards' needs of them.  A shard that has not
heard of that reports to the former owner.  What comes back is reported to the owner by the newer table, with all that
was not sent yet.  The words about a task stay in order: no batch goes to the new owner while a batch to the former one
has words that may come back.  A shard may say the opposite of these meanwhile; then both are dropped.

The records of a moved slot have needs too (moves.py).  Their former shard keeps its own need for the new one, until the
task's shard has heard of that (`via`).

Puts are not reconstructed by running a task: they are not reported.  A cluster with a single shard has no Keeping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from ...ids import is_put, task_of
from ...wire.gcs import HoldAtNodeReply, LineageMoved, LineageNeeded, LineageNeededReply, RecordTasksReply
from ...wire.shards import SlotTable
from ...wire.task_spec import TaskSpec

if TYPE_CHECKING:
    from .shard import GcsShard

# Tasks in a batch: with 16 bytes each, far below a frame's limit.
WORDS_MAX = 10_000
# A batch with a slow or suspended first carrier goes with another node that waits for it.
CARRIERS_MAX = 2

Reply = RecordTasksReply | HoldAtNodeReply


class Peer(Struct, array_like=True, forbid_unknown_fields=True):
    """The exchange between this shard and another."""

    PASSING = {"behind": None}
    LASTING = {
        "carriers": "CARRIERS_MAX",
        "words": (lambda it: len(it.needed) + len(it.freed), "WORDS_MAX"),
        "returned": "WORDS_MAX",
    }

    number: int = 0  # of the last batch given to a node
    heard: int = 0  # of the last acknowledged batch; equal: none in flight
    needed: list[bytes] = field(default_factory=list)  # the batch under way
    freed: list[bytes] = field(default_factory=list)
    carriers: list[str] = field(default_factory=list)
    coming: dict[bytes, bool] = field(default_factory=dict)  # task -> whether needed: not sent yet
    last_needed: int = 0  # the last batch with new needs, sent or not
    received: int = 0  # the number of the last batch received from it
    returned: list[bytes] = field(default_factory=list)  # tasks of that batch which are not ours
    behind: dict[int, int] = field(default_factory=dict)  # its next batch waits for these: shard -> batch


class Held(Struct, array_like=True, forbid_unknown_fields=True):
    """A waiting reply: until these shards (number -> batch) have acknowledged our batches."""

    target: str
    is_record: bool
    request: int
    batches: dict[int, int]


class Keeping:
    """The cross-shard lineage of a shard.  own: its number."""

    PASSING = {"abroad kept_for held via": None}
    LASTING = {"peers": ..., "nodes": None, "other shards": (lambda it: len(it.peers), "shards")}

    def __init__(self, own: int, shards: int, slots: SlotTable | None = None) -> None:
        self.own = own
        self.slots = slots or SlotTable.at_birth(shards)
        self.shards = max(shards, self.slots.shards)
        self.abroad: dict[bytes, None] = {}  # tasks of other shards that our records need
        self.kept_for: dict[bytes, dict[int, None]] = {}  # our tasks -> the shards that need them
        # Tasks -> the shard that keeps its need of them for us, until their own shard has heard of ours.
        self.via: dict[bytes, int] = {}
        self.peers: dict[int, Peer] = {}
        self.nodes: dict[str, None] = {}  # possible carriers; the most recent ones last
        self.held: list[Held] = []

    def take_slots(self, table: SlotTable) -> None:
        """Take a newer table of slots: what was not sent yet goes to the owners by it."""
        former, self.slots = self.slots, table
        if table == former:
            return  # that of a loaded state
        self.shards = max(self.shards, table.shards)
        for number, peer in list(self.peers.items()):
            if peer.number != peer.heard:
                for owner in {table.owner(task_id): None for task_id in (*peer.needed, *peer.freed)}:
                    if owner not in (number, self.own):
                        self.peer(owner).behind[number] = peer.number
            words = {it: said for it, said in peer.coming.items() if former.owner(it) == number != table.owner(it)}
            for task_id in words:
                del peer.coming[task_id]
            self.say_again(number, words)

    def begin_with(self, table: SlotTable) -> None:
        """Have the table of a loaded state, by which all words are where they belong."""
        self.slots = table

    def say_again(self, former: int, words: dict[bytes, bool]) -> None:
        """Say to the owners what was to be said to another shard, or has come back from it."""
        owners = {self.shard_of(task_id): None for task_id in words if self.shard_of(task_id) != self.own}
        for task_id, is_needed in words.items():
            if self.shard_of(task_id) in owners:
                self._say(task_id, is_needed=is_needed)
        for held in self.held:
            if former in held.batches:
                held.batches |= {owner: self.peer(owner).last_needed for owner in owners}

    def shard_of(self, task_id: bytes) -> int:
        """Return the number of the shard responsible for a task."""
        return self.slots.owner(task_id)

    def peer(self, number: int) -> Peer:
        """Return the other shard of that number."""
        peer = self.peers.get(number)
        if peer is None:
            peer = self.peers[number] = Peer()
        return peer

    # --- needs of other shards ---

    def keep_for(self, task_id: bytes, shard: int) -> bool:
        """Record another shard's need of a task.  Returns whether the need is new."""
        shards = self.kept_for.get(task_id, {})
        if shard in shards:
            return False
        # Never changed in place: a state that is being handed out has it too.
        self.kept_for[task_id] = {**shards, shard: None}
        return True

    def let_go_for(self, task_id: bytes, shard: int) -> bool:
        """Forget another shard's need of a task.  Returns whether there was one."""
        shards = self.kept_for.get(task_id, {})
        if shard not in shards:
            return False
        if len(shards) > 1:
            self.kept_for[task_id] = {other: None for other in shards if other != shard}
        else:
            del self.kept_for[task_id]
        return True

    # --- needs of our records ---

    def recorded(self, spec: TaskSpec) -> None:
        """Note a new record with this spec."""
        for object_id in (*spec.deps, *spec.holds):
            task_id = task_of(object_id)
            if task_id not in self.abroad and not is_put(object_id) and self.shard_of(task_id) != self.own:
                self.abroad[task_id] = None
                self._say(task_id, is_needed=True)

    def gone(self, task_id: bytes) -> None:
        """Note that no record of ours needs a task any more."""
        if task_id in self.abroad:
            del self.abroad[task_id]
            self._say(task_id, is_needed=False)

    def _say(self, task_id: bytes, *, is_needed: bool) -> None:
        peer = self.peer(self.shard_of(task_id))
        if task_id in peer.coming:
            del peer.coming[task_id]  # the opposite was never said
            if task_id in self.via and not any(task_id in other.needed for other in self.peers.values()):
                self._free_via(task_id)
            return
        peer.coming[task_id] = is_needed
        if is_needed:
            peer.last_needed = peer.number + 1 + (len(peer.coming) - 1) // WORDS_MAX

    # --- moves of slots ---

    def has_gained(self) -> None:
        """Note that tasks are ours by the table: no other shard keeps them for us."""
        for task_id in [it for it in self.abroad if self.shard_of(it) == self.own]:
            del self.abroad[task_id]
            if task_id in self.via:
                self._free_via(task_id)

    def goes_to(self, gainer: int, task_id: bytes, *, is_needed: bool) -> list[int]:
        """Note that a task of ours is another shard's now.  Returns the shards for which that keeps it."""
        kept = [it for it in self.kept_for.pop(task_id, {}) if it != gainer]
        if is_needed:
            self.abroad[task_id] = None
            kept.append(self.own)
        return kept

    def needs_moved(self, loser: int, task_ids: list[bytes]) -> None:
        """Note the needs of records that have moved here.  The loser keeps them for us, its own tasks for good."""
        for task_id in task_ids:
            is_losers, is_new = self.shard_of(task_id) == loser, task_id not in self.abroad
            self.abroad[task_id] = None
            self.peer(loser).coming.pop(task_id, None)  # its opposite, or that it is needed: it knows
            if is_losers:
                continue
            if self.via.setdefault(task_id, loser) != loser:
                self.peer(loser).coming[task_id] = False  # another one keeps it for us already
            if is_new:
                self._say(task_id, is_needed=True)
            elif task_id in self.via and not self.peer(self.shard_of(task_id)).coming.get(task_id):
                self._free_via(task_id)

    def _free_via(self, task_id: bytes) -> None:
        """Say that the other shard need not keep a task for us any more."""
        self.peer(self.via.pop(task_id)).coming[task_id] = False

    # --- the words ---

    def met(self, node: str) -> None:
        """Note that a node has sent a message, so it can carry."""
        self.nodes.pop(node, None)
        self.nodes[node] = None

    def waits(self, target: str, reply: Reply) -> bool:
        """Return whether a reply has to wait, to be sent later."""
        batches = {number: peer.last_needed for number, peer in self.peers.items() if peer.last_needed > peer.heard}
        if batches:
            self.held.append(Held(target, type(reply) is RecordTasksReply, reply.request, batches))
        return bool(batches)

    def end_turn(self, shard: GcsShard) -> None:
        """Give new entries to a node."""
        carrier = next(reversed(self.nodes), "")
        for number, peer in self.peers.items():
            if peer.number == peer.heard and peer.coming and not peer.behind:
                batch = list(peer.coming.items())[:WORDS_MAX]
                for task_id, _ in batch:
                    del peer.coming[task_id]
                peer.number += 1
                peer.needed = [task_id for task_id, is_needed in batch if is_needed]
                peer.freed = [task_id for task_id, is_needed in batch if not is_needed]
            if peer.number != peer.heard and carrier and carrier not in peer.carriers:
                if not peer.carriers or (len(peer.carriers) < CARRIERS_MAX and self._is_waiting(carrier)):
                    peer.carriers.append(carrier)
                    words = (self.own, number, self.shards, peer.number, peer.needed, peer.freed)
                    shard.send(carrier, LineageNeeded(*words))
        if self.held:
            self._reply(shard)

    def _is_waiting(self, node: str) -> bool:
        return any(held.target == node for held in self.held)

    def heard(self, message: LineageNeededReply | LineageMoved) -> bool:
        """Note that another shard has acknowledged a batch.  False: known already."""
        peer = self.peers.get(message.target)
        if peer is None or message.source != self.own or message.number != peer.number or peer.number == peer.heard:
            return False
        peer.heard = peer.number
        came_back = dict.fromkeys(message.tasks) if type(message) is LineageMoved else ()
        needed, peer.needed, peer.freed, peer.carriers = peer.needed, [], [], []
        for task_id in needed if self.via else ():
            if task_id in self.via and task_id not in came_back:
                self._free_via(task_id)
        for other in self.peers.values():
            other.behind.pop(message.target, None)
        return True

    def came_back(self, message: LineageMoved) -> dict[bytes, bool] | None:
        """Note the same, and return the words to be said again by the newer table; None: known already."""
        peer = self.peers.get(message.target)
        needed = dict.fromkeys(peer.needed) if peer is not None else {}
        return {task_id: task_id in needed for task_id in message.tasks} if self.heard(message) else None

    def _reply(self, shard: GcsShard) -> None:
        waiting = []
        for held in self.held:
            if any(self._has_not_heard(self.peers[number], batch) for number, batch in held.batches.items()):
                waiting.append(held)
            else:
                shard.send(held.target, (RecordTasksReply if held.is_record else HoldAtNodeReply)(held.request))
        self.held = waiting

    @staticmethod
    def _has_not_heard(peer: Peer, batch: int) -> bool:
        # Revoked entries make batches shorter: the last ones may never be.
        return peer.heard < batch and (peer.number != peer.heard or bool(peer.coming))

    # --- needs of other shards ---

    def received(self, message: LineageNeeded, table: SlotTable | None) -> bool:
        """Return whether a batch is new.  table: not None where slots move; then some tasks may be another shard's."""
        peer = self.peer(message.source)
        if message.number <= peer.received:
            return False
        self.shards = max(self.shards, message.shards)
        peer.received = message.number
        peer.returned = []
        if table is not None:
            freed = (it for it in message.freed if message.source not in self.kept_for.get(it, ()))
            peer.returned = [it for it in (*message.needed, *freed) if table.owner(it) != self.own]
        return True

    # --- nodes ---

    def node_lost(self, node: str) -> None:
        """Remove a lost node from the carriers."""
        self.nodes.pop(node, None)
        for peer in self.peers.values():
            if node in peer.carriers:
                peer.carriers.remove(node)
        self.held = [held for held in self.held if held.target != node]


def on_lineage_needed(shard: GcsShard, message: LineageNeeded) -> None:
    """Handle LineageNeeded of another shard: keep some records, and release others."""
    if shard.sender in shard.lost:
        shard.reject("a message of a lost node")  # another node brings it
        return
    keeping = shard.tasks.keep(message.shards, shard.address, (*shard.groups.attending, shard.sender))
    if keeping is None or message.target != keeping.own or message.source >= max(keeping.shards, message.shards):
        shard.reject("words for another shard")
        return
    table, peer = shard.tasks.slots, keeping.peer(message.source)
    if keeping.received(message, table):
        aside = dict.fromkeys(peer.returned)
        for task_id in message.needed:
            if task_id not in aside:
                shard.tasks.keep_for(task_id, message.source)
        for task_id in message.freed:
            if task_id not in aside:
                shard.tasks.let_go_for(task_id, message.source)
    keeping.met(shard.sender)
    batch = (message.source, message.target, message.number)
    if table is not None and peer.returned and message.number == peer.received:
        shard.send(shard.sender, LineageMoved(*batch, table, peer.returned))
    else:
        shard.send(shard.sender, LineageNeededReply(*batch))


def on_lineage_needed_reply(shard: GcsShard, message: LineageNeededReply) -> None:
    """Handle LineageNeededReply: the batch was received."""
    keeping = shard.tasks.keeping
    if keeping is None or not keeping.heard(message):
        shard.reject("a batch that was known to be heard")
