/* One to many: an agency sends its news to all newspapers that listen. */
#include <iostream>

#include <pinnace/client.hpp>

int main() {
    const int news = 100;
    std::vector<pinnace::Client> papers;
    for (const char *name : {"Morning Post", "Evening Star", "Gazette"})
        papers.emplace_back(pinnace::Options(name, "news"));
    pinnace::Client agency(pinnace::Options("agency", "tips"));
    /* Clients discover each other a moment after their start. */
    agency.wait_listeners("news", papers.size());

    pinnace::SendOptions to_all;
    to_all.all = true;
    pinnace::Ticket last{};
    for (int number = 1; number <= news; number++)
        last = agency.send_async("news", std::to_string(number), to_all);
    agency.wait(last); /* once the last message is on the disk, all are */

    std::size_t printed = 0;
    for (pinnace::Client &paper : papers)
        for (int number = 1; number <= news; number++) {
            pinnace::Delivery piece = paper.recv();
            if (piece.body() != std::to_string(number))
                return 1; /* each newspaper gets all messages, in order */
            piece.ack();
            printed++;
        }
    agency.wait_pending();
    std::cout << "result messages=" << printed << " expected=" << news * papers.size() << std::endl;
}
