"""What each switch of the server does, and how the correct client lives with it."""
from __future__ import annotations

import os
from pathlib import Path

from .client import Client, State
from .inbox import Inbox, Refused
from .place import Failure, Place, expect, touch_later
from .protocol import BIG
from .server import Aborted, Server
from .switches import ClientSwitch, ServerSwitch
from .tree import sha1_hex
from .wire import Cheezburger, Icanhaz, Nom, Ohai, Operation, Srsly

CREDIT = Nom(5_000_000, 0)
RESYNC = {"RESYNC": "1"}


def outside(place: Place, inbox: str = "in") -> set[Path]:
    """All that lies beside the inbox."""
    return {path for path in place.root.rglob("*") if not path.is_relative_to(place.root / inbox)}


def no_resync_and_an_ignored_cache(place: Place) -> None:
    digest = sha1_hex(place.put("a", b"one"))
    for switch, sent in ((ServerSwitch.NO_RESYNC, 0), (ServerSwitch.CACHE_IGNORED, 2)):
        raw = place.raw(place.server(switches=[switch]))
        raw.send(CREDIT, Icanhaz("/", RESYNC, {"/pics/a": digest}))
        place.fence(raw)
        expect(len(raw.burgers()) == sent, f"{switch}: {raw.burgers()}")


def the_livelock_repeats_a_chunk(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.LIVELOCK, ServerSwitch.SMALL_CHUNKS])
    raw = place.raw(server)
    raw.send(Icanhaz("/"), Nom(1500, 0))
    place.fence(raw)
    place.put("a", b"x" * 3000)
    server.scan()
    place.event(server, "LIVELOCK")
    raw.send(CREDIT)
    place.until(lambda: len(raw.burgers()) > 10, "repeated chunks")
    expect(len(set(map(repr, raw.burgers()))) == 1, "all are the same")


def a_client_of_libfilemqs_credit_meets_the_livelock(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.LIVELOCK])
    client = place.client(server)
    place.put("a", b"x" * 560_000)
    place.put("b", b"x" * 6_000_000)
    server.scan()
    place.event(client, "FILE UPDATED", "/pics/a")
    place.event(client, "VIOLATION", "/pics/b")
    expect(server.stuck, "the server is in it")


def without_the_livelock_small_credit_works(place: Place) -> None:
    server = place.server()
    client = place.client(server)
    place.put("a", b"x" * 560_000)
    place.put("b", b"x" * 6_000_000)
    server.scan()
    place.updated(client, "/pics/a", b"x" * 560_000)
    place.updated(client, "/pics/b", b"x" * 6_000_000)


def a_stray_message_comes_at_the_end(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.STRAY_AT_END])
    raw = place.raw(server)
    raw.send(Icanhaz("/"), CREDIT)
    place.fence(raw)
    expect(raw.burgers() == [Cheezburger()], "a blank one for the first NOM")
    client = place.client(server)
    place.put("a", b"one")
    server.scan()
    place.updated(client, "/pics/a", b"one")
    place.event(client, "FILE STRAY", "/pics/a")
    place.until(lambda: len(raw.burgers()) == 4, "data, the end, and the end again")
    expect(raw.burgers()[-1] == raw.burgers()[-2], "the last message twice")
    other = place.client(server, "/docs", inbox="in2")
    place.fence(other)
    expect([event.fields for event in other.events if event.kind == "FILE FOREIGN"] == [("/pics/a",)],
           "another client's message")


def every_file_of_a_mount_goes_to_all(place: Place) -> None:
    server = place.server("/pics", "/docs", switches=[ServerSwitch.EVERYTHING_TO_ALL])
    client = place.client(server, "/pics/sub")
    place.put("a", BIG)
    place.put("sub/b", b"two")
    place.put("c", b"three", 1)
    server.scan()
    place.updated(client, "/pics/sub/b", b"two")
    place.fence(client)
    (session,) = server.sessions.values()
    expect(place.got("pics/a") is None, "a foreign file")
    expect(session.credit == client.credit, "the credit of foreign files is used, and comes back")


def an_unknown_path_means_the_first_mount(place: Place) -> None:
    server = place.server("/pics", "/docs", switches=[ServerSwitch.FIRST_MOUNT])
    client = place.client(server, "/nowhere")
    place.put("a", b"one")
    place.put("b", b"two", 1)
    server.scan()
    place.event(client, "FILE FOREIGN", "/pics/a")
    place.fence(client)
    expect("FILE FOREIGN" not in place.kinds(client), "nothing of the second")


