"""What a server publishes: a directory below an alias, and the changes between two looks at it.

A file counts as stable, and is published, when its last change is old enough. A file `NAME.ln` that contains a path is
published as `NAME` with the contents of that path.
"""
from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from .wire import Operation

LINK_SUFFIX = ".ln"
LINK_MAX = 255
NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Entry:
    """A file at one moment. Two entries of a name that differ are a change."""

    source: Path
    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True)
class Patch:
    """A change that subscribers hear of: `name` is the virtual path."""

    operation: Operation
    name: str
    source: Path


def virtual(alias: str, relative: str) -> str:
    return f"{alias.rstrip('/')}/{relative}"


class Mount:
    def __init__(self, location: Path, alias: str, coarse: bool = False) -> None:
        if not alias.startswith("/"):
            raise ValueError(f"the alias {alias} does not begin with a slash")
        self.location, self.alias, self.coarse = location, alias, coarse
        self.known: dict[str, Entry] = {}

    def refresh(self, is_stable: Callable[[Entry], bool]) -> list[Patch]:
        """Looks at the directory; returns the changes since the last look. A file that is not stable yet waits."""
        found, patches, known = self.look(), [], {}
        for name, entry in sorted(found.items()):
            before = self.known.get(name)
            if before == entry:
                known[name] = entry
            elif is_stable(entry):
                known[name] = entry
                patches.append(Patch(Operation.CREATE, name, entry.source))
            elif before:
                known[name] = before
        gone = sorted(self.known.keys() - found.keys())
        patches += [Patch(Operation.DELETE, name, self.known[name].source) for name in gone]
        self.known = known
        return patches

    def look(self) -> dict[str, Entry]:
        entries = {}
        for folder, _, names in os.walk(self.location):
            for name in names:
                path = Path(folder, name)
                relative, source = path.relative_to(self.location).as_posix(), path
                if name.endswith(LINK_SUFFIX) and (target := link_target(path)):
                    relative, source = relative.removesuffix(LINK_SUFFIX), target
                entry = self.entry(source)
                if entry:
                    entries[virtual(self.alias, relative)] = entry
        return entries

    def entry(self, source: Path) -> Entry | None:
        try:
            status = source.stat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        if self.coarse:
            return Entry(source, status.st_size, status.st_mtime_ns // NS_PER_S * NS_PER_S, 0)
        return Entry(source, status.st_size, status.st_mtime_ns, status.st_ino)


def link_target(path: Path) -> Path | None:
    try:
        with path.open("rb") as file:
            line = file.readline(LINK_MAX).rstrip(b"\n")
    except OSError:
        return None
    return Path(os.fsdecode(line)) if line and b"\0" not in line else None


def sha1_hex(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest()
