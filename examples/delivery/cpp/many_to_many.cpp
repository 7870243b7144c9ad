/* Many to many: everybody in a room hears what everybody else says. */
#include <array>
#include <atomic>
#include <iostream>
#include <thread>

#include <pinnace/client.hpp>

constexpr std::array<const char *, 4> people = {"Ada", "Bo", "Cy", "Di"};
constexpr int said_by_each = 25, heard_by_each = said_by_each * (people.size() - 1);

static void talk(const std::string &name, std::atomic<int> &heard_by_all) {
    pinnace::Client person(pinnace::Options(name, "room"));
    while (person.addresses("room").size() < people.size())
        std::this_thread::yield();
    for (int number = 1; number <= said_by_each; number++)
        person.send_all("room", name + " says " + std::to_string(number)); /* nobody hears themselves */
    int heard = 0;
    person.run([&](pinnace::Delivery &delivery) {
        if (delivery.body().substr(0, delivery.from().size()) == delivery.from())
            heard_by_all++;
        /* Acknowledged as it returns; after the last it is enough. */
        return ++heard < heard_by_each ? pinnace::Verdict::ack : pinnace::Verdict::ack | pinnace::Verdict::stop;
    });
    person.wait_pending(); /* leaves when the others have heard it out */
}

int main() {
    std::atomic<int> heard{0};
    std::vector<std::thread> threads;
    for (const char *name : people)
        threads.emplace_back(talk, name, std::ref(heard));
    for (std::thread &thread : threads)
        thread.join();
    std::cout << "result messages=" << heard << " expected=" << heard_by_each * people.size() << std::endl;
}
