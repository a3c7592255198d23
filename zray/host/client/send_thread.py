"""The helper thread that sends buffered messages while the program does other things after submitting."""

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

# Buffered messages leave after about this long.
FLUSH_SECONDS = 0.001
FLUSH_BUSY_SECONDS = 0.004
# The helper sleeps after this many looks in a row without any message sent in between.  Waking it costs no more than a
# look, and a process that waits (or has no core for now) should not look a thousand times a second.  (Eight nodes on
# two cores spent a sixth of their CPU time on looks, when the limit was fifty.)
FLUSH_IDLE_TICKS = 2
# Refs that die while nothing is sent are noticed this soon.
RELEASE_SECONDS = 0.25
# This many tracebacks of unexpected errors are shown.
TROUBLES_SHOWN_MAX = 10


def flush_forever(runtime: Runtime) -> None:
    """Run the helper thread.  After any error in it, later messages of the process must still leave."""
    troubles = 0
    while not runtime.is_over:
        try:
            _flush_until_over(runtime)
        except Exception:
            troubles += 1
            if troubles <= TROUBLES_SHOWN_MAX:
                traceback.print_exc()
            time.sleep(RELEASE_SECONDS)  # the error may recur at once
            runtime.armed.put(None)  # for the messages that the failed look left behind


def _flush_until_over(runtime: Runtime) -> None:
    released, unread, link = object_ref.released, runtime.unread, runtime.connection.link
    leaving = runtime.client.leaving
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
            if released or unread or leaving:
                flush_quietly(runtime)
            continue
        idle = 0
        while idle < FLUSH_IDLE_TICKS and not runtime.is_over and time.monotonic() - looked_at < RELEASE_SECONDS:
            sent = link.sent
            time.sleep(FLUSH_SECONDS)
            if link.sent != sent:
                # Other threads send all the time: each look costs them a turn of the interpreter, so look less often.
                time.sleep(FLUSH_BUSY_SECONDS)
            idle = 0 if flush_quietly(runtime) or link.sent != sent else idle + 1
        runtime.is_armed = False
        flush_quietly(runtime)
        if leaving and not (runtime.is_over or runtime.connection.over):
            runtime.arm()  # more than one frame takes


def flush_quietly(runtime: Runtime) -> bool:
    """Send buffered messages, and return whether there were any."""
    try:
        with runtime.lock:
            if runtime.connection.is_closed:
                return False
            before = runtime.connection.link.sent
            runtime.send_buffered()
            return runtime.connection.link.sent != before
    except ClusterLostError:
        return False
