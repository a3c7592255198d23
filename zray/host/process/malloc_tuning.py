"""What a process does with memory that it has freed: some is kept for what comes next, and the rest goes at rest."""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import Any

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MALLINFO_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
# Of each thread's heap, what lies free at its end and is kept: a source's whole window of chunks may be under way
# (object_manager/sources.py), and comes and goes many times in a second.
FREED_BYTES_MAX = 32 << 20
# What is longer has pages of its own, which go at once: more than the chunks of one frame (MAIL_BULK_BYTES_MAX).
IN_HEAP_BYTES_MAX = 4 << 20


def keep_freed() -> None:
    """Let malloc keep what was freed, up to FREED_BYTES_MAX, for what comes next.

    By itself it gives the end of a heap back as soon as half a megabyte of it is free.  Where the end happened to be
    free, each chunk that came in was then written to pages that the kernel had to zero first: 75,000 of them for each
    gigabyte, a fifth of the throughput, in some clusters and not in others (benchmarks/transfer.py).  Another C library
    than glibc does as it likes.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(_M_TRIM_THRESHOLD, FREED_BYTES_MAX)
    mallopt(_M_MMAP_THRESHOLD, IN_HEAP_BYTES_MAX)


# A process that has used less of one CPU than this for so many looks, one upon the other, is at rest.
LOOK_SECONDS = 1.0
REST_SHARE = 0.25
REST_LOOKS = 2
# A process that has used less CPU time since the last time has freed little, unless malloc says otherwise; one of less
# memory has little to give.
WORTH_CPU_SECONDS = 0.1
WORTH_BYTES = 48 << 20
# A pause follows each: at most 1 % of the time goes into giving back.
PAUSE_SECONDS = 5.0
PAUSE_PER_SECOND = 100


class Rest:
    """Gives freed memory back to the machine when its process is at rest.

    malloc keeps what is freed below anything that is still in use: a program that had dropped
    300,000 values of a kilobyte kept 400 MB, and its node as much.  Giving that back takes a tenth of a second, in a
    thread of its own.
    """

    def __init__(self) -> None:
        self.due = 0.0  # of the next look, by time.monotonic()
        self.looked_at = 0.0
        self.cpu_seconds = 0.0  # of this process, at the last look
        self.cpu_seconds_before = 0.0  # at the last giving back
        self.free_before = 0  # bytes that malloc had free then; their pages are gone, and it counts them still
        self.quiet_looks = 0
        self.paused_until = 0.0

    def look(self, now: float) -> None:
        """Called often: at most once a second it looks, in some microseconds."""
        if now < self.due:
            return
        self.due = now + LOOK_SECONDS
        cpu_seconds = time.process_time()
        is_quiet = cpu_seconds - self.cpu_seconds < REST_SHARE * (now - self.looked_at)
        self.looked_at, self.cpu_seconds = now, cpu_seconds
        self.quiet_looks = self.quiet_looks + 1 if is_quiet else 0
        if self.quiet_looks < REST_LOOKS or now < self.paused_until:
            return
        # A program on a busy machine may rest, and then free much in little time.
        has_worked = cpu_seconds - self.cpu_seconds_before >= WORTH_CPU_SECONDS
        if not has_worked and free_bytes() - self.free_before < WORTH_BYTES:
            return
        if own_bytes() < WORTH_BYTES:
            self.cpu_seconds_before = cpu_seconds
            return
        self.paused_until = float("inf")  # until it is done
        try:
            threading.Thread(target=self._give_back, name="zray-give-back", daemon=True).start()
        except RuntimeError:  # there can be no thread now
            self._pause(0.0)

    def _give_back(self) -> None:
        began = time.monotonic()
        give_back()
        self._pause(time.monotonic() - began)

    def _pause(self, took: float) -> None:
        self.cpu_seconds_before, self.free_before = time.process_time(), free_bytes()
        self.paused_until = time.monotonic() + max(PAUSE_SECONDS, PAUSE_PER_SECOND * took)


def own_bytes() -> int:
    """Memory of this process that it shares with nobody; 0 where that cannot be told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            resident, shared = file.read().split()[1:3]
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


@functools.cache
def _mallinfo2() -> Any:
    """The function of that name, which gives a structure; None: another C library, or a glibc before 2.33."""
    import ctypes

    class MallInfo2(ctypes.Structure):
        """struct mallinfo2 of <malloc.h>."""

        _fields_ = [(name, ctypes.c_size_t) for name in _MALLINFO_FIELDS]

    find = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if find is not None:
        find.restype = MallInfo2
    return find


def free_bytes() -> int:
    """Memory that malloc has free; 0 where that cannot be told."""
    find = _mallinfo2()
    return 0 if find is None else int(find().fordblks)


def give_back() -> None:
    """All whole pages that malloc has free, now, without the interpreter's lock.  Other C libraries do as they like."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
