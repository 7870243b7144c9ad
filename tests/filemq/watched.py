"""The client `pinnace files watch` and a server that does not know its extensions."""
from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import zmq

from .pinnace import Process, Watched
from .place import SOON_S, Failure, Place, expect, touch_later
from .server import Server
from .switches import ServerSwitch
from .wire import Cheezburger, Operation

BIG = bytes(range(256)) * 20_000


@contextmanager
def watched(place: Place, server: Server, *options: str, path: str = "/pics/", to: str = "in") -> Iterator[Watched]:
    """A client whose subscription the server has confirmed; `in` is what it writes."""
    client = Watched(server.endpoint, path, place.root / to, *options)
    try:
        place.event(server, "ICANHAZ", path.rstrip("/"))
        yield client
    finally:
        client.stop()


def until_here(place: Place, name: str, content: bytes | None) -> None:
    path = place.root / "in" / name
    place.until(lambda: (path.read_bytes() if path.exists() else None) == content, f"{name} is as at the server")


def files_here(place: Place) -> set[str]:
    """The names of all files in the inbox."""
    root = place.root / "in"
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def content_arrives_in_both_forms(_: Place) -> None:
    for switches in ([], [ServerSwitch.EOF_WITH_DATA], [ServerSwitch.SMALL_CHUNKS, ServerSwitch.HEADERS],
                     [ServerSwitch.EOF_WITH_DATA, ServerSwitch.SMALL_CHUNKS]):
        with Place() as place:
            files = {"old": b"old", "empty": b"", "deep/er/b c": BIG[:2500], "ü": b"\0\xff", "1000": b"x" * 1000}
            files[os.fsdecode(b"\xff")] = b"octets"
            for name, content in files.items():
                place.put(name, content)
            server = place.server(switches=switches)
            with watched(place, server) as client:
                place.until(lambda: client.count("finished") == len(files), f"{switches}: all files")
                expect(files_here(place) == files.keys(), f"{switches}: {files_here(place)}")
                for name, content in files.items():
                    until_here(place, name, content)
                for content in (b"first", BIG, b"short", b""):
                    touch_later(place.put("new", content))
                    server.scan()
                    until_here(place, "new", content)
                expect(not client.count("failed"), f"{switches}: {client.events}")


def only_what_differs_comes(place: Place) -> None:
    place.put("same", BIG)
    place.put("sub/same", b"same")
    place.put("other", b"theirs")
    inbox = place.root / "in"
    (inbox / "sub").mkdir(parents=True)
    (inbox / "same").write_bytes(BIG)
    (inbox / "sub/same").write_bytes(b"same")
    (inbox / "other").write_bytes(b"longer than theirs")
    server = place.server()
    client = Watched(server.endpoint, "/pics/", inbox)
    try:
        place.event(server, "ICANHAZ", "/pics", "cache=3")
        until_here(place, "other", b"theirs")
        place.put("end", b"end")
        server.scan()
        place.until(client.has("finished", path="/pics/end"), "the last file")
        expect(client.count("finished") == 2, f"{client.events}")
    finally:
        client.stop()


def credit_comes_in_whole_chunks(place: Place) -> None:
    server = place.server()
    credits: list[int] = []
    with watched(place, server):
        place.until(lambda: any(session.credit for session in server.sessions.values()), "credit")
        (session,) = server.sessions.values()
        expect(session.credit == 5_000_000, f"{session.credit} at first")
        place.watch = lambda: credits.append(session.credit)
        place.put("a", BIG * 5)
        server.scan()
        until_here(place, "a", BIG * 5)
        sent = len(BIG) * 5
        place.until(lambda: session.credit > 2_500_000, "more credit")
        expect((session.credit + sent) % 1_000_000 == 0, f"{session.credit} after {sent}")
        expect(max(credits) <= 5_000_000, f"{max(credits)} at once")


def deletions_need_a_rule(place: Place) -> None:
    for options, stays in (((), True), (("--delete",), False)):
        path = place.put("sub/a", b"one")
        place.put("keep", b"kept")
        server = place.server()
        with watched(place, server, *options) as client:
            until_here(place, "sub/a", b"one")
            path.unlink()
            server.scan()
            place.until(client.has("removed", path="/pics/sub/a", here=not stays), "a deletion")
            until_here(place, "sub/a", b"one" if stays else None)
            until_here(place, "keep", b"kept")
            expect((place.root / "in/sub").is_dir(), "a directory stays")


def the_folder_goes_below_by_its_name(place: Place) -> None:
    place.put("sub/a", b"one")
    place.put("b", b"two")
    (place.root / "in").mkdir()
    server = place.server()
    with watched(place, server, path="/pics/sub"):
        until_here(place, "sub/a", b"one")
        expect(files_here(place) == {"sub/a"}, f"{files_here(place)}")


