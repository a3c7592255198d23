"""The type of a value from its first bytes, as far as these tell: nothing is unpickled, and no class is imported."""

from __future__ import annotations

import pickletools
import struct

from msgspec import DecodeError
from msgspec.msgpack import Decoder

from ..exceptions import SYSTEM_ERROR, TASK_ERROR
from ..store import layout
from ..store.arrays import HEAD

__all__: list[str] = []  # for zray.util.state

# Kinds of dtypes, as their texts have them behind the order of bytes; the name has the size in bits.
DTYPES = {"i": "int", "u": "uint", "f": "float", "c": "complex", "m": "timedelta", "M": "datetime"}
SCALARS = {0xC0: "None", 0xC2: "bool", 0xC3: "bool", 0xCA: "float", 0xCB: "float", 0xDC: "list"}
SCALARS |= dict.fromkeys((0xC4, 0xC5, 0xC6), "bytes") | dict.fromkeys((0xD9, 0xDA, 0xDB), "str")
SCALARS |= dict.fromkeys(range(0xCC, 0xD4), "int")
TAGGED = {layout.BYTES: "bytes", layout.TUPLE: "tuple", layout.DICT: "dict", TASK_ERROR: "error", SYSTEM_ERROR: "error"}
CONTAINERS = {"EMPTY_LIST": "list", "EMPTY_DICT": "dict", "EMPTY_SET": "set", "MARK": "tuple", "EMPTY_TUPLE": "tuple"}
# Modules whose functions make objects of classes that are named further on.
MAKERS = ("copyreg", "zray.", "cloudpickle", "builtins")
_decode = Decoder(tuple[str, tuple[int, ...]]).decode


def type_of(head: bytes) -> str:
    """Return the type of a value as text; empty: its first bytes do not tell."""
    if not head:
        return ""
    tag = head[0]
    if tag in (layout.PICKLE, layout.PICKLE_BUFFERS):
        begin = 0
        if tag == layout.PICKLE_BUFFERS and len(head) >= layout.TABLE.size:
            begin = layout.TABLE.size + 8 * layout.TABLE.unpack_from(head)[1]
        name = _class_of(head[begin:])
        return f"pickle of {name}" if name else "pickle"
    if tag == layout.NDARRAY:
        return _array(head)
    if tag < 0x80 or tag >= 0xE0:
        return "int"
    if 0xA0 <= tag < 0xC0:
        return "str"
    if 0x90 <= tag < 0xA0:
        return "list"
    return TAGGED.get(tag) or SCALARS.get(tag, "")


def _array(head: bytes) -> str:
    """The dtype and the shape of an array (store/arrays.py)."""
    try:
        *_, said = HEAD.unpack_from(head)
        dtype, shape = _decode(head[HEAD.size : HEAD.size + said])
    except (DecodeError, struct.error):  # it is longer than what is here
        return "array"
    name = _dtype(dtype)
    return f"array {name} {' x '.join(map(str, shape))}".rstrip()


def _dtype(text: str) -> str:
    kind, size = text[1:2], text[2:]
    if kind == "b":
        return "bool"
    return f"{DTYPES[kind]}{8 * int(size)}" if kind in DTYPES and size.isdigit() else text


def _class_of(pickled: bytes) -> str:
    """The first class that a pickle names, or the container that it begins with; empty: it does not say."""
    texts: list[str] = []
    memo: list[str] = []
    maker, last = "", ""
    try:
        for opcode, argument, _ in pickletools.genops(pickled):
            if opcode.name in CONTAINERS and not texts and not maker:
                return CONTAINERS[opcode.name]
            if opcode.name.endswith("UNICODE"):
                last = str(argument)
                texts.append(last)
                continue
            if opcode.name == "MEMOIZE":
                memo.append(last)
            elif opcode.name.endswith("BINGET") and (text := memo[int(argument or 0)]):
                texts.append(text)
            elif opcode.name == "STACK_GLOBAL" and len(texts) > 1:
                name = ".".join(texts[-2:])
                if not name.startswith(MAKERS):
                    return name
                maker = maker or name
            last = ""
    except (ValueError, IndexError, UnicodeDecodeError):
        pass  # the first bytes end here
    return maker
