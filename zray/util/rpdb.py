"""Ray's name for a breakpoint in a task: `zray debug` attaches to it.

from zray.util.rpdb import set_trace

@zray.remote
def f(x):
    set_trace()  # as breakpoint()
"""

from __future__ import annotations

import sys

__all__ = ["set_trace"]


def set_trace(breakpoint_uuid: object = None) -> None:
    """Stop here, as `breakpoint()` does.

    Args:
        breakpoint_uuid: accepted, as in Ray, and not used.
    """
    sys.breakpointhook()
