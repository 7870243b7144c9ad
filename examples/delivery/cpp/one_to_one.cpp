/* One to one: a shop sends its orders to the billing department. */
#include <iostream>

#include <pinnace/client.hpp>

int main() {
    const int orders = 100;
    /* A client has a unique name, and a topic of its own that it listens on. */
    pinnace::Client shop(pinnace::Options("shop", "orders"));
    for (int number = 1; number <= orders; number++)
        /* The message is on the disk when this returns. It waits there until a receiver starts. */
        shop.send_to("invoices", std::to_string(number));

    pinnace::Client billing(pinnace::Options("billing", "invoices"));
    int billed = 0;
    while (billed < orders) {
        pinnace::Delivery order = billing.recv();
        if (order.body() != std::to_string(++billed))
            return 1; /* messages arrive in order */
        order.ack();  /* without it, the message is redelivered */
    }
    shop.wait_pending();
    std::cout << "result messages=" << billed << " expected=" << orders << std::endl;
}
