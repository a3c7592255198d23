"""Explanations why a value or a function cannot be unpickled: the failing class or module, the process, the remedy.

The evidence is the error first, then the stack of user code that ran, then the names in the pickle.  Nothing is
unpickled again: user code would run twice.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from ..exceptions import DeserializationError
from .layout import PICKLE_BUFFERS, split_pickle

# Limit of another error's message, inside one of ours.
TEXT_MAX = 10_000
# Limits of examined bytes of a pickle, and of named classes if the failing one is unknown.
BYTES_MAX = 1 << 18
NAMED_MAX = 3
# Modules whose functions are in every pickle, and tell nothing.
OF_NOBODY = frozenset(("builtins", "zray", "cloudpickle", "copyreg", "pickle", "_pickle", "importlib"))

_PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"
_SAME_EVERYWHERE = "install the same versions everywhere."

# The node of this process, when in a session (host/driver/driver.py, host/worker/main.py).
node = ""
is_driver = False


def cannot_be_unpickled(what: str, data: Any, error: BaseException) -> DeserializationError:
    """Return the error for bytes that failed.

    what: "value" or "function".
    """
    try:
        text = f"{type(error).__name__}: {error}"[:TEXT_MAX]
    except Exception:  # Its __str__ is the user's code too.
        text = type(error).__name__
    place = f"in process {os.getpid()}" + (f" on node {node[:8]}" if node else "")
    said = f"A {what} of {len(data)} bytes cannot be unpickled here, {place}: {text}"
    try:
        said = f"{said.rstrip('.')}.  {_hint(list(_mentions(data)), error)}".rstrip()
    except Exception:  # A hint is no reason to fail.
        pass
    return DeserializationError(said)


def where_modules_come_from(missing: str, where: str) -> str:
    """Return the advice about a module that a node lacks."""
    return (
        f"Module {missing!r} is missing on node {where[:8]}.  What a program has imported of its own travels; what is "
        'installed does not: install it on every node, or name it in zray.init(runtime_env={"py_modules": [...]}).'
    )


def _hint(mentions: list[tuple[str, str]], error: BaseException) -> str:
    if isinstance(error, ImportError):
        return _of_import(mentions, error)
    found = re.match(r"Can't get attribute '(.+?)' on <module '(.+?)'", str(error)) or re.match(
        r"Can't get attribute '(.+?)' on .*?module '?([\w.]+)'?", str(error)
    )
    if found is not None and type(error) is AttributeError:
        return (
            f"It needs {found[2]}.{found[1]}, and the module {found[2]!r} of this process has no such name: it is "
            "another version of the module, or the name was made while the program ran.  Use the same version "
            "everywhere, or define the class where it can be imported."
        )
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_place(error.filename, error.lineno)} is no Python for {_PYTHON}, which runs here: {_SAME_EVERYWHERE}"
    if (at := _of_module(error)) is not None:
        return f"The module {at[0]!r} fails while it is imported, at {at[1]}.  It has to be importable here too."
    name = _of_stack(error) or _of_text(mentions, str(error))
    if name:
        return f"The class or function that fails is {name}.  {_advice(name, error)}"
    names = list(dict.fromkeys(f"{module}.{name}" for module, name in mentions))
    if not names:
        return ""
    more = " and others" if len(names) > NAMED_MAX else ""
    return f"It holds {', '.join(names[:NAMED_MAX])}{more}."


def _advice(name: str, error: BaseException) -> str:
    """Return the remedy for an error of that class or function."""
    if name.endswith((" (in __init__)", " (in __new__)")) or isinstance(error, TypeError):
        return (
            "It has to work with what its pickle holds: pass all arguments of an exception to super().__init__(), or "
            "give the class a __reduce__."
        )
    if name.endswith(" (in __setstate__)"):
        return "Its __setstate__ has to take what its __getstate__ has given, in any process."
    return "Its own code raises the error, since something that it needs is not as it was where the value was made."


def _of_module(error: BaseException) -> tuple[str, str] | None:
    """Return the innermost module that failed during its import, and the line."""
    found, trace = None, error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name == "<module>" and "__spec__" in frame.f_globals and trace is not error.__traceback__:
            name = frame.f_globals.get("__name__", "")
            if name != "__main__":
                found = name, _place(frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _place(file: str, line: int | None) -> str:
    return f"{file}:{line}" if line else file


def _of_import(mentions: list[tuple[str, str]], error: ImportError) -> str:
    """Explain that a module is missing, or fails during its import."""
    missing = error.name or ""
    needs = ""
    for module, name in mentions:
        if module == missing or module.startswith(f"{missing}.") or module not in sys.modules:
            needs = f"It needs {module}.{name}.  "
            break
    if not isinstance(error, ModuleNotFoundError) or not missing:
        return f"{needs}Its module cannot be imported here: {_SAME_EVERYWHERE}"
    top = missing.partition(".")[0]
    if top != missing and top in sys.modules:
        return f"{needs}The package {top!r} of this process has no {missing!r}: install the same version everywhere."
    if is_driver:
        return f"{needs}Module {top!r} is missing in this program, on node {node[:8]}: install it for {sys.executable}."
    if node:
        return needs + where_modules_come_from(top, node)
    return f"{needs}Module {top!r} is missing in this process: install it for {sys.executable}."


def _of_stack(error: BaseException) -> str:
    """Return the user's function called by unpickling, with its class."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in OF_NOBODY:
            return _name_of(frame, module)
        trace = trace.tb_next
    return ""


