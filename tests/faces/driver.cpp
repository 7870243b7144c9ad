/* The driver of the C++ face: driver.py describes each command. */
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pinnace/client.hpp>

using pinnace::Client;
using pinnace::Delivery;
using pinnace::Millis;
using pinnace::Verdict;
using Words = std::vector<std::string>;

static std::map<std::string, std::unique_ptr<Client>> clients;
static std::vector<Delivery> deliveries;

static Client &client(const Words &words) { return *clients.at(words[1]); }

static Millis ms(const std::string &word) { return Millis(std::stoll(word)); }

static std::string body(const std::string &spec) {
    if (spec[0] == '=')
        return spec.substr(1);
    const std::size_t size = std::stoul(spec), seed = std::stoul(spec.substr(spec.find(':') + 1));
    std::string bytes(size, '\0');
    for (std::size_t at = 0; at < size; at++)
        bytes[at] = static_cast<char>(at / 7 + seed);
    return bytes;
}

static unsigned adler32(std::string_view bytes) {
    unsigned low = 1, high = 0;
    for (const char byte : bytes) {
        low = (low + static_cast<unsigned char>(byte)) % 65521;
        high = (high + low) % 65521;
    }
    return high << 16 | low;
}

static std::string start(const Words &words) {
    pinnace::Options options(words[2], words[3]);
    for (std::size_t at = 4; at < words.size(); at++) {
        const std::size_t equals = words[at].find('=');
        const std::string key = words[at].substr(0, equals), value = words[at].substr(equals + 1);
        if (key == "topic") {
            options.topic(value);
            continue;
        }
        if (key != "peer") {
            options.set(key, value);
            continue;
        }
        const std::size_t first = value.find('@'), second = value.find('@', first + 1);
        options.peer(value.substr(0, first), value.substr(first + 1, second - first - 1), {value.substr(second + 1)});
    }
    clients[words[1]] = std::make_unique<Client>(options);
    return "ok";
}

static std::string send(const Words &words) {
    const std::string bytes = body(words[3]);
    if (words.size() > 4) {
        pinnace::SendOptions options;
        options.all = words[4] == "1";
        options.durability = words[5] == "1" ? pinnace::Durability::interval : pinnace::Durability::sync;
        options.ttl = ms(words[6]);
        options.timeout = ms(words[7]);
        client(words).send(words[2], bytes, options);
    } else if (words[0] == "all") {
        return "number " + std::to_string(client(words).send_all(words[2], bytes));
    } else {
        client(words).send_to(words[2], bytes);
    }
    return "ok";
}

static std::string describe(const Words &words) {
    const auto text = [&](std::size_t at) { return words[at] == "-" ? std::string() : words[at]; };
    pinnace::SendOptions options;
    options.id = text(4);
    options.content_type = text(5);
    options.traceparent = text(6);
    options.tracestate = text(7);
    if (words[8] != "-")
        options.ordering_key = words[8] == "''" ? "" : words[8];
    for (std::size_t at = 9; at < words.size(); at++) {
        const std::size_t end = words[at].find('=');
        options.headers.emplace_back(words[at].substr(0, end), words[at].substr(end + 1));
    }
    client(words).send(words[2], body(words[3]), options);
    return "ok";
}

static std::string properties(const Words &words) {
    const Delivery &delivery = deliveries.at(std::stoul(words[1]));
    std::string said = "properties";
    for (const auto &text : {delivery.id(), delivery.content_type(), delivery.traceparent(), delivery.tracestate(),
                             delivery.ordering_key()})
        said.append(" ").append(text.value_or("-"));
    for (const auto &[key, value] : delivery.headers()) {
        if (delivery.header(std::string(key)) != value)
            throw pinnace::Error(EIO, "another value by its key");
        said.append(" ").append(key).append("=").append(value);
    }
    return said;
}

static std::string together(const Words &words) {
    std::vector<pinnace::NewMessage> messages;
    for (std::size_t at = 4; at + 3 < words.size(); at += 4) {
        pinnace::NewMessage message{words[at], body(words[at + 1])};
        message.options.timeout = ms(words[3]);
        message.options.all = words[at + 2] == "1";
        message.options.id = words[at + 3] == "-" ? "" : words[at + 3];
        messages.push_back(message);
    }
    client(words).ack_and_send(deliveries.at(std::stoul(words[2])), messages);
    return "ok";
}

static std::string burst(const Words &words) {
    pinnace::Ticket last{0};
    for (int number = 0; number < std::stoi(words[3]); number++)
        last = client(words).send_async(words[2], std::to_string(number));
    client(words).wait(last);
    return "ok";
}

