"""The directory that a client writes files to. A file appears under its name only when it is whole.

A virtual name such as `/photos/a.jpg` becomes `INBOX/photos/a.jpg`. A name that could lead elsewhere is refused. The
switches `in-place`, `traversal` and `offset-unchecked` take these guarantees away.
"""
from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from .switches import ClientSwitch
from .tree import sha1_hex
from .wire import SHORT_MAX, to_octets

PART = ".filemq-part"
COMPONENT_MAX = 255


class Refused(Exception):
    """The inbox does not take the file, or this chunk of it; the text says why."""


class Incoming:
    """One file that is being written."""

    def __init__(self, name: str, target: Path, written_to: Path, in_place: bool) -> None:
        self.name, self.target, self.written_to, self.in_place = name, target, written_to, in_place
        mode = "r+b" if in_place and written_to.exists() else "wb"
        self.file: IO[bytes] = open(written_to, mode)
        self.size = 0

    def write(self, chunk: bytes, offset: int) -> None:
        self.file.seek(offset)
        self.file.write(chunk)
        self.size = max(self.size, offset + len(chunk))

    def finish(self) -> None:
        self.file.close()
        if not self.in_place:
            os.replace(self.written_to, self.target)

    def abandon(self) -> None:
        self.file.close()
        if not self.in_place:
            self.written_to.unlink(missing_ok=True)


class Inbox:
    def __init__(self, root: Path, switches: frozenset[ClientSwitch], traversal_below: Path | None = None) -> None:
        if ClientSwitch.TRAVERSAL in switches and traversal_below is None:
            raise ValueError("the switch traversal needs a directory that it may not leave")
        self.root, self.switches, self.traversal_below = root, switches, traversal_below
        root.mkdir(parents=True, exist_ok=True)

    def place(self, name: str) -> Path:
        """The path of a virtual name; raises Refused for one that leads out of the inbox."""
        if ClientSwitch.TRAVERSAL in self.switches and self.traversal_below:
            path, limit = Path(os.path.normpath(f"{self.root}/{name}")), self.traversal_below
        else:
            check_name(name)
            path, limit = self.root / name[1:], self.root
        if not path.parent.resolve().is_relative_to(limit.resolve()):
            raise Refused("the name leads elsewhere")
        return path

    def begin(self, name: str) -> Incoming:
        target, in_place = self.place(name), ClientSwitch.IN_PLACE in self.switches
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                raise Refused("a directory has this name")
            return Incoming(name, target, target if in_place else self.root / PART, in_place)
        except OSError as problem:
            raise Refused(problem.strerror or "it cannot be written") from problem

    def delete(self, name: str) -> bool:
        """Whether the file was there."""
        try:
            self.place(name).unlink()
        except FileNotFoundError:
            return False
        except OSError as problem:
            raise Refused(problem.strerror or "it cannot be deleted") from problem
        return True

    def cache(self, path: str) -> dict[str, str]:
        """The digests of the files below a virtual path, for RESYNC. Names that a hash cannot hold are left out."""
        relative, upper = ClientSwitch.RELATIVE_CACHE in self.switches, ClientSwitch.UPPER_CASE in self.switches
        cache = {}
        for folder, _, names in os.walk(self.root):
            for found in names:
                file = Path(folder, found)
                name = "/" + file.relative_to(self.root).as_posix()
                if name == f"/{PART}" or not name.startswith(path):
                    continue
                # Relative to a path that is only the beginning of a name, the rest would not mean this file.
                if relative and name.startswith(path.rstrip("/") + "/"):
                    name = name[len(path.rstrip("/")) + 1:]
                if len(to_octets(name)) <= SHORT_MAX:
                    digest = sha1_hex(file)
                    cache[name] = digest.upper() if upper else digest
        return cache


def check_name(name: str) -> None:
    if not name.startswith("/") or "\0" in name or name == f"/{PART}":
        raise Refused("no name for a file")
    for component in name[1:].split("/"):
        if component in ("", ".", ".."):
            raise Refused("the name has an empty component, `.` or `..`")
        if len(to_octets(component)) > COMPONENT_MAX:
            raise Refused("the name is too long")
