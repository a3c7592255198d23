"""Bounds on the lengths of fields, declared with the fields, and checked where bytes become objects.

A message beyond a bound is refused like any message of another form.  Senders keep to the bounds too.  Names are
bounded where users give them.  Refs are bounded where values are pickled.  Roles split long lists into several
messages.
"""

from collections.abc import Iterator
from typing import Annotated, TypeVar

from msgspec import Meta

from ..ids import REFS_MAX, ObjectID

K = TypeVar("K")
V = TypeVar("V")

# Names, addresses and texts for people.  Users may give names of 1,000 characters.  A path has 4,096 characters, and
# all environment variables together have 64 KiB.
CHARACTERS_MAX = 64 << 10
# Ids and keys.  The longest is a key in text, of 40 bytes.
SHORT_BYTES_MAX = 256
# Opaque bytes made by users' programs: values inside messages, functions, a part of a shard's state.  A payload and its
# neighbours fit into a frame between hosts (host/links/dialer.py).
PAYLOAD_BYTES_MAX = 60 << 20
# Most lists: ids, tasks, nodes, resources.  A frame with so many ids has 2 MB.
ITEMS_MAX = 100_000
# Refs inside of one value, refs of one task, and names in an actor's call log.  More refs are refused where values are
# pickled.
INSIDE_MAX = REFS_MAX
# Lists between the processes of a node, where the number of refs is up to the user.  So many ids fit into one frame
# between them (host/links/process_links.py), of 512 MiB.
PLENTY_MAX = (512 << 20) // 20
# Bulk data behind a frame.  A chunk of an object has 256 KiB.
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
    """The items in lists that fit into a message; at least one list."""
    if len(items) <= ITEMS_MAX:
        yield items
        return
    for start in range(0, len(items), ITEMS_MAX):
        yield items[start : start + ITEMS_MAX]
