"""One to one: a shop sends its orders to whoever bills them."""
from pinnace import Client

ORDERS = 100

# A client has a name, which nobody else has, and a topic of its own, which it listens on.
with Client("shop", "orders") as shop:
    for number in range(ORDERS):
        # On the disk when this returns. Nobody is there yet to receive it: it waits.
        shop.send_to("invoices", str(number).encode())
    with Client("billing", "invoices") as billing:
        for billed, order in zip(range(ORDERS), billing):
            with order:  # Acknowledged at the end; an exception in here, and it comes again.
                assert order.body == str(billed).encode(), "they come in order"
        shop.wait_pending()
print(f"result messages={billed + 1} expected={ORDERS}")
