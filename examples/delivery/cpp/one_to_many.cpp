/* One to many: an agency sends its news to all who listen. */
#include <iostream>
#include <thread>

#include <pinnace/client.hpp>

int main() {
    const int news = 100;
    std::vector<pinnace::Client> papers;
    for (const char *name : {"Morning Post", "Evening Star", "Gazette"})
        papers.emplace_back(pinnace::Options(name, "news"));
    pinnace::Client agency(pinnace::Options("agency", "tips"));
    /* Clients see each other a moment after they have started. */
    while (agency.addresses("news").size() < papers.size())
        std::this_thread::yield();

    pinnace::SendOptions to_all;
    to_all.all = true;
    pinnace::Ticket last{};
    for (int number = 1; number <= news; number++)
        last = agency.send_async("news", std::to_string(number), to_all);
    agency.wait(last); /* it is on the disk when all are */

    std::size_t printed = 0;
    for (pinnace::Client &paper : papers)
        for (int number = 1; number <= news; number++) {
            pinnace::Delivery piece = paper.recv();
            if (piece.body() != std::to_string(number))
                return 1; /* each has all, in order */
            piece.ack();
            printed++;
        }
    agency.wait_pending();
    std::cout << "result messages=" << printed << " expected=" << news * papers.size() << std::endl;
}
