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
 * What fails throws pinnace::Error. Where a std::error_code is the last argument nothing is thrown, and it says what
 * was wrong: an errno, in std::generic_category(). Calls on a Client may come from any thread, and from handlers. Texts
 * are UTF-8; bodies are any bytes. */

#ifndef PINNACE_CLIENT_HPP
#define PINNACE_CLIENT_HPP

#include <cerrno>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <pinnace/delivery.hpp>

namespace pinnace {

/* What a client is to be; serves for any number of clients. */
class Options {
  public:
    Options(const std::string &name, const std::string &topic)
        : handle_(pinnace_client_options_new(name.c_str(), topic.c_str())) {
        detail::checked(handle_.get(), handle_ == nullptr);
    }

    /* By name and as text, as pinnace_client_options_set. */
    Options &set(const std::string &key, const std::string &value) {
        detail::checked(pinnace_client_options_set(handle_.get(), key.c_str(), value.c_str()));
        return *this;
    }
    Options &data_dir(const std::string &path) { return set("data_dir", path); }
    Options &registry(const std::string &url) { return set("registry", url); }
    Options &listen(const std::string &endpoint) { return set("listen", endpoint); }
    Options &lease(Millis time) { return set("lease_ms", std::to_string(time.count())); }
    Options &interval(Millis time) { return set("interval_ms", std::to_string(time.count())); }
    Options &retry(Millis first, Millis most) {
        set("retry_first_ms", std::to_string(first.count()));
        return set("retry_most_ms", std::to_string(most.count()));
    }
    Options &ack_within(Millis time) { return set("ack_within_ms", std::to_string(time.count())); }
    Options &max_deliveries(std::uint32_t most) { return set("max_deliveries", std::to_string(most)); }
    Options &skip_damage(bool skip = true) { return set("skip_damage", skip ? "1" : "0"); }
    /* Another client that is known beforehand. */
    Options &peer(const std::string &name, const std::string &endpoint, const std::vector<std::string> &topics) {
        std::vector<const char *> texts;
        for (const std::string &topic : topics)
            texts.push_back(topic.c_str());
        detail::checked(pinnace_client_options_peer(handle_.get(), name.c_str(), endpoint.c_str(), texts.data(),
                                                    texts.size()));
        return *this;
    }

    /* With the keys of a certificate of pinnace_cert_load's; it speaks to those alone whose public keys are given, as
     * 40 characters of Z85. */
    Options &curve(void *certificate) {
        detail::checked(pinnace_client_options_curve(handle_.get(), certificate));
        return *this;
    }
    Options &trust(const std::string &name, const std::string &key) {
        detail::checked(pinnace_client_options_trust(handle_.get(), name.c_str(), key.c_str()));
        return *this;
    }

    const pinnace_client_options_t *handle() const noexcept { return handle_.get(); }

  private:
    struct Destroy {
        void operator()(pinnace_client_options_t *handle) const noexcept { pinnace_client_options_destroy(handle); }
    };
    std::unique_ptr<pinnace_client_options_t, Destroy> handle_;
};

enum class Durability : int {
    sync = PINNACE_SYNC,        /* on the disk before the call returns */
    interval = PINNACE_INTERVAL, /* some time after: Options::interval */
    memory = PINNACE_MEMORY      /* never, and lost with the process */
};

/* How a message is sent; as it stands, as Client::send_to does it. */
struct SendOptions {
    bool all = false; /* to each of those that listen on the topic, and not to one in turn */
    Durability durability = Durability::sync;
    Millis ttl{0};            /* how long it may live; 0: as long as it takes */
    Millis timeout = forever; /* how long to wait for room and the disk */
};

/* A message that is on its way to the disk. */
struct Ticket {
    std::uint64_t number;
};

/* What waits for one receiver on one topic. */
struct Pending {
    std::optional<std::string> receiver; /* none: whoever comes first */
    std::string topic;
    std::uint64_t messages; /* and parts of such */
};

/* A client. It closes when it is destroyed. */
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

