"""Lines about failures that a program never fetches, printed by its own process (roles/unfetched.py)."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ...exceptions import ClusterLostError, GetTimeoutError, ZrayError
from ...exceptions.printable import printable
from ...object_ref import ObjectRef
from ...wire.tasks import WaitObjects

if TYPE_CHECKING:
    from .runtime import Runtime


def tell(runtime: Runtime, *, is_last: bool = False) -> None:
    """Print the pending lines.  is_last: the process ends, and fetches nothing any more."""
    if runtime.is_over:
        return
    client = runtime.client
    if is_last:
        with runtime.lock:
            client.unfetched.end(client.values.items())
    if not client.unfetched.lines:
        return
    with runtime.lock:
        lines = client.unfetched.take(time.monotonic(), is_last=is_last)
    if lines and runtime.facts.log_to_driver:
        with suppress(OSError, ValueError, AttributeError):  # the stream is closed, or none
            print("\n".join(f"zray: {printable(line)}" for line in lines), file=sys.stderr, flush=True)


def asked_for(runtime: Runtime, refs: Sequence[ObjectRef], error: ZrayError) -> None:
    """Note that a get raised an error: the program knows of a failure, so further ones among these refs are not
    printed.
    """
    if isinstance(error, GetTimeoutError | ClusterLostError):
        return
    client, object_ids = runtime.client, [ref.id for ref in refs]
    with runtime.lock:
        client.unfetched.fetched.update(object_ids)
        late = [object_id for object_id in object_ids if object_id not in client.values]
        if late:
            # A wait for zero of them ends at once, and tells the node that the failures were fetched.
            client.request += 1
            client.say(WaitObjects(client.request, late, 0, False))
