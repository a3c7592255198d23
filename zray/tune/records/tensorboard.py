"""TensorBoard's event files: one for each trial, without a thread and without TensorBoard's packages.

    file   = record*
    record = length (u64), its masked CRC-32C, body, the body's masked CRC-32C; little endian
    body   = an Event in the wire format of protocol buffers

The packages that write such files import torch where it is installed, which takes seconds and 200 MB of the program.
The few fields that scalars and hyper-parameters need are written here.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

from ..metrics import text_of
from .crc32c import masked_crc32c

__all__ = ["EVENTS", "EventFile"]

# The beginning of the names of event files.
EVENTS = "events.out.tfevents"

# Keys of a result that say nothing as a curve, as in Ray; whole subtrees below "config".
LEFT_OUT = frozenset(
    ("config", "pid", "timestamp", "time_total_s", "training_iteration", "done", "iterations_since_restore")
)
PREFIX = "ray/tune/"

# TensorBoard reads files again each 5 s or so.  A turn's events wait in memory until then, or until they are many.
FLUSH_SECONDS = 2.0
PENDING_MAX = 3000
# TensorBoard shows 1,000 points of a curve, drawn at random.
DENSE = 1000
SPARSE_SECONDS = 0.05

_FIXED64 = struct.Struct("<d")
_FIXED32 = struct.Struct("<f")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")

# Fields of the messages, as TensorBoard numbers them.
WALL_TIME, STEP, FILE_VERSION, SUMMARY = 1, 2, 3, 5  # Event
TAG, SIMPLE_VALUE, METADATA = 1, 2, 9  # Summary.Value; a Summary has values as field 1
START_INFO, END_INFO = 3, 4  # HParamsPluginData
SUCCESS, FAILURE = 1, 2  # Status of a session


_hostname = functools.cache(socket.gethostname)


# An event has some thirty small numbers: lengths, and the keys of fields.
_SMALL = [bytes((value,)) for value in range(0x80)]


def _varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= (1 << 64) - 1  # negative numbers have ten bytes
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@functools.lru_cache(maxsize=1000)
def _length(size: int) -> bytes:
    """The head of a record: few lengths occur, since the keys of results hardly change."""
    length = _LENGTH.pack(size)
    return length + _CHECKSUM.pack(masked_crc32c(length))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + _FIXED64.pack(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _event(now: float, step: int, content: bytes) -> bytes:
    return _double(WALL_TIME, now) + _number(STEP, step) + content


def _parameter(value: Any) -> bytes:
    """A google.protobuf.Value."""
    if isinstance(value, bool):
        return _number(4, int(value))
    if isinstance(value, (int, float)):
        with contextlib.suppress(OverflowError):  # an integer of many digits is a text
            return _double(2, float(value))
    return _bytes(3, text_of(value).encode(errors="backslashreplace"))


def _plugin(tag: str, field: int, content: bytes) -> bytes:
    """A Summary for the table of hyper-parameters."""
    plugin_data = _bytes(1, b"hparams") + _bytes(2, _number(1, 0) + _bytes(field, content))
    return _bytes(1, _bytes(TAG, tag.encode(errors="backslashreplace")) + _bytes(METADATA, _bytes(1, plugin_data)))


@functools.lru_cache(maxsize=4096)
def _head(key: str) -> bytes:
    """Return a scalar's bytes before its value; empty: left out.  All trials usually have the same keys."""
    if key.partition("/")[0] in LEFT_OUT:
        return b""
    tag = _bytes(TAG, (PREFIX + key).encode(errors="backslashreplace")) + _varint(SIMPLE_VALUE << 3 | 5)
    return _varint(1 << 3 | 2) + _varint(len(tag) + _FIXED32.size) + tag


