"""An outbox: messages in the transaction of the application's own changes, in its own database.

    connection.execute("INSERT INTO orders VALUES (?)", ("3 pinnaces",))  # the application
    outbox.enqueue(connection, "invoices", b"3 pinnaces")
    connection.commit()  # both, or neither

    with Client("shop", "orders", deduplicate_for=math.inf) as client:  # the relay, often a process of its own
        outbox.run(own_connection, client)

A connection is one of DB-API 2.0, to SQLite (sqlite3) or PostgreSQL (psycopg, psycopg2). The relay sends committed rows
in the order of their ids and deletes each after it is on the disk of the client's store, so it can be killed at any
time: no row is lost, and none is in the store twice. docs/delivery-guide.md has the exact guarantee.
"""
import errno
import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, NamedTuple, Optional

from ._client import Client
from ._dialect import CLAIM, DELETE, HEADERS, NEXT, OWNER, REFUSE, SCHEMA_POSTGRESQL, SCHEMA_SQLITE
from ._dialect import Connection, Statements, check_commits_together, check_idle, is_sqlite
from ._library import Error
from ._sending import Body, Headers, Ticket

__all__ = ["BATCH_MAX", "SCHEMA_POSTGRESQL", "SCHEMA_SQLITE", "NotOwner", "Refused", "create", "disown", "enqueue",
           "relay", "run"]

BATCH_MAX = 1000
"""The most rows that are read and sent at once: fewer than the ids that the smallest store keeps."""

_BYTES_MAX = 255
_TTL_MAX_MS = (1 << 32) - 1
_HEADERS_MAX = 64
_PROPERTIES_MAX = 16_384
_INSERT = """INSERT INTO pinnace_outbox
    (message_id, topic, body, to_all, ttl_ms, content_type, traceparent, tracestate, ordering_key)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"""
_INSERT_HEADER = "INSERT INTO pinnace_outbox_headers (row_id, name, value, position) VALUES ($1, $2, $3, $4)"
_DISOWN = "DELETE FROM pinnace_outbox_relay"
# What send_async raises if a row cannot be sent as it is.
_REFUSALS = (errno.EINVAL, errno.EMSGSIZE)
_log = logging.getLogger("pinnace")


class Refused(NamedTuple):
    """A row that the client does not accept as it is. It stays in the outbox, with `error` in its column `refused`, and
    is not sent until the application sets that to NULL; later rows are sent meanwhile."""

    id: int
    topic: str
    error: str


class NotOwner(Exception):
    """Another store has sent rows of this outbox."""


def create(connection: Connection) -> None:
    """Creates the tables, and commits. In PostgreSQL, not by several processes at once: all but one may fail."""
    if is_sqlite(connection):
        any_connection: Any = connection
        any_connection.executescript(SCHEMA_SQLITE)
        return
    with Statements(connection) as statements:
        statements.execute(SCHEMA_POSTGRESQL)
    connection.commit()


def enqueue(
    connection: Connection,
    topic: str,
    body: Body,
    *,
    all: bool = False,
    ttl: Optional[float] = None,
    id: Optional[str] = None,
    content_type: Optional[str] = None,
    traceparent: Optional[str] = None,
    tracestate: Optional[str] = None,
    ordering_key: Optional[str] = None,
    headers: Headers = MappingProxyType({}),
) -> str:
    """Inserts a message into the outbox, in the transaction that is open on the connection, or that this begins. The
    caller commits. Returns the message's id.

    The parameters are those of Client.send. `ttl`, in seconds, begins when the relay sends the message. `id` is random
    by default; a message with the id of an earlier one on this topic is taken for its retry and dropped, if that is one
    of the relay's 65,536 newest. Raises ValueError if the message could not be sent: the topic, the id and the
    ordering key have 1 to 255 bytes, a topic that does not end in ".dead" at most 250; the id, the content type, the
    trace context, the ordering key and the headers have at most 16,384 bytes in all, and there are at most 64 headers.
    ValueError, too, if the connection commits each
    statement by itself (autocommit) and has no transaction. Raises what the database raises."""
    if id is None:
        id = uuid.uuid4().hex
    ttl_ms = None if ttl is None else max(1, round(ttl * 1000)) if ttl > 0 else 0
    if ttl_ms is not None and not 0 < ttl_ms <= _TTL_MAX_MS:
        raise ValueError(f"ttl must be more than 0 and at most {_TTL_MAX_MS / 1000} s, not {ttl!r}")
    texts = {"topic": topic, "id": id, "content_type": content_type, "traceparent": traceparent,
             "tracestate": tracestate, "ordering_key": ordering_key}
    values = {name: value.encode() if isinstance(value, str) else bytes(value) for name, value in headers.items()}
    _check(texts, values)
    check_commits_together(connection)
    with Statements(connection) as statements:
        row = (id, topic, bytes(memoryview(body)), int(all), ttl_ms, content_type, traceparent, tracestate)
        found = statements.insert(_INSERT, *row, ordering_key)
        for position, (name, value) in enumerate(values.items()):
            statements.execute(_INSERT_HEADER, found, name, value, position)
    return id


