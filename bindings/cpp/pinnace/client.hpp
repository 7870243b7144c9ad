/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Guaranteed delivery for C++17, on pinnace.h; link to libpinnace.
 *
 *     pinnace::Client billing(pinnace::Options("billing", "invoices"));
 *     pinnace::Client shop(pinnace::Options("shop", "orders"));
 *     shop.send_to("invoices", "3 pinnaces"); // on this machine's disk
 *     pinnace::Delivery delivery = billing.recv();
 *     handle(delivery.body());
 *     delivery.ack();
 *
 * Errors are thrown as pinnace::Error. An overload with a std::error_code as its last argument throws nothing and
 * stores the error there: an errno, in std::generic_category(). A Client may be called from any thread, and from
 * handlers. Texts are UTF-8; bodies are any bytes. */

#ifndef PINNACE_CLIENT_HPP
#define PINNACE_CLIENT_HPP

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <pinnace/delivery.hpp>
#include <pinnace/options.hpp>
#include <pinnace/send_options.hpp>

namespace pinnace {

/* A message on its way to the disk. */
struct Ticket {
    std::uint64_t number;
    int receivers = 0; /* of a message to all; 0: it is kept for those to come */
};

/* The messages pending for one receiver on one topic. */
struct Pending {
    std::optional<std::string> receiver; /* none: the first client that listens */
    std::string topic;
    std::uint64_t messages;
};

/* A client. The destructor closes it, and waits for its handlers, at most Options::handler_linger. A handler that takes
 * longer goes on: what it refers to must outlive it. The client's own state does; it is leaked on purpose then. */
class Client {
  public:
    explicit Client(const Options &options) : state_(std::make_unique<State>()) {
        state_->handle = pinnace_client_start(options.handle());
        detail::checked(state_->handle, state_->handle == nullptr);
        const int heard = pinnace_client_on_error(state_->handle, &Client::report, state_.get());
        detail::checked(heard);
    }
    Client(Client &&other) noexcept = default;
    Client &operator=(Client &&other) noexcept {
        Client(std::move(other)).state_.swap(state_);
        return *this;
    }
    ~Client() { end(); }

    /* Calls that wait return ECANCELED. Returns when all calls and handlers have returned, or after
     * Options::handler_linger; at once if a handler calls it. */
    void close() noexcept { pinnace_client_close(handle()); }

    /* Drains until the timeout, then ends the client in any case. Returns when all is settled and all calls and
     * handlers have returned. ETIMEDOUT: something was not settled, or has not returned. A handler that calls it does
     * not wait for itself. */
    void close(Millis timeout) { detail::checked(close_within(timeout)); }
    bool close(Millis timeout, std::error_code &error) noexcept {
        return detail::noted(close_within(timeout) < 0, error);
    }

    /* Stops receiving, for good: calls that wait for a message return ECANCELED. Sending and settling continue. Returns
     * once every delivery in hand is settled, what was acknowledged is on the disk, and messages of Durability::memory
     * are acknowledged. EAGAIN: timeout; it can be called again. A handler that calls it does not wait for itself. */
    void drain(Millis timeout = forever) { detail::checked(pinnace_client_drain(handle(), timeout.count())); }
    bool drain(Millis timeout, std::error_code &error) noexcept {
        return detail::noted(pinnace_client_drain(handle(), timeout.count()) < 0, error);
    }

    /* How many received messages are in hand: with a handler or a Delivery, and not settled. */
    std::uint64_t in_hand() const {
        std::uint64_t number = 0;
        detail::checked(pinnace_client_in_hand(handle(), &number));
        return number;
    }

    std::string name() const { return text(pinnace_client_name(handle())); }
    std::string endpoint() const { return text(pinnace_client_endpoint(handle())); }
    /* Its id in its store: 32 hexadecimal digits, random; another store has another one. */
    std::string store_id() const { return text(pinnace_client_store_id(handle())); }