class EventFile:
    """The event file of one trial.

    Args:
        folder: the trial's folder.
        parameters: the trial's flat configuration, for TensorBoard's table of hyper-parameters.
    """

    def __init__(self, folder: str, parameters: Mapping[str, Any]) -> None:
        self._folder = folder
        self._handle = -1  # opened by the first flush: a short trial costs one write
        self._path = ""  # once there is a file
        self._pending: list[bytes] = []
        self._flushed_at = now = time.time()
        self._count, self._logged_at = 0, 0.0  # results, and when the last one was written
        self._skipped: Mapping[str, Any] | None = None  # the newest one that was not written
        self._write(_double(WALL_TIME, now) + _bytes(FILE_VERSION, b"brain.Event:2"))
        entries = [
            _bytes(1, _bytes(1, key.encode(errors="backslashreplace")) + _bytes(2, _parameter(value)))
            for key, value in parameters.items()
        ]
        info = b"".join(entries) + _double(5, now)
        self._write(_event(now, 0, _bytes(SUMMARY, _plugin("_hparams_/session_start_info", START_INFO, info))))

    def log(self, flat: Mapping[str, Any]) -> None:
        """Write the numbers of a flat result, at the step `timesteps_total`, or else `training_iteration`.

        The first DENSE results are all written; then one each SPARSE_SECONDS, and the last one.
        """
        now = time.time()
        self._count += 1
        if self._count > DENSE and now - self._logged_at < SPARSE_SECONDS:
            self._skipped = flat
            return
        self._skipped, self._logged_at = None, now
        self._log(flat, now)

    def _write_skipped(self) -> None:
        flat, self._skipped = self._skipped, None
        if flat is not None:
            self._log(flat, time.time())

    def _log(self, flat: Mapping[str, Any], now: float) -> None:
        step = flat.get("timesteps_total")
        if not isinstance(step, (int, float)) or not math.isfinite(step):
            step = flat.get("training_iteration", 0)
        values = []
        for key, value in flat.items():
            kind = type(value)
            if (kind is float or kind is int) and math.isfinite(value):
                head = _head(key)
                if head:
                    values.append(head)
                    values.append(_FIXED32.pack(value if -3e38 < value < 3e38 else math.copysign(math.inf, value)))
        if values:
            self._write(_event(now, int(step), _bytes(SUMMARY, b"".join(values))))

    def end(self, *, is_failed: bool) -> None:
        """Write that the trial has ended."""
        now = time.time()
        self._write_skipped()
        info = _number(1, FAILURE if is_failed else SUCCESS) + _double(2, now)
        self._write(_event(now, 0, _bytes(SUMMARY, _plugin("_hparams_/session_end_info", END_INFO, info))))

    def _write(self, body: bytes) -> None:
        self._pending += (_length(len(body)), body, _CHECKSUM.pack(masked_crc32c(body)))

    def flush(self, *, is_last: bool = False) -> None:
        """Hand over to the operating system, each FLUSH_SECONDS at most."""
        now = time.time()
        if self._pending and (is_last or now - self._flushed_at >= FLUSH_SECONDS or len(self._pending) > PENDING_MAX):
            if self._handle < 0:
                self._handle = self._open(int(now))
            data = b"".join(self._pending)
            self._pending.clear()  # before the write: a failed one is not repeated behind its first half
            self._flushed_at = now
            while data:
                data = data[os.write(self._handle, data) :]

    def _open(self, now: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        if self._path:  # it was suspended
            return os.open(self._path, flags, 0o644)
        base = os.path.join(self._folder, f"{EVENTS}.{now:010d}.{_hostname()}")
        for number in range(1000):
            # A restart within the same second has a file of its own: the end of the former one may be cut short.
            path = f"{base}.{number}" if number else base
            with contextlib.suppress(FileExistsError):
                handle = os.open(path, flags | os.O_EXCL, 0o644)
                self._path = path
                return handle
        raise FileExistsError(f"{base} and 999 files beside it exist.")

    def suspend(self) -> None:
        """Close the file until the next flush, which continues the file."""
        if self._handle >= 0:
            try:
                self.flush(is_last=True)
            finally:
                os.close(self._handle)
                self._handle = -1

    def close(self) -> None:
        """Write the rest, and close the file."""
        try:
            self._write_skipped()
            self.flush(is_last=True)
        finally:
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1
