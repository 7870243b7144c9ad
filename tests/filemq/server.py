"""A FileMQ v2 server: publishes directories below aliases.

    server = Server("tcp://127.0.0.1:*", [Mount(Path("photos"), "/photos")])
    while not done: wait for server.socket up to server.wait_ms(), then server.step()

One thread drives it: `step` never blocks. `scan` looks at the directories at once; with `poll_s`, `step` does so by
itself. What happened is in `events`. As a program:

    python3 -m filemq.server ENDPOINT LOCATION=ALIAS... [--poll SECONDS] [--stable SECONDS] [--switch NAME]...

which prints `READY endpoint` and then its events, and obeys lines on its standard input: SCAN, PUBLISH LOCATION=ALIAS,
HUGZ, KTHXBAI, RTFM REASON and SRSLY REASON (sent to all clients), and END.
"""
from __future__ import annotations

import itertools
import os
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Callable, Iterable

import zmq

from . import hostile
from .events import Event
from .switches import ServerSwitch
from .tree import Mount, NS_PER_S, Entry, Patch, sha1_hex
from .wire import (VERSION, Cheezburger, Command, Foreign, Hugz, HugzOk, Icanhaz, IcanhazOk, Kthxbai, Malformed, Nom,
                   Ohai, OhaiOk, Operation, Rtfm, Srsly, decode, encode)

CHUNK_BYTES = 1_000_000
SMALL_CHUNK_BYTES = 1_000
# More than the credit that a client of libfilemq ever grants.
EXCESSIVE_CHUNK_BYTES = 8_000_000
# Chunks for one client, before the next client's turn and before commands are read.
CHUNKS_AT_ONCE = 4
FRAMES_AT_ONCE = 1000
SUBSCRIPTIONS_MAX = 10_000
CREDIT_MAX = (1 << 64) - 1
# How often a server in the livelock sends its last message, and how many of them may wait.
LIVELOCK_MS = 1
FLOOD_HWM = 16
FLOODS = frozenset({ServerSwitch.LIVELOCK, ServerSwitch.BEYOND_CREDIT})


class Aborted(Exception):
    """The server has ended as libfilemq would: with a failed assertion."""


@dataclass
class Transfer:
    """A file on its way. `ahead` is read and not sent yet."""

    name: str
    file: BinaryIO
    offset: int = 0
    ahead: bytes = b""


@dataclass
class Session:
    """What the server knows of one client, from its OHAI on."""

    identity: bytes
    alive_at: float
    refused: bool = False
    subscriptions: dict[str, None] = field(default_factory=dict)
    credit: int = 0
    sequence: int = 0
    queue: dict[str, Patch] = field(default_factory=dict)
    transfer: Transfer | None = None
    stray_due: bool = False


