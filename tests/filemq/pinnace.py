"""The command `pinnace files` as a process: its server for the client of this directory, and its client `watch`."""
from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable

from .place import SOON_S, Failure

COMMAND = "FILEMQ_PINNACE"


class Process:
    """A process whose lines are read by a thread, so that a check can wait for them with a deadline."""

    def __init__(self, *words: str | Path, errors: bool = False) -> None:
        command = [os.environ[COMMAND], "files", *map(str, words)]
        errors_to = subprocess.STDOUT if errors else subprocess.DEVNULL
        self.process: subprocess.Popen[str] = subprocess.Popen(command, text=True, stdout=subprocess.PIPE,
                                                              stderr=errors_to)
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def line(self, begin: str) -> str:
        """The next line that begins so."""
        seen, deadline = [], time.monotonic() + SOON_S
        while True:
            try:
                seen.append(self.lines.get(timeout=max(0, deadline - time.monotonic())))
            except queue.Empty:
                raise Failure(f"{begin!r} did not come after {seen}") from None
            if seen[-1].startswith(begin):
                return seen[-1]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.thread.join()
        assert self.process.stdout
        self.process.stdout.close()


class Served(Process):
    """A server of directories; `folders` are DIR=/ALIAS."""

    def __init__(self, *folders: str) -> None:
        super().__init__("serve", *folders, "--bind", "tcp://127.0.0.1:*", "--verbose", errors=True)
        self.endpoint = self.line("").split()[-1]


class Watched(Process):
    """A client that follows a path. Its events are gathered by `poll`, which does not wait."""

    def __init__(self, endpoint: str, path: str, to: Path, *options: str) -> None:
        super().__init__("watch", "-s", endpoint, path, to, "--json", *options)
        self.events: list[dict[str, Any]] = []

    def poll(self) -> None:
        while not self.lines.empty():
            self.events.append(json.loads(self.lines.get()))

    def has(self, event: str, **fields: object) -> Callable[[], bool]:
        """A question whether the event was seen; asking reads on."""
        def find() -> bool:
            self.poll()
            return any(seen["event"] == event and fields.items() <= seen.items() for seen in self.events)

        return find

    def count(self, event: str) -> int:
        self.poll()
        return sum(seen["event"] == event for seen in self.events)
