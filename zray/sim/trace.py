"""The trace of a run: a digest of every message, and the last messages as text."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Any

from ..roles.role import Later

# Number of last messages shown for a failed run.
TRANSCRIPT_MAX = 20_000
WORDS_MAX = 240


class Trace:
    """Every delivery, in order."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self.steps = 0
        self.lines: deque[tuple[float, str, str, Any]] = deque(maxlen=TRANSCRIPT_MAX)
        self.keeps_messages = True

    def frame(self, now: float, source: str, target: str, frame: bytes) -> None:
        """Add an arrived frame's bytes to the digest."""
        self._hash.update(f"{now!r} {source} {target} ".encode())
        self._hash.update(frame)

    def message(self, now: float, source: str, target: str, message: Any) -> None:
        """A message is handled."""
        self.steps += 1
        self._hash.update(name_of(message).encode())
        if self.keeps_messages:
            self.lines.append((now, source, target, message))

    def event(self, now: float, target: str, words: str) -> None:
        """Note an event other than a message: a fault, a birth, a death."""
        self._hash.update(words.encode())
        if self.keeps_messages:
            self.lines.append((now, "", target, words))

    def digest(self) -> str:
        """Equal for equal runs."""
        return self._hash.copy().hexdigest()

    def transcript(self, count: int = 200, about: str = "") -> str:
        """Return the last `count` lines; about: only lines that contain this text."""
        lines = [line for line in map(render, self.lines) if about in line]
        return "\n".join(lines[-count:])


def render(line: tuple[float, str, str, Any]) -> str:
    """Return a line of a transcript."""
    now, source, target, message = line
    if type(message) is str:
        return f"{now:11.6f}  {target}: {message}"
    return f"{now:11.6f}  {source} -> {target}  {shorten(message)}"


def name_of(message: Any) -> str:
    """Return the name of a message's type, or of a timer's method."""
    return message.action.__qualname__ if type(message) is Later else type(message).__name__


def shorten(message: Any) -> str:
    """Return a message as text: ids as their last bytes in hex, long values cut."""
    if type(message) is Later:
        fields = ", ".join(map(_words, message.arguments))
    else:
        fields = ", ".join(f"{name}={_words(getattr(message, name))}" for name in message.__struct_fields__)
    text = f"{name_of(message)}({fields})"
    return text if len(text) <= WORDS_MAX else f"{text[: WORDS_MAX - 4]} ...)"


def _words(value: Any) -> str:
    if type(value) is bytes:
        if len(value) == 20:
            return f"{value[6:16].hex()}.{int.from_bytes(value[16:], 'big') & 0xFFFF}"
        if len(value) == 16:
            return value[6:].hex()
        return f"{len(value)}b" if len(value) > 12 else value.hex()
    if isinstance(value, (list, tuple)):
        shown = ", ".join(_words(item) for item in value[:12])
        return f"[{shown}{', ...' if len(value) > 12 else ''}]"
    if hasattr(value, "__struct_fields__"):
        if hasattr(value, "deps") and hasattr(value, "function_id"):
            deps = f" deps={_words(value.deps)}" if value.deps else ""
            return f"spec {_words(value.task_id)}{deps}"
        return shorten(value)
    return repr(value)