    void subscribe(const std::string &topic) {
        detail::checked(pinnace_client_subscribe(handle(), topic.c_str()));
    }
    void unsubscribe(const std::string &topic) {
        detail::checked(pinnace_client_unsubscribe(handle(), topic.c_str()));
    }
    /* The endpoints of the clients known to listen on a topic. */
    std::vector<std::string> addresses(const std::string &topic) const;
    /* The statistics as JSON and in Prometheus' text format; and where they are served, as ADDRESS:PORT. */
    std::string statistics_json() const { return text(pinnace_client_statistics_json); }
    std::string statistics_prometheus() const { return text(pinnace_client_statistics_prometheus); }
    std::string metrics_address() const { return text(pinnace_client_metrics_address); }
    /* The current error of the registry: the client is not registered, or cannot read the other clients. It retries on
     * its own. */
    std::error_code registry_error() const noexcept {
        std::error_code error;
        detail::noted(pinnace_client_registry_error(handle()) < 0, error);
        return error;
    }
    /* Ends all subscriptions of a client that is gone for good; what is kept for it is dropped. Error EEXIST: it
     * lives. */
    void forget(const std::string &name) { detail::checked(pinnace_client_forget(handle(), name.c_str())); }
    /* Ends the subscriptions of a topic by dead clients; returns their number. */
    int clear_addresses(const std::string &topic) {
        return detail::checked(pinnace_client_clear_addresses(handle(), topic.c_str()));
    }

    /* Sends to one of the clients that listen on a topic. Returns once the message is on this machine's disk.
     */
    void send_to(const std::string &topic, std::string_view body) {
        detail::checked(pinnace_client_send_to(handle(), topic.c_str(), body.data(), body.size()));
    }
    /* Returns the number of receivers; 0: it is kept for those to come. */
    int send_all(const std::string &topic, std::string_view body) {
        return detail::checked(pinnace_client_send_all(handle(), topic.c_str(), body.data(), body.size()));
    }
    void send(const std::string &topic, std::string_view body, const SendOptions &options) {
        const detail::COptions given(options);
        detail::checked(pinnace_client_send(handle(), topic.c_str(), body.data(), body.size(), given.get()));
    }
    bool send(const std::string &topic, std::string_view body, const SendOptions &options,
              std::error_code &error) noexcept {
        try {
            const detail::COptions given(options);
            const int sent = pinnace_client_send(handle(), topic.c_str(), body.data(), body.size(), given.get());
            return detail::noted(sent < 0, error);
        } catch (const std::system_error &refused) {
            error = refused.code();
        } catch (const std::bad_alloc &) {
            error = std::make_error_code(std::errc::not_enough_memory);
        }
        return false;
    }

    /* Does not wait for the disk. Messages reach the disk in the order of their tickets. */
    Ticket send_async(const std::string &topic, std::string_view body, const SendOptions &options = {}) {
        const detail::COptions given(options);
        Ticket ticket{};
        ticket.receivers = detail::checked(pinnace_client_send_async(
            handle(), topic.c_str(), body.data(), body.size(), given.get(), &ticket.number));
        return ticket;
    }
    void wait(Ticket ticket, Millis timeout = forever) {
        detail::checked(pinnace_client_wait(handle(), ticket.number, timeout.count()));
    }
    bool wait(Ticket ticket, Millis timeout, std::error_code &error) noexcept {
        return detail::noted(pinnace_client_wait(handle(), ticket.number, timeout.count()) < 0, error);
    }

