/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* How a message is sent, and what goes with its body. */

#ifndef PINNACE_SEND_OPTIONS_HPP
#define PINNACE_SEND_OPTIONS_HPP

#include <cerrno>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pinnace/error.hpp>

namespace pinnace {

enum class Durability : int {
    sync = PINNACE_SYNC,        /* on the disk before the call returns */
    interval = PINNACE_INTERVAL, /* on the disk later, within Options::interval */
    memory = PINNACE_MEMORY      /* never on the disk; lost with the process */
};

/* How a message is sent. The defaults are those of Client::send_to. */
struct SendOptions {
    bool all = false; /* true: to each client that listens on the topic; false: to the first that is free */
    Durability durability = Durability::sync;
    Millis ttl{0};            /* the message's time to live; 0: no limit */
    Millis timeout = forever; /* how long to wait for room and the disk */
    /* What goes with the body, 16 KiB in all; an empty text: none. */
    std::string id;           /* at most 255 bytes; a retry with it is not stored again: Options::deduplicate_for */
    std::string content_type; /* of the body, such as "application/json" */
    std::string traceparent;  /* W3C trace context */
    std::string tracestate;   /* only with traceparent */
    /* 1 to 255 bytes; none: no key. Messages to one with the same key go to the same client while it lives, in order;
     * messages to all ignore it. */
    std::optional<std::string> ordering_key;
    std::vector<std::pair<std::string, std::string>> headers; /* at most 64 distinct keys, and values of any bytes */
};

/* A message that is sent together with an acknowledgement. */
struct NewMessage {
    std::string topic;
    std::string body;
    SendOptions options = {};
};

namespace detail {

/* Send options for the C functions; they refer to the SendOptions. Throws Error (EINVAL) for a text with a NUL, which
 * would end there in C. */
class COptions {
  public:
    explicit COptions(const SendOptions &options) {
        given_.timeout_ms = options.timeout.count();
        given_.ttl_ms = options.ttl.count();
        given_.all = options.all ? 1 : 0;
        given_.durability = static_cast<int>(options.durability);
        given_.id = optional(options.id);
        given_.content_type = optional(options.content_type);
        given_.traceparent = optional(options.traceparent);
        given_.tracestate = optional(options.tracestate);
        /* An empty key is an error: without a key the messages would be in no order. */
        given_.ordering_key = options.ordering_key ? text(*options.ordering_key) : nullptr;
        headers_.reserve(options.headers.size());
        for (const auto &[key, value] : options.headers)
            headers_.push_back({text(key), value.data(), value.size()});
        given_.headers = headers_.data();
        given_.header_count = headers_.size();
    }
    COptions(const COptions &) = delete;
    COptions &operator=(const COptions &) = delete;

    const pinnace_send_options_t *get() const noexcept { return &given_; }

  private:
    static const char *text(const std::string &text) {
        if (text.find('\0') != std::string::npos)
            throw Error(EINVAL,
                        "an id, a content type, trace context, an ordering key or the key of a header has a NUL");
        return text.c_str();
    }
    static const char *optional(const std::string &given) { return given.empty() ? nullptr : text(given); }

    pinnace_send_options_t given_ = PINNACE_SEND_OPTIONS;
    std::vector<pinnace_header_t> headers_;
};

/* Messages for the C functions; they refer to the NewMessages. */
class CMessages {
  public:
    explicit CMessages(const std::vector<NewMessage> &messages) {
        listed_.reserve(messages.size());
        for (const NewMessage &message : messages) {
            options_.emplace_back(message.options);
            listed_.push_back({message.topic.c_str(), message.body.data(), message.body.size(), options_.back().get()});
        }
    }

    const pinnace_message_t *data() const noexcept { return listed_.data(); }
    std::size_t size() const noexcept { return listed_.size(); }

  private:
    std::deque<COptions> options_;
    std::vector<pinnace_message_t> listed_;
};

} // namespace detail

} // namespace pinnace

#endif /* PINNACE_SEND_OPTIONS_HPP */