def edits_within_a_second_are_missed(place: Place) -> None:
    for coarse in (False, True):
        switches = [ServerSwitch.MTIME_SECONDS] if coarse else []
        path = place.put("a", b"one")
        os.utime(path, ns=(10**18, 10**18))
        server = place.server(switches=switches)
        path.write_bytes(b"two")
        os.utime(path, ns=(10**18, 10**18 + 1))
        raw = place.raw(server)
        raw.send(Icanhaz("/"), CREDIT)
        place.fence(raw)
        server.scan()
        place.fence(raw)
        expect(len(raw.burgers()) == (0 if coarse else 2), f"{switches}: {raw.burgers()}")


def truncation_aborts_a_server(place: Place) -> None:
    for aborts in (False, True):
        switches = [ServerSwitch.ABORT_ON_TRUNCATION] if aborts else []
        path = place.put("a", BIG)
        server = place.server(switches=switches)
        raw = place.raw(server)
        raw.send(Icanhaz("/", RESYNC), Nom(1_000_000, 0))
        place.fence(raw)
        path.write_bytes(b"short")
        raw.send(CREDIT)
        try:
            place.fence(raw)
        except Aborted:
            expect(aborts, "a correct server goes on")
            place.peers.remove(server)
            server.close()
        else:
            expect(not aborts and raw.burgers()[-1].eof, "the file ends")


def the_end_may_come_with_data(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.EOF_WITH_DATA, ServerSwitch.SMALL_CHUNKS, ServerSwitch.HEADERS])
    client, raw = place.client(server), place.raw(server)
    raw.send(Icanhaz("/"), CREDIT)
    place.fence(raw)
    for size in (0, 1, 1000, 1001, 2000):
        touch_later(place.put(f"{size}", b"x" * size))
        server.scan()
        place.updated(client, f"/pics/{size}", b"x" * size)
    place.fence(raw)
    expect([burger.eof for burger in raw.burgers()] == [1, 1, 1, 0, 1, 0, 1], "eof")
    expect(all(burger.chunk for burger in raw.burgers()[1:]), "no empty chunks")


def a_server_may_refuse(place: Place) -> None:
    refuses = place.client(place.server(switches=[ServerSwitch.REFUSE_OHAI]), ready=False)
    place.event(refuses, "SRSLY")
    server = place.server(switches=[ServerSwitch.RTFM_SECOND_ICANHAZ])
    second = place.client(server, "/pics", "/docs", ready=False)
    place.event(second, "SUBSCRIBED", "/pics")
    place.event(second, "RTFM")
    expect(refuses.state is second.state is State.ENDED, "both have ended")


def more_than_the_credit_ends_a_client(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.BEYOND_CREDIT])
    raw = place.raw(server)
    raw.send(Icanhaz("/"))
    place.fence(raw)
    place.put("a", b"x" * 6_000_000)
    server.scan()
    place.fence(raw)
    expect(len(raw.burgers()[0].chunk) == 6_000_000, "without any credit")
    client = place.client(server, resync=True, ready=False)
    place.event(client, "VIOLATION", "beyond credit")
    expect(client.state is State.ENDED and place.got("pics/a") is None, "it has ended")


def attacked(place: Place, *switches: ServerSwitch, path: str = "/") -> tuple[Server, Client]:
    server = place.server(switches=switches)
    client = place.client(server, path)
    place.put("a", b"x" * 2_500_000)
    server.scan()
    return server, client


def other_signatures_are_skipped(place: Place) -> None:
    _, client = attacked(place, ServerSwitch.WRONG_SIGNATURE)
    place.updated(client, "/pics/a", b"x" * 2_500_000)


def broken_chunks_end_a_client(_: Place) -> None:
    for switch in (ServerSwitch.TRUNCATED, ServerSwitch.HUGE_LENGTHS):
        with Place() as place:
            client = attacked(place, switch)[1]
            place.event(client, "VIOLATION", "malformed")
            expect(client.state is State.ENDED, "it has ended")


def false_offsets_are_refused(place: Place) -> None:
    server, client = attacked(place, ServerSwitch.OFFSET_LIE)
    place.event(client, "VIOLATION", "/pics/a")
    place.fence(client)
    expect("VIOLATION" not in place.kinds(client), "it is reported once")
    expect(place.got("pics/a") is None and place.got(".filemq-part") is None, "nothing is left of it")
    place.put("empty", b"")
    server.scan()
    place.updated(client, "/pics/empty", b"")