    /* Consumes and produces in one step: acknowledges a delivery of this client and sends messages, at most 8 MiB and a
     * sixteenth of disk_limit. A crash leaves all of it or nothing. It returns when all of it is on this machine's
     * disk, and the delivery is empty then; if there are messages and all have Durability::interval, it will be on the
     * disk. It waits for the shortest timeout of the messages. After an error nothing was acknowledged or sent, and the
     * delivery is not empty, except after EINPROGRESS: all was accepted, but was not known to be on the disk when the
     * time was over or the store failed. ESTALE: the delivery no longer counts. */
    void ack_and_send(Delivery &delivery, const std::vector<NewMessage> &messages) {
        detail::checked(settle_and_send(delivery, detail::CMessages(messages)));
    }
    bool ack_and_send(Delivery &delivery, const std::vector<NewMessage> &messages, std::error_code &error) noexcept {
        try {
            return detail::noted(settle_and_send(delivery, detail::CMessages(messages)) < 0, error);
        } catch (const std::system_error &refused) {
            error = refused.code();
        } catch (const std::bad_alloc &) {
            error = std::make_error_code(std::errc::not_enough_memory);
        }
        return false;
    }

    /* How many messages are not acknowledged yet; wait_pending waits until at most `most` are. */
    std::uint64_t pending() const {
        std::uint64_t number = 0;
        detail::checked(pinnace_client_pending(handle(), &number));
        return number;
    }
    /* The same by receiver and topic, including those with nothing pending. */
    std::vector<Pending> pending_by_peer() const;
    /* Discards the pending messages of a topic; returns the number of messages. */
    std::uint64_t clear_pending(const std::string &topic) {
        std::uint64_t number = 0;
        detail::checked(pinnace_client_clear_pending(handle(), topic.c_str(), &number));
        return number;
    }
    /* Waits until at least `count` clients listen on a topic, of which it may be one. EAGAIN: timeout. */
    void wait_listeners(const std::string &topic, std::size_t count, Millis timeout = forever) {
        detail::checked(pinnace_client_wait_listeners(handle(), topic.c_str(), count, timeout.count()));
    }
    bool wait_listeners(const std::string &topic, std::size_t count, Millis timeout, std::error_code &error) noexcept {
        return detail::noted(
            pinnace_client_wait_listeners(handle(), topic.c_str(), count, timeout.count()) < 0, error);
    }

    void wait_pending(std::uint64_t most = 0, Millis timeout = forever) {
        detail::checked(pinnace_client_wait_pending(handle(), most, timeout.count()));
    }
    bool wait_pending(std::uint64_t most, Millis timeout, std::error_code &error) noexcept {
        return detail::noted(pinnace_client_wait_pending(handle(), most, timeout.count()) < 0, error);
    }

    /* The next message. EAGAIN: timeout; ECANCELED: the client was closed. */
    Delivery recv(Millis timeout = forever) {
        pinnace_delivery_t *delivery = pinnace_client_recv(handle(), timeout.count());
        return Delivery(detail::checked(delivery, delivery == nullptr));
    }
    /* Returns an empty Delivery on error. */
    Delivery recv(Millis timeout, std::error_code &error) noexcept {
        pinnace_delivery_t *delivery = pinnace_client_recv(handle(), timeout.count());
        detail::noted(delivery == nullptr, error);
        return Delivery(delivery);
    }

    /* The next message, if one is ready; otherwise an empty Delivery. ECANCELED: the client was closed. */
    Delivery try_recv() {
        std::error_code error;
        Delivery delivery = recv(Millis(0), error);
        if (error && error.value() != EAGAIN)
            throw Error(error.value(), pinnace_client_error());
        return delivery;
    }
    /* A descriptor for event loops. It is readable while a message may be ready, and once the client is drained or
     * closed: then call try_recv. It stays readable until a receive finds no message. It belongs to the client: remove
     * it from the loop before the client is closed. */
    int fd() const { return detail::checked(pinnace_client_fd(handle())); }

    /* Calls a handler with one message after the other, in this thread, until the handler returns Verdict::stop. The
     * handler takes a Delivery & and returns a Verdict, or void, which counts as Verdict::ack. It may move the delivery
     * elsewhere and settle it there. If it throws, the message has failed, and run throws the same exception. */
    template <typename Handle> void run(Handle &&handle);

