"""Effects of `import zray` on a program: everything run at once, and therefore light.

    shadows     finder that names replacements of absent modules
    uncaught    display of uncaught errors without the frames of zray

This module ends a program that zray ran in place of Python, since sys.executable is the program itself.  zray's own
processes take the mark out of their environment before they import zray.  Without this each such program would start a
session, which would start the program again, and so on.
"""

import os

MARK = "ZRAY_STARTING"
# How the process that has started it tells (host/process/node_processes.py).
SAID = "zray has started this program in place of Python"


def end_if_marked() -> None:
    """End the process if marked.  An exception would not do: the program could catch it and continue."""
    if MARK in os.environ:
        os.write(2, f"{SAID}: it ends here.\n".encode())
        os._exit(1)
