"""What a peer reports: one event, one line, its fields separated by tabs and without control characters."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    kind: str
    fields: tuple[str, ...] = ()

    def line(self) -> str:
        return "\t".join([self.kind, *map(printable, self.fields)])


def printable(text: str) -> str:
    """Characters that would break the line, and octets that are no UTF-8, become escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
