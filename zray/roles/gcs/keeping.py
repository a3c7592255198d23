"""Lineage over several shards: a record keeps those of its task's arguments, in whichever shard they are.

A shard says of each task of another shard whether one of its own records needs it: once when the first one does,
once when the last one is gone.  That shard keeps the record meanwhile, with what *it* needs; so a chain of tasks
is kept from shard to shard, and let go of likewise.

    shard A    LineageNeeded         to a node, which takes it to shard B
    shard B    LineageNeededReply    to that node, which takes it back

Shards have no connections of their own, and a replica has no clock: nodes carry their words, as they reach every
shard in any case.  The words from one shard to another are numbered batches, one under way at a time; what comes
meanwhile gathers, and what is taken back before it was said is never said.  A batch comes once more when the node
that carries it is lost, or when another node waits for it; it is known by its number.

What a node was told to be recorded or held, other shards have heard of: so those replies wait for the words
before them.  And a node keeps its holds on what a task takes until the record of that task is acknowledged
(`local_scheduler/lineage.py`).  So there is never a moment in which nobody keeps what a living record needs.  When a
node is lost before, what it had recorded may lack what it takes: nobody else has been given a ref on anything made of
that, and it goes when the shards have told each other so.

What was put is not made again by running a task: no words are spent on it.  A cluster of one shard has no Keeping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from ...ids import is_put, task_of
from ...wire.gcs import HoldAtNodeReply, LineageNeeded, LineageNeededReply, RecordTasksReply
from ...wire.task_spec import TaskSpec

if TYPE_CHECKING:
    from .shard import GcsShard

# Of tasks in one batch: with 16 bytes each, far below what a frame may have.
WORDS_MAX = 10_000
# A batch whose first carrier is slow, or stopped, goes with one more that waits for it.
CARRIERS_MAX = 2

Reply = RecordTasksReply | HoldAtNodeReply


class Peer(Struct, array_like=True, forbid_unknown_fields=True):
    """What passes between this shard and another one."""

    LASTING = {"carriers": "CARRIERS_MAX", "words": (lambda it: len(it.needed) + len(it.freed), "WORDS_MAX")}

    number: int = 0  # of the last batch that we gave to anybody
    heard: int = 0  # of the last one that it has heard; the same: none is under way
    needed: list[bytes] = field(default_factory=list)  # the batch under way
    freed: list[bytes] = field(default_factory=list)
    carriers: list[str] = field(default_factory=list)
    coming: dict[bytes, bool] = field(default_factory=dict)  # task -> whether we need it: not said yet
    last_needed: int = 0  # the last batch in which something is, or will be, newly needed
    received: int = 0  # the number of the last batch that we have heard of it


class Held(Struct, array_like=True, forbid_unknown_fields=True):
    """A reply that waits: until these shards (number -> batch) have heard of our words."""

    target: str
    is_record: bool
    request: int
    batches: dict[int, int]


class Keeping:
    """Of one shard of several.  own: its number."""

    PASSING = {"abroad kept_for held": None}
    LASTING = {"peers": ..., "nodes": None, "other shards": (lambda it: len(it.peers), "shards")}

    def __init__(self, own: int, shards: int) -> None:
        self.own = own
        self.shards = shards
        self.abroad: dict[bytes, None] = {}  # tasks of other shards that our records need
        self.kept_for: dict[bytes, dict[int, None]] = {}  # tasks of ours -> the shards that need them
        self.peers: dict[int, Peer] = {}
        self.nodes: dict[str, None] = {}  # that may carry; those heard of last come last
        self.held: list[Held] = []

    def shard_of(self, task_id: bytes) -> int:
        """The number of the shard that is its one authority."""
        return int.from_bytes(task_id[6:16], "big") % self.shards

    def peer(self, number: int) -> Peer:
        """The other shard of that number."""
        peer = self.peers.get(number)
        if peer is None:
            peer = self.peers[number] = Peer()
        return peer

    # --- what our records need ---

    def recorded(self, spec: TaskSpec) -> None:
        """A record with this spec is new."""
        for object_id in (*spec.deps, *spec.holds):
            task_id = task_of(object_id)
            if task_id not in self.abroad and not is_put(object_id) and self.shard_of(task_id) != self.own:
                self.abroad[task_id] = None
                self._say(task_id, is_needed=True)

    def gone(self, task_id: bytes) -> None:
        """No record of ours needs it any more."""
        if task_id in self.abroad:
            del self.abroad[task_id]
            self._say(task_id, is_needed=False)

    def _say(self, task_id: bytes, *, is_needed: bool) -> None:
        peer = self.peer(self.shard_of(task_id))
        if task_id in peer.coming:
            del peer.coming[task_id]  # the opposite was never said
            return
        peer.coming[task_id] = is_needed
        if is_needed:
            peer.last_needed = peer.number + 1 + (len(peer.coming) - 1) // WORDS_MAX

    # --- the words ---

    def met(self, node: str) -> None:
        """It has said something: it can carry."""
        self.nodes.pop(node, None)
        self.nodes[node] = None

    def waits(self, target: str, reply: Reply) -> bool:
        """Whether a reply has to wait.  It is sent later then."""
        batches = {number: peer.last_needed for number, peer in self.peers.items() if peer.last_needed > peer.heard}
        if batches:
            self.held.append(Held(target, type(reply) is RecordTasksReply, reply.request, batches))
        return bool(batches)

    def end_turn(self, shard: GcsShard) -> None:
        """Give what is new to a node."""
        carrier = next(reversed(self.nodes), "")
        for number, peer in self.peers.items():
            if peer.number == peer.heard and peer.coming:
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

    def heard(self, message: LineageNeededReply) -> bool:
        """Another shard has heard of a batch.  False: that is nothing new."""
        peer = self.peers.get(message.target)
        if peer is None or message.source != self.own or message.number != peer.number or peer.number == peer.heard:
            return False
        peer.heard = peer.number
        peer.needed, peer.freed, peer.carriers = [], [], []
        return True

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
        # What was taken back makes batches shorter: the last ones may never be.
        return peer.heard < batch and (peer.number != peer.heard or bool(peer.coming))

    # --- what other shards need ---

    def received(self, message: LineageNeeded) -> bool:
        """Whether these words are new."""
        peer = self.peer(message.source)
        if message.number <= peer.received:
            return False
        peer.received = message.number
        return True

    # --- nodes ---

    def node_lost(self, node: str) -> None:
        """It carries nothing any more."""
        self.nodes.pop(node, None)
        for peer in self.peers.values():
            if node in peer.carriers:
                peer.carriers.remove(node)
        self.held = [held for held in self.held if held.target != node]


def on_lineage_needed(shard: GcsShard, message: LineageNeeded) -> None:
    """LineageNeeded, from another shard: keep these records, and let go of those."""
    if shard.sender in shard.lost:
        shard.reject("a message of a lost node")  # another one brings it
        return
    keeping = shard.tasks.keep(message.shards, shard.address, (*shard.groups.attending, shard.sender))
    if keeping is None or message.target != keeping.own or message.source >= keeping.shards:
        shard.reject("words for another shard")
        return
    if keeping.received(message):
        for task_id in message.needed:
            shard.tasks.keep_for(task_id, message.source)
        for task_id in message.freed:
            shard.tasks.let_go_for(task_id, message.source)
    keeping.met(shard.sender)
    shard.send(shard.sender, LineageNeededReply(message.source, message.target, message.number))


def on_lineage_needed_reply(shard: GcsShard, message: LineageNeededReply) -> None:
    """LineageNeededReply: it has heard."""
    keeping = shard.tasks.keeping
    if keeping is None or not keeping.heard(message):
        shard.reject("a batch that was known to be heard")
