"""What the correct client and the correct server do with each other, and a raw socket with either."""
from __future__ import annotations

import os

from .client import CREDIT_MINIMUM, CREDIT_SLICE, Client, State
from .place import Clock, Place, expect, touch_later
from .switches import ClientSwitch, ServerSwitch
from .tree import sha1_hex
from .wire import (SIGNATURE, Cheezburger, Command, Hugz, HugzOk, Icanhaz, IcanhazOk, Kthxbai, Nom, Ohai, OhaiOk,
                   Operation, Rtfm, Srsly)

BIG = bytes(range(256)) * 10_000


def new_files_arrive(place: Place) -> None:
    server = place.server()
    client = place.client(server)
    files = {"a.txt": b"one", "empty": b"", "deep/er/b c.txt": BIG, "ü.txt": b"\0\xff", "x" * 255: b"long"}
    files[os.fsdecode(b"no-utf-8-\xff")] = b"octets"
    for name, content in files.items():
        place.put(name, content)
    server.scan()
    for name, content in sorted(files.items()):
        place.updated(client, f"/pics/{name}", content)
    expect(not list(client.inbox.root.rglob(".filemq-part")), "a part is left")


def a_changed_file_arrives_anew(place: Place) -> None:
    server = place.server()
    client = place.client(server)
    for content in (b"one", BIG, b"shorter", b"shortee", b""):
        touch_later(place.put("a", content))
        server.scan()
        place.updated(client, "/pics/a", content)


def a_deletion_arrives(place: Place) -> None:
    server = place.server()
    client = place.client(server)
    path = place.put("a", b"one")
    server.scan()
    place.updated(client, "/pics/a", b"one")
    path.unlink()
    server.scan()
    place.event(client, "FILE DELETED", "/pics/a")
    expect(place.got("pics/a") is None, "the file is still there")


def an_unknown_file_is_not_deleted_twice(place: Place) -> None:
    path = place.put("a", b"one")
    server = place.server()
    client = place.client(server)
    path.unlink()
    server.scan()
    place.put("b", b"two")
    server.scan()
    place.event(client, "FILE UPDATED", "/pics/b")
    expect("FILE DELETED" not in place.kinds(client), "nothing was there to delete")


def existing_files_need_resync(place: Place) -> None:
    place.put("old", b"old")
    server = place.server()
    client = place.client(server)
    asks = place.client(server, inbox="asks", resync=True)
    place.updated(asks, "/pics/old", b"old")
    place.put("new", b"new")
    server.scan()
    place.updated(client, "/pics/new", b"new")
    expect(place.got("pics/old") is None, "no RESYNC was asked for")


def resync_with(*switches: ClientSwitch) -> None:
    with Place() as place:
        place.put("same", b"same")
        place.put("other", b"theirs")
        place.put("missing", b"missing")
        server = place.server()
        inbox = place.root / "in/pics"
        inbox.mkdir(parents=True)
        (inbox / "same").write_bytes(b"same")
        (inbox / "other").write_bytes(b"mine")
        client = place.client(server, resync=True, switches=switches, ready=False)
        place.event(client, "SUBSCRIBED", "/pics")
        place.event(server, "ICANHAZ", "cache=2")
        place.fence(client)
        names = [event.fields[-1] for event in client.events if event.kind == "FILE UPDATED"]
        expect(names == ["/pics/missing", "/pics/other"], f"sent: {names}")
        expect(place.got("pics/other") == b"theirs", "the newer file")


def resync_leaves_out_what_the_cache_names(_: Place) -> None:
    resync_with()
    resync_with(ClientSwitch.RELATIVE_CACHE)
    resync_with(ClientSwitch.UPPER_CASE)


def a_cache_of_other_paths_is_ignored(place: Place) -> None:
    digest = sha1_hex(place.put("a", b"one"))
    server = place.server()
    cases: list[tuple[str, str, int]] = [
        ("/pics/a", "/pics", 0), ("a", "/pics/", 0), ("pics/a", "/", 0), ("/elsewhere/a", "/pics", 1), ("a", "/", 1),
    ]
    for key, path, sent in cases:
        raw = place.raw(server)
        raw.send(Nom(CREDIT_SLICE, 0), Icanhaz(path, {"RESYNC": "1"}, {key: digest}))
        place.fence(raw)
        expect(len(raw.burgers()) == 2 * sent, f"{key} below {path}")


