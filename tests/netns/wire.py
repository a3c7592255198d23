"""A bad cable, for kernels without netem: frames from either end come out of the other one late, slowly, or never.

python -m tests.netns.wire DEVICE DEVICE DELAY_MS LOSS_PERCENT BYTES_PER_SECOND    (each way; 0: as fast as can be)
"""

import heapq
import itertools
import random
import select
import socket
import sys
import time

FRAME_BYTES_MAX = 1 << 16
# As netem's own: frames that lie in the cable.
FRAMES_MAX = 10_000
# What waits for its turn, as in routers that are well kept: more is dropped.
QUEUE_SECONDS = 0.2
OUTGOING = 4  # PACKET_OUTGOING: what we have sent ourselves
# Frames come and go with a header that says which checksums the kernel has left open.
SOL_PACKET, PACKET_VNET_HDR = 263, 15


def main(devices, delay, loss, speed):
    chance = random.Random(1)
    ends = []
    for device in devices:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        end.bind((device, 3))
        end.setblocking(False)
        ends.append(end)
    under_way, numbers = [], itertools.count()
    free_at = [0.0, 0.0]  # the cable, from each end
    print("ready", flush=True)
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        for end in select.select(ends, [], [], wait)[0]:
            side = ends.index(end)
            while True:
                try:
                    frame, origin = end.recvfrom(FRAME_BYTES_MAX)
                except BlockingIOError:
                    break
                now = time.monotonic()
                if origin[2] == OUTGOING or chance.random() < loss or len(under_way) >= FRAMES_MAX:
                    continue
                if speed:
                    begins_at = max(now, free_at[side])
                    if begins_at - now > QUEUE_SECONDS:
                        continue
                    free_at[side] = now = begins_at + len(frame) / speed
                heapq.heappush(under_way, (now + delay, next(numbers), ends[1 - side], frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, end, frame = heapq.heappop(under_way)
            try:
                end.send(frame)
            except OSError:
                pass  # lost


if __name__ == "__main__":
    delay_ms, loss_percent, bytes_per_second = map(float, sys.argv[3:])
    main(sys.argv[1:3], delay_ms / 1000, loss_percent / 100, bytes_per_second)
