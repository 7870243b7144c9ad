/* How long 10,000 messages of 1 KiB take from one client to another, in several cycles.
 *
 *   throughput [CYCLES] [MESSAGES]
 *
 * send_to is the time until all messages of a cycle are on the disk, receive_from the time from then until the last is
 * handled. */
#include <chrono>
#include <future>
#include <iostream>
#include <vector>

#include <pinnace/client.hpp>

using Clock = std::chrono::steady_clock;

static double ms(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

int main(int count, char **words) {
    const int cycles = count > 1 ? std::stoi(words[1]) : 10, messages = count > 2 ? std::stoi(words[2]) : 10000;
    pinnace::Client client1(pinnace::Options("client1", "topic_client1"));
    pinnace::Client client2(pinnace::Options("client2", "topic_client2"));

    int received = 0;
    std::vector<std::promise<Clock::time_point>> handled(static_cast<std::size_t>(cycles));
    client2.listen([&](pinnace::Delivery &) {
        if (++received % messages == 0)
            handled[static_cast<std::size_t>(received / messages - 1)].set_value(Clock::now());
    });
    const std::string data(1024, 'x');
    for (auto &cycle : handled) {
        const auto begin = Clock::now();
        pinnace::Ticket last{};
        for (int at = 0; at < messages; at++)
            last = client1.send_async("topic_client2", data);
        client1.wait(last);
        const auto end = Clock::now();
        std::cout << "send_to " << ms(end - begin) << " ms" << std::endl;
        const auto at = cycle.get_future().get();
        std::cout << "receive_from " << (at > end ? ms(at - end) : 0) << " ms" << std::endl;
    }
    client1.wait_pending();
    client2.close();
    std::cout << "result messages=" << received << " expected=" << cycles * messages << std::endl;
}