def _check(texts: Mapping[str, Optional[str]], headers: Mapping[str, bytes]) -> None:
    """ValueError: a client would refuse these."""
    sizes = {name: len(value.encode()) for name, value in texts.items() if value is not None}
    for name, size in sizes.items():
        most = _BYTES_MAX if name != "topic" or (texts[name] or "").endswith(".dead") else _BYTES_MAX - len(".dead")
        if name in ("topic", "id", "content_type", "ordering_key") and not 1 <= size <= most:
            raise ValueError(f"{name} has {size} bytes, not 1 to {most}")
    if len(headers) > _HEADERS_MAX:
        raise ValueError(f"{len(headers)} headers are more than {_HEADERS_MAX}")
    for name in headers:
        if not 1 <= len(name.encode()) <= _BYTES_MAX:
            raise ValueError(f"the header {name!r} has a name of {len(name.encode())} bytes, not 1 to {_BYTES_MAX}")
    for word in (*headers, *texts.values()):
        if word is not None and "\0" in word:
            raise ValueError(f"{word!r} has a NUL")
    if texts["tracestate"] is not None and texts["traceparent"] is None:
        raise ValueError("tracestate needs a traceparent")
    total = sum(sizes.values()) - sizes["topic"] + sum(len(name.encode()) + len(headers[name]) for name in headers)
    if total > _PROPERTIES_MAX:
        raise ValueError(f"the id, the content type, the trace context, the ordering key and the headers have {total} "
                         f"bytes, and may have at most {_PROPERTIES_MAX}")


def relay(
    connection: Connection,
    client: Client,
    *,
    batch: int = 100,
    timeout: Optional[float] = None,
    on_refused: Optional[Callable[[Refused], None]] = None,
) -> int:
    """Sends the next committed rows, at most `batch` (1 to 1,000), and deletes each that is on the disk. Returns how
    many rows it has sent or refused; 0: there were none.

    The connection must be the relay's own, and have no open transaction. No transaction is open while it sends. The
    client must have `deduplicate_for=math.inf`, so that a row which is read again is not sent again, and should send
    nothing else with ids. `timeout` is how long to wait for room in the store and for its disk, in seconds; without it
    there is no limit. A row that the client does not accept as it is stays in the outbox: see Refused; `on_refused` is
    called with it after the commit, or it is logged as an error.

    Raises ValueError; NotOwner: the rows belong to another store; Error, of the client, once what was sent before is
    deleted; and what the database raises. After each of these it can be called again, and sends nothing twice. Calls
    with one client wait for each other."""
    if not client._deduplicates_forever:
        raise ValueError("the client of a relay needs deduplicate_for=math.inf")
    if not 1 <= batch <= BATCH_MAX:
        raise ValueError(f"batch must be 1 to {BATCH_MAX}, not {batch!r}")
    with client._relaying:
        check_idle(connection)
        with Statements(connection) as statements:
            try:
                rows, headers = _read(connection, statements, client, batch)
                sent, refused, error = _send(client, rows, headers, timeout)
                for row in sent:
                    statements.execute(DELETE, row)
                for refusal in refused:
                    statements.execute(REFUSE, refusal.error, refusal.id)
                connection.commit()
            except BaseException:
                _roll_back(connection)
                raise
    for refusal in refused:
        if on_refused is not None:
            on_refused(refusal)
        else:
            _log.error("row %d of the outbox, to %r, cannot be sent: %s", *refusal)
    if error is not None:
        raise error
    return len(sent) + len(refused)


