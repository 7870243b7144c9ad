"""Two hosts: a shop on one of them takes orders, and billing on the other bills them. They find each other through a
Redis server and talk over TCP, encrypted with CURVE. docs/delivery-first-hosts.md has the steps.

    two_hosts.py shop REGISTRY ENDPOINT KEYS
    two_hosts.py billing REGISTRY ENDPOINT KEYS

The shop sends each line of its standard input as an order. Billing bills the orders that are numbers, until a signal
ends it. An order at which it has failed three times becomes a dead letter of the shop. KEYS is the directory of the
certificates.
"""
import sys
from pathlib import Path

from pinnace import Client, Verdict


def client(own, topic, other, registry, endpoint, keys):
    cert, trust = Path(keys, f"{own}_secret"), {other: Path(keys, other)}
    return Client(own, topic, registry=registry, listen=endpoint, cert=cert, trust=trust, max_deliveries=3)


def shop(*place):
    with client("shop", "orders", "billing", *place) as shop:
        for line in sys.stdin:
            order = line.rstrip("\n")
            shop.send_to("invoices", order.encode())
            # It is on this host's disk. It waits there until billing has handled it.
            print("accepted", order, flush=True)


def bill(order):
    try:
        number = int(order.body)
    except ValueError:
        return Verdict.FAIL  # It is delivered again.
    print("billed", number, flush=True)
    return Verdict.ACK


def billing(*place):
    with client("billing", "invoices", "shop", *place) as billing:
        billing.run(bill)


ROLES = {"shop": shop, "billing": billing}
if len(sys.argv) != 5 or sys.argv[1] not in ROLES:
    sys.exit(__doc__)
ROLES[sys.argv[1]](*sys.argv[2:])
