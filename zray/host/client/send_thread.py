"""The thread that sends what its process has said, where the program submits and then does other things."""

from __future__ import annotations

import time
import traceback
from queue import Empty
from typing import TYPE_CHECKING

from ... import object_ref
from ...exceptions import ClusterLostError
from ..process.malloc_tuning import Rest

if TYPE_CHECKING:
    from .runtime import Runtime

# What lies in a buffer leaves after about this long.
FLUSH_SECONDS = 0.001
FLUSH_BUSY_SECONDS = 0.004
# The helper goes to sleep after so many looks, one upon the other, between which nobody sent anything: waking it again
# costs no more than a look does, and a process that waits (or has no core for now) should not look a thousand times a
# second.  (Eight nodes on two cores spent a sixth of their CPU time on looks, when these were fifty.)
FLUSH_IDLE_TICKS = 2
# Refs that die while nothing is sent are noticed this soon.
RELEASE_SECONDS = 0.25
# Of what should not happen, so much is shown.
TROUBLES_SHOWN_MAX = 10


def flush_forever(runtime: Runtime) -> None:
    """The helper thread's life.  Whatever goes wrong in it, what its process says after that must leave too."""
    troubles = 0
    while not runtime.is_over:
        try:
            _flush_until_over(runtime)
        except Exception:
            troubles += 1
            if troubles <= TROUBLES_SHOWN_MAX:
                traceback.print_exc()
            time.sleep(RELEASE_SECONDS)  # it may come again at once
            runtime.armed.put(None)  # for what it was to look at then


def _flush_until_over(runtime: Runtime) -> None:
    released, unread, link = object_ref.released, runtime.unread, runtime.connection.link
    rest = Rest()
    looked_at = time.monotonic()
    while not runtime.is_over:
        try:
            runtime.armed.get(timeout=RELEASE_SECONDS)
            is_armed = True
        except Empty:
            is_armed = False
        if time.monotonic() - looked_at >= RELEASE_SECONDS:
            looked_at = time.monotonic()
            runtime.look_around()
            rest.look(looked_at)
        if not is_armed:
            if released or unread:
                flush_quietly(runtime)
            continue
        idle = 0
        while idle < FLUSH_IDLE_TICKS and not runtime.is_over and time.monotonic() - looked_at < RELEASE_SECONDS:
            sent = link.sent
            time.sleep(FLUSH_SECONDS)
            if link.sent != sent:
                # Others send all the time: each look costs them a turn of the interpreter, so look less often.
                time.sleep(FLUSH_BUSY_SECONDS)
            idle = 0 if flush_quietly(runtime) or link.sent != sent else idle + 1
        runtime.is_armed = False
        flush_quietly(runtime)


def flush_quietly(runtime: Runtime) -> bool:
    """Whether there was anything to send."""
    try:
        with runtime.lock:
            if runtime.connection.is_closed:
                return False
            before = runtime.connection.link.sent
            runtime.send_buffered()
            return runtime.connection.link.sent != before
    except ClusterLostError:
        return False
