"""A bad cable, for kernels without netem: frames from either end come out of the other one late, or never.

python -m tests.netns.wire DEVICE DEVICE DELAY_MS LOSS_PERCENT
"""

import collections
import random
import select
import socket
import sys
import time

FRAME_BYTES_MAX = 1 << 16
# As netem's own: frames that lie in the cable.
FRAMES_MAX = 10_000
OUTGOING = 4  # PACKET_OUTGOING: what we have sent ourselves
# Frames come and go with a header that says which checksums the kernel has left open.
SOL_PACKET, PACKET_VNET_HDR = 263, 15


def main(devices, delay, loss):
    chance = random.Random(1)
    ends = []
    for device in devices:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        end.bind((device, 3))
        end.setblocking(False)
        ends.append(end)
    under_way = collections.deque()
    print("ready", flush=True)
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        for end in select.select(ends, [], [], wait)[0]:
            while True:
                try:
                    frame, origin = end.recvfrom(FRAME_BYTES_MAX)
                except BlockingIOError:
                    break
                if origin[2] != OUTGOING and chance.random() >= loss and len(under_way) < FRAMES_MAX:
                    under_way.append((time.monotonic() + delay, ends[1 - ends.index(end)], frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, end, frame = under_way.popleft()
            try:
                end.send(frame)
            except OSError:
                pass  # lost


if __name__ == "__main__":
    main(sys.argv[1:3], float(sys.argv[3]) / 1000, float(sys.argv[4]) / 100)
