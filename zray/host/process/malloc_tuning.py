"""Tuning of malloc: a process keeps some freed memory for reuse, and returns the rest when at rest."""

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
# Free memory kept at the end of each thread's heap: a source's whole window of chunks may be in transit
# (object_manager/sources.py), and comes and goes many times in a second.
FREED_BYTES_MAX = 32 << 20
# A larger block has pages of its own, which are returned at once: more than the chunks of a frame
# (MAIL_BULK_BYTES_MAX).
IN_HEAP_BYTES_MAX = 4 << 20


def keep_freed() -> None:
    """Let malloc keep freed memory, up to FREED_BYTES_MAX, for reuse.

    By default malloc returns the end of a heap as soon as half a megabyte of it is free.  If the end happened to be
    free, each incoming chunk was then written to pages that the kernel had to zero first: 75,000 pages per gigabyte, a
    fifth of the throughput, in some clusters and not in others (benchmarks/transfer.py).  C libraries other than glibc
    are left alone.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(_M_TRIM_THRESHOLD, FREED_BYTES_MAX)
    mallopt(_M_MMAP_THRESHOLD, IN_HEAP_BYTES_MAX)


# A process with less use of a CPU than this, for so many looks in a row, is at rest.
LOOK_SECONDS = 1.0
REST_SHARE = 0.25
REST_LOOKS = 2
# A process with less CPU time since the last trim has freed little, unless malloc says otherwise; a process of less
# memory has little to give.
WORTH_CPU_SECONDS = 0.1
WORTH_BYTES = 48 << 20
# A pause follows each: at most 1 % of the time goes into giving back.
PAUSE_SECONDS = 5.0
PAUSE_PER_SECOND = 100


class Rest:
    """Returns freed memory to the machine when the process is at rest.

    malloc keeps free memory below any block in use: a program that had dropped 300,000 values of a kilobyte kept 400
    MB, and its node as much.  Returning the memory takes a tenth of a second, in a separate thread.
    """

    def __init__(self) -> None:
        self.due = 0.0  # of the next look, by time.monotonic()
        self.looked_at = 0.0
        self.cpu_seconds = 0.0  # of this process, at the last look
        self.cpu_seconds_before = 0.0  # at the last giving back
        self.free_before = 0  # bytes free in malloc then; their pages are gone, but still counted
        self.quiet_looks = 0
        self.paused_until = 0.0

    def look(self, now: float) -> None:
        """Look at most once a second, for some microseconds.  Called often."""
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
        self.paused_until = float("inf")  # until the trim is done
        try:
            threading.Thread(target=self._give_back, name="zray-give-back", daemon=True).start()
        except RuntimeError:  # no thread can be started now
            self._pause(0.0)

    def _give_back(self) -> None:
        began = time.thread_time()  # on a busy machine the thread waits for a core, which costs nothing
        give_back()
        self._pause(time.thread_time() - began)

    def _pause(self, took: float) -> None:
        self.cpu_seconds_before, self.free_before = time.process_time(), free_bytes()
        self.paused_until = time.monotonic() + max(PAUSE_SECONDS, PAUSE_PER_SECOND * took)


def own_bytes() -> int:
    """Return the memory of this process not shared with others; 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            resident, shared = file.read().split()[1:3]
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


@functools.cache
def _mallinfo2() -> Any:
    """Return the function mallinfo2, which returns a structure; None: another C library, or a glibc before 2.33."""
    import ctypes

    class MallInfo2(ctypes.Structure):
        """The structure mallinfo2 of <malloc.h>."""

        _fields_ = [(name, ctypes.c_size_t) for name in _MALLINFO_FIELDS]

    find = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if find is not None:
        find.restype = MallInfo2
    return find


def free_bytes() -> int:
    """Return the bytes free in malloc; 0 if unknown."""
    find = _mallinfo2()
    return 0 if find is None else int(find().fordblks)


def give_back() -> None:
    """Return all free whole pages of malloc, now, without the interpreter's lock.  Other C libraries are left alone."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
