/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* The options with which a client is started. */

#ifndef PINNACE_OPTIONS_HPP
#define PINNACE_OPTIONS_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <pinnace/error.hpp>

namespace pinnace {

/* The configuration of a client; any number of clients can be started with it. */
class Options {
  public:
    Options(const std::string &name, const std::string &topic)
        : handle_(pinnace_client_options_new(name.c_str(), topic.c_str())) {
        detail::checked(handle_.get(), handle_ == nullptr);
    }

    /* Sets an option by its name and as text, like pinnace_client_options_set. */
    Options &set(const std::string &key, const std::string &value) {
        detail::checked(pinnace_client_options_set(handle_.get(), key.c_str(), value.c_str()));
        return *this;
    }
    Options &data_dir(const std::string &path) { return set("data_dir", path); }
    Options &registry(const std::string &url) { return set("registry", url); }
    Options &listen(const std::string &endpoint) { return set("listen", endpoint); }
    /* The endpoint that others are told to connect to, if it is not the one that the client listens on. */
    Options &advertise(const std::string &endpoint) { return set("advertise", endpoint); }
    /* True: the client neither listens nor is registered. */
    Options &send_only(bool only = true) { return flag("send_only", only); }
    Options &lease(Millis time) { return set("lease_ms", std::to_string(time.count())); }
    Options &interval(Millis time) { return set("interval_ms", std::to_string(time.count())); }
    Options &retry(Millis first, Millis most) {
        set("retry_first_ms", std::to_string(first.count()));
        return set("retry_most_ms", std::to_string(most.count()));
    }
    Options &ack_within(Millis time) { return set("ack_within_ms", std::to_string(time.count())); }
    /* How long a message to one of several clients waits while that client is away; 0: without limit. */
    Options &reassign_after(Millis time) { return set("reassign_after_ms", std::to_string(time.count())); }
    /* Other messages of a stream go on while a failed one waits. */
    Options &skip_failing(bool skip = true) { return flag("skip_failing", skip); }
    /* Whether a message of this client that expires becomes a dead letter. */
    Options &dead_letter_expired(bool keep = true) { return flag("dead_letter_expired", keep); }
    Options &max_deliveries(std::uint32_t most) { return set("max_deliveries", std::to_string(most)); }
    /* False: subscriptions end with the process, and nothing is kept while the client is away. */
    Options &durable(bool durable) { return flag("durable", durable); }
    /* How long, and how many bytes, messages are kept for a receiver that is away, and messages to all, sent while no
     * receiver is known, for those to come. 0: without limit. */
    Options &retain_for(Millis time) { return set("retain_for_ms", std::to_string(time.count())); }
    Options &retain_bytes(std::uint64_t bytes) { return set("retain_bytes", std::to_string(bytes)); }
    /* How long a message's id counts, by which a retry is recognized; 0: not at all; `forever`: as long as it is one
     * of the client's 65,536 newest. */
    Options &deduplicate_for(Millis time) {
        return set("deduplicate_for_ms", time == forever ? "forever" : std::to_string(time.count()));
    }
    /* How long closing waits for calls and handlers that do not return. */
    Options &handler_linger(Millis time) { return set("handler_linger_ms", std::to_string(time.count())); }
    Options &skip_damage(bool skip = true) { return flag("skip_damage", skip); }
    /* How long closing waits until messages of Durability::memory are acknowledged; and how many bytes they may take.
     */
    Options &linger(Millis time) { return set("linger_ms", std::to_string(time.count())); }
    Options &memory_limit(std::uint64_t bytes) { return set("memory_limit", std::to_string(bytes)); }
    /* Where the statistics are served over HTTP to all that can connect: a port of 127.0.0.1, or ADDRESS:PORT. */
    Options &metrics(const std::string &address) { return set("metrics", address); }
    /* The bytes of the store's files; 0: without limit. By default a tenth of the file system, 4 MiB to 4 GiB. */
    Options &disk_limit(std::uint64_t bytes) { return set("disk_limit", std::to_string(bytes)); }
    /* The largest body that is sent and accepted, in bytes; and the smallest that is compressed. */
    Options &max_body(std::uint64_t bytes) { return set("max_body", std::to_string(bytes)); }
    Options &compress_from(std::uint64_t bytes) { return set("compress_from", std::to_string(bytes)); }
    /* Adds a topic that the client listens on from its start. */
    Options &topic(const std::string &further) {
        detail::checked(pinnace_client_options_topic(handle_.get(), further.c_str()));
        return *this;
    }
    /* Adds a client known in advance. */
    Options &peer(const std::string &name, const std::string &endpoint, const std::vector<std::string> &topics) {
        std::vector<const char *> texts;
        for (const std::string &topic : topics)
            texts.push_back(topic.c_str());
        detail::checked(pinnace_client_options_peer(handle_.get(), name.c_str(), endpoint.c_str(), texts.data(),
                                                    texts.size()));
        return *this;
    }

    /* Encrypts all traffic with the keys of a certificate from pinnace_cert_load. The client talks only to clients with
     * a trusted public key, 40 characters of Z85. */
    Options &curve(void *certificate) {
        detail::checked(pinnace_client_options_curve(handle_.get(), certificate));
        return *this;
    }
    Options &trust(const std::string &name, const std::string &key) {
        detail::checked(pinnace_client_options_trust(handle_.get(), name.c_str(), key.c_str()));
        return *this;
    }

    /* The same with files, as `pinnace keygen NAME` writes them: the path of NAME or NAME_secret for the client itself,
     * of NAME for another client. */
    Options &cert(const std::string &file) {
        detail::checked(pinnace_client_options_cert(handle_.get(), file.c_str()));
        return *this;
    }
    Options &trust_file(const std::string &name, const std::string &file) {
        detail::checked(pinnace_client_options_trust_file(handle_.get(), name.c_str(), file.c_str()));
        return *this;
    }

    const pinnace_client_options_t *handle() const noexcept { return handle_.get(); }

  private:
    Options &flag(const std::string &key, bool on) { return set(key, on ? "1" : "0"); }

    struct Destroy {
        void operator()(pinnace_client_options_t *handle) const noexcept { pinnace_client_options_destroy(handle); }
    };
    std::unique_ptr<pinnace_client_options_t, Destroy> handle_;
};

} // namespace pinnace

#endif /* PINNACE_OPTIONS_HPP */
