#!/usr/bin/python3
"""The modules pinnace.outbox and pinnace.inbox, over sqlite3, psycopg and psycopg2."""
import contextlib
import logging
import math
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path

import psycopg
import psycopg2
import psycopg2.extensions

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "tools"), str(HERE)]
from check import Checks, Failure, expect  # noqa: E402
from databases import Server, Sqlite  # noqa: E402
from pinnace import Client, inbox, outbox  # noqa: E402

SOON_S = 20
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TABLES = ("pinnace_outbox_headers", "pinnace_outbox", "pinnace_outbox_relay", "pinnace_handled")


class Killable:
    """A connection whose last commits are refused, as if the process were killed before them."""

    commits = math.inf

    def commit(self):
        self.commits -= 1
        if self.commits < 0:
            raise InterruptedError("killed")
        super().commit()


class InSqlite(Killable, sqlite3.Connection):
    pass


class InPsycopg(Killable, psycopg.Connection):
    pass


class InPsycopg2(Killable, psycopg2.extensions.connection):
    pass


class Place:
    """The directory and the database of one check, with its clients and connections, which end with it."""

    def __init__(self, stack, directory, connect):
        self.stack, self.directory, self.connector = stack, directory, connect

    def client(self, name, topic, **options):
        settings = dict(data_dir=self.directory / name, registry=f"dir://{self.directory}/registry") | options
        return self.stack.enter_context(Client(name, topic, **settings))

    def relay(self, name="shop", **options):
        return self.client(name, "orders", **dict(deduplicate_for=math.inf) | options)

    def connect(self):
        return self.stack.enter_context(contextlib.closing(self.connector()))


def received(client, count):
    """The bodies of the next messages, which are acknowledged, and of no others."""
    bodies = []
    for _ in range(count):
        with client.recv(SOON_S) as delivery:
            bodies.append(delivery.body.decode())
    return bodies


def raises(kind, call, *words, **named):
    try:
        call(*words, **named)
    except kind as error:
        return error
    raise Failure(f"no {kind.__name__}")


def count(connection, table):
    cursor = connection.cursor()
    cursor.execute(f"SELECT COUNT(*) FROM {table}")
    (number,) = cursor.fetchone()
    connection.rollback()
    return number


def execute(connection, statement):
    connection.cursor().execute(statement)
    connection.commit()


def what_is_committed_is_sent_with_its_properties(place):
    connection, own = place.connect(), place.connect()
    relay, billing = place.relay(), place.client("billing", "invoices")
    expect(outbox.relay(own, relay) == 0, "there is nothing")
    outbox.enqueue(connection, "invoices", b"rolled back")
    connection.rollback()
    given = dict(content_type="text/plain", traceparent=TRACE, tracestate="vendor=1", ordering_key="k",
                 headers={"region": "north", "bytes": b"\0\xff", "a": ""})
    first = outbox.enqueue(connection, "invoices", b"one", **given)
    outbox.enqueue(connection, "invoices", memoryview(b"\0\xff"), all=True, ttl=60, id="order-7")
    expect(outbox.relay(own, relay) == 0, "it is not committed")
    connection.commit()
    expect(outbox.relay(own, relay) == 2 and outbox.relay(own, relay) == 0, "two rows")
    got = {delivery.id: delivery for delivery in (billing.recv(SOON_S) for _ in range(2))}
    expect(got.keys() == {first, "order-7"}, f"{got.keys()}")
    one = got[first]
    found = one.content_type, one.traceparent, one.tracestate, one.ordering_key, dict(one.headers), one.body
    wanted = "text/plain", TRACE, "vendor=1", "k", {"region": b"north", "bytes": b"\0\xff", "a": b""}, b"one"
    expect(found == wanted and list(one.headers) == ["region", "bytes", "a"], f"{found}")
    other = got["order-7"]
    expect(other.body == b"\0\xff" and not other.headers and other.ordering_key is None, "the other")
    for delivery in got.values():
        delivery.ack()
    expect([count(own, table) for table in TABLES[:2]] == [0, 0], "rows are left")


def a_relay_that_is_killed_before_its_delete_sends_nothing_twice(place):
    connection, own = place.connect(), place.connect()
    for body in (b"one", b"two"):
        outbox.enqueue(connection, "invoices", body)
    connection.commit()
    for _ in range(3):
        with place.relay() as relay:
            own.commits = 1  # The read ends its transaction.
            raises(InterruptedError, outbox.relay, own, relay)
            own.commits = math.inf
            expect(relay.pending == 2, f"{relay.pending} are pending")
    expect(count(own, "pinnace_outbox") == 2, "the rows are still there")
    relay = place.relay()
    expect(outbox.relay(own, relay) == 2 and relay.pending == 2, f"{relay.pending} are pending")
    expect(received(place.client("billing", "invoices"), 2) == ["one", "two"], "in order")
    relay.wait_pending(timeout=SOON_S)


