"""A FileMQ v2 client: subscribes to paths and writes their files to an inbox.

    client = Client("tcp://127.0.0.1:5670", Path("inbox"), ["/photos"])
    while not done: wait for client.socket up to client.wait_ms(), then client.step()

One thread drives it: `step` never blocks. What happened is in `events`: READY, SUBSCRIBED, FILE UPDATED, FILE DELETED,
FILE FOREIGN, FILE REFUSED, VIOLATION (the server breaks the protocol), RTFM, SRSLY, HUGZ-OK, DISCONNECT, ERROR. As a
program:

    python3 -m filemq.client ENDPOINT INBOX PATH... [--resync] [--heartbeat SECONDS] [--switch NAME]...

which prints its events, and obeys lines on its standard input: SUBSCRIBE PATH, RESTART, HUGZ and END.
"""
from __future__ import annotations

import time
from collections import deque
from enum import Enum
from pathlib import Path
from typing import Callable, Iterable, Iterator

import zmq

from . import hostile
from .events import Event
from .inbox import Inbox, Incoming, Refused
from .switches import ClientSwitch
from .wire import (Cheezburger, Command, Foreign, Hugz, HugzOk, Icanhaz, IcanhazOk, Kthxbai, Malformed, Nom, Ohai,
                   OhaiOk, Operation, Rtfm, Srsly, decode, encode)

CREDIT_SLICE = 1_000_000
CREDIT_MINIMUM = 4_000_001
SILENT_INTERVALS = 5
FRAMES_AT_ONCE = 1000
IDLE_MS = 1000
SCRIPTS = frozenset({
    ClientSwitch.NO_OHAI, ClientSwitch.WRONG_SIGNATURE, ClientSwitch.TRUNCATED, ClientSwitch.HUGE_LENGTHS,
    ClientSwitch.HUGE_CREDIT, ClientSwitch.DOTDOT_PATHS, ClientSwitch.FOREIGN_CACHE, ClientSwitch.SERVER_COMMANDS,
    ClientSwitch.MILLION_SUBSCRIPTIONS, ClientSwitch.MILLION_NOMS,
})


class State(Enum):
    GREETING = "OHAI is sent"
    READY = "OHAI-OK has come"
    ENDED = "the connection is closed, and stays so"


