"""The base of all messages, and the tables of their tags and routes.

A message is a msgspec Struct encoded as a msgpack array whose first element is its tag.  The Struct is the schema, the
documentation and the validator at once.  A frame is one `Envelope` with a list of messages (see link.py).

The name tells the kind of a message.  Verb + noun is a request or an order (`SubmitTasks`).  `...Reply` and
`...Refused` are answers.  Noun + participle is a fact (`TasksFinished`).  Noun + noun is a regular report
(`LoadReport`).  A timer that a role set for itself brings `Later` (roles/role.py), with the method to call.

The route tells who sends a message to whom: `driver, worker -> local -> gcs; reader -> head`.  Its names are kinds of
addresses.  A party of a connection that has no address yet is `node`, `head`, `joiner`, `reader` or `neighbour`.  The
permission to send a message follows from the route (allowed.py).
"""

# No `from __future__ import annotations` in modules of messages: each process would compile 800 texts, for 35 ms.

from typing import Annotated

from msgspec import Meta, Struct

# Version in the handshake.  A mismatch is refused in words that name both versions.
PROTOCOL_VERSION = 1


# A count, a size or a place, checked where bytes become objects.
Natural = Annotated[int, Meta(ge=0)]


class Bulk:
    """Many bytes in a message that are neither copied nor parsed on their way: bytes, or a view of some memory."""

    __slots__ = ("data",)

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return type(other) is Bulk and self.data == other.data

    def __repr__(self) -> str:
        return f"Bulk({len(self.data)} bytes)"


class Message(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """Base of all messages between roles.  gc=False: a message never holds a cycle."""


class Local(Struct, gc=False):
    """Base of messages that never leave a process: timers and outcomes of effects, addressed to their own role."""


# Tags are never reused: a removed message leaves its number here.
RETIRED_TAGS: tuple[int, ...] = ()

# Tag -> route.
ROUTES: dict[int, str] = {}


# A class statement passes the route with the tag.  The metaclass of msgspec refuses further keywords; in Python 3.11, a
# metaclass derived from it doubles the time to make a message; and a field of the class costs each message a line.
def routed(tag: int, route: str) -> int:
    """The tag of a message with this route."""
    ROUTES[tag] = route
    return tag
