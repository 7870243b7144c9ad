"""Reads vectors.txt: frames spelt out by hand, with the command that each one means."""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .wire import BY_NAME, Command

FILE = Path(__file__).with_name("vectors.txt")
WITH_FIELDS = ("exact", "decode")
KINDS = (*WITH_FIELDS, "malformed", "foreign")


@dataclass(frozen=True)
class Vector:
    kind: str
    name: str
    frame: bytes
    command: Command | None


def read(text: str) -> list[Vector]:
    blocks = [[line for line in block.splitlines() if not line.startswith("#")] for block in text.split("\n\n")]
    return [parse(block) for block in blocks if block]


def parse(lines: list[str]) -> Vector:
    kind, name = lines.pop(0).split()
    if kind not in KINDS:
        raise ValueError(f"{name}: the kind {kind} is unknown")
    command = read_command(lines.pop(0)) if kind in WITH_FIELDS else None
    return Vector(kind, name, bytes.fromhex("".join(line.partition(";")[0] for line in lines)), command)


def read_command(line: str) -> Command:
    name, _, fields = line.partition(" ")
    values = json.loads(fields)
    if "chunk" in values:
        values["chunk"] = bytes.fromhex(values["chunk"])
    return BY_NAME[name](**values)


def load() -> list[Vector]:
    return read(FILE.read_text())