class Client:
    """With `resync`, each subscription asks for the files that the inbox does not have yet.

    `heartbeat_s` 0 sends no HUGZ and so never notices that the server is gone. Every connection subscribes anew.
    `repeats` is how many commands the switches million-* send.
    """

    def __init__(self, endpoint: str, inbox: Path, paths: Iterable[str] = (), *, resync: bool = False,
                 heartbeat_s: float = 0, reconnect_on_rtfm: bool = False, traversal_below: Path | None = None,
                 switches: Iterable[ClientSwitch] = (), repeats: int = hostile.MILLION,
                 context: zmq.Context[zmq.Socket[bytes]] | None = None,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.switches, self.repeats = frozenset(switches), repeats
        self.endpoint, self.resync, self.heartbeat_s = endpoint, resync, heartbeat_s
        self.reconnect_on_rtfm, self.clock = reconnect_on_rtfm, clock
        self.context = context or zmq.Context.instance()
        self.inbox = Inbox(inbox, self.switches, traversal_below)
        self.events: deque[Event] = deque()
        self.paths: list[str] = []
        self.incoming: Incoming | None = None
        self.skipped: str | None = None
        self.script: Iterator[bytes] | None = None
        self.unsent: bytes | None = None
        self.is_hostile = bool(self.switches & SCRIPTS)
        self.state: State = State.GREETING
        for path in paths:
            self.add_path(path)
        self.connect()

    # Connection

    def connect(self) -> None:
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.sndhwm = FRAMES_AT_ONCE
        self.socket.connect(self.endpoint)
        if ClientSwitch.NO_OHAI in self.switches:
            self.script = hostile.opening(self.switches)
        self.greet()

    def greet(self) -> None:
        """Begins a session. Everything that the server knew of the one before is gone."""
        self.state = State.GREETING
        self.credit = self.received = 0
        self.to_confirm: deque[str] = deque()
        self.awaited: str | None = None
        self.silent_intervals = 0
        self.beat_at = self.clock() + self.heartbeat_s
        self.skipped = None
        if ClientSwitch.NAME_IGNORED not in self.switches:
            self.abandon()
        if ClientSwitch.NO_OHAI not in self.switches:
            self.send(Ohai())

    def restart(self) -> None:
        """OHAI on the same connection, as a client may send it at any time."""
        self.greet()

    def reconnect(self) -> None:
        self.report("DISCONNECT")
        self.socket.close()
        self.connect()

    def close(self, farewell: bool = True) -> None:
        """With a farewell, KTHXBAI is sent first. Idempotent."""
        if self.state is State.ENDED:
            return
        if farewell:
            self.send(Kthxbai())
            self.socket.linger = 1000
        self.end()

    def end(self) -> None:
        self.state = State.ENDED
        self.abandon()
        self.socket.close()

    def fail(self, kind: str, *fields: str) -> None:
        """Ends the connection because of the server."""
        self.report(kind, *fields)
        self.report("DISCONNECT")
        self.close()

    def report(self, kind: str, *fields: str) -> None:
        self.events.append(Event(kind, fields))

    def poll_flags(self) -> int:
        return zmq.POLLIN | (zmq.POLLOUT if self.script else 0)

    def wait_ms(self) -> int:
        if not self.heartbeat_s:
            return IDLE_MS
        return max(0, min(IDLE_MS, int((self.beat_at - self.clock()) * 1000) + 1))

    def step(self) -> None:
        if self.state is State.ENDED:
            return
        self.play_script()
        for _ in range(FRAMES_AT_ONCE):
            try:
                frame = self.socket.recv_multipart(zmq.NOBLOCK)[0]
            except zmq.Again:
                break
            self.take(frame)
            if self.socket.closed:
                return
        if self.heartbeat_s and self.clock() >= self.beat_at:
            self.beat()

    def beat(self) -> None:
        self.silent_intervals += 1
        if self.silent_intervals >= SILENT_INTERVALS:
            self.reconnect()
            return
        self.beat_at = self.clock() + self.heartbeat_s
        if self.state is State.READY:
            self.send(Hugz())

    def play_script(self) -> None:
        """Sends the frames of a hostile client as fast as the socket takes them."""
        while self.script:
            if self.unsent is None:
                self.unsent = next(self.script, None)
            if self.unsent is None:
                self.script = None
                self.report("SCRIPT DONE")
                return
            try:
                self.socket.send(self.unsent, zmq.NOBLOCK)
            except zmq.Again:
                return
            self.unsent = None

    # Subscriptions

    def add_path(self, path: str) -> bool:
        if self.paths and ClientSwitch.SECOND_SUBSCRIBE in self.switches:
            self.report("ERROR", "no second subscription")
            return False
        if path not in self.paths:
            self.paths.append(path)
        return True

    def subscribe(self, path: str) -> None:
        if self.add_path(path) and self.state is State.READY:
            self.to_confirm.append(path)
            self.ask_next()

    def ask_next(self) -> None:
        """One ICANHAZ at a time, so that each ICANHAZ-OK belongs to a known path."""
        if self.awaited is None and self.to_confirm:
            self.awaited = path = self.to_confirm.popleft()
            cache = self.inbox.cache(path) if self.resync else {}
            self.send(Icanhaz(path, {"RESYNC": "1"} if self.resync else {}, cache))

    # Commands of the server

    def take(self, frame: bytes) -> None:
        try:
            command = decode(frame)
        except Foreign:
            return
        except Malformed as problem:
            self.fail("VIOLATION", "malformed", str(problem))
            return
        self.silent_intervals = 0
        self.beat_at = self.clock() + self.heartbeat_s
        if isinstance(command, Hugz):
            self.send(HugzOk())
        elif isinstance(command, (Rtfm, Srsly)):
            self.on_refusal(command)
        elif isinstance(command, Kthxbai):
            self.report("DISCONNECT")
            self.end()
        elif isinstance(command, OhaiOk):
            self.on_ohai_ok()
        elif isinstance(command, (Ohai, Icanhaz, Nom)):
            self.fail("VIOLATION", f"{command.NAME} is no command of a server")
        elif self.state is State.READY:
            self.on_command(command)

    def on_ohai_ok(self) -> None:
        if self.state is State.READY:
            return
        self.state = State.READY
        self.report("READY")
        self.to_confirm.extend(self.paths)
        if self.to_confirm:
            self.ask_next()
        else:
            self.all_confirmed()

    def on_command(self, command: Command) -> None:
        """IcanhazOk, Cheezburger and HugzOk. Before OHAI-OK they belong to the session before, and do not come here."""
        if isinstance(command, IcanhazOk) and self.awaited is not None:
            self.report("SUBSCRIBED", self.awaited)
            self.awaited = None
            self.ask_next()
            if self.awaited is None:
                self.all_confirmed()
        elif isinstance(command, Cheezburger):
            self.on_cheezburger(command)
        elif isinstance(command, HugzOk):
            self.report("HUGZ-OK")

    def all_confirmed(self) -> None:
        self.top_up()
        if self.is_hostile and self.script is None:
            self.script = hostile.script(self.switches, self.repeats)

    def on_refusal(self, command: Rtfm | Srsly) -> None:
        self.report(command.NAME, command.reason)
        if self.is_hostile:
            return
        if isinstance(command, Rtfm) and self.reconnect_on_rtfm:
            self.reconnect()
            return
        self.report("DISCONNECT")
        self.end()

    # Files

    def on_cheezburger(self, command: Cheezburger) -> None:
        size, leaks = len(command.chunk), ClientSwitch.CREDIT_LEAK in self.switches
        self.received += 1
        if self.awaited is not None and ClientSwitch.SUBSCRIBING in self.switches:
            self.fail("ERROR", "CHEEZBURGER while subscribing")
            return
        if size > self.credit and not self.is_hostile and not leaks:
            self.fail("VIOLATION", "beyond credit", command.filename, f"{size} > {self.credit}")
            return
        taken = self.is_wanted(command) and self.handle(command)
        if taken or not leaks:
            self.credit = max(0, self.credit - size)
        self.top_up()

    def is_wanted(self, command: Cheezburger) -> bool:
        if any(command.filename.startswith(path) for path in self.paths):
            return True
        if command.filename != self.skipped:
            self.report("FILE FOREIGN", command.filename)
        self.skipped = None if is_last(command) else command.filename
        return False

    def handle(self, command: Cheezburger) -> bool:
        """Whether the inbox has taken the chunk or the deletion."""
        try:
            if command.operation == Operation.CREATE:
                return self.write(command)
            self.abandon_other(command.filename)
            if command.operation != Operation.DELETE:
                self.report("VIOLATION", "operation", command.filename, str(command.operation))
            elif self.inbox.delete(command.filename):
                self.report("FILE DELETED", str(self.inbox.root), command.filename)
            return True
        except (Refused, OSError, ValueError) as problem:
            self.refuse_file(command, "FILE REFUSED", str(problem))
            return False

    def write(self, command: Cheezburger) -> bool:
        name = command.filename
        self.abandon_other(name)
        if name == self.skipped and command.offset:
            self.skipped = None if is_last(command) else name
            return False
        self.skipped = None
        if self.incoming and command.offset == 0 and self.incoming.size and not self.is_lax():
            self.abandon()  # The server begins the file anew.
        if self.incoming is None:
            if command.offset and not command.chunk and command.eof:
                self.report("FILE STRAY", name)
                return True
            self.incoming = self.inbox.begin(name)
        if command.offset != self.incoming.size and not self.is_lax():
            self.refuse_file(command, "VIOLATION", f"offset {command.offset} after {self.incoming.size}")
            return True
        self.incoming.write(command.chunk, command.offset)
        if not command.chunk or (command.eof and ClientSwitch.EOF_IGNORED not in self.switches):
            finished, self.incoming = self.incoming, None
            finished.finish()
            self.report("FILE UPDATED", str(self.inbox.root), finished.name)
        return True

    def is_lax(self) -> bool:
        return bool(self.switches & {ClientSwitch.OFFSET_UNCHECKED, ClientSwitch.NAME_IGNORED})

    def refuse_file(self, command: Cheezburger, kind: str, reason: str) -> None:
        """Gives the file up, and skips what else comes of it. One report for each file."""
        self.abandon()
        if command.filename != self.skipped:
            self.report(kind, command.filename, reason)
        self.skipped = None if is_last(command) else command.filename

    def abandon_other(self, name: str) -> None:
        """A file ends when another name comes, because the chunks of one file are consecutive."""
        if self.incoming and self.incoming.name != name and ClientSwitch.NAME_IGNORED not in self.switches:
            self.report("VIOLATION", "not ended", self.incoming.name)
            self.abandon()

    def abandon(self) -> None:
        if self.incoming:
            self.incoming.abandon()
            self.incoming = None

    # Sending

    def top_up(self) -> None:
        """Grants slices of credit up to the minimum: 5,000,000 first, then what was used."""
        if self.credit >= CREDIT_MINIMUM or ClientSwitch.NO_CREDIT in self.switches:
            return
        slices = -(-(CREDIT_MINIMUM - self.credit) // CREDIT_SLICE)
        self.credit += slices * CREDIT_SLICE
        self.send(Nom(slices * CREDIT_SLICE, self.received))

    def send(self, command: Command) -> None:
        try:
            self.socket.send(encode(command), zmq.NOBLOCK)
        except zmq.Again:
            self.report("ERROR", f"{command.NAME} is lost: the server does not read")


def is_last(command: Cheezburger) -> bool:
    return command.operation == Operation.DELETE or bool(command.eof) or not command.chunk


if __name__ == "__main__":
    from .cli import client_main
    client_main()
