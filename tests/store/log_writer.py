"""Appends to the log in argv[1] until it is killed; says on stdout what was acknowledged, after it was."""

import sys

from zray.store.durable import StoreFull
from zray.store.log import Log


def record(sequence):
    """What record `sequence` holds."""
    return b"%d " % sequence * (sequence % 90)


def main(folder, *, snapshot_every):
    log = Log(folder)
    print(log.last, flush=True)
    while True:
        count = 1 + log.last % 7
        try:
            log.append([record(log.last + number) for number in range(1, count + 1)])
            if log.last // snapshot_every != (log.last - count) // snapshot_every:
                # In parts, between which records come.
                log.begin_snapshot()
                log.add_to_snapshot(b"%d" % log.last)
                log.append([record(log.last + 1)])
                log.add_to_snapshot(b"")
                log.end_snapshot()
        except StoreFull:
            print("full", flush=True)
            sys.stdin.readline()
            continue
        print(log.last, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], snapshot_every=int(sys.argv[2]))