def credit_is_never_exceeded(place: Place) -> None:
    place.put("a", b"x" * 1000)
    server = place.server()
    raw = place.raw(server)
    raw.send(Icanhaz("/", {"RESYNC": "1"}))
    granted = 0
    for credit in (0, 1, 10, 0, 500, 488):
        raw.send(Nom(credit, 0))
        granted += credit
        place.fence(raw)
        sent = sum(len(burger.chunk) for burger in raw.burgers())
        expect(sent == granted, f"{sent} octets for a credit of {granted}")
    expect(not raw.burgers()[-1].eof, "one octet is missing")
    raw.send(Nom(1, 0))
    place.fence(raw)
    burgers = raw.burgers()
    expect([burger.sequence for burger in burgers] == list(range(len(burgers))), "sequence numbers")
    expect(burgers[-1].eof == 1 and burgers[-1].offset == 1000 and not burgers[-1].chunk, "the empty end")


def chunks_are_those_of_libfilemq(place: Place) -> None:
    server = place.server()
    raw = place.raw(server)
    raw.send(Icanhaz("/pics/"), Nom(5_000_000, 0))
    place.fence(raw)
    place.put("a", BIG)
    place.put("b", b"").unlink()
    server.scan()
    place.until(lambda: len(raw.burgers()) == 4, "four chunks")
    sizes = [(burger.offset, len(burger.chunk), burger.eof) for burger in raw.burgers()]
    wanted = [(0, 1_000_000, 0), (1_000_000, 1_000_000, 0), (2_000_000, 560_000, 0), (2_560_000, 0, 1)]
    expect(sizes == wanted, f"{sizes}")
    expect(all(burger.operation == Operation.CREATE for burger in raw.burgers()), "operations")


def the_client_tops_up(place: Place) -> None:
    server = place.server()
    client = place.client(server)
    (session,) = server.sessions.values()
    credits = [session.credit]
    place.watch = lambda: credits.append(session.credit)
    place.put("a", BIG * 5)
    server.scan()
    place.updated(client, "/pics/a", BIG * 5)
    expect(credits[0] == 5_000_000 and max(credits) <= 5_000_000, f"the largest credit: {max(credits)}")
    place.fence(client)
    expect(session.credit == client.credit >= CREDIT_MINIMUM, "both sides count alike")


def clients_get_their_own_paths(place: Place) -> None:
    server = place.server("/pics", "/docs")
    clients = {path: place.client(server, path, inbox=f"in{number}")
               for number, path in enumerate(["/pics", "/docs", "/", "/pics/sub", "/p", "/nowhere"])}
    names = {"a": 0, "sub/b": 0, "c": 1}
    for name, number in names.items():
        place.put(name, name.encode(), number)
    server.scan()
    virtual = [f"/{('pics', 'docs')[number]}/{name}" for name, number in names.items()]
    for path, client in clients.items():
        place.fence(client)
        got = sorted(event.fields[-1] for event in client.events if event.kind.startswith("FILE"))
        expect(got == sorted(name for name in virtual if name.startswith(path)), f"{path}: {got}")


def more_subscriptions_may_follow(place: Place) -> None:
    server = place.server("/pics", "/docs")
    client = place.client(server, "/pics")
    client.subscribe("/docs")
    place.event(client, "SUBSCRIBED", "/docs")
    place.put("a", b"a", 0)
    place.put("b", b"b", 1)
    server.scan()
    place.updated(client, "/pics/a", b"a")
    place.updated(client, "/docs/b", b"b")


