/* Many to many: everyone in a room receives everyone else's messages. */
#include <array>
#include <atomic>
#include <iostream>
#include <thread>

#include <pinnace/client.hpp>

constexpr std::array<const char *, 4> people = {"Ada", "Bo", "Cy", "Di"};
constexpr int said_by_each = 25, heard_by_each = said_by_each * (people.size() - 1);

static void talk(const std::string &name, std::atomic<int> &heard_by_all) {
    pinnace::Client person(pinnace::Options(name, "room"));
    person.wait_listeners("room", people.size());
    for (int number = 1; number <= said_by_each; number++)
        person.send_all("room", name + " says " + std::to_string(number)); /* not delivered to its sender */
    int heard = 0;
    person.run([&](pinnace::Delivery &delivery) {
        if (delivery.body().substr(0, delivery.from().size()) == delivery.from())
            heard_by_all++;
        /* The return value acknowledges the message, and stops after the last. */
        return ++heard < heard_by_each ? pinnace::Verdict::ack : pinnace::Verdict::ack | pinnace::Verdict::stop;
    });
    person.wait_pending(); /* stays until the others have acknowledged all */
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
