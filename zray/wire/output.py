"""Dialog: what workers print, on its way to the driver's terminal, where that is another node's.

local scheduler    JobOutput -> OutputHeard       to the driver's node; nothing more before it has heard
driver             FlushOutput -> OutputFlushed   its program ends: what was printed so far
local scheduler    FlushOutput -> OutputFlushed   the same, to all others
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from .limits import ShortBytes
from .message import Message

# Of one JobOutput.  Whoever reads logs stops long before (host/output.py); escapes and marks may make it longer.
TEXT_CHARACTERS_MAX = 2 << 20


class JobOutput(Message, tag=92):
    """local scheduler -> local scheduler, that of the driver.  Lines, each marked with its worker.

    A tab ahead of the mark: the line is a part of one that is not ended.  A carriage return: it is the latest text of
    one that is drawn again and again.
    """

    job_id: ShortBytes
    text: Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]


class OutputHeard(Message, tag=93):
    """local scheduler -> local scheduler.  The next may come.  Not is_wanted: nobody listens any more."""

    job_id: ShortBytes
    is_wanted: bool


class FlushOutput(Message, tag=94):
    """driver -> local scheduler, and from there to all others.  Say what this job's workers have printed until now."""

    job_id: ShortBytes


class OutputFlushed(Message, tag=117):
    """local scheduler -> local scheduler, driver.  All of it is ahead of this."""

    job_id: ShortBytes
