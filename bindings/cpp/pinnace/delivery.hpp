/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* A received message, and the verdicts on it. */

#ifndef PINNACE_DELIVERY_HPP
#define PINNACE_DELIVERY_HPP

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <pinnace/error.hpp>

namespace pinnace {

/* What happens to a message when its handler returns. `| Verdict::stop`: call the handler no more. */
enum class Verdict : int {
    ack = PINNACE_ACK,             /* handled successfully */
    fail = PINNACE_FAIL,           /* failed: redelivered later, before the next of its stream */
    nack = PINNACE_NACK,           /* redelivered later; other messages go first */
    terminate = PINNACE_TERMINATE, /* given up: its sender keeps a dead letter */
    stop = PINNACE_STOP
};

constexpr Verdict operator|(Verdict one, Verdict other) {
    return static_cast<Verdict>(static_cast<int>(one) | static_cast<int>(other));
}

/* Why a message was given up. */
enum class Reason : int {
    terminated = PINNACE_TERMINATED, /* its receiver terminated it */
    deliveries = PINNACE_DELIVERIES, /* it reached max_deliveries */
    too_large = PINNACE_TOO_LARGE,   /* it is larger than its receiver accepts */
    unreadable = PINNACE_UNREADABLE, /* it cannot be decompressed, or its headers cannot be read */
    expired = PINNACE_OUT_OF_TIME    /* its time to live was over: dead_letter_expired of its sender */
};

/* The history of a dead letter. */
struct Dead {
    std::string topic;    /* its original topic */
    std::string receiver; /* the receiver that gave it up */
    Reason reason;
    std::uint64_t deliveries;
};

/* Identifies a message. A receiver stores it with the message's effect in one transaction: see pinnace_cursor_t. */
struct Cursor {
    std::string sender;
    std::uint64_t stream;
    std::uint64_t number;
    std::uint64_t settled;
};

/* The SQL that creates the table of cursors. */
inline std::string_view cursor_schema() noexcept { return pinnace_cursor_schema(); }

/* A received message, until it is settled by ack, nack, terminate, fail or give_back. Destroying an unsettled one is a
 * fail. Once settled or moved from it is empty. Settling invalidates the views that its functions returned. */
class Delivery {
  public:
    Delivery() noexcept = default;
    explicit Delivery(pinnace_delivery_t *handle) noexcept : handle_(handle) {}
    Delivery(Delivery &&other) noexcept : handle_(other.release()) {}
    Delivery &operator=(Delivery &&other) noexcept {
        Delivery(std::move(other)).swap(*this);
        return *this;
    }
    ~Delivery() {
        if (handle_ != nullptr)
            pinnace_delivery_fail(handle_);
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    void swap(Delivery &other) noexcept { std::swap(handle_, other.handle_); }
    pinnace_delivery_t *release() noexcept { return std::exchange(handle_, nullptr); }
    pinnace_delivery_t *handle() const noexcept { return handle_; }

    std::string_view body() const {
        const void *data = pinnace_delivery_body(handle_);
        detail::checked(data, data == nullptr);
        return {static_cast<const char *>(data), pinnace_delivery_size(handle_)};
    }
    std::string_view from() const { return text(pinnace_delivery_from(handle_)); }
    std::string_view topic() const { return text(pinnace_delivery_topic(handle_)); }
    /* Number of deliveries, this one included; with max_deliveries also those recorded before a crash. */
    std::uint64_t deliveries() const { return pinnace_delivery_deliveries(handle_); }
    /* When it was accepted, by the sender's clock. */
    std::chrono::system_clock::time_point accepted() const {
        return std::chrono::system_clock::time_point(Millis(pinnace_delivery_accepted_ms(handle_)));
    }
    Cursor cursor() const {
        pinnace_cursor_t found;
        detail::checked(pinnace_delivery_cursor(handle_, &found));
        return {found.sender, found.stream, found.number, found.settled};
    }
    /* What the sender gave with the body; none: it gave none. */
    std::optional<std::string_view> id() const { return optional(pinnace_delivery_id(handle_)); }
    std::optional<std::string_view> content_type() const { return optional(pinnace_delivery_content_type(handle_)); }
    std::optional<std::string_view> traceparent() const { return optional(pinnace_delivery_traceparent(handle_)); }
    std::optional<std::string_view> tracestate() const { return optional(pinnace_delivery_tracestate(handle_)); }
    std::optional<std::string_view> ordering_key() const { return optional(pinnace_delivery_ordering_key(handle_)); }
    /* The value of a header. */
    std::optional<std::string_view> header(const std::string &key) const {
        pinnace_header_t found;
        const int result = pinnace_delivery_header(handle_, key.c_str(), &found);
        if (result < 0 && errno == ENOENT)
            return std::nullopt;
        detail::checked(result);
        return value(found);
    }
    /* The headers, in the sender's order. */
    std::vector<std::pair<std::string_view, std::string_view>> headers() const {
        std::vector<std::pair<std::string_view, std::string_view>> all;
        pinnace_header_t found;
        while (pinnace_delivery_header_at(handle_, all.size(), &found) == 0)
            all.emplace_back(found.key, value(found));
        detail::checked(errno == ENOENT ? 0 : -1);
        return all;
    }
    std::optional<Dead> dead() const {
        const int reason = pinnace_delivery_dead_reason(handle_);
        if (reason < 0 && errno == ENOENT)
            return std::nullopt;
        detail::checked(reason);
        return Dead{pinnace_delivery_dead_topic(handle_), pinnace_delivery_dead_receiver(handle_), Reason{reason},
                    pinnace_delivery_dead_deliveries(handle_)};
    }

    /* The message is still being handled: restarts Options::ack_within. */
    void in_progress() { detail::checked(pinnace_delivery_in_progress(handle_)); }

    void ack() { detail::checked(pinnace_delivery_ack(release())); }
    void nack(Millis delay = forever) { detail::checked(pinnace_delivery_nack(release(), delay.count())); }
    void terminate() { detail::checked(pinnace_delivery_terminate(release())); }
    void fail() { detail::checked(pinnace_delivery_fail(release())); }

    /* As if it had not been received: it is the next of its stream again, and this delivery does not count. */
    void give_back() { detail::checked(pinnace_delivery_give_back(release())); }

    void ack(std::error_code &error) noexcept { detail::noted(pinnace_delivery_ack(release()) < 0, error); }
    void nack(Millis delay, std::error_code &error) noexcept {
        detail::noted(pinnace_delivery_nack(release(), delay.count()) < 0, error);
    }
    void terminate(std::error_code &error) noexcept {
        detail::noted(pinnace_delivery_terminate(release()) < 0, error);
    }
    void fail(std::error_code &error) noexcept { detail::noted(pinnace_delivery_fail(release()) < 0, error); }

  private:
    static std::string_view value(const pinnace_header_t &header) {
        return {static_cast<const char *>(header.value), header.size};
    }
    static std::optional<std::string_view> optional(const char *found) {
        if (found == nullptr && errno == ENOENT)
            return std::nullopt;
        return text(found);
    }
    static std::string_view text(const char *found) { return detail::checked(found, found == nullptr); }

    pinnace_delivery_t *handle_ = nullptr;
};

} // namespace pinnace

#endif /* PINNACE_DELIVERY_HPP */
