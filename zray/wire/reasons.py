"""Dialog: explanations for objects that are not ready yet, in words for a user.

driver, worker     Explain -> ExplainReply    to its local scheduler, from a wait that takes long
local scheduler    Explain -> ExplainReply    to another local scheduler, on behalf of the process: one hop, no more
"""

from typing import Annotated

from msgspec import Meta

from ..ids import ObjectID
from .limits import Text
from .message import Message, Natural, routed

# Objects that a question names.  The first of many awaited objects may have arrived already.
ASKED_MAX = 100
# Missing objects that an answer explains, lines of the answer, and characters of a line.
EXPLAINED_MAX = 4
LINES_MAX = 24
LINE_CHARACTERS_MAX = 300


class Explain(Message, tag=routed(22, "driver, worker, local -> local")):
    """A question why these objects are not ready.

    `left_out` counts further objects that are awaited.  `home` is the id of the node to ask where there is no record.
    """

    request: int
    object_ids: Annotated[list[ObjectID], Meta(max_length=ASKED_MAX)]
    left_out: Natural = 0
    home: Text = ""


class ExplainReply(Message, tag=routed(23, "local -> driver, worker, local")):
    """The chain of waits.  Deeper lines begin with more spaces."""

    request: int
    lines: Annotated[list[Text], Meta(max_length=2 * LINES_MAX)]
