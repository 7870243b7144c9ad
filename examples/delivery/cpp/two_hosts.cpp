/* Two hosts: a shop on one of them takes orders, and billing on the other bills them. They find each other through a
 * Redis server and talk over TCP, encrypted with CURVE. docs/delivery-first-hosts.md has the steps.
 *
 *   two_hosts shop REGISTRY ENDPOINT KEYS
 *   two_hosts billing REGISTRY ENDPOINT KEYS
 *
 * The shop sends each line of its standard input as an order. Billing bills the orders that are numbers, until a signal
 * ends it. An order at which it has failed three times becomes a dead letter of the shop. KEYS is the directory of the
 * certificates. */
#include <charconv>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <pinnace/client.hpp>

static pinnace::Client client(const std::string &own, const std::string &topic, const std::string &other,
                              char **place) {
    const std::string keys = place[2];
    pinnace::Options options(own, topic);
    options.registry(place[0]).listen(place[1]).max_deliveries(3);
    options.cert(keys + "/" + own + "_secret").trust_file(other, keys + "/" + other);
    pinnace::Client started(options);
    started.on_error([](const pinnace::Error &error) { std::cerr << error.what() << std::endl; });
    return started;
}

static void shop(char **place) {
    pinnace::Client shop = client("shop", "orders", "billing", place);
    for (std::string order; std::getline(std::cin, order);) {
        shop.send_to("invoices", order);
        /* It is on this host's disk. It waits there until billing has handled it. */
        std::cout << "accepted " << order << std::endl;
    }
}

static pinnace::Verdict bill(pinnace::Delivery &order) {
    const std::string_view body = order.body();
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), number);
    if (error != std::errc() || end != body.data() + body.size())
        return pinnace::Verdict::fail; /* it is delivered again */
    std::cout << "billed " << number << std::endl;
    return pinnace::Verdict::ack;
}

int main(int count, char **words) {
    const std::string role = count == 5 ? words[1] : "";
    try {
        if (role == "shop")
            shop(words + 2);
        else if (role == "billing")
            client("billing", "invoices", "shop", words + 2).run(bill);
        else
            throw std::invalid_argument("two_hosts shop|billing REGISTRY ENDPOINT KEYS");
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
}
