"""logs: the bytes per sync, read from the files of a log (docs/delivery-formats.md)."""

import struct

PAGE = 4096
HEADER = struct.Struct("<4sIQQII")
MAGIC = b"BTCH"
# Files of this size are written in the steady state; smaller ones have the start of the log.
SETTLED = 16 << 20


def batches(data):
    """Yields each batch's number, the last batch that was on the disk before it, and its bytes."""
    at = PAGE
    while at + HEADER.size <= len(data):
        magic, size, number, durable, _, _ = HEADER.unpack_from(data, at)
        if magic != MAGIC:
            return
        yield number, durable, HEADER.size + size
        at += HEADER.size + size


def sync_sizes(directory):
    """Bytes of each sync: of the batches in a file that name the same batch as the last one on the disk."""
    files = sorted(directory.glob("*.log"), key=lambda path: path.stat().st_size)
    sizes = []
    for path in [path for path in files if path.stat().st_size >= SETTLED] or files:
        groups = {}
        for _, durable, size in batches(path.read_bytes()):
            groups[durable] = groups.get(durable, 0) + size
        sizes += groups.values()
    return sizes
