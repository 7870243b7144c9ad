/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* A message that has arrived, and what can be said of it. */

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

#include <pinnace/error.hpp>

namespace pinnace {

/* What becomes of a message when its handler returns; `| Verdict::stop`: and it was the last. */
enum class Verdict : int {
    ack = PINNACE_ACK,             /* it is handled */
    fail = PINNACE_FAIL,           /* it is the next of its stream again, after a while */
    nack = PINNACE_NACK,           /* again after a while; others go first */
    terminate = PINNACE_TERMINATE, /* it never will be handled: its sender has a dead letter */
    stop = PINNACE_STOP
};

constexpr Verdict operator|(Verdict one, Verdict other) {
    return static_cast<Verdict>(static_cast<int>(one) | static_cast<int>(other));
}

/* Why a message was given up. */
enum class Reason : int {
    terminated = PINNACE_TERMINATED, /* its handler said so */
    deliveries = PINNACE_DELIVERIES, /* it was delivered as often as it may be */
    too_large = PINNACE_TOO_LARGE,   /* for its receiver */
    unreadable = PINNACE_UNREADABLE  /* it is compressed, and cannot be read */
};

/* What is known of a dead letter. */
struct Dead {
    std::string topic;    /* where it was sent at first */
    std::string receiver; /* who gave it up */
    Reason reason;
    std::uint64_t deliveries;
};

/* Which message it is, to be stored with its effect in one transaction: pinnace_cursor_t says how. */
struct Cursor {
    std::string sender;
    std::uint64_t stream;
    std::uint64_t number;
    std::uint64_t settled;
};

/* A table for cursors, in SQL. */
inline std::string_view cursor_schema() noexcept { return pinnace_cursor_schema(); }

/* A message, from its arrival until it is settled by ack, nack, terminate or fail. One that is destroyed before has
 * failed. Afterwards it is empty, as one that was moved from; what it pointed to is gone. */
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

    std::string_view body() const {
        const void *data = pinnace_delivery_body(handle_);
        detail::checked(data, data == nullptr);
        return {static_cast<const char *>(data), pinnace_delivery_size(handle_)};
    }
    std::string_view from() const { return text(pinnace_delivery_from(handle_)); }
    std::string_view topic() const { return text(pinnace_delivery_topic(handle_)); }
    /* How often, since the receiver was started, this time included. */
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
    std::optional<Dead> dead() const {
        const int reason = pinnace_delivery_dead_reason(handle_);
        if (reason < 0 && errno == ENOENT)
            return std::nullopt;
        detail::checked(reason);
        return Dead{pinnace_delivery_dead_topic(handle_), pinnace_delivery_dead_receiver(handle_), Reason{reason},
                    pinnace_delivery_dead_deliveries(handle_)};
    }

    /* It is still being handled: Options::ack_within begins anew. */
    void in_progress() { detail::checked(pinnace_delivery_in_progress(handle_)); }

    void ack() { detail::checked(pinnace_delivery_ack(release())); }
    void nack(Millis delay = forever) { detail::checked(pinnace_delivery_nack(release(), delay.count())); }
    void terminate() { detail::checked(pinnace_delivery_terminate(release())); }
    void fail() { detail::checked(pinnace_delivery_fail(release())); }

    void ack(std::error_code &error) noexcept { detail::noted(pinnace_delivery_ack(release()) < 0, error); }
    void nack(Millis delay, std::error_code &error) noexcept {
        detail::noted(pinnace_delivery_nack(release(), delay.count()) < 0, error);
    }
    void terminate(std::error_code &error) noexcept {
        detail::noted(pinnace_delivery_terminate(release()) < 0, error);
    }
    void fail(std::error_code &error) noexcept { detail::noted(pinnace_delivery_fail(release()) < 0, error); }

  private:
    static std::string_view text(const char *found) { return detail::checked(found, found == nullptr); }

    pinnace_delivery_t *handle_ = nullptr;
};

} // namespace pinnace

#endif /* PINNACE_DELIVERY_HPP */
