"""The command lines of client and server, as processes: what they print, obey and return."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Callable

from .place import Place, expect

TESTS = Path(__file__).resolve().parents[1]
SOON_S = 20
SERVER_OPTIONS = ("--poll", "0", "--stable", "0")


class Process:
    """A peer in a process of its own, which is killed if a line of it does not come in time."""

    def __init__(self, module: str, *words: str | Path) -> None:
        env = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", f"filemq.{module}", *map(str, words)]
        self.process: subprocess.Popen[str] = subprocess.Popen(
            command, env=env, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.seen: list[str] = []
        self.timer = threading.Timer(SOON_S, self.process.kill)
        self.timer.start()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()

    def line(self, begin: str) -> str:
        """The next line that begins so."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.seen.append(line)
            if line.startswith(begin):
                return line.rstrip("\n")
        raise OSError(f"{begin!r} did not come after {self.seen}")

    def tell(self, line: str) -> None:
        assert self.process.stdin
        print(line, file=self.process.stdin)

    def ends_with(self, code: int) -> None:
        found = self.process.wait()
        expect(found == code, f"exit {found} instead of {code} after {self.seen}")


def started(place: Place, *options: str) -> tuple[Process, str]:
    server = Process("server", "tcp://127.0.0.1:*", f"{place.out()}=/pics", *SERVER_OPTIONS, *options)
    return server, server.line("READY").split("\t")[1]


def files_travel_between_processes(place: Place) -> None:
    server, endpoint = started(place)
    with server, Process("client", endpoint, place.root / "in", "/pics", "--files", "3", "--heartbeat", "5") as client:
        client.line("SUBSCRIBED\t/pics")
        path = place.put("a\tb", b"one")
        server.tell("SCAN")
        client.line(f"FILE UPDATED\t{place.root / 'in'}\t/pics/a\\tb")
        path.unlink()
        server.tell("SCAN")
        client.line(f"FILE DELETED\t{place.root / 'in'}\t/pics/a\\tb")
        place.out(1)
        server.tell(f"PUBLISH {place.out(1)}=/docs")
        client.tell("SUBSCRIBE /docs")
        client.line("SUBSCRIBED\t/docs")
        place.put("c", b"three", 1)
        server.tell("SCAN")
        client.ends_with(0)
        expect(place.got("docs/c") == b"three", "the last file")
        server.line("KTHXBAI")
        server.tell("END")
        server.ends_with(0)


def processes_tell_how_they_ended(place: Place) -> None:
    server, endpoint = started(place, "--deny", "/secret", "--end-with-input")
    with server:
        with Process("client", endpoint, place.root / "in", "/secret") as refused:
            refused.line("SRSLY\t")
            refused.ends_with(2)
        with Process("client", endpoint, place.root / "in", "/pics", "--files", "1", "--deadline", "0.2") as late:
            late.ends_with(1)
        assert server.process.stdin
        server.process.stdin.close()
        server.ends_with(0)


def switches_are_named_on_the_command_line(place: Place) -> None:
    server, endpoint = started(place, "--switch", "stray-at-end", "--defect", "eof-with-data")
    with server, Process("client", endpoint, place.root / "in", "/pics", "--switch", "eof-ignored") as client:
        client.line("SUBSCRIBED")
        client.line("FILE FOREIGN\t")
        client.tell("HUGZ")
        client.line("HUGZ-OK")
        client.tell("END")
        client.ends_with(0)
    with Process("client", endpoint, place.root / "in", "--switch", "no-such-switch") as wrong:
        wrong.line("client.py: error")
        wrong.ends_with(2)


BEHAVIOURS: tuple[Callable[[Place], None], ...] = (
    files_travel_between_processes, processes_tell_how_they_ended, switches_are_named_on_the_command_line,
)
