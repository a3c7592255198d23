"""End of the session, for programs that wait for it beside other things."""

from __future__ import annotations

import os

from ..api.sessions import require_runtime

__all__ = ["end_descriptor"]


def end_descriptor() -> int:
    """Return a new file descriptor that becomes readable when the session of this program has ended.

    Nothing is asked meanwhile: the descriptor is one of a process (`os.pidfd_open`).  The caller closes it.

    Raises:
        NotImplementedError: in local mode, whose session is this process.

    Example:
        loop.add_reader(end_descriptor(), stop)
    """
    descriptor = getattr(require_runtime(), "node_pidfd", None)
    if descriptor is None:
        raise NotImplementedError("end_descriptor() needs a session with processes: leave out local_mode=True.")
    return os.dup(descriptor)
