"""One to one: a shop sends its orders to the billing department."""
from pinnace import Client

ORDERS = 100

# A client has a unique name, and a topic of its own that it listens on.
with Client("shop", "orders") as shop:
    for number in range(ORDERS):
        # The message is on the disk when this returns. It waits there until a receiver starts.
        shop.send_to("invoices", str(number).encode())
    with Client("billing", "invoices") as billing:
        for billed, order in zip(range(ORDERS), billing):
            with order:  # Acknowledged at the end; redelivered if an exception is raised within.
                assert order.body == str(billed).encode(), "they come in order"
        shop.wait_pending()
print(f"result messages={billed + 1} expected={ORDERS}")
