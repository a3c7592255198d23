"""TensorBoard's event files, read by their format."""

import struct

from zray.tune.records.crc32c import masked_crc32c


def bodies_of(path):
    """The bodies of an event file; every checksum is compared."""
    with open(path, "rb") as file:
        data = file.read()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        (of_length,) = struct.unpack("<I", data[8:12])
        body, rest = data[12 : 12 + length], data[12 + length :]
        assert of_length == masked_crc32c(data[:8]) and struct.unpack("<I", rest[:4])[0] == masked_crc32c(body)
        yield body
        data = rest[4:]
