"""Dialog: output of workers, on its way to the terminal of a driver on another node.

local scheduler    JobOutput -> OutputHeard       to the driver's node; no more output before the answer
driver             FlushOutput -> OutputFlushed   its program ends: send the output so far
local scheduler    FlushOutput -> OutputFlushed   the same, to all others
"""

from typing import Annotated

from msgspec import Meta

from .limits import ShortBytes
from .message import Message, routed

# Characters of one JobOutput.  The log reader stops long before (host/output/forwarding.py); escapes and marks lengthen
# the text.
TEXT_CHARACTERS_MAX = 2 << 20


class JobOutput(Message, tag=routed(92, "local -> local")):
    """Lines for the driver's node, each marked with its worker.

    A tab ahead of the mark says that the line is a part of an unfinished line.  A carriage return marks the latest text
    of a line that is drawn repeatedly.  The texts of several such rows have a unit separator between them.
    """

    job_id: ShortBytes
    text: Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]


class OutputHeard(Message, tag=routed(93, "local -> local")):
    """A request for the next lines.  Without `is_wanted`, nobody reads them any more."""

    job_id: ShortBytes
    is_wanted: bool


class FlushOutput(Message, tag=routed(94, "driver -> local -> local")):
    """A request to send all output of this job's workers so far.  The driver's node passes it on to all others."""

    job_id: ShortBytes


class OutputFlushed(Message, tag=routed(117, "local -> local, driver")):
    """All output was sent ahead of this message."""

    job_id: ShortBytes
