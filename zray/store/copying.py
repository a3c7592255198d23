"""Copies of many bytes: without the interpreter's lock, and on several cores if worthwhile.

Threads are made on first need, die with the process, and are forgotten by a forked child, which makes new ones.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import Any

from .segment import map_pages

# Below this a plain slice assignment ends before numpy has wrapped the two sides.
NUMPY_MIN_BYTES = 256 * 1024
# Below this one core finishes before the others have woken up.
PARALLEL_MIN_BYTES = 8 << 20
STRIPE_MIN_BYTES = 2 << 20
STRIPES_MAX = 4
# glibc's copy of many bytes bypasses the caches, and drops to a fifth of its speed if the target lies so little behind
# the source, modulo a page (layout.py avoids such places if possible).  Short copies do not.
PAGE = 4096
CLOSE_BYTES = 1024
CLOSE_PIECE_BYTES = 1 << 20
# For pages new to this process: short enough for the cores to end together, whatever else they do.
NEW_PAGES_STRIPE_BYTES = 4 << 20

_work: SimpleQueue[_Copy] | None = None
_starting = threading.Lock()


def copy_bytes(target: memoryview, source: memoryview, *, new_pages: bool = False) -> None:
    """Copy source into target: 1-d views of bytes, of equal length.

    new_pages: the target is shared memory that this process has not written yet.  Its pages are mapped many at a time,
    by each core ahead of the copy.
    """
    length = source.nbytes
    if length < NUMPY_MIN_BYTES:
        target[:] = source
        return
    import numpy

    to, of = numpy.frombuffer(target, numpy.uint8), numpy.frombuffer(source, numpy.uint8)
    stripes = 1
    if length >= PARALLEL_MIN_BYTES:
        stripes = min(STRIPES_MAX, len(os.sched_getaffinity(0)), length // STRIPE_MIN_BYTES)
    if stripes < 2:
        _copy(to, of, new_pages)
    else:
        _copy_striped(to, of, stripes, NEW_PAGES_STRIPE_BYTES if new_pages else -(-length // stripes), new_pages)


def _copy(to: Any, of: Any, new_pages: bool) -> None:
    """Copy on this core."""
    import numpy

    if new_pages:
        map_pages(to.ctypes.data, len(to))
    if not 0 < (to.ctypes.data - of.ctypes.data) % PAGE < CLOSE_BYTES:
        numpy.copyto(to, of)
        return
    for start in range(0, len(of), CLOSE_PIECE_BYTES):
        numpy.copyto(to[start : start + CLOSE_PIECE_BYTES], of[start : start + CLOSE_PIECE_BYTES])


def _copy_striped(to: Any, of: Any, cores: int, step: int, new_pages: bool) -> None:
    """Copy on so many cores, in stripes of `step` bytes, of whole pages: no two cores fault in the same page."""
    step = (step + PAGE - 1) // PAGE * PAGE
    stripes = deque((to[start : start + step], of[start : start + step]) for start in range(0, len(of), step))
    work, copy = _copiers(), _Copy(stripes, new_pages)
    for _ in range(min(cores, len(stripes)) - 1):
        work.put(copy)
    try:
        copy.take_part()
    finally:
        copy.end()
    if copy.trouble is not None:
        raise copy.trouble


class _Copy:
    """A copy in stripes, taken by the requesting thread and the copiers as they have time."""

    __slots__ = ("stripes", "new_pages", "running", "trouble", "changed")

    def __init__(self, stripes: deque[tuple[Any, Any]], new_pages: bool) -> None:
        self.stripes = stripes  # not begun yet: targets and sources
        self.new_pages = new_pages
        self.running = 0  # by copiers
        self.trouble: BaseException | None = None  # of a copier: raised where the copy was asked for
        self.changed = threading.Condition(threading.Lock())

    def take_part(self) -> None:
        """Stripe after stripe, until none is left to begin."""
        while stripe := self._next():
            _copy(*stripe, self.new_pages)

    def help(self) -> None:
        """The same, in a copier."""
        while stripe := self._next(running=1):
            try:
                _copy(*stripe, self.new_pages)
            except BaseException as error:
                self.trouble = error
            with self.changed:
                self.running -= 1
                self.changed.notify()

    def _next(self, running: int = 0) -> tuple[Any, Any] | None:
        with self.changed:
            if not self.stripes:
                return None
            self.running += running
            return self.stripes.popleft()

    def end(self) -> None:
        """Nobody writes any more: after Ctrl-C, say, the target may soon be another value's."""
        with self.changed:
            self.stripes.clear()
            while self.running:
                self.changed.wait()


def _copiers() -> SimpleQueue[_Copy]:
    """Return the queue of the copying threads, started on first use."""
    global _work
    with _starting:
        if _work is None:
            _work = SimpleQueue()
            for number in range(1, min(STRIPES_MAX, len(os.sched_getaffinity(0)))):
                name = f"zray-copy-{number}"
                threading.Thread(target=_copy_forever, args=(_work,), name=name, daemon=True).start()
        return _work


def _copy_forever(work: SimpleQueue[_Copy]) -> None:
    while True:
        work.get().help()  # Kept by no name: an idle thread must not keep a value alive.


def _forget_copiers() -> None:
    global _work, _starting
    _work = None
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_forget_copiers)
