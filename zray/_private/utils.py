"""Facts on this machine, and small helpers, under the names in Ray's private modules."""

from __future__ import annotations

import os
import shutil

from ..host.process import machine_resources

__all__ = [
    "binary_to_hex",
    "decode",
    "estimate_available_memory",
    "get_cuda_visible_devices",
    "get_num_cpus",
    "get_shared_memory_bytes",
    "get_system_memory",
    "get_used_memory",
    "hex_to_binary",
    "set_cuda_visible_devices",
]


def get_num_cpus() -> int:
    """Count the CPUs that this process may use, within its affinity and its cgroup."""
    return machine_resources.cpu_count()


def get_system_memory() -> int:
    """Return the bytes of memory that this process may use, within its cgroup."""
    return machine_resources.memory_bytes()


def get_used_memory() -> int:
    """Return the bytes of memory in use on this machine."""
    import psutil

    return int(psutil.virtual_memory().used)


def estimate_available_memory() -> int:
    """Return the bytes of memory that are free, within the limit of this process."""
    return max(0, get_system_memory() - get_used_memory())


def get_shared_memory_bytes() -> int:
    """Return the size of /dev/shm in bytes."""
    return shutil.disk_usage("/dev/shm").total


def get_cuda_visible_devices() -> list[str] | None:
    """Return the GPUs in CUDA_VISIBLE_DEVICES; None where the variable is not set."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    if devices is None:
        return None
    return [] if devices in ("", "NoDevFiles") else devices.split(",")


def set_cuda_visible_devices(dev_ids: list[str]) -> None:
    """Set CUDA_VISIBLE_DEVICES.

    Args:
        dev_ids: GPUs, by number or by name.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, dev_ids))


def binary_to_hex(identifier: bytes) -> str:
    """Return an id as hexadecimal text."""
    return identifier.hex()


def hex_to_binary(hex_identifier: str) -> bytes:
    """Return an id in hexadecimal text as bytes."""
    return bytes.fromhex(hex_identifier)


def decode(byte_str: str | bytes, allow_none: bool = False, encode_type: str = "utf-8") -> str:
    """Return bytes as text; text stays as it is.

    Args:
        byte_str: bytes or text.
        allow_none: return "" for None.  Default: False.
        encode_type: the encoding.  Default: "utf-8".

    Raises:
        ValueError: the argument is neither bytes nor text.
    """
    if byte_str is None and allow_none:
        return ""
    if isinstance(byte_str, str):
        return byte_str
    if not isinstance(byte_str, bytes):
        raise ValueError(f"decode() takes bytes or text, not {type(byte_str).__name__}.")
    return byte_str.decode(encode_type)
