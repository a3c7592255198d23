"""Dialog: why something is not there yet, in words for a user (USERS U02).

driver, worker     Explain -> ExplainReply    to its local scheduler, by a wait that takes long
local scheduler    Explain -> ExplainReply    to another one, on its behalf: one hop, no more
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from ..ids import ObjectID
from .limits import Text
from .message import Message, Natural

# Objects that a question names: of many that are awaited, those may have come that are ahead.
ASKED_MAX = 100
# Of so many that are not there an answer says why; lines of it, and characters of each.
EXPLAINED_MAX = 4
LINES_MAX = 24
LINE_CHARACTERS_MAX = 300


class Explain(Message, tag=22):
    """driver, worker, local scheduler -> local scheduler.  Why are these not there?

    left_out: so many more are awaited.
    """

    request: int
    object_ids: Annotated[list[ObjectID], Meta(max_length=ASKED_MAX)]
    left_out: Natural = 0


class ExplainReply(Message, tag=23):
    """local scheduler -> driver, worker, local scheduler.  What waits for what; deeper lines begin with more spaces."""

    request: int
    lines: Annotated[list[Text], Meta(max_length=2 * LINES_MAX)]