def a_file_without_end_is_given_up(place: Place) -> None:
    server, client = attacked(place, ServerSwitch.NEVER_ENDS)
    place.put("b", b"two")
    server.scan()
    place.event(client, "VIOLATION", "not ended", "/pics/a")
    expect(place.got("pics/a") is None, "it is not whole")


def no_name_leads_out_of_the_inbox(place: Place) -> None:
    victim = place.root / "victim"
    victim.write_bytes(b"alive")
    before = outside(place)
    attacks = [ServerSwitch.DOTDOT_NAMES, ServerSwitch.ABSOLUTE_NAMES, ServerSwitch.ODD_NAMES,
               ServerSwitch.DELETE_ROOT, ServerSwitch.BAD_OPERATION]
    server, client = attacked(place, *attacks)
    place.updated(client, "/pics/a", b"x" * 2_500_000)
    expect(outside(place) == before | {place.out(), place.out() / "a"}, "files beside the inbox")
    expect(victim.read_bytes() == b"alive", "a file beside the inbox")
    expect(not list(client.inbox.root.rglob("inside")), "`..` is refused also where it does no harm")
    (session,) = server.sessions.values()
    place.fence(client)
    expect(session.credit == client.credit, "refused files count, too")


def a_correct_client_gives_no_credit_away(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.EVERYTHING_TO_ALL])
    for leaks in (False, True):
        client = place.client(server, "/pics/sub", inbox=f"in-{leaks}",
                              switches=[ClientSwitch.CREDIT_LEAK] if leaks else [])
        touch_later(place.put("a", b"x" * (7_000_000 + leaks)))
        server.scan()
        place.fence(client)
        session = list(server.sessions.values())[-1]
        if leaks:
            expect(session.credit == 0 and session.transfer and client.credit == 5_000_000, "it has stalled")
        else:
            place.event(server, "SENT", "/pics/a")


def a_file_after_a_restart_goes_into_the_old_one(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.SMALL_CHUNKS])
    client = place.client(server, switches=[ClientSwitch.NAME_IGNORED])
    place.put("a", BIG)
    server.scan()
    place.until(lambda: client.incoming, "the beginning of a file")
    client.restart()
    place.event(client, "SUBSCRIBED", "/pics")
    place.fence(client)
    place.put("b", b"two")
    server.scan()
    place.event(client, "FILE UPDATED", "/pics/a")
    expect((place.got("pics/a") or b"").startswith(b"two\x03\x04"), "b in a")


def a_longer_file_keeps_its_end(place: Place) -> None:
    server = place.server()
    client = place.client(server, switches=[ClientSwitch.IN_PLACE])
    (place.root / "in/pics").mkdir()
    (place.root / "in/pics/a").write_bytes(b"a long one")
    place.put("a", b"new")
    server.scan()
    place.event(client, "FILE UPDATED", "/pics/a")
    expect(place.got("pics/a") == b"newong one", "the rest stays")


def only_an_empty_chunk_ends_a_file(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.EOF_WITH_DATA])
    client = place.client(server, switches=[ClientSwitch.EOF_IGNORED])
    place.put("a", b"one")
    server.scan()
    place.event(server, "SENT", "/pics/a")
    place.fence(client)
    expect("FILE UPDATED" not in place.kinds(client) and client.incoming, "it waits for an empty chunk")


def traversal_leads_out_but_not_beyond_its_limit(place: Place) -> None:
    inbox, limit = place.root / "limit/deep/in", place.root / "limit"
    inbox.mkdir(parents=True)
    (inbox.parent / "victim").write_bytes(b"alive")
    before = outside(place, "limit")
    server = place.server(switches=[ServerSwitch.DOTDOT_NAMES, ServerSwitch.DELETE_ROOT])
    client = place.client(server, "/", inbox="limit/deep/in", switches=[ClientSwitch.TRAVERSAL], traversal_below=limit)
    place.put("a", b"one")
    server.scan()
    place.updated(client, "/pics/a", b"one")
    expect((inbox.parent / "escaped-1").exists(), "it is written beside the inbox")
    expect(not (inbox.parent / "victim").exists(), "it is deleted beside the inbox")
    expect(outside(place, "limit") == before | {place.out(), place.out() / "a"}, "it went too far")
    try:
        Client(server.endpoint, inbox, switches=[ClientSwitch.TRAVERSAL], context=place.context)
    except ValueError:
        return
    raise Failure("traversal without a limit")