def a_file_is_sent_when_it_is_stable(place: Place) -> None:
    wall = Clock(0)
    server = place.server(stable_s=1, wall=wall)
    client = place.client(server)
    wall.now = place.put("a", b"one").stat().st_mtime + 0.9
    server.scan()
    place.fence(client)
    expect("FILE UPDATED" not in place.kinds(client), "it is too young")
    wall.now += 0.2
    server.scan()
    place.updated(client, "/pics/a", b"one")
    touch_later(place.put("a", b"too young again"))
    server.scan()
    place.fence(client)
    expect("FILE UPDATED" not in place.kinds(client), "the change is too young")
    (place.out() / "a").unlink()
    server.scan()
    place.event(client, "FILE DELETED", "/pics/a")


def the_server_polls_by_itself(place: Place) -> None:
    server = place.server(poll_s=0.01)
    client = place.client(server)
    place.put("a", b"one")
    place.updated(client, "/pics/a", b"one")


def a_link_file_is_followed(place: Place) -> None:
    (place.root / "target").write_bytes(b"linked")
    server = place.server()
    client = place.client(server)
    place.put("a.ln", f"{place.root}/target\n".encode())
    server.scan()
    place.updated(client, "/pics/a", b"linked")


def hugz_is_answered(place: Place) -> None:
    server = place.server()
    raw = place.raw(server)
    raw.send(Hugz())
    place.until(lambda: raw.got[-1:] == [HugzOk()], "HUGZ-OK")
    place.peers.remove(raw)
    raw.close()
    client = place.client(server)
    server.tell_all(Hugz())
    place.event(server, "HUGZ-OK")
    expect({*place.kinds(client)} == {"HUGZ-OK"} and "RTFM" not in place.kinds(server), "nothing else")


def a_silent_client_is_forgotten(place: Place) -> None:
    clock = Clock()
    server = place.server(clock=clock)
    raw = place.raw(server)
    clock.now += 59
    raw.send(Hugz())
    place.fence(raw)
    clock.now += 59
    place.fence(raw)
    clock.now += 61
    server.step()
    place.event(server, "SILENT")
    raw.send(Nom(1, 0))
    place.until(lambda: isinstance(raw.got[-1], Rtfm), "RTFM")


def a_silent_server_is_left_and_found_again(place: Place) -> None:
    clock = Clock()
    server = place.server()
    client = place.client(server, heartbeat_s=1, clock=clock)
    place.peers.remove(server)
    for _ in range(5):
        clock.now += 1.1
        client.step()
    expect(client.events[-1].kind == "DISCONNECT", "five silent intervals")
    place.peers.append(server)
    place.event(client, "SUBSCRIBED", "/pics")
    place.fence(client)
    place.put("a", b"one")
    server.scan()
    place.updated(client, "/pics/a", b"one")


def heartbeats_keep_a_client(place: Place) -> None:
    clock = Clock()
    server = place.server()
    client = place.client(server, heartbeat_s=1, clock=clock)
    for _ in range(10):
        clock.now += 1.1
        place.event(client, "HUGZ-OK")
    expect("DISCONNECT" not in place.kinds(client), "the server has answered")


def ohai_begins_anew(place: Place) -> None:
    server = place.server()
    raw = place.raw(server)
    raw.send(Icanhaz("/"), Nom(10, 0))
    place.fence(raw)
    place.put("a", b"x" * 100)
    server.scan()
    place.fence(raw)
    raw.send(Ohai(), Icanhaz("/", {"RESYNC": "1"}), Nom(1000, 0))
    place.fence(raw)
    sizes = [(burger.sequence, burger.offset, len(burger.chunk)) for burger in raw.burgers()]
    expect(sizes == [(0, 0, 10), (0, 0, 100), (1, 100, 0)], f"{sizes}")


def a_client_may_restart_in_a_file(place: Place) -> None:
    server = place.server(switches=[ServerSwitch.SMALL_CHUNKS])
    client = place.client(server, resync=True)
    place.put("a", BIG)
    server.scan()
    place.until(lambda: client.incoming, "the beginning of a file")
    client.restart()
    place.event(client, "SUBSCRIBED", "/pics")
    place.updated(client, "/pics/a", BIG)
    expect("VIOLATION" not in place.kinds(client), "the rest of the old session is dropped")


