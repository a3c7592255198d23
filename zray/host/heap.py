"""What a process that speaks to other hosts does with memory that it has freed."""

from __future__ import annotations

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
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