    /* Like run, on a thread of its own, until Verdict::stop or until the client is closed. If the handler throws, the
     * message has failed, on_error is called, and the thread goes on. If a handler destroys its client, the client's
     * state is leaked on purpose. While the handler runs, its thread has the signal mask of the thread that started the
     * client. */
    template <typename Handle> void listen(Handle &&handle);

    /* Sets a function that is called, on any thread, with errors that no call can return. */
    void on_error(std::function<void(const Error &)> handle) {
        const std::lock_guard<std::mutex> lock(state().mutex);
        state_->on_error = std::make_shared<std::function<void(const Error &)>>(std::move(handle));
    }

  private:
    using Handler = std::function<Verdict(Delivery &)>;
    struct State;

    std::string text(int (*write)(pinnace_client_t *, char *, std::size_t *)) const;

    /* The handler of one run or listen. */
    struct Listener {
        Handler handler;
        State *of;
        std::exception_ptr thrown;
    };

    /* Its address never changes: the C library has it. */
    struct State {
        pinnace_client_t *handle = nullptr;
        std::mutex mutex;
        std::vector<std::unique_ptr<Listener>> listeners;
        std::shared_ptr<std::function<void(const Error &)>> on_error;
        std::atomic<bool> was_closed{false}; /* with a timeout */
        State *before = nullptr; /* the next one in the list of leave_behind */
    };

    template <typename Handle> static Handler with_verdict(Handle &&handle) {
        if constexpr (std::is_void_v<std::invoke_result_t<Handle &, Delivery &>>)
            return [handle = std::forward<Handle>(handle)](Delivery &delivery) mutable {
                handle(delivery);
                return Verdict::ack;
            };
        else
            return std::forward<Handle>(handle);
    }

    static int call(Listener &listener, pinnace_delivery_t *handle) {
        const detail::Inside inside;
        Delivery delivery(handle);
        /* The C library settles the delivery, unless the handler settled it or moved it elsewhere. */
        struct Give {
            Delivery &back;
            ~Give() { back.release(); }
        } give{delivery};
        const int said = static_cast<int>(listener.handler(delivery));
        return delivery ? said : PINNACE_KEEP | (said & PINNACE_STOP);
    }

    static int run_one(pinnace_delivery_t *delivery, void *arg) noexcept {
        Listener &listener = *static_cast<Listener *>(arg);
        try {
            return call(listener, delivery);
        } catch (...) {
            listener.thrown = std::current_exception();
            return PINNACE_FAIL | PINNACE_STOP;
        }
    }

    static int listen_one(pinnace_delivery_t *delivery, void *arg) noexcept {
        Listener &listener = *static_cast<Listener *>(arg);
        try {
            return call(listener, delivery);
        } catch (const std::exception &thrown) {
            report(ECANCELED, thrown.what(), listener.of);
        } catch (...) {
            report(ECANCELED, "a handler threw something other than a std::exception", listener.of);
        }
        return PINNACE_FAIL;
    }

    static void report(int number, const char *words, void *arg) noexcept {
        State &state = *static_cast<State *>(arg);
        std::unique_lock<std::mutex> lock(state.mutex);
        const auto on_error = state.on_error;
        lock.unlock();
        try {
            if (on_error != nullptr && *on_error)
                (*on_error)(Error(number, words));
        } catch (...) {
            /* on_error itself threw: there is no further place to report to. */
        }
    }

    static std::string text(const char *found) { return detail::checked(found, found == nullptr); }

    /* EFAULT: the client was moved from. */
    State &state() const {
        if (state_ == nullptr)
            throw Error(EFAULT, "not a client: it was moved from");
        return *state_;
    }

    int close_within(Millis timeout) noexcept {
        if (state_ != nullptr)
            state_->was_closed = true;
        return pinnace_client_close_within(handle(), timeout.count());
    }

