"""The server `pinnace files serve` and a client of RFC 35 that does not know its extensions."""
from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Iterator

from .pinnace import Served
from .place import Place, Raw, expect
from .switches import ClientSwitch
from .tree import sha1_hex
from .wire import (SIGNATURE, Cheezburger, Command, Hugz, HugzOk, Icanhaz, IcanhazOk, Kthxbai, Nom, Ohai, OhaiOk,
                   Operation, Rtfm)

RESYNC = {"RESYNC": "1"}
PLENTY = Nom(1 << 40, 0)
CHUNK_BYTES = 256 << 10
BIG = bytes(range(256)) * 5000


@contextmanager
def served(place: Place, *aliases: str) -> Iterator[Served]:
    folders = [f"{place.out(number)}={alias}" for number, alias in enumerate(aliases or ("/pics",))]
    server = Served(*folders)
    try:
        yield server
    finally:
        server.stop()


def subscribed(place: Place, server: Served, *commands: Icanhaz, credit: Nom | None = PLENTY) -> Raw:
    raw = place.raw(server)
    if credit:
        raw.send(credit)
    raw.send(*commands)
    place.until(lambda: raw.got.count(IcanhazOk()) == len(commands), "ICANHAZ-OK")
    return raw


def whole(burgers: list[Cheezburger]) -> list[tuple[str, bytes | None]]:
    """The files in the order in which they ended; None for a deletion. Fails unless each file's chunks are in order."""
    files: list[tuple[str, bytes | None]] = []
    name, content = "", b""
    for burger in burgers:
        if burger.operation == Operation.DELETE:
            expect(not name, f"{burger.filename} is deleted within {name}")
            files.append((burger.filename, None))
            continue
        expect(burger.operation == Operation.CREATE, f"operation {burger.operation}")
        if burger.offset == 0:
            expect(name in ("", burger.filename), f"{burger.filename} begins within {name}")
            name, content = burger.filename, b""
        expect(burger.filename == name and burger.offset == len(content), f"{burger.filename} at {burger.offset}")
        expect(burger.eof == (not burger.chunk), "an empty chunk, and only that, ends a file")
        content += burger.chunk
        if burger.eof:
            files.append((name, content))
            name = ""
    return files


def until_files(place: Place, raw: Raw, count: int) -> list[tuple[str, bytes | None]]:
    def ended() -> int:
        return sum(burger.eof or burger.operation == Operation.DELETE for burger in raw.burgers())

    place.until(lambda: ended() >= count, f"{count} files")
    found = whole(raw.burgers())
    expect(len(found) == count, f"{len(found)} files instead of {count}")
    return found


def until_last(place: Place, raw: Raw, name: str) -> list[tuple[str, bytes | None]]:
    """All files up to one, which is the last."""
    place.until(lambda: any(burger.filename == name and burger.eof for burger in raw.burgers()), name)
    return whole(raw.burgers())


def until_sent(place: Place, raw: Raw, name: str, content: bytes) -> list[tuple[str, bytes | None]]:
    """All files up to one with this content."""
    def is_sent() -> bool:
        burgers = raw.burgers()
        return bool(burgers) and (burgers[-1].eof or not burgers[-1].chunk) and (name, content) in whole(burgers)

    place.until(is_sent, name)
    return whole(raw.burgers())


def everything_is_sent_for_resync(place: Place) -> None:
    files = {"a": b"one", "empty": b"", "deep/er/b c": BIG, "ü": b"\0\xff", os.fsdecode(b"\xff"): b"octets"}
    for name, content in files.items():
        place.put(name, content)
    (place.out() / "link").symlink_to("a")
    place.put(".a.507716cd.part", b"a part")
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics", RESYNC))
        found = until_files(place, raw, len(files))
        expect(dict(found) == {f"/pics/{name}": content for name, content in files.items()}, f"{dict(found).keys()}")
        numbers = [burger.sequence for burger in raw.burgers()]
        expect(numbers == list(range(numbers[0], numbers[0] + len(numbers))), "sequence numbers")
        place.put("later", b"x")
        expect(until_last(place, raw, "/pics/later") == [*found, ("/pics/later", b"x")], "it comes next, and once")