class Server:
    """`deny` lists paths whose subscription is refused with SRSLY, `poll_s` None means that only scan() looks."""

    def __init__(self, endpoint: str, mounts: Iterable[Mount] = (), *, poll_s: float | None = 1.0,
                 stable_s: float = 1.0, client_timeout_s: float = 60.0, deny: Iterable[str] = (),
                 switches: Iterable[ServerSwitch] = (), context: zmq.Context[zmq.Socket[bytes]] | None = None,
                 clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self.switches = frozenset(switches)
        self.poll_s, self.stable_s, self.client_timeout_s, self.deny = poll_s, stable_s, client_timeout_s, tuple(deny)
        self.clock, self.wall = clock, wall
        self.events: deque[Event] = deque()
        self.sessions: dict[bytes, Session] = {}
        self.mounts: list[Mount] = []
        self.last = Cheezburger()
        self.stuck: Session | None = None
        self.busy = False
        self.scan_at = clock() + (poll_s or 0)
        self.chunk_bytes = chunk_bytes(self.switches)
        self.socket = (context or zmq.Context.instance()).socket(zmq.ROUTER)
        self.socket.linger = 0
        if self.switches & FLOODS:
            self.socket.sndhwm = FLOOD_HWM
        else:
            # Credit bounds what is sent, so that the high-water mark need not drop anything.
            self.socket.sndhwm = 0
            self.socket.router_mandatory = 1
        self.socket.bind(endpoint)
        self.endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
        for mount in mounts:
            self.publish(mount)

    def publish(self, mount: Mount) -> None:
        """Files that exist already are known from here on, and go only to subscribers that ask for RESYNC."""
        mount.coarse = ServerSwitch.MTIME_SECONDS in self.switches
        mount.refresh(self.is_stable)
        self.mounts.append(mount)

    def poll_flags(self) -> int:
        return 0 if self.stuck else zmq.POLLIN

    def wait_ms(self) -> int:
        """How long the caller may wait for the socket before the next step."""
        if self.busy:
            return 0
        if self.stuck:
            return LIVELOCK_MS
        return 1000 if self.poll_s is None else max(0, min(1000, int((self.scan_at - self.clock()) * 1000) + 1))

    def step(self) -> None:
        if self.stuck:
            self.send(self.stuck.identity, encode(self.last))
            return
        if self.poll_s is not None and self.clock() >= self.scan_at:
            self.scan()
        for _ in range(FRAMES_AT_ONCE):
            try:
                parts = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if len(parts) > 1:
                self.take(parts[0], parts[1])
        self.expire()
        self.dispatch()

    def close(self) -> None:
        for identity in list(self.sessions):
            self.forget(identity)
        self.socket.close()

    def tell_all(self, command: Command) -> None:
        """Sends HUGZ, or a command that ends the sessions: KTHXBAI, RTFM or SRSLY."""
        for identity in list(self.sessions):
            self.reply(identity, command)
            if not isinstance(command, Hugz):
                self.forget(identity)

    def report(self, kind: str, identity: bytes, *fields: str) -> None:
        self.events.append(Event(kind, (identity.hex(), *fields)))

    # Commands of clients

    def take(self, identity: bytes, frame: bytes) -> None:
        session = self.sessions.get(identity)
        if session:
            session.alive_at = self.clock()
        try:
            command = decode(frame)
        except Foreign:
            return
        except Malformed as problem:
            if not (session and session.refused):
                self.explain(identity, str(problem))
            return
        if isinstance(command, Ohai):
            self.on_ohai(identity, command)
        elif session is None:
            self.explain(identity, f"{command.NAME} before OHAI")
        elif not session.refused:
            self.on_command(session, command)

    def on_ohai(self, identity: bytes, command: Ohai) -> None:
        self.forget(identity)
        if (command.protocol, command.version) != ("FILEMQ", VERSION):
            self.explain(identity, "this server speaks FILEMQ version 2")
            return
        self.sessions[identity] = session = Session(identity, self.clock())
        self.report("OHAI", identity)
        if ServerSwitch.REFUSE_OHAI in self.switches:
            self.refuse(session, "no access")
        else:
            self.reply(identity, OhaiOk())

    def on_command(self, session: Session, command: Command) -> None:
        if isinstance(command, Icanhaz):
            self.on_icanhaz(session, command)
        elif isinstance(command, Nom):
            session.credit = min(CREDIT_MAX, session.credit + command.credit)
            session.stray_due = True
        elif isinstance(command, Hugz):
            self.reply(session.identity, HugzOk())
        elif isinstance(command, Kthxbai):
            self.report("KTHXBAI", session.identity)
            self.forget(session.identity)
        elif isinstance(command, HugzOk):
            self.report("HUGZ-OK", session.identity)
        else:
            self.explain(session.identity, f"{command.NAME} is no command of a client")

    def on_icanhaz(self, session: Session, command: Icanhaz) -> None:
        again = bool(session.subscriptions) and ServerSwitch.RTFM_SECOND_ICANHAZ in self.switches
        if again or not command.path.startswith("/"):
            self.explain(session.identity, "one subscription is enough" if again else "the path begins with no slash")
        elif command.path.startswith(self.deny):
            self.refuse(session, "no access to this path")
        elif len(session.subscriptions) == SUBSCRIPTIONS_MAX and command.path not in session.subscriptions:
            self.refuse(session, "too many subscriptions")
        else:
            session.subscriptions[command.path] = None
            self.report("ICANHAZ", session.identity, command.path, f"cache={len(command.cache)}")
            self.reply(session.identity, IcanhazOk())
            if command.options.get("RESYNC") == "1" and ServerSwitch.NO_RESYNC not in self.switches:
                self.resync(session, command)

    def resync(self, session: Session, command: Icanhaz) -> None:
        cache = {} if ServerSwitch.CACHE_IGNORED in self.switches else absolute(command.path, command.cache)
        for mount in self.mounts:
            for name, entry in sorted(mount.known.items()):
                if name.startswith(command.path) and not is_cached(entry, cache.get(name)):
                    session.queue[name] = Patch(Operation.CREATE, name, entry.source)

    def explain(self, identity: bytes, reason: str) -> None:
        """RTFM ends the session."""
        self.report("RTFM", identity, reason)
        self.reply(identity, Rtfm(reason))
        self.forget(identity)

    def refuse(self, session: Session, reason: str) -> None:
        """SRSLY: whatever this client still sends is discarded, until it begins anew."""
        self.report("SRSLY", session.identity, reason)
        self.reply(session.identity, Srsly(reason))
        self.stop(session)
        session.refused = True

    def stop(self, session: Session) -> None:
        session.queue.clear()
        session.subscriptions.clear()
        if session.transfer:
            session.transfer.file.close()
            session.transfer = None

    def forget(self, identity: bytes) -> None:
        session = self.sessions.pop(identity, None)
        if session:
            self.stop(session)

    def expire(self) -> None:
        late = self.clock() - self.client_timeout_s
        for identity in [identity for identity, session in self.sessions.items() if session.alive_at < late]:
            self.report("SILENT", identity)
            self.forget(identity)

    # Changes of files

    def is_stable(self, entry: Entry) -> bool:
        return self.wall() - entry.mtime_ns / NS_PER_S >= self.stable_s

    def scan(self) -> None:
        for mount in self.mounts:
            for patch in mount.refresh(self.is_stable):
                for session in self.sessions.values():
                    if self.wants(session, mount, patch.name):
                        # A change that waits is replaced, and goes to the end.
                        session.queue.pop(patch.name, None)
                        session.queue[patch.name] = patch
        self.scan_at = self.clock() + (self.poll_s or 0)
        self.dispatch()

    def wants(self, session: Session, mount: Mount, name: str) -> bool:
        for path in session.subscriptions:
            found = self.mount_of(path)
            if name.startswith(path) or (ServerSwitch.EVERYTHING_TO_ALL in self.switches and found is mount):
                return True
            if ServerSwitch.FIRST_MOUNT in self.switches and found is None and mount is self.mounts[0]:
                return True
        return False

    def mount_of(self, path: str) -> Mount | None:
        above = [mount for mount in self.mounts if path.startswith(mount.alias)]
        return max(above, key=lambda mount: len(mount.alias)) if above else None

    # Chunks

    def dispatch(self) -> None:
        self.busy = False
        for session in list(self.sessions.values()):
            for count in itertools.count():
                if self.stuck or not self.send_next(session):
                    break
                # libfilemq sends as long as there is credit, which is how it comes to its livelock.
                if count == CHUNKS_AT_ONCE and ServerSwitch.LIVELOCK not in self.switches:
                    self.busy = True
                    break

    def send_next(self, session: Session) -> bool:
        """Sends the next chunk or deletion. False if there is none, or no credit for it."""
        if self.sessions.get(session.identity) is not session:
            return False
        if session.transfer:
            return self.send_chunk(session, session.transfer)
        if not session.queue:
            if session.stray_due and ServerSwitch.STRAY_AT_END in self.switches:
                self.send(session.identity, encode(self.last))
            session.stray_due = False
            return False
        name = next(iter(session.queue))
        self.begin(session, session.queue.pop(name))
        return True

    def begin(self, session: Session, patch: Patch) -> None:
        session.stray_due = True
        mount = self.mount_of(patch.name)
        if mount:
            for command in hostile.prelude(mount.alias, mount.location.resolve().parent, self.switches):
                self.send_burger(session, command)
        if patch.operation is Operation.DELETE:
            self.send_burger(session, Cheezburger(operation=Operation.DELETE, filename=patch.name))
            self.report("SENT", session.identity, "delete", patch.name)
            return
        try:
            session.transfer = Transfer(patch.name, patch.source.open("rb"))
        except OSError:
            return

    def send_chunk(self, session: Session, transfer: Transfer) -> bool:
        if not transfer.ahead:
            self.read_ahead(transfer)
        free = ServerSwitch.BEYOND_CREDIT in self.switches
        if transfer.ahead and not free:
            if ServerSwitch.LIVELOCK in self.switches and 0 < session.credit < len(transfer.ahead):
                self.report("LIVELOCK", session.identity, transfer.name)
                self.stuck = session
            if self.stuck or not session.credit:
                return False
        chunk = transfer.ahead if free else transfer.ahead[:session.credit]
        transfer.ahead = transfer.ahead[len(chunk):]
        if chunk and not transfer.ahead and ServerSwitch.EOF_WITH_DATA in self.switches:
            self.read_ahead(transfer, len(chunk))
        ends = not transfer.ahead and (not chunk or ServerSwitch.EOF_WITH_DATA in self.switches)
        headers = {"unknown": "header"} if ServerSwitch.HEADERS in self.switches else {}
        command = Cheezburger(operation=Operation.CREATE, filename=transfer.name, offset=transfer.offset,
                              eof=int(ends), headers=headers, chunk=chunk)
        transfer.offset += len(chunk)
        if ends:
            transfer.file.close()
            session.transfer = None
            self.report("SENT", session.identity, "create", transfer.name)
        self.send_burger(session, command)
        return True

    def read_ahead(self, transfer: Transfer, sent: int = 0) -> None:
        offset = transfer.offset + sent
        if ServerSwitch.ABORT_ON_TRUNCATION in self.switches and os.fstat(transfer.file.fileno()).st_size < offset:
            raise Aborted(f"{transfer.name} is shorter than {offset}")
        transfer.ahead = transfer.file.read(self.chunk_bytes)

    def send_burger(self, session: Session, command: Cheezburger) -> None:
        command = replace(command, sequence=session.sequence)
        session.sequence += 1
        session.credit = max(0, session.credit - len(command.chunk))
        self.last = command
        for frame in hostile.spoil(command, self.switches):
            self.send(session.identity, frame)

    def reply(self, identity: bytes, command: Command) -> None:
        self.send(identity, encode(command))

    def send(self, identity: bytes, frame: bytes) -> None:
        try:
            self.socket.send_multipart([identity, frame], zmq.NOBLOCK)
        except zmq.ZMQError as problem:
            if problem.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            self.report("GONE", identity)
            self.forget(identity)


def chunk_bytes(switches: frozenset[ServerSwitch]) -> int:
    if ServerSwitch.SMALL_CHUNKS in switches:
        return SMALL_CHUNK_BYTES
    return EXCESSIVE_CHUNK_BYTES if ServerSwitch.BEYOND_CREDIT in switches else CHUNK_BYTES


def absolute(path: str, cache: dict[str, str]) -> dict[str, str]:
    """Digests by virtual name. A name without a slash is relative to the path; nobody asks for names of other paths."""
    prefix = path.rstrip("/") + "/"
    return {name if name.startswith("/") else prefix + name: digest for name, digest in cache.items()}


def is_cached(entry: Entry, digest: str | None) -> bool:
    try:
        return digest is not None and sha1_hex(entry.source) == digest.lower()
    except OSError:
        return False


if __name__ == "__main__":
    from .cli import server_main
    server_main()
