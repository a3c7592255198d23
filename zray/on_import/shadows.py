"""Imports that cannot work, refused in words: packages hidden by a file beside the program, and absent modules.

This module is imported before the rest of zray, and imports nothing but `os`, `sys` and `typing`.
"""

import os
import sys
from typing import Any

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
    """Say which file hides which module, for errors of a program run once more by an import."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if not path:
        return "a file of this program"
    return f"{os.path.abspath(path)} hides the module {os.path.splitext(os.path.basename(path))[0]}"


class AbsentModules:
    """Finder behind all others in sys.meta_path: names what to use in place of an absent module of zray."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        """Return the other module with the content of Ray's module of the given name; None: none.

        Raises:
            ModuleNotFoundError: absent.NAMES has the module, or a library of Ray's would have it.
        """
        if name.startswith("zray."):
            finding = sys._getframe(1)
            if finding.f_back is None or finding.f_back.f_globals.get("__name__") != "importlib.util":
                from importlib import import_module

                absent = import_module("zray.ray_names.absent")
                absent.refuse_import(name)
                found = import_module("zray.ray_names.ray_imports").moved(name)
                if found is None:
                    absent.refuse_unknown(name)
                return found
            # importlib.util.find_spec() asks whether the module is there: None is the answer.
        return None


def name_absent(module: str) -> None:
    """Let a module name the alternatives to names present in Ray and absent in zray.

    Args:
        module: its `__name__`.  The module calls this itself: type checkers see no `__getattr__`, and go on checking.
    """
    found = vars(sys.modules[module])

    def refuse(name: str) -> Any:
        from ..ray_names import absent

        raise absent.attribute_error(module, name)

    found.setdefault("__getattr__", refuse)
    found.setdefault("__path__", [])  # Python asks finders for `from module import name` of packages alone
