"""The message of a process that writes into read-only shared memory, and is about to be killed by SIGSEGV for it.

Libraries that go around numpy's own check do so: numpy.add.at, torch.from_numpy, ctypes, `__array_interface__`.

The handler is machine code.  A handler in Python (by ctypes) would first wait for the interpreter's lock, and a process
that crashes in a thread of a library would hang where the thread that has the lock waits for that library.  The code
below calls nothing: where the fault is a write into the watched range, the code writes a prepared text.  In each case
the code restores the handler that was there before and returns, so that the instruction faults again, and all goes on
as without us: faulthandler prints the stack, a debugger or a core dump sees the fault itself.  A signal that somebody
has sent is sent again.

    table, a page behind the code:  low | high | address of the text | its length | the earlier sigaction (32 bytes)
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import platform
import signal
import struct
import threading

TEXT = (
    "\nzray: this process ends because it wrote into an array that others read too.  zray.get() and the arguments of "
    "tasks and actors give arrays in read-only shared memory.  numpy refuses to write into these; numpy.add.at, "
    "torch.from_numpy, ctypes and __array_interface__ do not ask numpy.  The stack below shows the line.  Write into a "
    "copy instead: array.copy(), zray.get(ref, writable=True), @zray.remote(writable=True).\n\n"
)
_TABLE_AT = mmap.PAGESIZE
_TABLE = struct.Struct("<4Q")
_ACTION_AT = _TABLE_AT + _TABLE.size
_ACTION_BYTES = 32  # the kernel's: handler, flags, restorer, mask
_TEXT_AT = _ACTION_AT + _ACTION_BYTES
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000

# By machine: the code, what in it stands for the table's address, and the number of the system call rt_sigaction.
_PLACE = (0x1122334455667788).to_bytes(8, "little")
_CODE = {
    # endbr64; mov r8, TABLE; mov r9d, [rsi+8] (si_code); cmp r9d, 2 (SEGV_ACCERR); jne restore
    # mov rax, [rsi+16] (si_addr); cmp rax, [r8]; jb restore; cmp rax, [r8+8]; jae restore
    # mov rsi, [r8+16]; mov rdx, [r8+24]; mov edi, 2; mov eax, 1 (write); syscall
    # restore: lea rsi, [r8+32]; mov edi, 11; xor edx, edx; mov r10d, 8; mov eax, 13 (rt_sigaction); syscall
    # test r9d, r9d; jg done; mov eax, 186 (gettid); syscall; mov edi, eax; mov esi, 11; mov eax, 200 (tkill); syscall
    # done: ret
    "x86_64": (
        "f30f1efa49b88877665544332211448b4e084183f9027523488b4610493b00721a493b40087314498b7010498b5018bf02000000b801000000"
        "0f05498d7020bf0b00000031d241ba08000000b80d0000000f054585c97f15b8ba0000000f0589c7be0b000000b8c80000000f05c3",
        13,
    ),
    # ldr x4, TABLE; ldr w6, [x1, 8] (si_code); cmp w6, 2 (SEGV_ACCERR); b.ne restore
    # ldr x3, [x1, 16] (si_addr); ldr x5, [x4]; cmp x3, x5; b.lo restore; ldr x5, [x4, 8]; cmp x3, x5; b.hs restore
    # mov x0, 2; ldr x1, [x4, 16]; ldr x2, [x4, 24]; mov x8, 64 (write); svc 0
    # restore: mov x0, 11; add x1, x4, 32; mov x2, 0; mov x3, 8; mov x8, 134 (rt_sigaction); svc 0
    # cmp w6, 0; b.gt done; mov x8, 178 (gettid); svc 0; mov x1, 11; mov x8, 130 (tkill); svc 0
    # done: ret; TABLE
    "aarch64": (
        "c4030058260840b9df080071a1010054230840f9850040f97f0005eb23010054850440f97f0005ebc2000054400080d2810840f9820c40f9"
        "080880d2010000d4600180d281800091020080d2030180d2c81080d2010000d4df000071cc000054481680d2010000d4610180d2481080d2"
        "010000d4c0035fd68877665544332211",
        134,
    ),
}
_installing = threading.Lock()
_pages: mmap.mmap | None = None  # with the code and its table: they stay as long as the process
_is_tried = False


def watch(low: int, high: int) -> None:
    """From now on a write into this range of addresses is explained on standard error.

    The range is the one that was mapped last: a process that has left a session has few arrays of it.
    """
    global _is_tried
    with _installing:
        if not _is_tried:
            _is_tried = True
            _install()
        if _pages is not None:
            _pages[_TABLE_AT : _TABLE_AT + 16] = struct.pack("<2Q", low, high)


def _install() -> None:
    """Nothing happens where the machine is another one, or the system allows no code of our own."""
    global _pages
    code, number = _CODE.get(platform.machine(), ("", 0))
    if not code:
        return
    text = TEXT.encode()
    libc = ctypes.CDLL(None)
    pages = mmap.mmap(
        -1,
        -(-(_TEXT_AT + len(text)) // mmap.PAGESIZE) * mmap.PAGESIZE,
        flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,  # a forked child has its own
    )
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    filled = bytes.fromhex(code).replace(_PLACE, (start + _TABLE_AT).to_bytes(8, "little"))
    pages[: len(filled)] = filled
    pages[_TEXT_AT : _TEXT_AT + len(text)] = text
    pages[_TABLE_AT : _TABLE_AT + _TABLE.size] = _TABLE.pack(0, 0, start + _TEXT_AT, len(text))
    first = (ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE))
    if libc.mprotect(*first, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        return
    earlier = ctypes.c_void_p(start + _ACTION_AT)
    if _handler_of(libc, number, earlier) == signal.SIG_DFL and not faulthandler.is_enabled():
        # Another handler may be that of a Java virtual machine, which repairs such faults: faulthandler would end it.
        faulthandler.enable(2, all_threads=False)
        _handler_of(libc, number, earlier)
    # glibc's and musl's: handler, mask (128 bytes), flags, restorer.
    action = struct.pack("<Q128xixxxxQ", start, _SA_SIGINFO | _SA_ONSTACK, 0)
    if libc.sigaction(ctypes.c_int(signal.SIGSEGV), action, None) == 0:
        _pages = pages


def _handler_of(libc: ctypes.CDLL, number: int, action: ctypes.c_void_p) -> int:
    """The present handler of SIGSEGV, whose sigaction is written to this address."""
    libc.syscall(ctypes.c_long(number), ctypes.c_long(signal.SIGSEGV), None, action, ctypes.c_long(8))
    return int(ctypes.c_uint64.from_address(int(action.value or 0)).value)
