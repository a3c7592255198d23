"""How long what a message says may be (USERS S10): declared with its fields, checked where bytes become objects.

A message that is over one of these is no message: it is refused like any other that has another form.  So whoever
builds one keeps to them too: names are bounded where users give them, refs where values are pickled, and roles that
have more to say say it in several messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeVar

from msgspec import Meta

from ..ids import REFS_MAX, ObjectID

K = TypeVar("K")
V = TypeVar("V")

# Of names, addresses and words for people.  Users may give names of 1,000 characters; a path has 4,096; environment
# variables have 64 KiB together.
CHARACTERS_MAX = 64 << 10
# Of ids and keys: the longest is a key in text, of 40 bytes.
SHORT_BYTES_MAX = 256
# Of what users' programs have made, and nobody here looks into: values that travel inside messages, functions, a part
# of a shard's state.  It fits into a frame between hosts (host/dealing.py) with what stands beside it.
PAYLOAD_BYTES_MAX = 60 << 20
# Of most lists: ids, tasks, nodes, resources.  A frame of as many ids has 2 MB.
ITEMS_MAX = 100_000
# Of refs inside of one value, or that one task takes, and of what an actor's log names: more refs are refused where
# values are pickled.
INSIDE_MAX = REFS_MAX
# Of lists between the processes of a node, which have as many refs as their user likes: as many ids as fit into one of
# their frames (host/peers.py), of 512 MiB.
PLENTY_MAX = (512 << 20) // 20
# In bulk, behind a frame: a chunk of an object has 256 KiB.
BULK_BYTES_MAX = 8 << 20

Text = Annotated[str, Meta(max_length=CHARACTERS_MAX)]
ShortBytes = Annotated[bytes, Meta(max_length=SHORT_BYTES_MAX)]
Payload = Annotated[bytes, Meta(max_length=PAYLOAD_BYTES_MAX)]
Many = Annotated[list[V], Meta(max_length=ITEMS_MAX)]
Several = Annotated[tuple[V, ...], Meta(max_length=ITEMS_MAX)]
Table = Annotated[dict[K, V], Meta(max_length=ITEMS_MAX)]
Refs = Annotated[tuple[ObjectID, ...], Meta(max_length=INSIDE_MAX)]
Million = Annotated[list[V], Meta(max_length=INSIDE_MAX)]
Plenty = Annotated[list[V], Meta(max_length=PLENTY_MAX)]


def portions(items: list[V]) -> Iterator[list[V]]:
    """The same in lists that a message may have; at least one."""
    if len(items) <= ITEMS_MAX:
        yield items
        return
    for start in range(0, len(items), ITEMS_MAX):
        yield items[start : start + ITEMS_MAX]