    /* Ends receiving and waiting, with ECANCELED. Returns when all calls and handlers have; called by a handler, at
     * once. */
    void close() noexcept { pinnace_client_close(handle()); }

    std::string name() const { return text(pinnace_client_name(handle())); }
    std::string endpoint() const { return text(pinnace_client_endpoint(handle())); }

    void subscribe(const std::string &topic) {
        detail::checked(pinnace_client_subscribe(handle(), topic.c_str()));
    }
    void unsubscribe(const std::string &topic) {
        detail::checked(pinnace_client_unsubscribe(handle(), topic.c_str()));
    }
    /* Where those are that listen on a topic, as far as it knows. */
    std::vector<std::string> addresses(const std::string &topic) const;
    /* What keeps it from being known in its registry, or from knowing who is there; that is tried again and again. */
    std::error_code registry_error() const noexcept {
        std::error_code error;
        detail::noted(pinnace_client_registry_error(handle()) < 0, error);
        return error;
    }
    /* Clears away what dead clients left of themselves in the registry on a topic; returns how many that were. */
    int clear_addresses(const std::string &topic) {
        return detail::checked(pinnace_client_clear_addresses(handle(), topic.c_str()));
    }

    /* To one of those that listen on a topic, in turn; it is on this machine's disk when this returns. */
    void send_to(const std::string &topic, std::string_view body) {
        detail::checked(pinnace_client_send_to(handle(), topic.c_str(), body.data(), body.size()));
    }
    void send_all(const std::string &topic, std::string_view body) {
        detail::checked(pinnace_client_send_all(handle(), topic.c_str(), body.data(), body.size()));
    }
    void send(const std::string &topic, std::string_view body, const SendOptions &options) {
        const pinnace_send_options_t given = c_options(options);
        detail::checked(pinnace_client_send(handle(), topic.c_str(), body.data(), body.size(), &given));
    }
    bool send(const std::string &topic, std::string_view body, const SendOptions &options,
              std::error_code &error) noexcept {
        const pinnace_send_options_t given = c_options(options);
        const int sent = pinnace_client_send(handle(), topic.c_str(), body.data(), body.size(), &given);
        return detail::noted(sent < 0, error);
    }

    /* Without waiting for the disk. Messages come to be there in the order of their tickets. */
    Ticket send_async(const std::string &topic, std::string_view body, const SendOptions &options = {}) {
        const pinnace_send_options_t given = c_options(options);
        Ticket ticket{0};
        detail::checked(pinnace_client_send_async(handle(), topic.c_str(), body.data(), body.size(), &given,
                                                  &ticket.number));
        return ticket;
    }
    void wait(Ticket ticket, Millis timeout = forever) {
        detail::checked(pinnace_client_wait(handle(), ticket.number, timeout.count()));
    }
    bool wait(Ticket ticket, Millis timeout, std::error_code &error) noexcept {
        return detail::noted(pinnace_client_wait(handle(), ticket.number, timeout.count()) < 0, error);
    }

    /* How many messages, and parts of such, nobody has yet said to have; and waiting until they are so few. */
    std::uint64_t pending() const {
        std::uint64_t number = 0;
        detail::checked(pinnace_client_pending(handle(), &number));
        return number;
    }
    /* By receiver and topic, those with none among them. */
    std::vector<Pending> pending_by_peer() const;
    /* Forgets what waits on a topic; returns how many messages, and parts of such, that were. */
    std::uint64_t clear_pending(const std::string &topic) {
        std::uint64_t number = 0;
        detail::checked(pinnace_client_clear_pending(handle(), topic.c_str(), &number));
        return number;
    }
    void wait_pending(std::uint64_t most = 0, Millis timeout = forever) {
        detail::checked(pinnace_client_wait_pending(handle(), most, timeout.count()));
    }
    bool wait_pending(std::uint64_t most, Millis timeout, std::error_code &error) noexcept {
        return detail::noted(pinnace_client_wait_pending(handle(), most, timeout.count()) < 0, error);
    }

