"""Copies of many bytes: without the interpreter's lock, and on several cores where it pays.

Threads are made on first need, die with the process, and are forgotten by a forked child (which makes its
own).
"""

from __future__ import annotations

import contextlib
import os
import threading
from queue import Empty, SimpleQueue
from typing import Any

from .segment import map_pages

# Below this a plain slice assignment is done before numpy has wrapped the two sides.
NUMPY_MIN_BYTES = 256 * 1024
# Below this one core finishes before the others have woken up.
PARALLEL_MIN_BYTES = 8 << 20
STRIPE_MIN_BYTES = 2 << 20
STRIPES_MAX = 4
# glibc's copy of many bytes passes the caches by, and drops to a fifth of its speed where the target lies so
# little behind the source, modulo a page (layout.py places what it can elsewhere).  Short copies do not.
PAGE = 4096
CLOSE_BYTES = 1024
CLOSE_PIECE_BYTES = 1 << 20
# Of pages that are new to this process: short enough for the cores to end together, whatever else they do.
NEW_PAGES_STRIPE_BYTES = 4 << 20

# Target, source, whether the target's pages are new, where its end is told.
_Stripe = tuple[Any, Any, bool, "SimpleQueue[BaseException | None]"]

_work: SimpleQueue[_Stripe] | None = None
_starting = threading.Lock()


def copy_bytes(target: memoryview, source: memoryview, *, new_pages: bool = False) -> None:
    """Copy source into target: 1-d views of bytes, of one length.

    new_pages: the target is shared memory that this process has not written yet.  Its pages are mapped many at a
    time, by each core ahead of what it copies.
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
        _copy_striped(to, of, NEW_PAGES_STRIPE_BYTES if new_pages else -(-length // stripes), new_pages)


def _copy(to: Any, of: Any, new_pages: bool) -> None:
    """On this core."""
    import numpy

    if new_pages:
        map_pages(to.ctypes.data, len(to))
    if not 0 < (to.ctypes.data - of.ctypes.data) % PAGE < CLOSE_BYTES:
        numpy.copyto(to, of)
        return
    for start in range(0, len(of), CLOSE_PIECE_BYTES):
        numpy.copyto(to[start : start + CLOSE_PIECE_BYTES], of[start : start + CLOSE_PIECE_BYTES])


def _copy_striped(to: Any, of: Any, step: int, new_pages: bool) -> None:
    """In stripes of `step` bytes: this thread takes its part of them, and what the others have no time for."""
    work = _copiers()
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    # Whole pages, so that no two cores fault in the same one.
    step = (step + PAGE - 1) // PAGE * PAGE
    for start in range(step, len(of), step):
        work.put((to[start : start + step], of[start : start + step], new_pages, done))
    _copy(to[:step], of[:step], new_pages)
    with contextlib.suppress(Empty):
        while True:
            _take(work.get_nowait())
    troubles = [done.get() for _ in range(step, len(of), step)]
    for trouble in troubles:
        if trouble is not None:
            raise trouble


def _take(stripe: _Stripe) -> None:
    to, of, new_pages, done = stripe
    try:
        _copy(to, of, new_pages)
        done.put(None)
    except BaseException as error:  # It is raised where the copy was asked for.
        done.put(error)


def _copiers() -> SimpleQueue[_Stripe]:
    """The queue that the copying threads listen to; they are started by whoever comes first."""
    global _work
    with _starting:
        if _work is None:
            _work = SimpleQueue()
            for number in range(1, min(STRIPES_MAX, len(os.sched_getaffinity(0)))):
                name = f"zray-copy-{number}"
                threading.Thread(target=_copy_forever, args=(_work,), name=name, daemon=True).start()
        return _work


def _copy_forever(work: SimpleQueue[_Stripe]) -> None:
    while True:
        _take(work.get())  # Kept by no name: an idle thread must not keep a value alive.


def _forget_copiers() -> None:
    global _work, _starting
    _work = None
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_forget_copiers)