def patterns_leave_out(place: Place) -> None:
    server = place.server()
    with watched(place, server, "--exclude", "*.o", "--delete") as client:
        place.put("a.o", b"object")
        place.put("a.c", b"source")
        (place.root / "in/mine.o").write_bytes(b"mine")
        server.scan()
        until_here(place, "a.c", b"source")
        for name in ("/pics/mine.o", "/pics/a.c"):
            server.reply(next(iter(server.sessions)), Cheezburger(0, Operation.DELETE, name))
        until_here(place, "a.c", None)
        expect(files_here(place) == {"mine.o"}, f"{files_here(place)}")
        expect(not client.count("failed"), f"{client.events}")


def no_name_leads_out(place: Place) -> None:
    victim = place.root / "victim"
    victim.write_bytes(b"alive")
    attacks = [ServerSwitch.DOTDOT_NAMES, ServerSwitch.ABSOLUTE_NAMES, ServerSwitch.ODD_NAMES,
               ServerSwitch.DELETE_ROOT, ServerSwitch.BAD_OPERATION]
    server = place.server(switches=attacks)
    (place.root / "in").mkdir()
    (place.root / "in/way").symlink_to(place.root)
    with watched(place, server, "--delete") as client:
        place.put("a", b"one")
        server.scan()
        until_here(place, "a", b"one")
        identity = next(iter(server.sessions))
        for name in ("/../../x", "/outside", "/pics/../x", "/pics/way/x", "/pics//x", "/picsx/a"):
            server.reply(identity, Cheezburger(0, Operation.CREATE, name, 0, 1, {}, b"bad"))
            server.reply(identity, Cheezburger(0, Operation.DELETE, name))
        server.reply(identity, Cheezburger(0, Operation.DELETE, "/pics/way/victim"))
        place.put("b", BIG * 4)
        server.scan()
        until_here(place, "b", BIG * 4)
        place.until(client.has("failed", path="/pics/way/x"), "a name over a link fails")
        place.until(client.has("failed", path="/pics/../x"), "a name with `..` fails")
        expect(victim.read_bytes() == b"alive", "a file beside the inbox")
        expect(files_here(place) <= {"a", "b", "line\nbreak", os.fsdecode(b"\xff\xfe")}, f"{files_here(place)}")
        outside = {path.name for path in place.root.iterdir()}
        expect(outside == {"victim", "in", "out-0"}, f"beside the inbox: {outside}")


def foreign_files_give_their_credit_back(place: Place) -> None:
    server = place.server("/pics", "/docs", switches=[ServerSwitch.EVERYTHING_TO_ALL, ServerSwitch.STRAY_AT_END])
    with watched(place, server, path="/pics/sub/") as client:
        place.put("foreign", BIG * 4)
        place.put("sub/own", b"own")
        server.scan()
        until_here(place, "own", b"own")
        place.put("sub/two", BIG * 4)
        server.scan()
        until_here(place, "two", BIG * 4)
        expect(files_here(place) == {"own", "two"}, f"{files_here(place)}")
        expect(not client.count("failed"), f"{client.events}")


def stray_messages_do_no_harm(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.STRAY_AT_END])
    with watched(place, server) as client:
        for name, content in (("a", b"one"), ("b", BIG), ("empty", b"")):
            place.put(name, content)
            server.scan()
            until_here(place, name, content)
        identity = next(iter(server.sessions))
        server.reply(identity, Cheezburger(0, Operation.CREATE, "/pics/c", 0, 0, {}, b"123"))
        for _ in range(2):
            server.reply(identity, Cheezburger(1, Operation.CREATE, "/pics/c", 3, 0, {}, b"456"))
        server.reply(identity, Cheezburger(2, Operation.CREATE, "/pics/c", 6, 1, {}, b""))
        until_here(place, "c", b"123456")
        expect(not client.count("failed"), f"{client.events}")


def a_false_offset_gives_a_file_up(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.OFFSET_LIE])
    with watched(place, server) as client:
        place.put("a", BIG)
        server.scan()
        place.until(client.has("failed", path="/pics/a"), "it fails")
        identity = next(iter(server.sessions))
        server.reply(identity, Cheezburger(0, Operation.CREATE, "/pics/a", 3, 1, {}, b"rest"))
        place.put("empty", b"")
        server.scan()
        until_here(place, "empty", b"")
        expect(files_here(place) == {"empty"} and client.count("failed") == 1, f"{files_here(place)}")
        server.reply(identity, Cheezburger(0, Operation.CREATE, "/pics/a", 0, 1, {}, b"whole"))
        until_here(place, "a", b"whole")


def a_file_without_end_fails(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.NEVER_ENDS])
    with watched(place, server) as client:
        place.put("a", b"one")
        place.put("b", b"two")
        server.scan()
        place.until(client.has("failed", path="/pics/a"), "it fails")
        expect("a" not in files_here(place), "it is not whole")