def what_is_committed_late_is_not_skipped(place):
    early, late, own = place.connect(), place.connect(), place.connect()
    relay = place.relay()
    if isinstance(early, sqlite3.Connection):
        return  # It has one writer at a time: rows are committed in the order of their ids.
    outbox.enqueue(late, "invoices", b"late")
    outbox.enqueue(early, "invoices", b"early")
    early.commit()
    expect(outbox.relay(own, relay) == 1, "the late one is not committed")
    late.commit()
    expect(outbox.relay(own, relay) == 1, "it is now")
    expect(received(place.client("billing", "invoices"), 2) == ["early", "late"], "both")


def an_outbox_belongs_to_one_store(place):
    connection, own, other = place.connect(), place.connect(), place.connect()
    relay, second = place.relay(), place.client("second", "s", deduplicate_for=math.inf)
    outbox.enqueue(connection, "invoices", b"one")
    connection.commit()
    expect(outbox.relay(own, relay) == 1, "the first")
    outbox.enqueue(connection, "invoices", b"two")
    connection.commit()
    for _ in range(2):
        error = raises(outbox.NotOwner, outbox.relay, other, second)
        expect(relay.store_id in str(error) and second.store_id in str(error), f"{error}")
    expect(second.pending == 0 and relay.pending == 1, "nothing more was sent")
    outbox.disown(other)
    expect(outbox.relay(other, second) == 1 and second.pending == 1, "it has another owner")
    raises(outbox.NotOwner, outbox.relay, own, relay)


def what_cannot_be_sent_stays_and_does_not_stop_others(place):
    connection, own = place.connect(), place.connect()
    relay, seen = place.relay(max_body=100), []
    bad = outbox.enqueue(connection, "invoices", b"bad", traceparent="none", headers={"a": "b"})
    outbox.enqueue(connection, "invoices", b"large" * 100)
    outbox.enqueue(connection, "invoices", b"good")
    connection.commit()
    expect(outbox.relay(own, relay, batch=2, on_refused=seen.append) == 2, "both are refused")
    expect([row.topic for row in seen] == ["invoices"] * 2 and "traceparent" in seen[0].error, f"{seen}")
    expect(outbox.relay(own, relay, batch=1) == 1 and outbox.relay(own, relay) == 0, "the good one")
    expect(count(own, "pinnace_outbox") == 2 and count(own, "pinnace_outbox_headers") == 1, "the others stay")
    execute(connection, f"UPDATE pinnace_outbox SET traceparent = NULL, refused = NULL WHERE message_id = '{bad}'")
    expect(outbox.relay(own, relay) == 1, "it can be sent now")
    expect(received(place.client("billing", "invoices"), 2) == ["good", "bad"], "both")
    logged = []
    handler = logging.Handler()
    handler.emit = logged.append
    logging.getLogger("pinnace").addHandler(handler)
    execute(connection, "UPDATE pinnace_outbox SET refused = NULL")
    expect(outbox.relay(own, relay) == 1 and len(logged) == 1, f"{logged}")
    logging.getLogger("pinnace").removeHandler(handler)


def what_is_wrong_is_refused_at_once(place):
    connection, own = place.connect(), place.connect()

    def refuses(topic="t", body=b"", **named):
        raises(ValueError, outbox.enqueue, connection, topic, body, **named)

    for words in (dict(topic=""), dict(topic="t" * 251), dict(topic="\0"), dict(id=""), dict(id="i" * 256), dict(ttl=0),
                  dict(ttl=-1), dict(ttl=5e6), dict(content_type=""), dict(tracestate="a=b"),
                  dict(ordering_key=""), dict(ordering_key="k" * 256), dict(ordering_key="k\0"),
                  dict(headers={"": "v"}), dict(headers={"k" * 256: "v"}), dict(headers={"k\0": "v"}),
                  dict(headers={f"{number}": "" for number in range(65)}), dict(headers={"k": "v" * 16_384})):
        refuses(**words)
    raises(TypeError, outbox.enqueue, connection, "t", 5)
    raises(TypeError, outbox.enqueue, object(), "t", b"")
    for columns, values in (("topic, body", "'', ''"), ("topic, body, ttl_ms", "'t', '', 0"), ("topic", "'t'"),
                            ("topic, body, to_all", "'t', '', 2"), ("topic, body, message_id", "'t', '', ''"),
                            ("topic, body, ordering_key", "'t', '', ''")):
        statement = f"INSERT INTO pinnace_outbox ({columns}) VALUES ({values})"
        raises((sqlite3.IntegrityError, psycopg.IntegrityError, psycopg2.IntegrityError),
               connection.cursor().execute, statement)
        connection.rollback()
    expect(count(connection, "pinnace_outbox") == 0, "nothing is there")
    raises(ValueError, outbox.relay, own, place.client("other", "o"))
    relay = place.relay()
    for batch in (0, 1001):
        raises(ValueError, outbox.relay, own, relay, batch=batch)
    outbox.enqueue(connection, "t", b"")
    raises(ValueError, outbox.relay, connection, relay)
    connection.commit()
    expect(outbox.relay(connection, relay) == 1, "it is committed")


