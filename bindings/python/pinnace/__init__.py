"""Guaranteed delivery between named clients: at least once, crash-safe, with no service to run.

    with Client("billing", "invoices") as billing, Client("shop", "orders") as shop:
        shop.send_to("invoices", b"3 pinnaces")  # on this machine's disk
        with billing.recv() as delivery:  # acknowledged at the end
            print(delivery.sender, delivery.body)

A layer over libpinnace's C functions, with ctypes. The loader must find libpinnace.so, or PINNACE_LIBRARY names it.
"""
from ._client import Client, Handler, Pending
from ._delivery import CURSOR_SCHEMA, Cursor, Dead, Delivery, Reason, Verdict
from ._library import Closed, Error, TimedOut, lib
from ._options import Peer
from ._sending import Body, Durability, Headers, NewMessage, Ticket

__all__ = [
    "CURSOR_SCHEMA",
    "Body",
    "Client",
    "Closed",
    "Cursor",
    "Dead",
    "Delivery",
    "Durability",
    "Error",
    "Handler",
    "Headers",
    "NewMessage",
    "Peer",
    "Pending",
    "Reason",
    "Ticket",
    "TimedOut",
    "Verdict",
]
__version__: str = lib.pinnace_version().decode()