def only_changes_are_sent_without_resync(place: Place) -> None:
    place.put("old", b"old")
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics", {}, {"new": "0" * 40}))
        place.put("new", b"new")
        until_last(place, raw, "/pics/new")
        place.put("new", BIG)
        until_files(place, raw, 2)
        place.put("empty", b"")
        expect(until_last(place, raw, "/pics/empty")
               == [("/pics/new", b"new"), ("/pics/new", BIG), ("/pics/empty", b"")], "each change once")


def files_of_the_cache_are_left_out(place: Place) -> None:
    same, big = sha1_hex(place.put("same", b"same")), sha1_hex(place.put("sub/big", BIG))
    place.put("other", b"theirs")
    wrong = "0" * 40
    with served(place) as server:
        for cache, sent in (
            ({"same": same, "sub/big": big, "other": wrong}, {"other"}),
            ({"/pics/same": same.upper(), "/pics/sub/big": big, "other": "no digest"}, {"other"}),
            ({"/other/same": same, "/same": same, "../pics/same": same, "sub/big": big}, {"same", "other"}),
            ({"same": big, "sub/big": same}, {"same", "sub/big", "other"}),
        ):
            raw = subscribed(place, server, Icanhaz("/pics/", RESYNC, cache))
            names = {name for name, _ in until_files(place, raw, len(sent))}
            expect(names == {f"/pics/{name}" for name in sent}, f"{cache}: {names}")
            place.put(f"end-{id(raw)}", b"x")
            until_last(place, raw, f"/pics/end-{id(raw)}")
            (place.out() / f"end-{id(raw)}").unlink()


def credit_is_never_exceeded(place: Place) -> None:
    place.put("a", BIG)
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics", RESYNC), credit=None)
        granted = 0
        for credit in (1, CHUNK_BYTES + 1, 0, 10, len(BIG) - CHUNK_BYTES - 13):
            raw.send(Nom(credit, 0))
            granted += credit
            place.until(lambda: content_of(raw) >= granted, f"{granted} octets")
            place.fence(raw)
            expect(content_of(raw) == granted, f"{content_of(raw)} octets for a credit of {granted}")
        expect(not any(burger.eof for burger in raw.burgers()), "one octet is missing")
        raw.send(Nom(1, 0))
        expect(until_files(place, raw, 1) == [("/pics/a", BIG)], "the file")


def content_of(raw: Raw) -> int:
    return sum(len(burger.chunk) for burger in raw.burgers())


def empty_files_and_deletions_need_no_credit(place: Place) -> None:
    place.put("a", b"")
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics", RESYNC), credit=None)
        until_files(place, raw, 1)
        (place.out() / "a").unlink()
        expect(until_files(place, raw, 2) == [("/pics/a", b""), ("/pics/a", None)], "both")


def deletions_and_moves_are_told(place: Place) -> None:
    place.put("a", b"one")
    place.put("d/x", b"two")
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics"))
        (place.out() / "a").rename(place.out() / "b")
        expect(until_files(place, raw, 2) == [("/pics/a", None), ("/pics/b", b"one")], "a move")
        (place.out() / "b").unlink()
        expect(until_files(place, raw, 3)[2:] == [("/pics/b", None)], "a deletion")
        (place.out() / "d").rename(place.out() / "e")
        found = until_last(place, raw, "/pics/e/x")[3:]
        expect(("/pics/d/x", None) in found and ("/pics/e/x", b"two") in found, f"a directory: {found}")
        (place.out() / "e").rename(place.out() / "d")
        found = until_last(place, raw, "/pics/d/x")
        expect(found[-1] == ("/pics/d/x", b"two") and ("/pics/e/x", None) in found, f"and back: {found}")


def new_folders_are_looked_into(place: Place) -> None:
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics/not/yet"))
        place.put("not/yet/a/b/c", b"deep")
        place.put("not/elsewhere", b"x")
        place.put("not/yetanother", b"x")
        # A listing may find the file while it is written, and the path before it exists.
        found = until_sent(place, raw, "/pics/not/yet/a/b/c", b"deep")
        expect({name for name, _ in found} <= {"/pics/not/yet", "/pics/not/yet/a/b/c"}, f"no other file: {found}")
        (place.root / "made/sub").mkdir(parents=True)
        (place.root / "made/sub/f").write_bytes(b"moved")
        (place.root / "made").rename(place.out() / "not/yet/made")
        found = until_sent(place, raw, "/pics/not/yet/made/sub/f", b"moved")[len(found):]
        expect(found == [("/pics/not/yet/made/sub/f", b"moved")], f"a folder moved here: {found}")


