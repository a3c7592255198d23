"""The message of a process about to be killed by SIGSEGV for a write into read-only shared memory.

Libraries that bypass numpy's own check cause such writes: numpy.add.at, torch.from_numpy, ctypes,
`__array_interface__`.

The handler is machine code.  A handler in Python (by ctypes) would first wait for the interpreter's lock, and a crash
in a thread of a library would become a hang if the holder of the lock waits for that library.  The code below calls
nothing: if the fault is a write into the watched range, the code writes a prepared text.  In each case the code
restores the former handler and returns, so that the instruction faults again, and all continues as without zray:
faulthandler prints the stack, a debugger or a core dump sees the fault itself.  A signal sent by another process is
sent again.

    table, a page behind the code    low | high | slots begin | slots end | the earlier sigaction (32 bytes)
                                     three iovecs: the event | the object | the remedy
    slots, each of an array in use   low | high | address of its text | length of its text
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import platform
import signal
import struct
import threading

TEXT = "\nzray: this process ends because it wrote into an array that others read too.  "
ADVICE = (
    "zray.get() and the arguments of tasks and actors give arrays in read-only shared memory.  numpy refuses to write "
    "into these; numpy.add.at, torch.from_numpy, ctypes and __array_interface__ do not ask numpy.  The stack below "
    "shows the line.  Write into a copy instead: array.copy(), zray.get(ref, writable=True), "
    "@zray.remote(writable=True).\n\n"
)
# Limit of named arrays in use: for others, the text only describes the event.  Their slots take 1.7 MB of address
# space, without pages until an array uses them.
SLOTS_MAX = 4096
SAID_BYTES_MAX = 384
_TABLE_AT = mmap.PAGESIZE
_TABLE = struct.Struct("<4Q")
_ACTION_AT = _TABLE_AT + _TABLE.size
_ACTION_BYTES = 32  # the kernel's: handler, flags, restorer, mask
_IOVECS_AT = _ACTION_AT + _ACTION_BYTES
_IOVECS = struct.Struct("<6Q")
_TEXT_AT = _IOVECS_AT + _IOVECS.size
_SLOTS_AT = _TABLE_AT + mmap.PAGESIZE  # the texts end before
_SLOT = struct.Struct("<4Q")
_NO_RANGE = bytes(16)
_SAID_AT = _SLOTS_AT + SLOTS_MAX * _SLOT.size
_PAGES_BYTES = _SAID_AT + SLOTS_MAX * SAID_BYTES_MAX
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000

# By machine: the code, the placeholder for the table's address, and the number of the system call rt_sigaction.
_PLACE = (0x1122334455667788).to_bytes(8, "little")
_CODE = {
    # endbr64; mov r8, TABLE; mov r9d, [rsi+8] (si_code); cmp r9d, 2 (SEGV_ACCERR); jne restore
    # mov rax, [rsi+16] (si_addr); cmp rax, [r8]; jb restore; cmp rax, [r8+8]; jae restore
    # mov rdx, [r8+16]; scan: cmp rdx, [r8+24]; jae say; cmp rax, [rdx]; jb next; cmp rax, [rdx+8]; jae next
    # mov rcx, [rdx+16]; mov [r8+80], rcx; mov rcx, [rdx+24]; mov [r8+88], rcx; jmp say; next: add rdx, 32; jmp scan
    # say: lea rsi, [r8+64]; mov edx, 3; mov edi, 2; mov eax, 20 (writev); syscall
    # restore: lea rsi, [r8+32]; mov edi, 11; xor edx, edx; mov r10d, 8; mov eax, 13 (rt_sigaction); syscall
    # test r9d, r9d; jg done; mov eax, 186 (gettid); syscall; mov edi, eax; mov esi, 11; mov eax, 200 (tkill); syscall
    # done: ret
    "x86_64": (
        "f30f1efa49b88877665544332211448b4e084183f9027551488b4610493b007248493b40087342498b5010493b50187323483b027218"
        "483b42087312488b4a1049894850488b4a1849894858eb064883c220ebd7498d7040ba03000000bf02000000b8140000000f05498d70"
        "20bf0b00000031d241ba08000000b80d0000000f054585c97f15b8ba0000000f0589c7be0b000000b8c80000000f05c3",
        13,
    ),
    # ldr x4, TABLE; ldr w6, [x1, 8] (si_code); cmp w6, 2 (SEGV_ACCERR); b.ne restore
    # ldr x3, [x1, 16] (si_addr); ldr x5, [x4]; cmp x3, x5; b.lo restore; ldr x5, [x4, 8]; cmp x3, x5; b.hs restore
    # ldr x5, [x4, 16]; ldr x7, [x4, 24]; scan: cmp x5, x7; b.hs say
    # ldr x0, [x5]; cmp x3, x0; b.lo next; ldr x0, [x5, 8]; cmp x3, x0; b.hs next
    # ldr x0, [x5, 16]; ldr x1, [x5, 24]; stp x0, x1, [x4, 80]; b say; next: add x5, x5, 32; b scan
    # say: mov x0, 2; add x1, x4, 64; mov x2, 3; mov x8, 66 (writev); svc 0
    # restore: mov x0, 11; add x1, x4, 32; mov x2, 0; mov x3, 8; mov x8, 134 (rt_sigaction); svc 0
    # cmp w6, 0; b.gt done; mov x8, 178 (gettid); svc 0; mov x1, 11; mov x8, 130 (tkill); svc 0
    # done: ret; TABLE
    "aarch64": (
        "c4050058260840b9df080071a1030054230840f9850040f97f0005eb23030054850440f97f0005ebc2020054850840f9870c40f9bf00"
        "07eba2010054a00040f97f0000eb03010054a00440f97f0000eba2000054a00840f9a10c40f9800405a903000014a5800091f3ffff17"
        "400080d281000191620080d2480880d2010000d4600180d281800091020080d2030180d2c81080d2010000d4df000071cc0000544816"
        "80d2010000d4610180d2481080d2010000d4c0035fd68877665544332211",
        134,
    ),
}
_installing = threading.Lock()
_pages: mmap.mmap | None = None  # with the code and its table: they stay as long as the process
_start = 0  # their address
_is_tried = False
_free = list(range(SLOTS_MAX - 1, -1, -1))  # slots; taken and given back without a lock


def watch(low: int, high: int) -> None:
    """Have writes into this range of addresses explained on standard error from now on.

    The range is the last mapped one: a process that has left a session has few arrays of it.
    """
    global _is_tried
    with _installing:
        if not _is_tried:
            _is_tried = True
            _install()
        if _pages is not None:
            _pages[_TABLE_AT : _TABLE_AT + 16] = struct.pack("<2Q", low, high)


def name(low: int, size: int, said: str) -> int:
    """Have writes into this range explained with this text too, from now on.  Returns a slot for `forget`, or -1."""
    pages = _pages
    if pages is None:
        return -1
    try:
        slot = _free.pop()
    except IndexError:
        return -1
    text = said.encode("utf-8", "backslashreplace")
    if len(text) > SAID_BYTES_MAX:
        text = text[: SAID_BYTES_MAX - 6] + b"...  "
    at = _SAID_AT + slot * SAID_BYTES_MAX
    pages[at : at + len(text)] = text
    _SLOT.pack_into(pages, _SLOTS_AT + slot * _SLOT.size, low, low + size, _start + at, len(text))
    return slot


def forget(slot: int) -> None:
    """Free the slot of a dead array.  Called in the middle of anything: takes no lock."""
    if slot >= 0 and _pages is not None:
        at = _SLOTS_AT + slot * _SLOT.size
        _pages[at : at + len(_NO_RANGE)] = _NO_RANGE
        _free.append(slot)


def _install() -> None:
    """Install the handler; do nothing on other machines, or if the system allows no code of our own."""
    global _pages, _start
    code, number = _CODE.get(platform.machine(), ("", 0))
    if not code:
        return
    text, advice = TEXT.encode(), ADVICE.encode()
    libc = ctypes.CDLL(None)
    pages = mmap.mmap(
        -1,
        -(-_PAGES_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE,
        flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,  # a forked child has a copy
    )
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    filled = bytes.fromhex(code).replace(_PLACE, (start + _TABLE_AT).to_bytes(8, "little"))
    pages[: len(filled)] = filled
    pages[_TEXT_AT : _TEXT_AT + len(text) + len(advice)] = text + advice
    _TABLE.pack_into(pages, _TABLE_AT, 0, 0, start + _SLOTS_AT, start + _SAID_AT)
    at = start + _TEXT_AT
    _IOVECS.pack_into(pages, _IOVECS_AT, at, len(text), at, 0, at + len(text), len(advice))
    first = (ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE))
    if libc.mprotect(*first, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        return
    earlier = ctypes.c_void_p(start + _ACTION_AT)
    if _handler_of(libc, number, earlier) == signal.SIG_DFL and not faulthandler.is_enabled():
        # Another handler may belong to a Java virtual machine, which repairs such faults: faulthandler would end it.
        faulthandler.enable(2, all_threads=False)
        _handler_of(libc, number, earlier)
    # glibc's and musl's: handler, mask (128 bytes), flags, restorer.
    action = struct.pack("<Q128xixxxxQ", start, _SA_SIGINFO | _SA_ONSTACK, 0)
    if libc.sigaction(ctypes.c_int(signal.SIGSEGV), action, None) == 0:
        _pages, _start = pages, start


def _handler_of(libc: ctypes.CDLL, number: int, action: ctypes.c_void_p) -> int:
    """Return the present handler of SIGSEGV, after writing its sigaction to this address."""
    libc.syscall(ctypes.c_long(number), ctypes.c_long(signal.SIGSEGV), None, action, ctypes.c_long(8))
    return int(ctypes.c_uint64.from_address(int(action.value or 0)).value)