def wrong_commands_get_rtfm(place: Place) -> None:
    server = place.server()
    strangers: list[Command | bytes] = [
        Icanhaz("/"), Nom(1, 0), Hugz(), Kthxbai(), Ohai("OTHER"), Ohai(version=1), SIGNATURE + b"\x02",
    ]
    for command in strangers:
        raw = place.raw(server, greeted=False)
        raw.send(command)
        place.until(lambda: raw.got, "an answer")
        expect(isinstance(raw.got[0], Rtfm), f"{command!r}: {raw.got}")
    greeted: list[Command | bytes] = [
        OhaiOk(), IcanhazOk(), Cheezburger(), Rtfm(""), Icanhaz("relative"), Icanhaz(""), SIGNATURE,
    ]
    for command in greeted:
        raw = place.raw(server)
        raw.send(command)
        place.until(lambda: len(raw.got) > 1, "an answer")
        expect(isinstance(raw.got[1], Rtfm), f"{command!r}: {raw.got}")
    expect(not server.sessions, "RTFM ends a session")


def frames_without_signature_are_ignored(place: Place) -> None:
    server = place.server()
    raw = place.raw(server)
    raw.send(b"", b"\xaa", b"HELLO", b"\xaa\xa0\x01")
    place.fence(raw)
    expect(set(map(type, raw.got)) == {OhaiOk, HugzOk}, f"{raw.got}")


def a_denied_path_gets_srsly(place: Place) -> None:
    server = place.server(deny=["/pics/secret"])
    raw = place.raw(server)
    raw.send(Icanhaz("/pics/secret/a"), Icanhaz("/pics"), Nom(1, 0), SIGNATURE, Ohai())
    place.until(lambda: raw.got[-1] == OhaiOk() and len(raw.got) > 1, "a new session")
    expect(list(map(type, raw.got)) == [OhaiOk, Srsly, OhaiOk], f"{raw.got}")
    client = place.client(server, "/pics/secret", ready=False)
    place.event(client, "SRSLY")
    expect(client.state is State.ENDED, "a refusal ends the client")


def kthxbai_ends_a_session(place: Place) -> None:
    server = place.server()
    client = place.client(server)
    client.close()
    place.event(server, "KTHXBAI")
    expect(not server.sessions, "the session is gone")
    other = place.client(server)
    server.tell_all(Kthxbai())
    place.event(other, "DISCONNECT")
    expect(other.state is State.ENDED, "the server has left")


def rtfm_ends_a_client_or_begins_anew(place: Place) -> None:
    server = place.server()
    ends, stays = place.client(server), place.client(server, inbox="in2", reconnect_on_rtfm=True)
    for client in (ends, stays):
        client.send(Icanhaz("relative"))
        place.event(client, "RTFM")
    expect(ends.state is State.ENDED, "by default it ends")
    place.event(stays, "SUBSCRIBED", "/pics")


def many_clients_share_a_server(place: Place) -> None:
    server = place.server()
    clients: list[Client] = [place.client(server, inbox=f"in{number}") for number in range(10)]
    place.put("a", BIG)
    place.put("b", b"two")
    server.scan()
    for client in clients:
        place.updated(client, "/pics/a", BIG)
        place.updated(client, "/pics/b", b"two")


BEHAVIOURS = (
    new_files_arrive, a_changed_file_arrives_anew, a_deletion_arrives, an_unknown_file_is_not_deleted_twice,
    existing_files_need_resync, resync_leaves_out_what_the_cache_names, a_cache_of_other_paths_is_ignored,
    credit_is_never_exceeded, chunks_are_those_of_libfilemq, the_client_tops_up, clients_get_their_own_paths,
    more_subscriptions_may_follow, a_file_is_sent_when_it_is_stable, the_server_polls_by_itself,
    a_link_file_is_followed, hugz_is_answered, a_silent_client_is_forgotten, a_silent_server_is_left_and_found_again,
    heartbeats_keep_a_client, ohai_begins_anew, a_client_may_restart_in_a_file, wrong_commands_get_rtfm,
    frames_without_signature_are_ignored, a_denied_path_gets_srsly, kthxbai_ends_a_session,
    rtfm_ends_a_client_or_begins_anew, many_clients_share_a_server,
)