def what_is_committed_by_itself_is_refused(place):
    connection, sender = place.connect(), place.client("shop", "orders")
    billing = place.client("billing", "invoices")
    sender.send_to("invoices", b"one")
    delivery = billing.recv(SOON_S)
    if isinstance(connection, sqlite3.Connection):
        connection.isolation_level = None
    else:
        connection.autocommit = True
    raises(ValueError, outbox.enqueue, connection, "invoices", b"")
    raises(ValueError, inbox.is_new, connection, "billing", delivery.cursor)
    connection.cursor().execute("BEGIN")
    outbox.enqueue(connection, "invoices", b"", headers={"a": "b"})
    expect(inbox.is_new(connection, "billing", delivery.cursor), "it is new")
    connection.cursor().execute("COMMIT")
    delivery.ack()
    # The relay needs no transaction over several statements.
    expect(outbox.relay(connection, place.relay(name="relay")) == 1, "it is committed")
    expect(count(connection, "pinnace_outbox") == 0, "and deleted")


def plain_sql_is_enough_to_send(place):
    connection, own, relay = place.connect(), place.connect(), place.relay()
    execute(connection, "INSERT INTO pinnace_outbox (topic, body) VALUES ('invoices', 'plain')")
    execute(connection, "INSERT INTO pinnace_outbox (topic, body) VALUES ('invoices', 'again')")
    stop, problems = threading.Event(), []

    def relaying():
        try:
            outbox.run(own_there(), relay, stop=stop, every=0.001, batch=1)
        except Exception as problem:
            problems.append(problem)

    def own_there():
        # A connection of SQLite belongs to its thread.
        return place.connector()

    threads = [threading.Thread(target=relaying) for _ in range(3)]
    for thread in threads:
        thread.start()
    billing = place.client("billing", "invoices")
    expect(received(billing, 2) == ["plain", "again"], "both, in order")
    for number in range(50):
        execute(connection, f"INSERT INTO pinnace_outbox (topic, body) VALUES ('invoices', '{number}')")
    expect(received(billing, 50) == [str(number) for number in range(50)], "each once, in order")
    stop.set()
    for thread in threads:
        thread.join(SOON_S)
    expect(not problems and count(own, "pinnace_outbox") == 0, f"{problems}")
    relay.wait_pending(timeout=SOON_S)


def an_effect_is_recorded_once(place):
    connection, sender = place.connect(), place.client("shop", "orders")
    billing = place.client("billing", "invoices", retry=(0.001, 0.001))
    for number in range(5):
        sender.send_to("invoices", str(number).encode())
        delivery = billing.recv(SOON_S)
        expect(inbox.is_new(connection, "billing", delivery.cursor), "it is new")
        connection.rollback()
        expect(inbox.is_new(connection, "billing", delivery.cursor), "it was rolled back")
        connection.commit()
        delivery.fail()
        with billing.recv(SOON_S) as again:
            expect(again.body == str(number).encode(), f"{again.body}")
            expect(not inbox.is_new(connection, "billing", again.cursor), "it is a redelivery")
            expect(inbox.is_new(connection, "other", again.cursor), "of another receiver")
            connection.commit()
        sender.wait_pending(timeout=SOON_S)
    expect(count(connection, "pinnace_handled") < 10, "what is settled is deleted")


BEHAVIOURS = [what for name, what in list(globals().items()) if getattr(what, "__module__", "") == __name__
              and name.startswith(("what_", "a_", "an_", "plain_"))]


def behave(behaviour, connect):
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        place = Place(stack, Path(directory), connect)
        connection = place.connect()
        outbox.create(connection)
        outbox.create(connection)
        inbox.create(connection)
        try:
            behaviour(place)
        except (ValueError, TypeError, sqlite3.Error, psycopg.Error, psycopg2.Error) as error:
            raise Failure(f"{type(error).__name__}: {error}") from error
    if not isinstance(connection, sqlite3.Connection):
        with contextlib.closing(connect()) as connection:
            execute(connection, f"DROP TABLE {', '.join(TABLES)}")


def main():
    checks, server = Checks(), Server()
    try:
        for behaviour in BEHAVIOURS:
            name = behaviour.__name__.replace("_", " ")
            with tempfile.TemporaryDirectory() as directory:
                address = Sqlite(Path(directory)).address
                checks.check(f"sqlite3: {name}", behave, behaviour,
                             lambda: sqlite3.connect(address, factory=InSqlite))
            checks.check(f"psycopg: {name}", behave, behaviour, lambda: InPsycopg.connect(server.address))
            checks.check(f"psycopg2: {name}", behave, behaviour,
                         lambda: psycopg2.connect(server.address, connection_factory=InPsycopg2))
    finally:
        server.close()
    checks.finish()


main()
