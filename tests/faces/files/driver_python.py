"""The driver of the Python face of file transfer: commands.py describes each command."""
import asyncio
import sys
import threading
from pathlib import Path
from typing import Any, Callable

from pinnace import Error, files
from pinnace.files import Client, Deletion, Event, Existing, Grant, Right, Rules, Server, Transfer

SOON_S = 20.0

servers: dict[str, Server] = {}
clients: dict[str, Client] = {}
transfers: dict[str, Transfer] = {}


def serve(server: str, *options: str) -> str:
    folders: dict[str, str] = {}
    writable: dict[str, str] = {}
    users: dict[str, str] = {}
    passwords: dict[str, str] = {}
    grants: list[Grant] = []
    given: dict[str, Any] = {}
    for key, _, value in (option.partition("=") for option in options):
        first, _, rest = value.partition("@")
        if key in ("folder", "writable"):
            (folders if key == "folder" else writable)[first] = rest
        elif key in ("user", "key"):
            users[first] = rest
        elif key == "password":
            passwords[first] = rest
        elif key == "grant":
            path, right = rest.split("@")
            grants.append(Grant(first, path, Right[right.upper()]))
        elif key in ("bind", "cert", "domain"):
            given[key] = value
        elif key.endswith("_ms"):
            given[key[:-3]] = int(value) / 1000
        else:
            given[key] = int(value)
    if server in servers:
        servers.pop(server).close()
    servers[server] = Server(folders, writable=writable, users=users, passwords=passwords, grants=grants, **given)
    return " ".join(["endpoints", *servers[server].endpoints])


def sent(server: str) -> str:
    return f"number {servers[server].sent_bytes}"


def stop(server: str) -> str:
    servers.pop(server).close()
    return "ok"


def connect(client: str, endpoint: str, *options: str) -> str:
    given: dict[str, Any] = {}
    for key, _, value in (option.partition("=") for option in options):
        first, _, rest = value.partition("@")
        if key == "cert":
            given.update(cert=Path(first), server_cert=Path(rest))
        elif key == "curve":
            given.update(cert=first, server_cert=rest.encode())
        elif key == "password":
            given.update(user=first, password=rest)
        elif key == "domain":
            given[key] = value
        elif key.endswith("_ms"):
            given[key[:-3]] = int(value) / 1000
        else:
            given[key] = int(value)
    if client in clients:
        clients.pop(client).close()
    clients[client] = Client(endpoint, **given)
    return "ok"


def disconnect(client: str) -> str:
    clients.pop(client).close()
    return "ok"


def rules_of(words: "tuple[str, ...]") -> "Rules | None":
    if not words:
        return None
    patterns = []
    given: dict[str, Any] = {}
    most, force = None, False
    for key, _, value in (word.partition("=") for word in words):
        if key in ("include", "exclude"):
            patterns.append(files.include(value) if key == "include" else files.exclude(value))
        elif key == "existing":
            given[key] = Existing(value)
        elif key == "deletion_most":
            most = int(value)
        elif key == "deletion_force":
            force = value == "1"
        else:
            given[key] = value == "1"
    if given.pop("deletion", False):
        given["deletion"] = Deletion(most, force)
    return Rules(filter=patterns, **given)


def begin(kind: str) -> Callable[..., str]:
    def start(transfer: str, client: str, first: str, *words: str) -> str:
        if transfer in transfers:
            transfers.pop(transfer).close()
        method = getattr(clients[client], kind)
        transfers[transfer] = method(first, words[0], rules_of(words[1:])) if words else method(first)
        return "ok"

    return start


def text_of(event: Event) -> str:
    values = []
    for value in event:
        if isinstance(value, Error):
            values.append(str(value.errno))
        elif isinstance(value, bytes):
            values.append(value.hex())
        elif isinstance(value, bool):
            values.append(str(int(value)))
        elif isinstance(value, files.FileType):
            values.append(value.name.lower())
        else:
            values.append(str(value) or "-")
    if isinstance(event, files.Listed):
        # As the other faces print it.
        name, kind, size, _, *rest = values
        values = [name, kind, size, f"{event.mode:o}", *rest]
    return " ".join(["event", type(event).__name__.lower(), *values])


def take_next(transfer: str, timeout_ms: str) -> str:
    event = transfers[transfer].next_event(int(timeout_ms) / 1000)
    return "over" if event is None else text_of(event)


def kinds(events: "list[Event]") -> str:
    names = [type(event).__name__.lower() for event in events if not isinstance(event, files.Progress)]
    return " ".join(["events", *names])


def iterate(transfer: str) -> str:
    return kinds(list(transfers[transfer]))


def in_coroutine(transfer: str) -> str:
    async def take() -> "list[Event]":
        return [event async for event in transfers[transfer]]

    return kinds(asyncio.run(asyncio.wait_for(take(), SOON_S)))


def wait(transfer: str, timeout_ms: str = "20000") -> str:
    report = transfers[transfer].wait(int(timeout_ms) / 1000)
    failed = [f"{path}:{error.errno}:{int(here)}" for path, error, here in report.failed]
    return " ".join(map(str, ["report", report.files, report.bytes, len(failed), *failed]))


def interrupt(transfer: str) -> str:
    thread = threading.Thread(target=transfers[transfer].cancel)
    thread.start()
    try:
        return wait(transfer)
    finally:
        thread.join()


def cancel(transfer: str) -> str:
    transfers[transfer].cancel()
    return "ok"


def close(transfer: str) -> str:
    with transfers.pop(transfer):
        return "ok"


COMMANDS: dict[str, Callable[..., str]] = {
    "serve": serve, "sent": sent, "stop": stop, "connect": connect, "disconnect": disconnect, "next": take_next,
    "events": iterate, "async": in_coroutine, "wait": wait, "interrupt": interrupt, "cancel": cancel, "close": close,
    **{kind: begin(kind) for kind in ("get", "put", "follow", "list", "discard")},
}

for line in sys.stdin:
    command, *words = line.split()
    try:
        print(COMMANDS[command](*words), flush=True)
    except Error as error:
        print("error", error.errno, error.strerror, flush=True)
