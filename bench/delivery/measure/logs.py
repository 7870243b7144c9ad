"""logs: how much lies between two syncs, as it is in the files of a log (docs/delivery.md, "On the disk")."""

import struct

PAGE = 4096
HEADER = struct.Struct("<4sIQQII")
MAGIC = b"BTCH"
# Larger files come after the log has settled; in a smaller one is how it began.
SETTLED = 16 << 20


def batches(data):
    """The number of each batch, the last that was on the disk before it, and its bytes."""
    at = PAGE
    while at + HEADER.size <= len(data):
        magic, size, number, durable, _, _ = HEADER.unpack_from(data, at)
        if magic != MAGIC:
            return
        yield number, durable, HEADER.size + size
        at += HEADER.size + size


def sync_sizes(directory):
    """Bytes that went to the disk together: batches of one file that name the same batch as the last on the disk."""
    files = sorted(directory.glob("*.log"), key=lambda path: path.stat().st_size)
    sizes = []
    for path in [path for path in files if path.stat().st_size >= SETTLED] or files:
        groups = {}
        for _, durable, size in batches(path.read_bytes()):
            groups[durable] = groups.get(durable, 0) + size
        sizes += groups.values()
    return sizes