def other_signatures_are_skipped(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.WRONG_SIGNATURE])
    with watched(place, server):
        place.put("a", BIG)
        server.scan()
        until_here(place, "a", BIG)


def defects_of_a_server_cost_only_what_is_not_sent(_: Place) -> None:
    for switch in (ServerSwitch.NO_RESYNC, ServerSwitch.CACHE_IGNORED, ServerSwitch.MTIME_SECONDS,
                   ServerSwitch.FIRST_MOUNT):
        with Place() as place:
            place.put("old", b"old")
            server = place.server(switches=[switch])
            with watched(place, server) as client:
                place.put("new", BIG)
                server.scan()
                until_here(place, "new", BIG)
                expect(("old" in files_here(place)) == (switch != ServerSwitch.NO_RESYNC), f"{switch}")
                expect(not client.count("failed"), f"{switch}: {client.events}")


def the_livelock_and_excess_end_the_client(_: Place) -> None:
    for switch in (ServerSwitch.LIVELOCK, ServerSwitch.BEYOND_CREDIT):
        with Place() as place:
            server = place.server(switches=[switch])
            with watched(place, server) as client:
                place.put("a", b"x" * 4_560_000)
                place.put("b", b"x" * 30_000_000)
                server.scan()
                place.until(client.has("aborted"), f"{switch}: it ends")
                expect("b" not in files_here(place), "it is not whole")


def a_refusal_ends_the_client(place: Place) -> None:
    server = place.server(deny=["/pics/secret"])
    client = Watched(server.endpoint, "/pics/secret/", place.root / "in")
    try:
        place.until(client.has("aborted"), "it ends")
    finally:
        client.stop()


def started_again(place: Place, server: Server, endpoint: str) -> Server:
    """A server like the one that was closed, whose socket may hold the endpoint for a moment."""
    deadline = time.monotonic() + SOON_S
    while True:
        try:
            return Server(endpoint, server.mounts, poll_s=None, stable_s=-1e9, context=place.context)
        except zmq.ZMQError:
            if time.monotonic() >= deadline:
                raise Failure("the endpoint is not free") from None
            os.sched_yield()


def a_server_that_comes_back_is_asked_again(place: Place) -> None:
    server = place.server()
    with watched(place, server) as client:
        place.put("a", b"one")
        server.scan()
        until_here(place, "a", b"one")
        endpoint = server.endpoint
        place.peers.remove(server)
        server.close()
        place.put("b", b"two")
        place.peers.append(started_again(place, server, endpoint))
        until_here(place, "b", b"two")
        place.until(client.has("finished", path="/pics/b"), "the second file")
        expect(client.count("finished") == 2 and not client.count("failed"), f"{client.events}")


def a_server_that_stays_away_is_waited_for(place: Place) -> None:
    server = place.server()
    with watched(place, server, "--timeout", "2000") as client:
        for times, name in enumerate("ab", 1):
            endpoint = server.endpoint
            place.peers.remove(server)
            server.close()
            place.put(name, b"new")
            place.until(lambda: client.count("lost") == times, "the client has noticed")
            server = started_again(place, server, endpoint)
            place.peers.append(server)
            until_here(place, name, b"new")
        expect(not client.count("failed") and not client.count("aborted"), f"{client.events}")


def other_commands_are_refused(place: Place) -> None:
    place.put("a", b"one")
    server = place.server()
    for words in (("get", "-s", server.endpoint, "/pics/a", str(place.root / "a")), ("ls", "-s", server.endpoint, "/"),
                  ("put", "-s", server.endpoint, str(place.out() / "a"), "/pics/b")):
        ours = Process(*words, errors=True)
        try:
            place.until(lambda: ours.process.poll() is not None, f"{words[0]} ends")
            expect("only follow works" in ours.line(""), words[0])
            expect(ours.process.returncode != 0, f"{words[0]} succeeds")
        finally:
            ours.stop()
    expect(not Path(place.root / "a").exists(), "nothing is fetched")


BEHAVIOURS = (
    content_arrives_in_both_forms, only_what_differs_comes, credit_comes_in_whole_chunks, deletions_need_a_rule,
    the_folder_goes_below_by_its_name, patterns_leave_out, no_name_leads_out, foreign_files_give_their_credit_back,
    stray_messages_do_no_harm, a_false_offset_gives_a_file_up, a_file_without_end_fails, other_signatures_are_skipped,
    defects_of_a_server_cost_only_what_is_not_sent, the_livelock_and_excess_end_the_client, a_refusal_ends_the_client,
    a_server_that_comes_back_is_asked_again, a_server_that_stays_away_is_waited_for, other_commands_are_refused,
)