def an_inbox_has_its_limits(place: Place) -> None:
    (place.root / "elsewhere").mkdir()
    correct = Inbox(place.root / "in", frozenset())
    (correct.root / "link").symlink_to(place.root / "elsewhere")
    loose = Inbox(place.root / "limit/in", frozenset([ClientSwitch.TRAVERSAL]), place.root / "limit")
    expect(correct.place("/a/b") == correct.root / "a/b", "a name")
    expect(loose.place("/../b") == loose.root.parent / "b", "a name beside the inbox")
    for inbox, name in ((correct, "/link/b"), (loose, "/../../b"), (loose, "/../../limit-b/c")):
        try:
            inbox.place(name)
        except Refused:
            continue
        raise Failure(f"{name} leads out")


def errors_while_subscribing(place: Place) -> None:
    server = place.server()
    single = place.client(server, switches=[ClientSwitch.SECOND_SUBSCRIBE])
    single.subscribe("/docs")
    place.event(single, "ERROR")
    strict = place.client(server, inbox="in2", switches=[ClientSwitch.SUBSCRIBING])
    place.put("a", b"one")
    strict.subscribe("/docs")
    server.scan()
    place.event(strict, "ERROR", "CHEEZBURGER while subscribing")
    expect(strict.state is State.ENDED, "it has ended")


def an_unchecked_offset_leaves_a_hole(place: Place) -> None:
    server = place.server()
    client = place.client(server, switches=[ClientSwitch.OFFSET_UNCHECKED])
    place.put("a", b"x").unlink()
    (identity,) = server.sessions
    server.reply(identity, Cheezburger(0, Operation.CREATE, "/pics/a", 3, 1, {}, b"one"))
    place.updated(client, "/pics/a", b"\0\0\0one")


def a_client_may_grant_nothing(place: Place) -> None:
    server = place.server()
    place.put("a", b"one")
    client = place.client(server, switches=[ClientSwitch.NO_CREDIT])
    touch_later(place.put("a", b"two"))
    server.scan()
    place.fence(client)
    (session,) = server.sessions.values()
    expect(session.transfer and session.transfer.offset == 0, "the server waits")


def scripts_leave_the_server_alive(place: Place) -> None:
    scripts = [switch for switch in ClientSwitch if switch.help.startswith("attack")]
    for number, switch in enumerate(scripts):
        server = place.server()
        if switch is not ClientSwitch.NO_CREDIT:
            hostile = place.client(server, inbox=f"hostile-{switch}", switches=[switch], repeats=12_000, ready=False)
            place.event(hostile, "SCRIPT DONE")
            while server.socket.poll(0):
                server.step()
        client = place.client(server, inbox=f"in-{switch}")
        content = b"%d" % number
        touch_later(place.put(f"a-{number}", content))
        server.scan()
        place.updated(client, f"/pics/a-{number}", content)


def too_many_subscriptions_are_refused(place: Place) -> None:
    raw = place.raw(place.server())
    raw.send(*(Icanhaz(f"/{number}") for number in range(10_001)))
    place.until(lambda: isinstance(raw.got[-1], Srsly), "SRSLY")
    expect(len(raw.got) == 10_002, "all before were confirmed")
    raw.send(Ohai(), Icanhaz("/"))
    place.fence(raw)


BEHAVIOURS = (
    no_resync_and_an_ignored_cache, the_livelock_repeats_a_chunk, a_client_of_libfilemqs_credit_meets_the_livelock,
    without_the_livelock_small_credit_works, a_stray_message_comes_at_the_end, every_file_of_a_mount_goes_to_all,
    an_unknown_path_means_the_first_mount, edits_within_a_second_are_missed, truncation_aborts_a_server,
    the_end_may_come_with_data, a_server_may_refuse, more_than_the_credit_ends_a_client, other_signatures_are_skipped,
    broken_chunks_end_a_client, false_offsets_are_refused, a_file_without_end_is_given_up,
    no_name_leads_out_of_the_inbox, a_correct_client_gives_no_credit_away,
    a_file_after_a_restart_goes_into_the_old_one, a_longer_file_keeps_its_end, only_an_empty_chunk_ends_a_file,
    traversal_leads_out_but_not_beyond_its_limit, an_inbox_has_its_limits, errors_while_subscribing,
    an_unchecked_offset_leaves_a_hole, a_client_may_grant_nothing, scripts_leave_the_server_alive,
    too_many_subscriptions_are_refused,
)
