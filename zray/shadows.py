"""Files beside the program that hide packages which zray needs: said at once, and not as what comes of it.

Before anything else of zray is imported: nothing but `os` and `sys` is, here.
"""

import os
import sys

# Which of them, and none other: a hidden module of Python's own matters only where something of these imports it.
NEEDED = ("cloudpickle", "msgspec", "numpy", "posix_ipc", "zmq")


def refuse() -> None:
    """Raises:
    ImportError: there is one; which file, and of what.
    """
    folder = sys.path[0] if sys.path else ""
    for name in NEEDED:
        path = os.path.join(folder, f"{name}.py")  # the packages themselves are folders, or no Python
        if os.path.exists(path):
            raise ImportError(
                f"{os.path.abspath(path)} hides the package {name}, which zray needs: every `import {name}` of this "
                "program finds that file.  Rename it.",
                name=name,
                path=path,
            )


def hidden_by_program() -> str:
    """For whoever notices that an import has run the program once more: which file hides which module."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if not path:
        return "a file of this program"
    return f"{os.path.abspath(path)} hides the module {os.path.splitext(os.path.basename(path))[0]}"
