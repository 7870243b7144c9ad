/* One to one: a shop sends its orders to whoever bills them. */
#include <iostream>

#include <pinnace/client.hpp>

int main() {
    const int orders = 100;
    /* A client has a name, which nobody else has, and a topic of its own, which it listens on. */
    pinnace::Client shop(pinnace::Options("shop", "orders"));
    for (int number = 1; number <= orders; number++)
        /* On the disk when this returns. Nobody is there yet to receive it: it waits. */
        shop.send_to("invoices", std::to_string(number));

    pinnace::Client billing(pinnace::Options("billing", "invoices"));
    int billed = 0;
    while (billed < orders) {
        pinnace::Delivery order = billing.recv();
        if (order.body() != std::to_string(++billed))
            return 1; /* they come in order */
        order.ack();  /* what is not acknowledged comes again */
    }
    shop.wait_pending();
    std::cout << "result messages=" << billed << " expected=" << orders << std::endl;
}
