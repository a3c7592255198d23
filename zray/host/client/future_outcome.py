"""The outcome of a future, given to it by a thread of zray's own."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any


def settle(settle_future: Callable[[Any], None], outcome: Any) -> None:
    """Give a future its outcome.  An exception of a callback, or of a future settled before by the user, must not end
    zray's thread.  A sys.exit() in a callback ends nothing, as in any thread of Python's.
    """
    try:
        settle_future(outcome)
    except SystemExit:
        pass
    except BaseException:
        traceback.print_exc()
