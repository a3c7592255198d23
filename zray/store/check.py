"""A check of the files of a shard's log, without changes: is each record whole, and which is the first broken one?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from .durable import StoreDamaged
from .records import LOG, PAGE, SNAPSHOT, Scan

_KINDS = {"log": LOG, "snapshot": SNAPSHOT, "page": PAGE}
_NAME = re.compile(r"(log|snapshot|page)-\d{20}")


class Checked(NamedTuple):
    """The result for a file.  end: end of the last whole record, in bytes; reason: the fault after that."""

    path: str
    records: int
    size: int
    end: int
    is_damaged: bool  # False and a reason: torn by a death, and cut off by the next start
    reason: str


def check(folder: str) -> Iterator[Checked]:
    """Check all files of logs in a folder and below.  A file in use may seem torn."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        logs = sorted(name for name in names if _NAME.fullmatch(name))
        last = max((name for name in logs if name.startswith("log")), default="")
        for name in logs:
            kind = _KINDS[name.partition("-")[0]]
            yield _check(Scan(os.path.join(place, name), kind, may_be_torn=name == last))


def _check(scan: Scan) -> Checked:
    reason, is_damaged, end = "", True, 0
    try:
        for _ in scan:
            pass
    except StoreDamaged as error:
        reason, end = error.reason, error.offset
    else:
        end = scan.end
        if scan.kind == SNAPSHOT and not scan.is_ended:
            reason = "the snapshot is not whole"
        elif scan.kind == PAGE and scan.count != 1:
            reason = "the page is not there"
        else:
            is_damaged = False
            reason = "the last append is not all there" if scan.is_torn else ""
    return Checked(scan.path, scan.count, os.stat(scan.path).st_size, end, is_damaged, reason)
