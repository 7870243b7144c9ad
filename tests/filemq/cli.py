"""The command lines of client and server."""
from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Callable, NoReturn

import zmq

from . import hostile
from .client import Client, State
from .server import Aborted, Server
from .switches import ClientSwitch, ServerSwitch, describe
from .tree import Mount
from .wire import Hugz, Kthxbai, Rtfm, Srsly

STDIN = 0
Commands = dict[str, Callable[[str], None]]


class Input:
    """Lines of the standard input, without blocking. Its end is no end of the program, unless `ends` is set."""

    def __init__(self, commands: Commands, ends: bool) -> None:
        self.commands, self.ends = commands, ends
        self.is_open, self.has_ended, self.rest = True, False, b""

    def read(self) -> None:
        octets = os.read(STDIN, 65536)
        if not octets:
            self.is_open, self.has_ended = False, self.ends
        *lines, self.rest = (self.rest + octets).split(b"\n")
        for line in lines:
            word, _, argument = os.fsdecode(line).strip().partition(" ")
            if word == "END":
                self.has_ended = True
            elif word in self.commands:
                self.commands[word](argument)
            elif word:
                print(f"ERROR\tthe command {word} is unknown", flush=True)


class Finish:
    """Counts the events that `--files` waits for."""

    def __init__(self, files: int, deadline_s: float) -> None:
        self.files, self.seen, self.end = files, 0, time.monotonic() + deadline_s if deadline_s else None

    def note(self, kind: str) -> None:
        self.seen += kind in ("FILE UPDATED", "FILE DELETED")

    def is_reached(self) -> bool:
        return bool(self.files) and self.seen >= self.files

    def is_late(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end

    def wait_ms(self, most: int) -> int:
        return most if self.end is None else max(0, min(most, int((self.end - time.monotonic()) * 1000) + 1))


def drive(peer: Client | Server, stdin: Input, finish: Finish) -> int:
    """Returns the exit code: 0 when told to end or all files came, 1 at the deadline, 2 when the server ended it."""
    while True:
        while peer.events:
            event = peer.events.popleft()
            finish.note(event.kind)
            print(event.line(), flush=True)
        if stdin.has_ended or finish.is_reached():
            return 0
        if isinstance(peer, Client) and peer.state is State.ENDED:
            return 2
        if finish.is_late():
            return 1
        poller = zmq.Poller()
        if peer.poll_flags():
            poller.register(peer.socket, peer.poll_flags())
        if stdin.is_open:
            poller.register(STDIN, zmq.POLLIN)
        ready = dict(poller.poll(finish.wait_ms(peer.wait_ms())))
        if STDIN in ready:
            stdin.read()
        peer.step()


def parser(text: str | None, switches: type[ServerSwitch] | type[ClientSwitch]) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter,
                                      epilog="switches:\n" + describe(switches))
    options.add_argument("endpoint")
    options.add_argument("--switch", "--defect", dest="switches", action="append", default=[], type=switches,
                         metavar="NAME", help="see below; may be repeated")
    options.add_argument("--deadline", type=float, default=0, metavar="SECONDS", help="exit with 1 then")
    options.add_argument("--end-with-input", action="store_true", help="end when the standard input ends")
    return options


def mount(text: str) -> Mount:
    location, _, alias = text.rpartition("=")
    return Mount(Path(location), alias)


def server_main() -> NoReturn:
    options = parser("FileMQ v2 server", ServerSwitch)
    options.add_argument("mounts", nargs="*", type=mount, metavar="LOCATION=ALIAS")
    options.add_argument("--poll", type=float, default=1, metavar="SECONDS", help="0: only at SCAN")
    options.add_argument("--stable", type=float, default=1, metavar="SECONDS", help="age of a file that is published")
    options.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="silence that ends a session")
    options.add_argument("--deny", action="append", default=[], metavar="PATH", help="refuse subscriptions below it")
    given = options.parse_args()
    server = Server(given.endpoint, given.mounts, poll_s=given.poll or None, stable_s=given.stable,
                    client_timeout_s=given.timeout, deny=given.deny, switches=given.switches)
    print(f"READY\t{server.endpoint}", flush=True)
    commands: Commands = {
        "SCAN": lambda _: server.scan(),
        "PUBLISH": lambda text: server.publish(mount(text)),
        "HUGZ": lambda _: server.tell_all(Hugz()),
        "KTHXBAI": lambda _: server.tell_all(Kthxbai()),
        "RTFM": lambda reason: server.tell_all(Rtfm(reason)),
        "SRSLY": lambda reason: server.tell_all(Srsly(reason)),
    }
    try:
        sys.exit(drive(server, Input(commands, given.end_with_input), Finish(0, given.deadline)))
    except Aborted as problem:
        print(f"ABORTED\t{problem}", flush=True)
        sys.exit(134)


def client_main() -> NoReturn:
    options = parser("FileMQ v2 client", ClientSwitch)
    options.add_argument("inbox", type=Path)
    options.add_argument("paths", nargs="*", metavar="PATH")
    options.add_argument("--resync", action="store_true", help="ask for the files that the inbox does not have")
    options.add_argument("--heartbeat", type=float, default=0, metavar="SECONDS", help="0: no HUGZ")
    options.add_argument("--reconnect-on-rtfm", action="store_true")
    options.add_argument("--traversal-below", type=Path, metavar="DIR", help="the limit of the switch traversal")
    options.add_argument("--repeats", type=int, default=hostile.MILLION, metavar="N", help="for million-*")
    options.add_argument("--files", type=int, default=0, metavar="N", help="exit with 0 after N events of files")
    given = options.parse_args()
    client = Client(given.endpoint, given.inbox, given.paths, resync=given.resync, heartbeat_s=given.heartbeat,
                    reconnect_on_rtfm=given.reconnect_on_rtfm, traversal_below=given.traversal_below,
                    switches=given.switches, repeats=given.repeats)
    commands: Commands = {
        "SUBSCRIBE": client.subscribe,
        "RESTART": lambda _: client.restart(),
        "HUGZ": lambda _: client.send(Hugz()),
    }
    code = drive(client, Input(commands, given.end_with_input), Finish(given.files, given.deadline))
    client.close()
    sys.exit(code)