    /* The next message. EAGAIN: none came in time; ECANCELED: the client was closed. */
    Delivery recv(Millis timeout = forever) {
        pinnace_delivery_t *delivery = pinnace_client_recv(handle(), timeout.count());
        return Delivery(detail::checked(delivery, delivery == nullptr));
    }
    /* Empty where there is an error. */
    Delivery recv(Millis timeout, std::error_code &error) noexcept {
        pinnace_delivery_t *delivery = pinnace_client_recv(handle(), timeout.count());
        detail::noted(delivery == nullptr, error);
        return Delivery(delivery);
    }

    /* Calls a handler with one message after the other, in this thread, until it says Verdict::stop. It takes a
     * Delivery & and returns a Verdict, or nothing, which is Verdict::ack; it may move the delivery elsewhere and
     * settle it there. A message in which it throws has failed, and what it threw comes out here. */
    template <typename Handle> void run(Handle &&handle);

    /* Does so in a thread of its own, until then or until the client is closed. A message in which the handler throws
     * has failed, on_error hears of it, and it goes on. A client that its handler destroys leaves that one behind.
     * While the handler runs, its thread has the signal mask of the thread that started the client. */
    template <typename Handle> void listen(Handle &&handle);

    /* Has a function called, on any thread, with what goes wrong where no call tells of it. */
    void on_error(std::function<void(const Error &)> handle) {
        const std::lock_guard<std::mutex> lock(state().mutex);
        state_->on_error = std::make_shared<std::function<void(const Error &)>>(std::move(handle));
    }

  private:
    using Handler = std::function<Verdict(Delivery &)>;
    struct State;

    /* A handler that listens, or runs. */
    struct Listener {
        Handler handler;
        State *of;
        std::exception_ptr thrown;
    };

    /* Where it lies does not change: C knows it. */
    struct State {
        pinnace_client_t *handle = nullptr;
        std::mutex mutex;
        std::vector<std::unique_ptr<Listener>> listeners;
        std::shared_ptr<std::function<void(const Error &)>> on_error;
        State *before = nullptr; /* among those that were left behind */
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
        /* C settles it, unless the handler has, or has it elsewhere. */
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
            report(ECANCELED, "a handler threw what is no std::exception", listener.of);
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
            /* There is nobody left to tell. */
        }
    }

    static std::string text(const char *found) { return detail::checked(found, found == nullptr); }

    static pinnace_send_options_t c_options(const SendOptions &options) noexcept {
        pinnace_send_options_t given = PINNACE_SEND_OPTIONS;
        given.timeout_ms = options.timeout.count();
        given.ttl_ms = options.ttl.count();
        given.all = options.all ? 1 : 0;
        given.durability = static_cast<int>(options.durability);
        return given;
    }

    /* EFAULT: it was moved from. */
    State &state() const {
        if (state_ == nullptr)
            throw Error(EFAULT, "this is no client: it was moved from");
        return *state_;
    }

    pinnace_client_t *handle() const noexcept { return state_ == nullptr ? nullptr : state_->handle; }

    void end() noexcept {
        if (state_ == nullptr)
            return;
        pinnace_client_close(state_->handle);
        /* Called by a handler, it has not ended: what its handlers need has to stay. */
        if (detail::depth() > 0)
            leave_behind(state_.release());
    }

    /* For the rest of the process, where who looks for leaks finds it. */
    static void leave_behind(State *state) noexcept {
        static std::mutex mutex;
        static State *last = nullptr;
        const std::lock_guard<std::mutex> lock(mutex);
        state->before = std::exchange(last, state);
    }

    std::unique_ptr<State> state_;
};

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
    /* What is thrown does not go through C. */
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
