"""The place of one check: a temporary directory, peers in one thread, and waiting for their events with a deadline."""
from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Iterable, Protocol, cast

import zmq

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tools")]
from check import Failure as Failure  # noqa: E402

from .client import Client  # noqa: E402
from .events import Event  # noqa: E402
from .server import Server  # noqa: E402
from .switches import ClientSwitch, ServerSwitch  # noqa: E402
from .tree import Mount  # noqa: E402
from .wire import Cheezburger, Command, Hugz, HugzOk, Ohai, OhaiOk, decode, encode  # noqa: E402

SOON_S = 20.0


def expect(truth: object, what: str) -> None:
    if not truth:
        raise Failure(what)


class Peer(Protocol):
    socket: zmq.Socket[bytes]

    def poll_flags(self) -> int: ...
    def wait_ms(self) -> int: ...
    def step(self) -> None: ...
    def close(self) -> None: ...


class Clock:
    """A clock that only the check moves."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Raw:
    """A DEALER that sends what it is told, and keeps what comes."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)
        self.got: list[Command] = []

    def poll_flags(self) -> int:
        return zmq.POLLIN

    def wait_ms(self) -> int:
        return 1000

    def step(self) -> None:
        while self.socket.poll(0):
            self.got.append(decode(self.socket.recv_multipart()[0]))

    def close(self) -> None:
        self.socket.close()

    def send(self, *commands: Command | bytes) -> None:
        for command in commands:
            self.socket.send(command if isinstance(command, bytes) else encode(command))

    def burgers(self) -> list[Cheezburger]:
        return [command for command in self.got if isinstance(command, Cheezburger)]


class Place:
    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.root = Path(self.directory.name).resolve()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.peers: list[Peer] = []
        self.watch: Callable[[], None] = lambda: None

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        # Clients first: a farewell that no server takes any more would linger.
        for peer in reversed(self.peers):
            peer.close()
        self.context.destroy(linger=0)
        self.directory.cleanup()

    def server(self, *aliases: str, switches: Iterable[ServerSwitch] = (), **options: Any) -> Server:
        """Publishes directories named out-0, out-1... Looks at them only when told, and any file is stable."""
        mounts = [Mount(self.out(number), alias) for number, alias in enumerate(aliases or ("/pics",))]
        settings: dict[str, Any] = dict(poll_s=None, stable_s=-1e9, context=self.context) | options
        server = Server("tcp://127.0.0.1:*", mounts, switches=switches, **settings)
        self.peers.append(server)
        return server

    def client(self, server: Server, *paths: str, inbox: str = "in", switches: Iterable[ClientSwitch] = (),
               ready: bool = True, **options: Any) -> Client:
        """By default its subscriptions are confirmed, and the server knows its credit."""
        settings: dict[str, Any] = dict(context=self.context) | options
        client = Client(server.endpoint, self.root / inbox, paths or ("/pics",), switches=switches, **settings)
        self.peers.append(client)
        if ready:
            for path in client.paths:
                self.event(client, "SUBSCRIBED", path)
            self.fence(client)
        return client

    def raw(self, server: Server, greeted: bool = True) -> Raw:
        raw = Raw(self.context, server.endpoint)
        self.peers.append(raw)
        if greeted:
            raw.send(Ohai())
            self.until(lambda: raw.got == [OhaiOk()], "OHAI-OK")
        return raw

    def out(self, number: int = 0) -> Path:
        path = self.root / f"out-{number}"
        path.mkdir(exist_ok=True)
        return path

    def put(self, name: str, content: bytes, number: int = 0) -> Path:
        path = self.out(number) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def got(self, name: str, inbox: str = "in") -> bytes | None:
        path = self.root / inbox / name
        return path.read_bytes() if path.exists() else None

    def run_once(self, deadline: float) -> None:
        poller, wait_s = zmq.Poller(), deadline - time.monotonic()
        for peer in self.peers:
            if not peer.socket.closed:
                if peer.poll_flags():
                    poller.register(peer.socket, peer.poll_flags())
                wait_s = min(wait_s, peer.wait_ms() / 1000)
        poller.poll(max(0, int(wait_s * 1000)))
        for peer in self.peers:
            if not peer.socket.closed:
                peer.step()
        self.watch()

    def until(self, is_so: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + SOON_S
        while not is_so():
            if time.monotonic() >= deadline:
                seen = [event.line() for peer in self.peers for event in list(getattr(peer, "events", ()))[-5:]]
                raise Failure(f"not within {SOON_S:.0f} s: {what}; last events: {seen}")
            self.run_once(deadline)

    def event(self, peer: Client | Server, kind: str, *fields: str) -> Event:
        """Waits for an event that has all these fields; it and those before it are taken away."""
        def find() -> Event | None:
            return next((e for e in peer.events if e.kind == kind and set(fields) <= set(e.fields)), None)

        self.until(find, f"{kind} {fields}")
        found = find()
        assert found
        while peer.events.popleft() is not found:
            pass
        return found

    def updated(self, client: Client, name: str, content: bytes) -> None:
        self.event(client, "FILE UPDATED", name)
        expect((client.inbox.root / name[1:]).read_bytes() == content, f"{name} has other contents")

    def fence(self, peer: Client | Raw) -> None:
        """HUGZ and back, twice: the server has acted on what this peer sent before, and all its answers are here."""
        for _ in range(2):
            if isinstance(peer, Raw):
                seen = peer.got.count(HugzOk())
                peer.send(Hugz())
                self.until(lambda: cast(Raw, peer).got.count(HugzOk()) > seen, "HUGZ-OK")
            else:
                answers = self.kinds(peer).count("HUGZ-OK")
                peer.send(Hugz())
                self.until(lambda: self.kinds(cast(Client, peer)).count("HUGZ-OK") > answers, "HUGZ-OK")
            self.until(lambda: not any(isinstance(p, Server) and p.busy for p in self.peers), "the servers are idle")

    def kinds(self, peer: Client | Server) -> list[str]:
        return [event.kind for event in peer.events]


def touch_later(path: Path) -> None:
    """Gives the file a time that differs from any before, whatever the clock's resolution."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 5_000_000_000))
