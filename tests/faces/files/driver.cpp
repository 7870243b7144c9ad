/* The driver of the C++ face of file transfer: commands.py describes each command. */
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <poll.h>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <pinnace/files.hpp>

namespace files = pinnace::files;
using Words = std::vector<std::string>;
using pinnace::Millis;

namespace {

constexpr Millis soon{20000};
std::map<std::string, files::Server> servers;
std::map<std::string, files::Client> clients;
std::map<std::string, files::Transfer> transfers;

/* The parts of a text, of which there are at most `most`. */
Words cut(const std::string &text, char mark, std::size_t most = 2) {
    Words parts;
    std::size_t from = 0, to;
    while (parts.size() + 1 < most && (to = text.find(mark, from)) != std::string::npos) {
        parts.push_back(text.substr(from, to - from));
        from = to + 1;
    }
    parts.push_back(text.substr(from));
    return parts;
}

std::string serve(const Words &words) {
    files::ServerOptions options;
    for (std::size_t at = 2; at < words.size(); at++) {
        const Words pair = cut(words[at], '='), parts = cut(pair[1], '@', 3);
        const std::string &key = pair[0];
        if (key == "folder")
            options.folder(parts[0], parts[1]);
        else if (key == "writable")
            options.writable_folder(parts[0], parts[1]);
        else if (key == "bind")
            options.bind(pair[1]);
        else if (key == "cert")
            options.cert(pair[1]);
        else if (key == "user")
            options.user_by_file(parts[0], parts[1]);
        else if (key == "key")
            options.user_by_key(cut(pair[1], '@')[0], cut(pair[1], '@')[1]);
        else if (key == "password")
            options.user_by_password(parts[0], parts[1]);
        else if (key == "grant")
            options.grant(parts[0], parts[1], parts[2] == "write" ? files::Right::write : files::Right::read);
        else if (key == "quiet_ms")
            options.quiet(Millis(std::stol(pair[1])));
        else
            options.set(key, pair[1]);
    }
    servers.erase(words[1]);
    const files::Server &server = servers.emplace(words[1], files::Server(options)).first->second;
    std::string answer = "endpoints";
    for (const std::string &endpoint : server.endpoints())
        answer += " " + endpoint;
    return answer;
}

std::string sent(const Words &words) { return "number " + std::to_string(servers.at(words[1]).sent_bytes()); }

std::string stop(const Words &words) {
    servers.erase(words[1]);
    return "ok";
}

std::string connect_client(const Words &words) {
    files::ClientOptions options(words[2]);
    for (std::size_t at = 3; at < words.size(); at++) {
        const Words pair = cut(words[at], '='), parts = cut(pair[1], '@');
        if (pair[0] == "cert")
            options.cert(parts[0], parts[1]);
        else if (pair[0] == "curve") {
            const std::unique_ptr<void, int (*)(void *)> own(pinnace_cert_load(parts[0].c_str()), pinnace_cert_destroy);
            options.curve(own.get(), parts[1]);
        } else if (pair[0] == "password")
            options.password(parts[0], parts[1]);
        else if (pair[0] == "patience_ms")
            options.patience(Millis(std::stol(pair[1])));
        else
            options.set(pair[0], pair[1]);
    }
    clients.erase(words[1]);
    clients.emplace(words[1], files::Client(options));
    return "ok";
}

std::string disconnect(const Words &words) {
    clients.erase(words[1]);
    return "ok";
}

files::Rules rules_of(const Words &words) {
    std::map<std::string, std::string> given;
    files::Rules rules;
    for (std::size_t at = 5; at < words.size(); at++) {
        const Words pair = cut(words[at], '=');
        if (pair[0] == "exclude")
            rules.exclude(pair[1]);
        else if (pair[0] == "include")
            rules.include(pair[1]);
        else
            given[pair[0]] = pair[1];
    }
    if (given.count("deletion")) {
        std::optional<std::uint64_t> most;
        if (given.count("deletion_most"))
            most = std::stoul(given["deletion_most"]);
        rules.deletion(most, given["deletion_force"] == "1");
    }
    if (given.count("existing"))
        rules.existing(given["existing"] == "nothing" ? files::Existing::nothing : files::Existing::not_newer);
    for (const auto &[key, value] : given)
        if (key == "checksum" || key == "whole_files" || key == "fsync" || key == "dry_run")
            rules.set(key, value);
    return rules;
}

std::string begin(const Words &words) {
    files::Client &client = clients.at(words[2]);
    const std::string &kind = words[0], &first = words[3];
    transfers.erase(words[1]);
    const auto start = [&] {
        const files::Rules rules = rules_of(words);
        if (kind == "get")
            return client.get(first, words[4], rules);
        if (kind == "put")
            return client.put(first, words[4], rules);
        if (kind == "follow")
            return client.follow(first, words[4], rules);
        return kind == "list" ? client.list(first) : client.discard(first);
    };
    transfers.emplace(words[1], start());
    return "ok";
}

std::string word_of(const std::string &text) { return text.empty() ? "-" : text; }

const char *name_of(files::EventKind kind) {
    static const char *const names[] = {"",      "listed",  "begun",   "progress", "finished", "removed",
                                        "moved", "planned", "current", "failed",   "ended",    "aborted",
                                        "linked", "lost"};
    return names[static_cast<int>(kind)];
}

std::string text_of(const files::Event &event) {
    static const char *const types[] = {"", "file", "directory", "link"};
    std::ostringstream text;
    text << "event " << name_of(event.kind);
    switch (event.kind) {
    case files::EventKind::listed:
        text << ' ' << word_of(event.path) << ' ' << types[static_cast<int>(event.type)] << ' ' << event.bytes << ' '
             << std::oct << event.mode << std::dec << ' ' << event.mtime_ns << ' ' << word_of(event.other);
        break;
    case files::EventKind::begun:
        text << ' ' << event.path << ' ' << event.bytes;
        break;
    case files::EventKind::progress:
        text << ' ' << event.bytes;
        break;
    case files::EventKind::finished:
        text << ' ' << event.path << ' ' << event.bytes << ' ';
        for (const unsigned char octet : event.digest) {
            char digits[3];
            std::snprintf(digits, sizeof digits, "%02x", octet);
            text << digits;
        }
        break;
    case files::EventKind::removed:
        text << ' ' << event.path << ' ' << event.here;
        break;
    case files::EventKind::moved:
        text << ' ' << event.path << ' ' << event.other << ' ' << event.here;
        break;
    case files::EventKind::planned:
        text << ' ' << event.path << ' ' << event.removal;
        break;
    case files::EventKind::failed:
        text << ' ' << event.path << ' ' << event.error.value() << ' ' << event.here;
        break;
    case files::EventKind::ended:
        text << ' ' << event.files << ' ' << event.bytes << ' ' << event.failed;
        break;
    case files::EventKind::aborted:
        text << ' ' << event.error.value();
        break;
    case files::EventKind::lost:
        text << ' ' << event.error.value();
        break;
    case files::EventKind::linked:
        text << ' ' << event.path << ' ' << event.other;
        break;
    case files::EventKind::current:
        break;
    }
    return text.str();
}

std::string next(const Words &words) {
    const auto event = transfers.at(words[1]).next_event(Millis(std::stol(words[2])));
    return event ? text_of(*event) : "over";
}

std::string events(const Words &words) {
    std::string answer = "events";
    for (const files::Event &event : transfers.at(words[1]))
        if (event.kind != files::EventKind::progress)
            answer += std::string(" ") + name_of(event.kind);
    return answer;
}

/* As `events`, by the descriptor. */
std::string by_descriptor(const Words &words) {
    files::Transfer &transfer = transfers.at(words[1]);
    std::string answer = "events";
    pollfd item{transfer.fd(), POLLIN, 0};
    while (poll(&item, 1, static_cast<int>(soon.count())) == 1) {
        std::error_code error;
        while (const auto event = transfer.next_event(Millis(0), error))
            if (event->kind != files::EventKind::progress)
                answer += std::string(" ") + name_of(event->kind);
        if (error != std::errc::resource_unavailable_try_again)
            return error ? answer + " " + error.message() : answer;
    }
    return answer + " timeout";
}

std::string wait_for(const Words &words) {
    const Millis timeout = words.size() > 2 ? Millis(std::stol(words[2])) : soon;
    const files::Report report = transfers.at(words[1]).wait(timeout);
    std::ostringstream text;
    text << "report " << report.files << ' ' << report.bytes << ' ' << report.failed.size();
    for (const files::Failure &failure : report.failed)
        text << ' ' << failure.path << ':' << failure.error.value() << ':' << failure.here;
    return text.str();
}

std::string interrupt(const Words &words) {
    files::Transfer &transfer = transfers.at(words[1]);
    struct Canceller {
        std::thread thread;
        ~Canceller() { thread.join(); }
    } canceller{std::thread([&transfer] { transfer.cancel(); })};
    return wait_for(words);
}

std::string cancel(const Words &words) {
    transfers.at(words[1]).cancel();
    return "ok";
}

std::string close_transfer(const Words &words) {
    transfers.erase(words[1]);
    return "ok";
}

const std::map<std::string, std::string (*)(const Words &)> commands{
    {"serve", serve},   {"sent", sent},     {"stop", stop},           {"connect", connect_client},
    {"get", begin},     {"put", begin},     {"follow", begin},        {"list", begin},
    {"discard", begin}, {"next", next},     {"events", events},       {"async", by_descriptor},
    {"wait", wait_for}, {"cancel", cancel}, {"interrupt", interrupt}, {"close", close_transfer},
    {"disconnect", disconnect},
};

} // namespace

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream stream(line);
        const Words words{std::istream_iterator<std::string>(stream), {}};
        try {
            std::cout << commands.at(words[0])(words) << std::endl;
        } catch (const pinnace::Error &error) {
            std::cout << "error " << error.code().value() << ' ' << error.what() << std::endl;
        }
    }
}
