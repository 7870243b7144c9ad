"""The frames of hostile peers. A server spoils what it would have sent; a client plays a script."""
from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Iterator

from .switches import ClientSwitch, ServerSwitch
from .wire import SIGNATURE, Cheezburger, Command, Icanhaz, IcanhazOk, Nom, Ohai, OhaiOk, Operation, Rtfm, encode

OTHER_SIGNATURE = b"\xaa\xa0"
LIE = 1 << 40
U64_MAX = (1 << 64) - 1
MILLION = 1_000_000
PAYLOAD = b"hostile\n"
HUGE = b"\xff\xff\xff\xff"
LONG_COMPONENT = "n" * 300
DEEP = "d/" * 3000 + "x"


def spoil(command: Cheezburger, switches: frozenset[ServerSwitch]) -> list[bytes]:
    """The frames that a server with these switches sends in place of the command."""
    if ServerSwitch.NEVER_ENDS in switches and command.eof:
        if not command.chunk:
            return []
        command = replace(command, eof=0)
    if ServerSwitch.OFFSET_LIE in switches and command.offset:
        command = replace(command, offset=command.offset + LIE)
    frame = encode(command)
    if ServerSwitch.TRUNCATED in switches:
        return [frame[:len(frame) // 2]]
    if ServerSwitch.HUGE_LENGTHS in switches:
        return huge_burgers()
    if ServerSwitch.WRONG_SIGNATURE in switches:
        return [OTHER_SIGNATURE + frame[2:], frame]
    return [frame]


def huge_burgers() -> list[bytes]:
    begin = SIGNATURE + struct.pack(">BQB", Cheezburger.ID, 0, Operation.CREATE)
    named = begin + struct.pack(">I", 2) + b"/x" + struct.pack(">QB", 0, 0)
    name = begin + HUGE + b"/x"
    headers = named + HUGE + b"\x01a" + struct.pack(">I", 1) + b"b"
    header = named + struct.pack(">I", 1) + b"\x01a" + HUGE
    chunk = named + struct.pack(">I", 0) + HUGE + PAYLOAD
    return [name, headers, header, chunk]


def hostile_names(alias: str, base: Path, switches: frozenset[ServerSwitch]) -> list[str]:
    """`base` is the directory beside which an inbox that follows such a name finds files named `escaped-N`."""
    alias = alias.rstrip("/")
    names = []
    if ServerSwitch.DOTDOT_NAMES in switches:
        names += ["/../escaped-1", f"{alias}/../../escaped-2", f"{alias}/a/../../../escaped-3", "../escaped-4",
                  f"{alias}/b/../inside", f"{alias}/..", f"{alias}/../..", f"{alias}/../{base.name}"]
    if ServerSwitch.ABSOLUTE_NAMES in switches:
        names += [f"/{base}/escaped-5", f"{alias}/{base}/escaped-6", f"{base}/escaped-7"]
    if ServerSwitch.ODD_NAMES in switches:
        names += ["", "/", ".", "/.", alias, f"{alias}/", f"{alias}//", f"{alias}/a//b", "no-slash", f"{alias}/a\0b",
                  f"{alias}/\udcff\udcfe", f"{alias}/{LONG_COMPONENT}", f"{alias}/{DEEP}", f"{alias}/line\nbreak"]
    return names


def prelude(alias: str, base: Path, switches: frozenset[ServerSwitch]) -> list[Cheezburger]:
    """What a hostile server sends before each file. Sequence numbers are filled in by the sender."""
    commands = []
    for name in hostile_names(alias, base, switches):
        whole = Cheezburger(operation=Operation.CREATE, filename=name, chunk=PAYLOAD)
        commands += [whole, replace(whole, offset=len(PAYLOAD), eof=1, chunk=b"")]
    if ServerSwitch.DELETE_ROOT in switches:
        root = alias.rstrip("/")
        for name in ("/", alias, f"{root}/", f"{root}/..", f"{root}/../..", "/../victim", f"{root}/../../victim"):
            commands.append(Cheezburger(operation=Operation.DELETE, filename=name))
    if ServerSwitch.BAD_OPERATION in switches:
        name = alias.rstrip("/") + "/bad-operation"
        commands += [Cheezburger(operation=operation, filename=name, chunk=PAYLOAD) for operation in (0, 3, 255)]
    return commands


def opening(switches: frozenset[ClientSwitch]) -> Iterator[bytes]:
    """What a hostile client sends in place of OHAI."""
    if ClientSwitch.NO_OHAI in switches:
        yield encode(Icanhaz("/"))
        yield encode(Nom(MILLION, 0))


def script(switches: frozenset[ClientSwitch], repeats: int) -> Iterator[bytes]:
    """What a hostile client sends once its subscriptions are confirmed."""
    if ClientSwitch.WRONG_SIGNATURE in switches:
        yield from (b"", SIGNATURE[:1], OTHER_SIGNATURE + encode(Nom(MILLION, 0))[2:], b"HELLO", b"\0" * 1000)
    if ClientSwitch.HUGE_CREDIT in switches:
        yield from (encode(Nom(U64_MAX, 0)), encode(Nom(U64_MAX, U64_MAX)))
    if ClientSwitch.FOREIGN_CACHE in switches:
        names = {"/elsewhere/x": "0" * 40, "../x": "0" * 40, "": "", "/": "no digest", "x": "F" * 1000}
        yield encode(Icanhaz("/", {"RESYNC": "1", "UNKNOWN": "option"}, names))
    if ClientSwitch.DOTDOT_PATHS in switches:
        for path in ("/..", "/../../etc", "//etc", "relative", "", "/a\0b", "/" + "p" * 100_000):
            yield encode(Icanhaz(path, {"RESYNC": "1"}))
    if ClientSwitch.SERVER_COMMANDS in switches:
        burger = Cheezburger(operation=Operation.CREATE, filename="/x", eof=1, chunk=PAYLOAD)
        yield from again_and_again(encode(command) for command in (OhaiOk(), IcanhazOk(), burger, Rtfm("you")))
    if ClientSwitch.TRUNCATED in switches:
        commands: tuple[Command, ...] = (Ohai(), Icanhaz("/", {"RESYNC": "1"}, {"a": "b"}), Nom(1, 2))
        for frame in map(encode, commands):
            yield from again_and_again(frame[:cut] for cut in range(2, len(frame)))
    if ClientSwitch.HUGE_LENGTHS in switches:
        yield from again_and_again(huge_requests())
    if ClientSwitch.MILLION_SUBSCRIPTIONS in switches:
        yield from (encode(Icanhaz(f"/{number}")) for number in range(repeats))
    if ClientSwitch.MILLION_NOMS in switches:
        yield from (encode(Nom(0, number)) for number in range(repeats))


def again_and_again(frames: Iterator[bytes] | list[bytes]) -> Iterator[bytes]:
    """Each frame in a session of its own, because a server ends the session after a wrong one."""
    for frame in frames:
        yield encode(Ohai())
        yield frame


def huge_requests() -> list[bytes]:
    icanhaz = SIGNATURE + bytes([Icanhaz.ID])
    rooted = icanhaz + struct.pack(">I", 1) + b"/"
    path = icanhaz + HUGE + b"/"
    options = rooted + HUGE + b"\x01a" + struct.pack(">I", 1) + b"b"
    option = rooted + struct.pack(">I", 1) + b"\x01a" + HUGE
    cache = rooted + struct.pack(">I", 0) + HUGE
    protocol = SIGNATURE + bytes([Ohai.ID]) + b"\xffFILEMQ\0\2"
    return [path, options, option, cache, protocol]