static std::string recv(const Words &words) {
    Delivery delivery = client(words).recv(ms(words[2]));
    const auto accepted = std::chrono::duration_cast<Millis>(delivery.accepted().time_since_epoch());
    std::ostringstream said;
    said << "delivery " << deliveries.size() << ' ' << delivery.from() << ' ' << delivery.topic() << ' '
         << delivery.deliveries() << ' ' << accepted.count() << ' ' << delivery.body().size() << ' '
         << adler32(delivery.body());
    deliveries.push_back(std::move(delivery));
    return said.str();
}

static std::string dead(const Words &words) {
    const auto why = deliveries.at(std::stoul(words[1])).dead();
    if (!why)
        throw pinnace::Error(ENOENT, "no dead letter");
    return "dead " + why->topic + ' ' + why->receiver + ' ' + std::to_string(why->deliveries) +
           ' ' + std::to_string(static_cast<int>(why->reason));
}

static std::string cursor(const Words &words) {
    const pinnace::Cursor found = deliveries.at(std::stoul(words[1])).cursor();
    return "cursor " + found.sender + ' ' + std::to_string(found.stream) + ' ' + std::to_string(found.number) + ' ' +
           std::to_string(found.settled);
}

static std::string schema(const Words &) {
    std::string text("schema ");
    for (const char letter : pinnace::cursor_schema())
        text += letter == '\n' ? ' ' : letter;
    return text;
}

static std::string by_peer(const Words &words) {
    std::string said = "by_peer";
    for (const pinnace::Pending &pending : client(words).pending_by_peer())
        said += ' ' + pending.receiver.value_or("-") + ':' + pending.topic + ':' + std::to_string(pending.messages);
    return said;
}

static std::string settle(const Words &words) {
    Delivery &delivery = deliveries.at(std::stoul(words[1]));
    if (words[0] == "ack")
        delivery.ack();
    else if (words[0] == "nack")
        delivery.nack(ms(words[2]));
    else if (words[0] == "terminate")
        delivery.terminate();
    else if (words[0] == "give_back")
        delivery.give_back();
    else
        delivery.fail();
    return "ok";
}

static std::string take(const Words &words) {
    std::string said = "took";
    for (int left = std::stoi(words[2]); left > 0; left--) {
        Delivery delivery = client(words).recv(Millis(20000));
        said.append(" ").append(delivery.body());
        delivery.ack();
    }
    return said;
}

static std::string run(const Words &words) {
    static const std::map<std::string, Verdict> verdicts = {{"ack", Verdict::ack},
                                                            {"nack", Verdict::nack},
                                                            {"terminate", Verdict::terminate},
                                                            {"fail", Verdict::fail}};
    std::string said = "ran";
    std::size_t at = 2;
    const auto say = [&](Delivery &delivery) {
        said.append(" ").append(delivery.body()).append(":").append(std::to_string(delivery.deliveries()));
        const std::string &word = words[at++];
        if (word == "throw")
            throw std::runtime_error("on purpose");
        const Verdict verdict = verdicts.at(word);
        return at == words.size() ? verdict | Verdict::stop : verdict;
    };
    while (at < words.size()) {
        try {
            client(words).run(say);
        } catch (const std::runtime_error &thrown) {
            if (thrown.what() != std::string("on purpose"))
                throw;
        }
    }
    return said;
}

static std::string forward(const Words &words) {
    Client &one = client(words);
    one.listen([&one, topic = words[2]](Delivery &delivery) { one.send_to(topic, delivery.body()); });
    return "ok";
}

/* Sends the signals that are blocked in a process started with posix_spawn. */
static std::string blocked_in_a_process() {
    char words[][32] = {"grep", "SigBlk", "/proc/self/status"}, *arguments[] = {words[0], words[1], words[2], nullptr};
    int ends[2];
    pid_t child;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return "no pipe";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int started = posix_spawnp(&child, "grep", &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::FILE *said = fdopen(ends[0], "r");
    char blocked[32] = "";
    const int found = std::fscanf(said, "SigBlk: %31s", blocked);
    std::fclose(said);
    if (started == 0)
        waitpid(child, nullptr, 0);
    return found == 1 ? blocked : "nothing";
}

static std::string start_process(const Words &words) {
    Client &one = client(words);
    one.listen([&one, topic = words[2]](Delivery &) { one.send_to(topic, blocked_in_a_process()); });
    return "ok";
}

/* Permissions for handlers that hang, and what handlers that close have got. */
class Results {
  public:
    void put(std::error_code result) {
        const std::lock_guard<std::mutex> lock(mutex_);
        results_.push_back(result);
        changed_.notify_one();
    }
    std::error_code take() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return !results_.empty(); });
        const std::error_code result = results_.front();
        results_.pop_front();
        return result;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::error_code> results_;
};

