"""What home routers do: calls go out under the router's own address, nothing comes in.

python -m tests.netns.nat DEVICE

As `nft add rule ip nat out oifname DEVICE masquerade`, in a table and a chain of its own.  Said to the kernel itself:
nft is a tool that few machines have, nf_tables a part of nearly every kernel.
"""

import os
import socket
import struct
import sys

NETLINK_NETFILTER = 12
NLMSG_ERROR = 2
REQUEST, ACK, CREATE = 0x1, 0x4, 0x400
BATCH_BEGIN, BATCH_END = 16, 17
NF_TABLES = 10
NEW_TABLE, NEW_CHAIN, NEW_RULE = 0, 3, 6
NESTED = 0x8000
POSTROUTING, SOURCE_NAT = 4, 100
META_OUT_NAME = 7
REGISTER = 1
EQUAL = 0
NAME_BYTES = 16
# The exit code where the kernel cannot do it.
NOT_HERE = 3


def attribute(kind, data):
    """bytes as they are; numbers of four bytes; words; lists of attributes."""
    if isinstance(data, list):
        kind, data = kind | NESTED, b"".join(data)
    elif isinstance(data, int):
        data = struct.pack(">I", data)
    elif isinstance(data, str):
        data = data.encode() + b"\0"
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)


def message(kind, number, flags, family, resource, *attributes):
    body = struct.pack(">BBH", family, 0, resource) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), kind, REQUEST | flags, number, 0) + body


def expression(name, *attributes):
    """One step of a rule."""
    return attribute(1, [attribute(1, name), attribute(2, list(attributes))])


def batch(device):
    """All of it, which the kernel takes or refuses as one."""
    name = device.encode().ljust(NAME_BYTES, b"\0")
    hook = attribute(4, [attribute(1, POSTROUTING), attribute(2, SOURCE_NAT)])
    steps = [
        expression("meta", attribute(2, META_OUT_NAME), attribute(1, REGISTER)),
        expression("cmp", attribute(1, REGISTER), attribute(2, EQUAL), attribute(3, [attribute(1, name)])),
        expression("masq"),
    ]
    orders = [
        (NEW_TABLE, [attribute(1, "nat")]),
        (NEW_CHAIN, [attribute(1, "nat"), attribute(3, "out"), hook, attribute(7, "nat")]),
        (NEW_RULE, [attribute(1, "nat"), attribute(2, "out"), attribute(4, steps)]),
    ]
    said = [message(BATCH_BEGIN, 0, 0, socket.AF_UNSPEC, NF_TABLES)]
    for number, (kind, attributes) in enumerate(orders, 1):
        said.append(message(NF_TABLES << 8 | kind, number, ACK | CREATE, socket.AF_INET, 0, *attributes))
    said.append(message(BATCH_END, len(orders) + 1, 0, socket.AF_UNSPEC, NF_TABLES))
    return b"".join(said), len(orders)


def main(device):
    """For the network that this process is in.

    Raises:
        OSError: the kernel does not do it; says why.
    """
    said, awaited = batch(device)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as kernel:
        kernel.settimeout(10)
        kernel.bind((0, 0))
        kernel.send(said)
        while awaited:
            answers = kernel.recv(1 << 16)
            while answers:
                length, kind, _, _, _ = struct.unpack_from("=IHHII", answers)
                if kind == NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", answers, 16)
                    if code:
                        raise OSError(-code, f"nf_tables: {os.strerror(-code)}")
                    awaited -= 1
                answers = answers[length + -length % 4 :]


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_HERE)