def two_subscriptions_share_a_client(place: Place) -> None:
    place.put("sub/big", BIG)
    place.put("sub/more", BIG)
    place.put("b", BIG, 1)
    with served(place, "/pics", "/docs") as server:
        raw = subscribed(place, server, Icanhaz("/pics", RESYNC), Icanhaz("/docs", RESYNC))
        found = until_files(place, raw, 3)
        expect(sorted(found) == [("/docs/b", BIG), ("/pics/sub/big", BIG), ("/pics/sub/more", BIG)], "three files")
        both = subscribed(place, server, Icanhaz("/"), Icanhaz("/pics/sub"))
        place.put("sub/c", b"c")
        expect(until_files(place, both, 2) == [("/pics/sub/c", b"c")] * 2, "once for each subscription")
        place.put("d", b"d", 1)
        expect(until_files(place, both, 3)[2:] == [("/docs/d", b"d")], "all folders are below /")


def one_file_may_be_subscribed_to(place: Place) -> None:
    place.put("a", b"one")
    place.put("ab", b"other")
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics/a", RESYNC))
        until_files(place, raw, 1)
        place.put("ab", b"changed")
        place.put("a", b"two")
        expect(until_files(place, raw, 2) == [("/pics/a", b"one"), ("/pics/a", b"two")], "it and no other")


def a_file_that_changes_begins_again(place: Place) -> None:
    path = place.put("a", BIG)
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics", RESYNC), credit=Nom(CHUNK_BYTES, 0))
        place.until(lambda: content_of(raw) == CHUNK_BYTES, "a chunk")
        (place.root / "new").write_bytes(b"now shorter")
        (place.root / "new").rename(path)
        raw.send(PLENTY)
        place.until(lambda: any(burger.eof for burger in raw.burgers()), "the end")
        expect(whole(raw.burgers())[0] == ("/pics/a", b"now shorter"), "it is the new one")
        raw = subscribed(place, server, Icanhaz("/pics"), credit=Nom(CHUNK_BYTES, 0))
        place.put("b", BIG)
        place.until(lambda: content_of(raw) == CHUNK_BYTES, "a chunk")
        (place.out() / "b").unlink()
        raw.send(PLENTY)
        place.until(lambda: any(burger.operation == Operation.DELETE for burger in raw.burgers()), "a deletion")
        expect([name for name, _ in whole(raw.burgers())[:2]] == ["/pics/b"] * 2, "it ends, and is removed")


def unknown_options_are_ignored(place: Place) -> None:
    place.put("a", b"one")
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics", {"UNKNOWN": "option", "RESYNC": "1", "": ""}))
        expect(until_files(place, raw, 1) == [("/pics/a", b"one")], "it is sent")
        raw = subscribed(place, server, Icanhaz("/pics", {"RESYNC": "0"}), Icanhaz("/nowhere", RESYNC))
        place.put("b", b"two")
        expect(until_last(place, raw, "/pics/b") == [("/pics/b", b"two")], "no RESYNC")


def ohai_begins_anew(place: Place) -> None:
    place.put("a", BIG)
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics", RESYNC), credit=Nom(1000, 0))
        place.until(lambda: content_of(raw) == 1000, "the beginning of a file")
        before = len(raw.got)
        raw.send(Ohai())
        place.until(lambda: OhaiOk() in raw.got[before:], "OHAI-OK")
        after = len(raw.got)
        raw.send(PLENTY)
        place.put("b", b"not subscribed to")
        place.fence(raw)
        expect(set(raw.got[after:]) == {HugzOk()}, f"subscriptions are gone: {raw.got[after:]}")
        raw.send(Icanhaz("/pics/a", RESYNC))
        place.until(lambda: any(burger.eof for burger in raw.burgers()), "the file")
        burgers = [got for got in raw.got[after:] if isinstance(got, Cheezburger)]
        expect(whole(burgers) == [("/pics/a", BIG)], "from its beginning")


