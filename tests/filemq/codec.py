"""Checks of wire.py: each vector, every cut of every vector, and the limits of an encoder."""
from __future__ import annotations

import struct
from functools import partial
from typing import Callable

from . import vectors
from .place import Failure, expect
from .vectors import Vector
from .wire import SIGNATURE, Cheezburger, Command, Foreign, Icanhaz, Malformed, Nom, Srsly, decode, encode


def outcome(frame: bytes) -> Command | str:
    try:
        return decode(frame)
    except Malformed:
        return "malformed"
    except Foreign:
        return "foreign"


def is_as_spelt(vector: Vector) -> None:
    found = outcome(vector.frame)
    expect(found == (vector.command or vector.kind), f"it decodes to {found}")
    if vector.kind == "exact" and vector.command:
        expect(encode(vector.command) == vector.frame, f"it is encoded as {encode(vector.command).hex(' ')}")


def every_cut_is_malformed() -> None:
    for vector in vectors.load():
        if vector.kind == "exact":
            for cut in range(len(SIGNATURE), len(vector.frame)):
                expect(outcome(vector.frame[:cut]) == "malformed", f"{vector.name}, {cut} octets")


def octets_that_are_no_utf_8_survive() -> None:
    frame = encode(Cheezburger(filename="/a")).replace(b"/a", b"/\xff")
    expect(encode(decode(frame)) == frame, "the file's name has changed")


def too_much_is_refused() -> None:
    def refuses(command: Command) -> None:
        try:
            encode(command)
        except (ValueError, struct.error):
            return
        raise Failure(f"{command.NAME} was encoded")

    refuses(Srsly("x" * 256))
    refuses(Icanhaz("/", {}, {"x" * 256: ""}))
    refuses(Nom(1 << 64, 0))
    refuses(Nom(-1, 0))
    encode(Srsly("x" * 255))


CHECKS: dict[str, Callable[[], None]] = {
    **{f"vector {vector.name}": partial(is_as_spelt, vector) for vector in vectors.load()},
    "every cut is malformed": every_cut_is_malformed,
    "octets that are no UTF-8 survive": octets_that_are_no_utf_8_survive,
    "too much is refused": too_much_is_refused,
}