    int settle_and_send(Delivery &delivery, const detail::CMessages &messages) noexcept {
        const int sent = pinnace_client_ack_and_send(handle(), delivery.handle(), messages.data(), messages.size());
        if (sent == 0 || errno == EINPROGRESS)
            delivery.release();
        return sent;
    }

    pinnace_client_t *handle() const noexcept { return state_ == nullptr ? nullptr : state_->handle; }

    void end() noexcept {
        if (state_ == nullptr)
            return;
        /* What an explicit close has waited for in vain is not waited for again. */
        const int ended = state_->was_closed ? pinnace_client_close_within(state_->handle, 0)
                                             : pinnace_client_close(state_->handle);
        const bool used = ended < 0 && errno == ETIMEDOUT;
        /* A handler still runs, or, within a handler, was not waited for: keep the state that it uses. */
        if (used || detail::depth() > 0)
            leave_behind(state_.release());
    }

    /* Keeps a state until the process ends, reachable from a static, so that leak checkers do not report it. */
    static void leave_behind(State *state) noexcept {
        static std::mutex mutex;
        static State *last = nullptr;
        const std::lock_guard<std::mutex> lock(mutex);
        state->before = std::exchange(last, state);
    }

    std::unique_ptr<State> state_;
};

inline std::string Client::text(int (*write)(pinnace_client_t *, char *, std::size_t *)) const {
    std::string found(4096, '\0');
    std::size_t size = found.size();
    while (write(handle(), found.data(), &size) < 0) {
        if (errno != ENOBUFS)
            detail::fail();
        found.resize(size + size / 4);
        size = found.size();
    }
    found.resize(size - 1);
    return found;
}

inline std::vector<std::string> Client::addresses(const std::string &topic) const {
    std::string lines(256, '\0');
    std::size_t size = lines.size();
    int count;
    while ((count = pinnace_client_addresses(handle(), topic.c_str(), lines.data(), &size)) < 0) {
        if (errno != ENOBUFS)
            detail::fail();
        lines.resize(size);
    }
    std::vector<std::string> found;
    for (std::size_t at = 0, end; (end = lines.find('\n', at)) != std::string::npos; at = end + 1)
        found.push_back(lines.substr(at, end - at));
    return found;
}

inline std::vector<Pending> Client::pending_by_peer() const {
    /* An exception must not propagate through C frames: store it, and rethrow it afterwards. */
    struct Found {
        std::vector<Pending> all;
        std::exception_ptr thrown;
    } found;
    const auto add = [](const char *receiver, const char *topic, std::uint64_t messages, void *arg) {
        Found &to = *static_cast<Found *>(arg);
        try {
            const auto name = receiver == nullptr ? std::nullopt : std::make_optional<std::string>(receiver);
            to.all.push_back({name, topic, messages});
        } catch (...) {
            to.thrown = std::current_exception();
        }
    };
    detail::checked(pinnace_client_pending_by_peer(handle(), add, &found));
    if (found.thrown != nullptr)
        std::rethrow_exception(found.thrown);
    return std::move(found.all);
}

template <typename Handle> void Client::run(Handle &&handle) {
    Listener listener{with_verdict(std::forward<Handle>(handle)), state_.get(), nullptr};
    const int ended = pinnace_client_run(this->handle(), &Client::run_one, &listener);
    if (listener.thrown != nullptr)
        std::rethrow_exception(listener.thrown);
    detail::checked(ended);
}

template <typename Handle> void Client::listen(Handle &&handle) {
    auto listener = std::make_unique<Listener>();
    listener->handler = with_verdict(std::forward<Handle>(handle));
    listener->of = state_.get();
    const std::lock_guard<std::mutex> lock(state().mutex);
    state_->listeners.push_back(std::move(listener));
    detail::checked(pinnace_client_listen(this->handle(), &Client::listen_one, state_->listeners.back().get()));
}

} // namespace pinnace

#endif /* PINNACE_CLIENT_HPP */
