"""content: makes the files of a case, of random bytes that do not compress, and compares copies with them."""

import functools
import hashlib
import os
import shutil

from harness.trial import Failed

MIB = 1 << 20
FILE_BYTES = 1024
FILES_A_FOLDER = 1000
CHANGED_RUNS = 10
AN_HOUR_S = 3600


def write_random(file, size):
    for at in range(0, size, MIB):
        file.write(os.urandom(min(MIB, size - at)))


def touch_memory(path, size):
    """Writes a file, and removes it. In a virtual machine, memory that was never used costs its first user several
    times the time of a copy."""
    with open(path, "wb") as file:
        for _ in range(0, size, MIB):
            file.write(bytes(MIB))
    path.unlink()


def make_file(path, size):
    """A folder with one file. Returns the file's path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        write_random(file, size)
    return path


def make_tree(folder, count):
    """A folder with so many small files."""
    for number in range(count):
        inner = folder / f"{number // FILES_A_FOLDER:03d}"
        if number % FILES_A_FOLDER == 0:
            inner.mkdir(parents=True)
        (inner / f"{number:06d}").write_bytes(os.urandom(FILE_BYTES))
    return folder


def make_earlier_version(source, copy):
    """A copy that is an hour older, and in which ten runs, of a tenth of a percent each, are different. Returns the
    number of different bytes."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, copy)
    size = source.stat().st_size
    run = size // 1024
    with open(copy, "r+b") as file:
        for number in range(CHANGED_RUNS):
            # Not aligned to any block.
            file.seek(number * (size // CHANGED_RUNS) + size // 37)
            write_random(file, run)
    earlier_s = source.stat().st_mtime - AN_HOUR_S
    os.utime(copy, (earlier_s, earlier_s))
    return CHANGED_RUNS * run


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def digest(path):
    """The digest of a file, or of all names and contents below a folder."""
    total = hashlib.sha256()
    if path.is_file():
        add(total, path)
        return total.hexdigest()
    for folder, inner, names in os.walk(path):
        inner.sort()
        for name in sorted(names):
            whole = os.path.join(folder, name)
            total.update(os.path.relpath(whole, path).encode() + b"\0")
            add(total, whole)
    return total.hexdigest()


def add(total, path):
    with open(path, "rb") as file:
        total.update(hashlib.file_digest(file, "sha256").digest())


# A source does not change during a run.
digest_of_source = functools.cache(digest)


def check(source, copy):
    if digest(copy) != digest_of_source(source):
        raise Failed("the copy differs from its source")
