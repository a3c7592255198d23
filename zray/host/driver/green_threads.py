"""Libraries that replace Python's threads by greenlets: zray cannot work with some of their patches.

One thread of a program waits on the session's socket, others wait for the first, and a helper thread of zray sends.  As
greenlets they stop each other, and a native thread (gevent's ThreadPool) with shared locks crashes the process.
"""

from __future__ import annotations

import sys
from typing import Any

# Modules whose replacements break zray; replacements of socket, ssl, time, subprocess, os and signal do no harm.
GEVENT_BREAKS = ("threading", "select", "queue")
EVENTLET_BREAKS = ("thread", "select")


def refuse_green_threads() -> None:
    """Refuse to begin a session with patched threads.

    Raises:
        RuntimeError: names the patched modules, and the remedy.
    """
    gevent: Any = sys.modules.get("gevent.monkey")
    if gevent is not None and (broken := [name for name in GEVENT_BREAKS if gevent.is_module_patched(name)]):
        raise _refusal("gevent", broken, "gevent.monkey.patch_all(thread=False, select=False, queue=False)")
    eventlet: Any = sys.modules.get("eventlet.patcher")
    if eventlet is not None and (broken := [name for name in EVENTLET_BREAKS if eventlet.is_monkey_patched(name)]):
        raise _refusal("eventlet", broken, "eventlet.monkey_patch(os=True, socket=True, time=True)")


def _refusal(library: str, broken: list[str], remedy: str) -> RuntimeError:
    return RuntimeError(
        f"zray.init() starts nothing here: {library} has replaced Python's {', '.join(broken)}, and zray's calls would "
        f"hang or crash on greenlets that stop each other.  Leave these as they are ({remedy}), or use zray in another "
        "process."
    )