def run(
    connection: Connection,
    client: Client,
    *,
    stop: Optional[threading.Event] = None,
    every: float = 0.1,
    batch: int = 100,
    on_refused: Optional[Callable[[Refused], None]] = None,
) -> None:
    """Calls relay until `stop` is set; while there are no rows, each `every` seconds. Raises what relay raises: after
    an error of the database, begin again with a new connection."""
    ended = threading.Event() if stop is None else stop
    while not ended.is_set():
        if relay(connection, client, batch=batch, on_refused=on_refused) == 0:
            ended.wait(every)


def disown(connection: Connection) -> None:
    """Lets the next relay send with another store, and commits: after the store was lost, or to move the relay. No
    relay may run. Rows that the former store has on its disk, and which its relay did not delete, are then sent again;
    if it ended in order, there are none."""
    with Statements(connection) as statements:
        statements.execute(_DISOWN)
    connection.commit()


def _roll_back(connection: Connection) -> None:
    """After an error. If the connection is broken, that error counts, and not the one of this."""
    try:
        connection.rollback()
    except Exception as error:
        _log.debug("rollback: %s", error)


_Row = Sequence[Any]
_HeadersOf = dict[int, dict[str, bytes]]


def _read(connection: Connection, statements: Statements, client: Client, batch: int) -> tuple[list[_Row], _HeadersOf]:
    """The next rows, and the headers of each by its id. Ends the transaction."""
    store = client.store_id
    owner = statements.one(OWNER)
    if owner is None:
        statements.execute(CLAIM, store)
        owner = statements.one(OWNER)
    if owner is None or owner[0] != store:
        raise NotOwner(f"the outbox belongs to the store {owner and owner[0]}, not to {store} of {client.name!r}")
    rows = statements.all(NEXT, batch)
    headers: _HeadersOf = {}
    if rows:
        for row, name, value in statements.all(HEADERS, rows[0][0], rows[-1][0]):
            headers.setdefault(row, {})[name] = _bytes(value)
    connection.commit()
    return rows, headers


def _bytes(value: Any) -> bytes:
    """SQLite stores a text that was inserted as such, whatever the column's type."""
    return value.encode() if isinstance(value, str) else bytes(value)


def _send(
    client: Client, rows: list[_Row], headers: _HeadersOf, timeout: Optional[float]
) -> tuple[list[int], list[Refused], Optional[Error]]:
    """The ids of the rows that are on the disk, those that cannot be sent, and the error that kept it from sending the
    others."""
    sent: list[int] = []
    refused: list[Refused] = []
    last, failure = Ticket(0), None
    for row, id, topic, body, to_all, ttl_ms, content_type, traceparent, tracestate, ordering_key in rows:
        try:
            ticket = client.send_async(
                topic, _bytes(body), all=bool(to_all), ttl=None if ttl_ms is None else ttl_ms / 1000, timeout=timeout,
                id=id, content_type=content_type, traceparent=traceparent, tracestate=tracestate,
                ordering_key=ordering_key, headers=headers.get(row, {}),
            )
        except Error as error:
            if error.errno not in _REFUSALS:
                failure = error
                break
            refused.append(Refused(row, topic, error.strerror or str(error)))
        except ValueError as error:
            refused.append(Refused(row, topic, str(error)))
        else:
            sent.append(row)
            last = max(last, ticket)
    if sent:
        # Messages reach the disk in the order of their tickets.
        client.wait(last, timeout)
    return sent, refused, failure
