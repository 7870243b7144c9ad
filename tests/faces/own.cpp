/* Features of the C++ face only: moving deliveries, exceptions, destroying clients in handlers. own DIR: works below
 * DIR. */
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include <pinnace/client.hpp>

using pinnace::Client;
using pinnace::Delivery;
using pinnace::Verdict;

static int failures;

#define EXPECT(truth) \
    do { \
        if (!(truth)) { \
            failures++; \
            std::printf("line %d: %s\n", __LINE__, #truth); \
        } \
    } while (false)

/* A one-shot event between threads. */
class Word {
  public:
    void say() {
        const std::lock_guard<std::mutex> lock(mutex_);
        said_ = true;
        told_.notify_all();
    }
    bool heard() {
        std::unique_lock<std::mutex> lock(mutex_);
        return told_.wait_for(lock, std::chrono::seconds(20), [this] { return said_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable told_;
    bool said_ = false;
};

static std::string place;

static Client start(const std::string &name) {
    pinnace::Options options(name, name + "'s");
    return Client(options.data_dir(place + '/' + name).registry("dir://" + place + "/registry").retry(
        pinnace::Millis(1), pinnace::Millis(10)));
}

static void a_handler_keeps_a_delivery() {
    Client sender = start("sender"), receiver = start("receiver");
    Delivery kept;
    Word word;
    receiver.listen([&](Delivery &delivery) {
        kept = std::move(delivery);
        word.say();
    });
    sender.send_to("receiver's", "one");
    EXPECT(word.heard());
    EXPECT(kept.body() == "one" && sender.pending() == 1);
    kept.ack();
    sender.wait_pending();
    EXPECT(!kept);
}

/* On an error the delivery is still there; on success it is empty. */
static void a_handler_acknowledges_with_a_result() {
    Client sender = start("sender"), worker = start("worker"), receiver = start("receiver");
    Word word;
    std::error_code none, refused;
    bool was_kept = false, is_empty = false;
    worker.listen([&](Delivery &delivery) {
        was_kept = !worker.ack_and_send(delivery, {{std::string(300, 't'), "result", {}}}, refused) && delivery;
        is_empty = worker.ack_and_send(delivery, {{"receiver's", "result", {}}, {"receiver's", "more", {}}}, none) &&
                   !delivery;
        word.say();
    });
    sender.send_to("worker's", "one");
    EXPECT(word.heard());
    EXPECT(was_kept && is_empty && refused.value() == EINVAL && !none);
    for (const char *body : {"result", "more"}) {
        Delivery result = receiver.recv();
        EXPECT(result.body() == body);
        result.ack();
    }
    sender.wait_pending();
    pinnace::NewMessage message{"receiver's", "result", {}};
    message.options.content_type = std::string("a\0b", 3);
    Delivery none_at_all;
    EXPECT(!worker.ack_and_send(none_at_all, {message}, refused) && refused.value() == EINVAL);
    EXPECT(!worker.ack_and_send(none_at_all, {}, refused) && refused.value() == EFAULT);
}

static void what_is_thrown_is_told() {
    Client sender = start("sender"), receiver = start("receiver");
    Word word;
    std::string told;
    receiver.on_error([&](const pinnace::Error &error) {
        told = error.what();
        word.say();
    });
    receiver.listen([](Delivery &delivery) {
        if (delivery.deliveries() == 1)
            throw std::runtime_error("on purpose");
    });
    sender.send_to("receiver's", "one");
    EXPECT(word.heard());
    EXPECT(told.find("on purpose") == 0);
    sender.wait_pending();
}

static void a_handler_destroys_its_client() {
    Client sender = start("sender");
    auto receiver = std::make_unique<Client>(start("receiver"));
    Word word;
    receiver->listen([&](Delivery &delivery) {
        delivery.ack();
        receiver.reset();
        word.say();
    });
    sender.send_to("receiver's", "one");
    EXPECT(word.heard());
    sender.wait_pending();
}

static void a_handler_that_hangs_outlives_its_client() {
    Client sender = start("sender");
    /* Beyond the client's life, as what a handler refers to has to. */
    static Word begun, may_return, returned;
    {
        pinnace::Options options("receiver", "receiver's");
        Client receiver(options.data_dir(place + "/receiver")
                            .registry("dir://" + place + "/registry")
                            .handler_linger(pinnace::Millis(1)));
        receiver.listen([text = std::string("a state of its own, on the heap")](Delivery &) {
            begun.say();
            may_return.heard();
            EXPECT(text.size() == 31);
            returned.say();
        });
        sender.send_to("receiver's", "one");
        EXPECT(begun.heard() && receiver.in_hand() == 1);
        std::error_code error;
        EXPECT(!receiver.drain(pinnace::Millis(1), error) && error.value() == EAGAIN);
        EXPECT(!receiver.close(pinnace::Millis(1), error) && error.value() == ETIMEDOUT);
    }
    may_return.say();
    EXPECT(returned.heard());
    sender.wait_pending();
}

static void what_a_handler_keeps_is_waited_for() {
    Client sender = start("sender"), receiver = start("receiver");
    Delivery kept;
    sender.send_to("receiver's", "one");
    receiver.run([&](Delivery &delivery) {
        kept = std::move(delivery);
        return Verdict::stop;
    });
    std::error_code error;
    EXPECT(!receiver.drain(pinnace::Millis(1), error) && error.value() == EAGAIN);
    kept.ack();
    receiver.drain(pinnace::Millis(20000));
    EXPECT(receiver.in_hand() == 0);
    receiver.close(pinnace::Millis(20000));
}

static void keys_come_from_files() {
    std::filesystem::create_directories(place);
    for (const char *name : {"one.cert", "two.cert"}) {
        void *cert = pinnace_cert_new(nullptr, nullptr);
        EXPECT(pinnace_cert_save(cert, (place + '/' + name).c_str()) == 0 && pinnace_cert_destroy(cert) == 0);
    }
    const auto sealed = [](const std::string &name, const std::string &other, const std::string &suffix) {
        pinnace::Options options(name, name + "'s");
        options.data_dir(place + '/' + name).registry("dir://" + place + "/registry").durable(false).send_only(false);
        options.lease(std::chrono::seconds(5)).interval(pinnace::Millis(10)).linger(pinnace::Millis(0));
        options.reassign_after(std::chrono::seconds(1)).skip_failing().memory_limit(1 << 20).disk_limit(64 << 20);
        options.max_body(1 << 20).compress_from(1 << 10).cert(place + '/' + name + ".cert" + suffix);
        return Client(options.trust_file(other, place + '/' + other + ".cert"));
    };
    Client one = sealed("one", "two", ""), two = sealed("two", "one", "_secret");
    EXPECT(!two.try_recv() && two.fd() >= 0);
    one.send_to("two's", "sealed");
    Delivery delivery = two.recv(pinnace::Millis(20000));
    EXPECT(delivery.body() == "sealed");
    delivery.ack();
    one.wait_pending();
    two.drain();
    int number = 0;
    try {
        two.try_recv();
    } catch (const pinnace::Error &error) {
        number = error.code().value();
    }
    EXPECT(number == ECANCELED);
    try {
        pinnace::Options("three", "three's").cert(place + "/none");
    } catch (const pinnace::Error &error) {
        number = error.code().value();
    }
    EXPECT(number == ENOENT);
}

static void errors_by_code() {
    Client one = start("one");
    std::error_code error;
    EXPECT(!one.recv(pinnace::Millis(0), error) && error.value() == EAGAIN);
    EXPECT(!one.send(std::string(256, 't'), "body", {}, error) && error.value() == EINVAL);
    EXPECT(one.send("nobody's", "body", {}, error) && !error);
    EXPECT(!one.wait_pending(0, pinnace::Millis(1), error) && error.value() == EAGAIN);
    EXPECT(!one.registry_error() && one.clear_addresses("one's") == 0);
    Delivery none;
    none.ack(error);
    EXPECT(error.value() == EFAULT);
    Client other = std::move(one);
    EXPECT(other.name() == "one");
    for (const auto &call : {std::function<void()>([&] { one.listen([](Delivery &) {}); }),
                             std::function<void()>([&] { one.on_error([](const pinnace::Error &) {}); }),
                             std::function<void()>([&] { one.send_to("t", "body"); })}) {
        int number = 0;
        try {
            call();
        } catch (const pinnace::Error &thrown) {
            number = thrown.code().value();
        }
        EXPECT(number == EFAULT);
    }
    one = std::move(other);
    one.close();
    EXPECT(!one.recv(pinnace::forever, error) && error.value() == EFAULT);
    EXPECT(one.registry_error().value() == EFAULT);
}

int main(int, char **words) {
    const std::pair<const char *, void (*)()> checks[] = {
        {"a handler keeps a delivery", a_handler_keeps_a_delivery},
        {"a handler acknowledges with a result", a_handler_acknowledges_with_a_result},
        {"what is thrown is told", what_is_thrown_is_told},
        {"a handler destroys its client", a_handler_destroys_its_client},
        {"a handler that hangs outlives its client", a_handler_that_hangs_outlives_its_client},
        {"what a handler keeps is waited for", what_a_handler_keeps_is_waited_for},
        {"keys come from files", keys_come_from_files},
        {"errors by code", errors_by_code},
    };
    int passed = 0, failed = 0;
    for (const auto &[name, check] : checks) {
        place = std::string(words[1]) + '/' + std::to_string(passed + failed);
        failures = 0;
        check();
        std::printf("%s %s\n", failures ? "FAILED" : "ok", name);
        (failures ? failed : passed)++;
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