def _name_of(frame: FrameType, module: str) -> str:
    code: CodeType = frame.f_code
    owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    for cls in owner.__mro__ if isinstance(owner, type) else type(owner).__mro__:
        method = vars(cls).get(code.co_name)
        if getattr(getattr(method, "__func__", method), "__code__", None) is code:
            kind = owner if isinstance(owner, type) else type(owner)
            return f"{kind.__module__}.{kind.__qualname__} (in {code.co_name})"
    return f"{module}.{code.co_name}"


def _of_text(mentions: list[tuple[str, str]], text: str) -> str:
    """Return the class named in the error: "Locked.__init__() missing 1 required positional argument"."""
    words = set(re.findall(r"\w+", text))
    for module, name in mentions:
        if name.rpartition(".")[2] in words:
            return f"{module}.{name}"
    return ""


def _mentions(data: Any) -> Iterator[tuple[str, str]]:
    """Yield module and name of a pickle's classes and functions, including those sent by value."""
    from . import by_value

    pickled = split_pickle(memoryview(data))[0] if data[0] == PICKLE_BUFFERS else data
    made = {function.__name__ for function in (by_value.make_class, by_value.make_enum)}
    memo: list[Any] = []
    strings: list[Any] = ["", ""]
    top: Any = None
    is_made = False
    for opcode, argument, _ in _opcodes(bytes(memoryview(pickled)[:BYTES_MAX])):
        if opcode.name == "MEMOIZE":
            memo.append(top)
            continue
        if opcode.name == "STACK_GLOBAL":
            module, name = strings[-2:]
            is_made = module == by_value.__name__ and name in made
            if module.partition(".")[0] not in OF_NOBODY:
                yield module, name
            top = None
            continue
        is_known = opcode.name in ("BINGET", "LONG_BINGET") and argument < len(memo)
        top = memo[argument] if is_known else argument
        if type(top) is str:
            strings = [strings[-1], top]
            if is_made:
                # The name of a class sent by value comes first among its parts.
                is_made = False
                module, _, name = top.partition(":")
                yield module, name


def _opcodes(pickled: bytes) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the pickle's opcodes, as far as valid."""
    import pickletools

    try:
        yield from pickletools.genops(pickled)
    except ValueError:
        return  # cut off, or no pickle
