"""An outbox and an inbox: each order is billed once, whichever process is killed.

    outbox.py DATABASE create          the tables
    outbox.py DATABASE shop COUNT      orders, each in one transaction with its message
    outbox.py DATABASE relay           sends the messages, until it is killed
    outbox.py DATABASE billing COUNT   bills, each in one transaction with the record of its message

DATABASE is a file of SQLite, or a connection string of PostgreSQL, such as dbname=shop.
"""
import math
import sqlite3
import sys

from pinnace import Client, inbox, outbox


def connect(database):
    if "=" in database:
        import psycopg

        return psycopg.connect(database), "%s"
    connection = sqlite3.connect(database, timeout=60)
    # A commit is on the disk, and readers do not wait for writers.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection, "?"


def create(connection):
    place = "INTEGER PRIMARY KEY" if outbox.is_sqlite(connection) else "SERIAL PRIMARY KEY"
    connection.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
    connection.execute(f"CREATE TABLE bills (place {place}, number INTEGER)")
    outbox.create(connection)
    inbox.create(connection)


def shop(connection, parameter, count):
    (last,) = connection.execute("SELECT COALESCE(MAX(number), 0) FROM orders").fetchone()
    connection.commit()
    for number in range(last + 1, count + 1):
        # The order and its message are committed together, or neither is.
        connection.execute(f"INSERT INTO orders VALUES ({parameter})", (number,))
        outbox.enqueue(connection, "invoices", str(number).encode(), headers={"currency": "EUR"})
        connection.commit()
        print(number, flush=True)


def relay(connection):
    # Ids that count for ever: a relay that was killed after it has sent a row does not send it twice.
    with Client("shop", "orders", deduplicate_for=math.inf) as client:
        outbox.run(connection, client, every=0.01)


def billing(connection, parameter, count):
    billed = 0
    with Client("billing", "invoices") as client:
        while billed < count:
            order = client.recv()
            billed = int(order.body)
            # The bill and the record that its message was handled are committed together, or neither is.
            if inbox.is_new(connection, client.name, order.cursor):
                connection.execute(f"INSERT INTO bills (number) VALUES ({parameter})", (billed,))
            connection.commit()
            order.ack()
            print(billed, flush=True)
        client.drain(timeout=10)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    database, role, *count = sys.argv[1:]
    connection, parameter = connect(database)
    roles = {"create": create, "shop": shop, "relay": relay, "billing": billing}
    parameters = (parameter, int(count[0])) if count else ()
    roles[role](connection, *parameters)


main()
