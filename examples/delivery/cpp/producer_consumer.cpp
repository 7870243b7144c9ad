/* Producers and consumers: each job goes to the first worker that is free, and is done by one. */
#include <iostream>
#include <mutex>
#include <set>

#include <pinnace/client.hpp>

int main() {
    const int jobs_of_each = 150;
    std::mutex mutex;
    std::set<std::string> done;
    std::vector<pinnace::Client> workers;
    for (const char *name : {"Ann", "Ben", "Cat"}) {
        workers.emplace_back(pinnace::Options(name, "jobs"));
        /* Runs on a thread of its own, until the client is destroyed. If it throws, the job is redelivered. */
        workers.back().listen([&](pinnace::Delivery &job) {
            const std::lock_guard<std::mutex> lock(mutex);
            done.emplace(std::string(job.body()) + " from " + std::string(job.from()));
        });
    }
    pinnace::Client mill(pinnace::Options("mill", "mill's")), forge(pinnace::Options("forge", "forge's"));
    for (int job = 1; job <= jobs_of_each; job++)
        for (pinnace::Client *producer : {&mill, &forge})
            producer->send_to("jobs", std::to_string(job));
    mill.wait_pending();
    forge.wait_pending();
    workers.clear();
    std::cout << "result messages=" << done.size() << " expected=" << 2 * jobs_of_each << std::endl;
}