static Results &released = *new Results, &closed = *new Results;

static std::string answer(std::error_code error) {
    if (error)
        throw pinnace::Error(error.value(), error.message());
    return "ok";
}

static std::string hang(const Words &words) {
    Client &one = client(words);
    one.listen([&one, topic = words[2]](Delivery &delivery) {
        released.take();
        if (topic != "-")
            one.send_to(topic, delivery.body());
    });
    return "ok";
}

static std::string release(const Words &) {
    released.put({});
    return "ok";
}

/* EFAULT: it has ended. */
static std::error_code close_once(Client &one, Millis timeout) {
    std::error_code error;
    return one.close(timeout, error) || error.value() == EFAULT ? std::error_code() : error;
}

static std::string close_by_handler(const Words &words) {
    Client &one = client(words);
    one.listen([&one, timeout = ms(words[2])](Delivery &) {
        std::error_code error;
        if (one.drain(timeout, error))
            error = close_once(one, timeout);
        closed.put(error ? error : close_once(one, timeout));
    });
    return "ok";
}

static std::string close_twice(const Words &words) {
    Client &one = client(words);
    std::error_code errors[2];
    std::thread first([&] { errors[0] = close_once(one, ms(words[2])); });
    std::thread second([&] { errors[1] = close_once(one, ms(words[2])); });
    first.join();
    second.join();
    return answer(errors[0] ? errors[0] : errors[1] ? errors[1] : close_once(one, ms(words[2])));
}

static std::string close_client(const Words &words) {
    clients.erase(words[1]);
    return "ok";
}

static std::string interrupt(const Words &words) {
    std::error_code error;
    std::thread receiver([&] { client(words).recv(pinnace::forever, error); });
    client(words).close();
    receiver.join();
    return "error " + std::to_string(error.value()) + " of the thread that received";
}

static std::string addresses(const Words &words) {
    std::string said = "addresses";
    for (const std::string &address : client(words).addresses(words[2]))
        said += ' ' + address;
    return said;
}

static std::string poll_client(const Words &words) {
    pollfd one{client(words).fd(), POLLIN, 0};
    return "number " + std::to_string(poll(&one, 1, std::stoi(words[2])));
}

static std::string other(const Words &words) {
    Client &one = client(words);
    if (words[0] == "pending")
        return "number " + std::to_string(one.pending());
    if (words[0] == "in_hand")
        return "number " + std::to_string(one.in_hand());
    if (words[0] == "identity")
        return "identity " + one.name() + ' ' + one.endpoint();
    if (words[0] == "statistics")
        return "statistics " + one.statistics_json();
    if (words[0] == "metrics")
        return "metrics " + one.metrics_address();
    if (words[0] == "settle")
        one.wait_pending(std::stoull(words[2]), ms(words[3]));
    else if (words[0] == "drain")
        one.drain(ms(words[2]));
    else if (words[0] == "close_within")
        one.close(ms(words[2]));
    else if (words[0] == "wait_listeners")
        one.wait_listeners(words[2], std::stoull(words[3]), ms(words[4]));
    else if (words[0] == "subscribe")
        one.subscribe(words[2]);
    else if (words[0] == "unsubscribe")
        one.unsubscribe(words[2]);
    else if (words[0] == "forget")
        one.forget(words[2]);
    else
        throw std::invalid_argument(words[0]);
    return "ok";
}

static const std::map<std::string, std::function<std::string(const Words &)>> commands = {
    {"start", start},   {"close", close_client}, {"send", send},     {"all", send},         {"with", send},
    {"burst", burst},   {"recv", recv},   {"dead", dead},     {"ack", settle},       {"nack", settle},
    {"fail", settle},   {"take", take},   {"run", run},       {"terminate", settle}, {"forward", forward},
    {"interrupt", interrupt}, {"addresses", addresses}, {"cursor", cursor}, {"schema", schema}, {"by_peer", by_peer},
    {"start_process", start_process}, {"hang", hang}, {"release", release}, {"close_by_handler", close_by_handler},
    {"close_twice", close_twice}, {"describe", describe}, {"properties", properties}, {"give_back", settle},
    {"poll", poll_client}, {"together", together},
    {"closed", [](const Words &) { return answer(closed.take()); }},
};

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream from(line);
        const Words words{std::istream_iterator<std::string>(from), {}};
        const auto found = commands.find(words[0]);
        try {
            std::cout << (found == commands.end() ? other(words) : found->second(words)) << std::endl;
        } catch (const pinnace::Error &error) {
            std::cout << "error " << error.code().value() << ' ' << error.what() << std::endl;
        }
    }
}