def kthxbai_ends_a_session(place: Place) -> None:
    with served(place) as server:
        raw = subscribed(place, server, Icanhaz("/pics"))
        raw.send(Kthxbai())
        raw.send(Hugz())
        place.until(lambda: isinstance(raw.got[-1], Rtfm), "RTFM")
        before, other = len(raw.got), subscribed(place, server, Icanhaz("/pics"))
        place.put("a", b"one")
        until_files(place, other, 1)
        raw.send(Ohai())
        place.until(lambda: OhaiOk() in raw.got[before:], "OHAI-OK")
        expect(not raw.burgers(), "nothing came")


def nonsense_gets_rtfm(place: Place) -> None:
    with served(place) as server:
        strangers: list[Command | bytes] = [Icanhaz("/"), Nom(1, 0), Hugz(), Ohai("OTHER"), Ohai(version=1)]
        for command in strangers:
            raw = place.raw(server, greeted=False)
            raw.send(command)
            place.until(lambda: raw.got, "an answer")
            expect(isinstance(raw.got[0], Rtfm), f"{command!r}: {raw.got}")
        greeted: list[Command | bytes] = [OhaiOk(), Rtfm(""), Icanhaz("relative"), Icanhaz(""), Icanhaz("/pics/../.."),
                                          Icanhaz("//etc"), Icanhaz("/a\0b"), SIGNATURE, SIGNATURE + b"\x02"]
        for command in greeted:
            raw = place.raw(server)
            raw.send(command)
            place.until(lambda: len(raw.got) > 1, "an answer")
            expect(isinstance(raw.got[1], Rtfm), f"{command!r}: {raw.got}")


def other_signatures_are_ignored(place: Place) -> None:
    with served(place) as server:
        raw = place.raw(server)
        raw.send(b"", b"\xaa", b"HELLO", b"\xaa\xa0\x01")
        place.fence(raw)
        expect(set(map(type, raw.got)) == {OhaiOk, HugzOk}, f"{raw.got}")


def the_correct_client_keeps_a_copy(place: Place) -> None:
    for number, switches in enumerate(([], [ClientSwitch.RELATIVE_CACHE, ClientSwitch.UPPER_CASE],
                                       [ClientSwitch.EOF_IGNORED], [ClientSwitch.IN_PLACE])):
        with Place() as inner, served(inner) as server:
            inner.put("sub/a", BIG * 5)
            client = inner.client(server, resync=True, switches=switches)
            inner.updated(client, "/pics/sub/a", BIG * 5)
            path = inner.put("b", b"two")
            inner.updated(client, "/pics/b", b"two")
            path.unlink()
            inner.event(client, "FILE DELETED", "/pics/b")
            inner.peers.remove(client)
            client.close()
            again = inner.client(server, resync=True, switches=switches)
            inner.put("c", b"three")
            inner.event(again, "FILE UPDATED", "/pics/c")
            expect("VIOLATION" not in inner.kinds(client) and "FILE REFUSED" not in inner.kinds(client), f"{number}")
            expect(not any("/pics/sub/a" in event.fields for event in again.events), "what is here comes not again")


def scripts_leave_the_server_alive(place: Place) -> None:
    scripts = [switch for switch in ClientSwitch if switch.help.startswith("attack")]
    with served(place) as server:
        for number, switch in enumerate(scripts):
            hostile = place.client(server, inbox=f"hostile-{switch}", switches=[switch], repeats=12_000, ready=False)
            if switch is not ClientSwitch.NO_CREDIT:
                place.event(hostile, "SCRIPT DONE")
            client = place.client(server, inbox=f"in-{switch}")
            place.put(f"a-{number}", b"%d" % number)
            place.updated(client, f"/pics/a-{number}", b"%d" % number)
            for peer in (hostile, client):
                place.peers.remove(peer)
                peer.close()


BEHAVIOURS = (
    everything_is_sent_for_resync, only_changes_are_sent_without_resync, files_of_the_cache_are_left_out,
    credit_is_never_exceeded, empty_files_and_deletions_need_no_credit, deletions_and_moves_are_told,
    new_folders_are_looked_into, two_subscriptions_share_a_client, one_file_may_be_subscribed_to,
    a_file_that_changes_begins_again, unknown_options_are_ignored, ohai_begins_anew, kthxbai_ends_a_session,
    nonsense_gets_rtfm, other_signatures_are_ignored, the_correct_client_keeps_a_copy, scripts_leave_the_server_alive,
)
