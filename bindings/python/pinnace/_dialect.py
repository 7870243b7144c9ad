"""SQL of the library for a connection of DB-API 2.0 (PEP 249)."""
import re
import sqlite3
import sys
from collections.abc import Sequence
from typing import Any, Optional, Protocol

from ._library import lib, text


class Connection(Protocol):
    """What is needed of a connection of DB-API 2.0: sqlite3, psycopg, psycopg2 and others."""

    def cursor(self) -> Any: ...
    def commit(self) -> Any: ...
    def rollback(self) -> Any: ...


# As PINNACE_SQL_... in pinnace_delivery.h.
(SCHEMA_SQLITE, SCHEMA_POSTGRESQL, OWNER, CLAIM, NEXT, HEADERS, DELETE, REFUSE, CURSOR_INSERT, CURSOR_FORGET) = (
    text(lib.pinnace_sql(number)) for number in range(10)
)

_PARAMETER = re.compile(r"\$\d+")
_MARKERS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


def is_sqlite(connection: Connection) -> bool:
    return isinstance(connection, sqlite3.Connection)


def _has_transaction(connection: Any) -> bool:
    """True: a transaction is open, as far as the connection can tell."""
    # psycopg and psycopg2, where 0 is IDLE.
    status = getattr(getattr(connection, "info", None), "transaction_status", 0)
    return status != 0 or bool(getattr(connection, "in_transaction", False))


def check_idle(connection: Any) -> None:
    """ValueError: the connection has an open transaction, which the relay would commit."""
    # With `autocommit` False, sqlite3 begins the next transaction at once.
    is_always = is_sqlite(connection) and getattr(connection, "autocommit", True) is False
    if _has_transaction(connection) and not is_always:
        raise ValueError("the connection has an open transaction: a relay needs a connection of its own")


def check_commits_together(connection: Any) -> None:
    """ValueError: the connection would commit each statement by itself."""
    commits_each = getattr(connection, "autocommit", False) is True
    if is_sqlite(connection):
        # Before Python 3.12, and by default, `isolation_level` says it.
        is_legacy = getattr(connection, "autocommit", -1) == -1
        commits_each = commits_each or is_legacy and connection.isolation_level is None
    if commits_each and not _has_transaction(connection):
        raise ValueError("the connection commits each statement by itself: begin a transaction")


def _marker(connection: Connection) -> str:
    """The parameter marker of the module (PEP 249, paramstyle) whose class the connection has, or is derived from."""
    if is_sqlite(connection):
        return "?"
    for base in type(connection).__mro__:
        module = sys.modules.get(base.__module__.partition(".")[0])
        marker = _MARKERS.get(getattr(module, "paramstyle", ""))
        if marker is not None:
            return marker
    kinds = ", ".join(_MARKERS)
    raise TypeError(f"{type(connection)!r} is of no module of DB-API 2.0 with one of the paramstyles {kinds}")


class Statements:
    """Executes statements with the parameters $1, $2, ..., in the order in which they appear, on one cursor. As a
    context manager it closes the cursor at the end."""

    def __init__(self, connection: Connection) -> None:
        self._is_sqlite = is_sqlite(connection)
        self._marker = _marker(connection)
        self._cursor: Any = connection.cursor()

    def execute(self, sql: str, *parameters: Any) -> int:
        """Returns the number of rows that were changed."""
        self._cursor.execute(_PARAMETER.sub(self._marker, sql), parameters)
        return int(self._cursor.rowcount)

    def insert(self, sql: str, *parameters: Any) -> Any:
        """Inserts a row, and returns the number in its column `id`."""
        if self._is_sqlite:  # Before 3.35 it has no RETURNING.
            self.execute(sql, *parameters)
            return self._cursor.lastrowid
        (number,) = self.one(f"{sql} RETURNING id", *parameters) or (None,)
        return number

    def all(self, sql: str, *parameters: Any) -> "list[Sequence[Any]]":
        self.execute(sql, *parameters)
        return list(self._cursor.fetchall())

    def one(self, sql: str, *parameters: Any) -> "Optional[Sequence[Any]]":
        self.execute(sql, *parameters)
        found: Optional[Sequence[Any]] = self._cursor.fetchone()
        return found

    def __enter__(self) -> "Statements":
        return self

    def __exit__(self, *_: object) -> None:
        self._cursor.close()
