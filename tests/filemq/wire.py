"""FileMQ v2 on the wire: one frame for each command, integers big-endian, as libfilemq 2.0 encodes them.

RFC 35 calls a path and a file name `string` (1 octet of length). libfilemq encodes both as `longstr` (4 octets), and so
does this module.

    encode(Ohai()) == bytes.fromhex("aaa301 06 46494c454d51 0002")
    decode(encode(Nom(5_000_000, 0))) == Nom(5_000_000, 0)

`decode` raises Foreign for a frame without the signature (to be discarded in silence) and Malformed for one whose
fields do not fit (a server answers RTFM). Octets behind the last field are ignored. Text is UTF-8; other octets survive
a decode and an encode, because they become lone surrogates as in os.fsdecode.
"""
from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, ClassVar

SIGNATURE = b"\xaa\xa3"
VERSION = 2
SHORT_MAX = 0xFF
LONG_MAX = 0xFFFF_FFFF


class Foreign(ValueError):
    """The frame does not begin with the signature."""


class Malformed(ValueError):
    """The frame has the signature, but an unknown command or a field that does not fit."""


class Operation(IntEnum):
    CREATE = 1
    DELETE = 2


class Kind(Enum):
    U8 = ">B"
    U16 = ">H"
    U64 = ">Q"
    STRING = "string"
    LONGSTR = "longstr"
    HASH = "hash"
    CHUNK = "chunk"


Layout = tuple[tuple[str, Kind], ...]


@dataclass(frozen=True)
class Command:
    """The base of all commands; LAYOUT lists the fields in the order of the wire."""

    ID: ClassVar[int]
    NAME: ClassVar[str]
    LAYOUT: ClassVar[Layout] = ()


@dataclass(frozen=True)
class Ohai(Command):
    ID, NAME = 1, "OHAI"
    LAYOUT = (("protocol", Kind.STRING), ("version", Kind.U16))
    protocol: str = "FILEMQ"
    version: int = VERSION


@dataclass(frozen=True)
class OhaiOk(Command):
    ID, NAME = 4, "OHAI-OK"


@dataclass(frozen=True)
class Icanhaz(Command):
    ID, NAME = 5, "ICANHAZ"
    LAYOUT = (("path", Kind.LONGSTR), ("options", Kind.HASH), ("cache", Kind.HASH))
    path: str
    options: dict[str, str] = field(default_factory=dict)
    cache: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class IcanhazOk(Command):
    ID, NAME = 6, "ICANHAZ-OK"


@dataclass(frozen=True)
class Nom(Command):
    ID, NAME = 7, "NOM"
    LAYOUT = (("credit", Kind.U64), ("sequence", Kind.U64))
    credit: int
    sequence: int


@dataclass(frozen=True)
class Cheezburger(Command):
    """`operation` is a number and no Operation, because a peer may send any octet."""

    ID, NAME = 8, "CHEEZBURGER"
    LAYOUT = (("sequence", Kind.U64), ("operation", Kind.U8), ("filename", Kind.LONGSTR), ("offset", Kind.U64),
              ("eof", Kind.U8), ("headers", Kind.HASH), ("chunk", Kind.CHUNK))
    sequence: int = 0
    operation: int = 0
    filename: str = ""
    offset: int = 0
    eof: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    chunk: bytes = b""


@dataclass(frozen=True)
class Hugz(Command):
    ID, NAME = 9, "HUGZ"


@dataclass(frozen=True)
class HugzOk(Command):
    ID, NAME = 10, "HUGZ-OK"


@dataclass(frozen=True)
class Kthxbai(Command):
    ID, NAME = 11, "KTHXBAI"


@dataclass(frozen=True)
class Srsly(Command):
    ID, NAME = 128, "SRSLY"
    LAYOUT = (("reason", Kind.STRING),)
    reason: str = ""


@dataclass(frozen=True)
class Rtfm(Command):
    ID, NAME = 129, "RTFM"
    LAYOUT = (("reason", Kind.STRING),)
    reason: str = ""


COMMANDS: tuple[type[Command], ...] = (
    Ohai, OhaiOk, Icanhaz, IcanhazOk, Nom, Cheezburger, Hugz, HugzOk, Kthxbai, Srsly, Rtfm,
)
BY_ID = {command.ID: command for command in COMMANDS}
BY_NAME = {command.NAME: command for command in COMMANDS}


def encode(command: Command) -> bytes:
    """Raises ValueError for a text that its length field cannot express, struct.error for such a number."""
    parts = [SIGNATURE, bytes([command.ID])]
    for name, kind in command.LAYOUT:
        parts.append(encode_field(kind, getattr(command, name)))
    return b"".join(parts)


def encode_field(kind: Kind, value: Any) -> bytes:
    if kind is Kind.STRING:
        return counted(">B", SHORT_MAX, to_octets(value))
    if kind is Kind.LONGSTR:
        return counted(">I", LONG_MAX, to_octets(value))
    if kind is Kind.CHUNK:
        return counted(">I", LONG_MAX, value)
    if kind is Kind.HASH:
        pairs = [encode_field(Kind.STRING, name) + encode_field(Kind.LONGSTR, text) for name, text in value.items()]
        return struct.pack(">I", len(pairs)) + b"".join(pairs)
    return struct.pack(kind.value, value)


def counted(length: str, limit: int, octets: bytes) -> bytes:
    if len(octets) > limit:
        raise ValueError(f"{len(octets)} octets; the field holds {limit}")
    return struct.pack(length, len(octets)) + octets


def to_octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class Reader:
    """Takes fields from a frame. Never allocates more than the frame has octets left."""

    def __init__(self, frame: bytes, position: int) -> None:
        self.frame, self.position = frame, position

    def take(self, count: int) -> bytes:
        octets = self.frame[self.position:self.position + count]
        if len(octets) != count:
            raise Malformed(f"a field of {count} octets at {self.position}, and {len(octets)} are left")
        self.position += count
        return octets

    def number(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def text(self, length: str) -> str:
        return self.take(self.number(length)).decode("utf-8", "surrogateescape")

    def field(self, kind: Kind) -> Any:
        if kind is Kind.STRING:
            return self.text(">B")
        if kind is Kind.LONGSTR:
            return self.text(">I")
        if kind is Kind.CHUNK:
            return self.take(self.number(">I"))
        if kind is Kind.HASH:
            pairs: dict[str, str] = {}
            for _ in range(self.number(">I")):
                name, value = self.text(">B"), self.text(">I")
                pairs.setdefault(name, value)
            return pairs
        return self.number(kind.value)


def decode(frame: bytes) -> Command:
    if frame[:2] != SIGNATURE:
        raise Foreign("no signature")
    if len(frame) < 3:
        raise Malformed("no command")
    command = BY_ID.get(frame[2])
    if command is None:
        raise Malformed(f"command {frame[2]} is unknown")
    reader = Reader(frame, 3)
    return command(**{name: reader.field(kind) for name, kind in command.LAYOUT})
