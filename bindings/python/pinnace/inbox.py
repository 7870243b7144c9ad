"""An effect that happens once: a receiver records a message in the transaction of its effect, in its own database.

    for delivery in billing:
        if inbox.is_new(connection, billing.name, delivery.cursor):
            connection.execute("INSERT INTO bills VALUES (?)", (delivery.body,))  # the effect
        connection.commit()
        delivery.ack()

The connection is one of DB-API 2.0, to SQLite (sqlite3) or PostgreSQL (psycopg, psycopg2). For PostgreSQL,
synchronous_commit must be on; for SQLite, synchronous FULL or EXTRA: otherwise a power failure may take back an effect
whose message is acknowledged.
"""
from ._delivery import CURSOR_SCHEMA, Cursor
from ._dialect import CURSOR_FORGET, CURSOR_INSERT, Connection, Statements, check_commits_together

SCHEMA: str = CURSOR_SCHEMA
"""The table of handled messages, for SQLite and PostgreSQL. To be executed once, before receivers are started."""


def create(connection: Connection) -> None:
    """Creates the table, and commits. In PostgreSQL, not by several processes at once: all but one may fail."""
    with Statements(connection) as statements:
        statements.execute(SCHEMA)
    connection.commit()


def is_new(connection: Connection, client: str, cursor: Cursor) -> bool:
    """Records a message in the transaction that is open on the connection, or that this begins, and deletes the records
    that are not needed any more. False: it was handled before, and has its effect already. The caller commits, and
    acknowledges the message in both cases; if it rolls back, the message is not recorded. `client` is the receiver's
    name; receivers that share messages to one of a topic, and this table, give the same name. Raises ValueError if the
    connection commits each statement by itself and has no transaction, and what the database raises."""
    check_commits_together(connection)
    with Statements(connection) as statements:
        of = (client, cursor.sender, cursor.stream)
        if statements.execute(CURSOR_INSERT, *of, cursor.number) == 0:
            return False
        statements.execute(CURSOR_FORGET, *of, cursor.settled)
    return True
