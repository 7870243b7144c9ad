// Typical use of libzmq from C++ through cppzmq. Runs the test named by its argument; a wrong value or an exception
// ends it with an error.
#include <atomic>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>
#include <zmq_addon.hpp>

namespace
{
constexpr int DEADLINE_MS = 20000;

void expect(bool truth, const std::string &what)
{
    if (!truth)
        throw std::runtime_error(what);
}

zmq::socket_t open(zmq::context_t &context, zmq::socket_type type)
{
    zmq::socket_t socket(context, type);
    socket.set(zmq::sockopt::rcvtimeo, DEADLINE_MS);
    socket.set(zmq::sockopt::sndtimeo, DEADLINE_MS);
    socket.set(zmq::sockopt::linger, 0);
    return socket;
}

// Binds one to a port chosen by the kernel and connects the other to it.
std::string join(zmq::socket_t &bound, zmq::socket_t &connected)
{
    bound.bind("tcp://127.0.0.1:*");
    const auto address = bound.get(zmq::sockopt::last_endpoint);
    connected.connect(address);
    return address;
}

std::string text(zmq::socket_t &socket)
{
    zmq::message_t message;
    expect(socket.recv(message).has_value(), "nothing came");
    return message.to_string();
}

void version(zmq::context_t &)
{
    const auto [major, minor, patch] = zmq::version();
    expect(ZMQ_MAKE_VERSION(major, minor, patch) >= ZMQ_MAKE_VERSION(4, 3, 4), "the version");
}

void pushPull(zmq::context_t &context)
{
    auto pull = open(context, zmq::socket_type::pull), push = open(context, zmq::socket_type::push);
    join(pull, push);
    for (int number = 0; number < 10000; ++number) {
        push.send(zmq::buffer(std::to_string(number)));
        expect(text(pull) == std::to_string(number), "message " + std::to_string(number));
    }
}

void multipart(zmq::context_t &context)
{
    auto reply = open(context, zmq::socket_type::rep), request = open(context, zmq::socket_type::req);
    join(reply, request);
    zmq::multipart_t question("first");
    question.addstr(std::string(70000, 'x'));
    question.addmem(nullptr, 0);
    question.addtyp<uint32_t>(17);
    const auto copy = question.clone();
    question.send(request);
    zmq::multipart_t found(reply);
    expect(found.equal(&copy), "the question arrived otherwise");
    std::vector<zmq::message_t> parts;
    zmq::send_multipart(reply, std::array<zmq::const_buffer, 2>{zmq::buffer("a", 1), zmq::buffer("bc", 2)});
    expect(zmq::recv_multipart(request, std::back_inserter(parts)) == 2u, "two parts");
    expect(parts[0].to_string() == "a" && parts[1].to_string() == "bc", "their bytes");
}

void publish(zmq::context_t &context)
{
    auto publisher = open(context, zmq::socket_type::xpub), subscriber = open(context, zmq::socket_type::sub);
    join(publisher, subscriber);
    subscriber.set(zmq::sockopt::subscribe, "news");
    expect(text(publisher) == "\1news", "the subscription");
    publisher.send(zmq::str_buffer("weather"));
    publisher.send(zmq::str_buffer("news: none"));
    expect(text(subscriber) == "news: none", "what was subscribed to");
    subscriber.set(zmq::sockopt::unsubscribe, "news");
    expect(text(publisher) == std::string("\0news", 5), "its end");
}

void routerDealer(zmq::context_t &context)
{
    auto router = open(context, zmq::socket_type::router), dealer = open(context, zmq::socket_type::dealer);
    router.set(zmq::sockopt::router_mandatory, true);
    dealer.set(zmq::sockopt::routing_id, "dealer");
    expect(dealer.get(zmq::sockopt::routing_id) == "dealer", "the id as it was set");
    join(router, dealer);
    dealer.send(zmq::str_buffer("hello"));
    expect(text(router) == "dealer" && text(router) == "hello", "from the dealer");
    router.send(zmq::str_buffer("dealer"), zmq::send_flags::sndmore);
    router.send(zmq::str_buffer("back"));
    expect(text(dealer) == "back", "from the router");
    try {
        router.send(zmq::str_buffer("nobody"), zmq::send_flags::sndmore);
        throw std::runtime_error("an unknown peer was taken");
    } catch (const zmq::error_t &refusal) {
        expect(refusal.num() == EHOSTUNREACH, refusal.what());
    }
}

void poll(zmq::context_t &context)
{
    auto pull = open(context, zmq::socket_type::pull), push = open(context, zmq::socket_type::push);
    join(pull, push);
    std::vector<zmq::pollitem_t> items{{pull, 0, ZMQ_POLLIN, 0}, {push, 0, ZMQ_POLLOUT, 0}};
    expect(zmq::poll(items, std::chrono::milliseconds(DEADLINE_MS)) == 1, "one is ready");
    expect(items[0].revents == 0 && items[1].revents == ZMQ_POLLOUT, "the sender");
    push.send(zmq::str_buffer("ready"));
    items.pop_back();
    expect(zmq::poll(items, std::chrono::milliseconds(DEADLINE_MS)) == 1, "one has a message");
    expect(pull.get(zmq::sockopt::events) == ZMQ_POLLIN, "its events");
    expect(text(pull) == "ready", "the message");
    expect(zmq::poll(items, std::chrono::milliseconds(0)) == 0, "none is left");
}

void proxy(zmq::context_t &context)
{
    auto front = open(context, zmq::socket_type::router), back = open(context, zmq::socket_type::dealer);
    auto client = open(context, zmq::socket_type::req), worker = open(context, zmq::socket_type::rep);
    auto steering = open(context, zmq::socket_type::pair), control = open(context, zmq::socket_type::pair);
    join(front, client);
    join(back, worker);
    control.bind("inproc://control");
    steering.connect("inproc://control");
    std::thread between([&] { zmq::proxy_steerable(front, back, zmq::socket_ref(), control); });
    client.send(zmq::str_buffer("question"));
    expect(text(worker) == "question", "through the proxy");
    worker.send(zmq::str_buffer("answer"));
    expect(text(client) == "answer", "and back");
    steering.send(zmq::str_buffer("TERMINATE"));
    between.join();
}

void options(zmq::context_t &context)
{
    auto socket = open(context, zmq::socket_type::dealer);
    expect(socket.get(zmq::sockopt::type) == static_cast<int>(zmq::socket_type::dealer), "type");
    expect(socket.get(zmq::sockopt::sndhwm) == 1000 && socket.get(zmq::sockopt::maxmsgsize) == -1, "defaults");
    socket.set(zmq::sockopt::sndhwm, 7);
    socket.set(zmq::sockopt::affinity, uint64_t(1));
    socket.set(zmq::sockopt::maxmsgsize, int64_t(1) << 40);
    socket.set(zmq::sockopt::conflate, true);
    socket.set(zmq::sockopt::heartbeat_ivl, 2500);
    expect(socket.get(zmq::sockopt::sndhwm) == 7 && socket.get(zmq::sockopt::affinity) == 1, "as set");
    expect(socket.get(zmq::sockopt::maxmsgsize) == int64_t(1) << 40, "64 bits");
    expect(context.get(zmq::ctxopt::io_threads) == 1 && context.get(zmq::ctxopt::max_sockets) == 1023, "context");
}

// A zero-copy buffer is freed exactly once, after the receiver has the message and the last copy is gone.
void shared(zmq::context_t &context)
{
    auto pull = open(context, zmq::socket_type::pull), push = open(context, zmq::socket_type::push);
    join(pull, push);
    std::atomic<int> freed{0};
    std::string bytes(100000, 'z');
    auto release = [](void *, void *hint) { ++*static_cast<std::atomic<int> *>(hint); };
    zmq::message_t message(bytes.data(), bytes.size(), release, &freed), twin;
    twin.copy(message);
    push.send(message, zmq::send_flags::none);
    expect(text(pull) == bytes, "by reference");
    expect(freed == 0, "given back while a copy is held");
    twin.rebuild();
    std::vector<zmq::pollitem_t> none;
    for (int turn = 0; turn < DEADLINE_MS && freed == 0; ++turn)
        zmq::poll(none, std::chrono::milliseconds(1));
    expect(freed == 1, "given back once");
}

template <class Call> void fails(int wanted, Call call)
{
    try {
        call();
    } catch (const zmq::error_t &refusal) {
        expect(refusal.num() == wanted, std::string("not as expected: ") + refusal.what());
        return;
    }
    throw std::runtime_error("no error, but " + std::string(zmq_strerror(wanted)) + " was to come");
}

void errors(zmq::context_t &context)
{
    auto first = open(context, zmq::socket_type::rep), second = open(context, zmq::socket_type::rep);
    first.bind("tcp://127.0.0.1:*");
    fails(EADDRINUSE, [&] { second.bind(first.get(zmq::sockopt::last_endpoint)); });
    fails(EPROTONOSUPPORT, [&] { second.connect("carrier://pigeon"); });
    fails(EINVAL, [&] { second.connect("nonsense"); });
    fails(ENOENT, [&] { second.unbind("tcp://127.0.0.1:1"); });
    fails(EFSM, [&] { second.send(zmq::str_buffer("an answer to nothing")); });
    fails(EINVAL, [&] { second.set(zmq::sockopt::sndhwm, -1); });
    auto pull = open(context, zmq::socket_type::pull);
    fails(ENOTSUP, [&] { pull.send(zmq::str_buffer("the wrong way")); });
    zmq::message_t message;
    expect(!pull.recv(message, zmq::recv_flags::dontwait).has_value(), "a message from nowhere");
}

class Events : public zmq::monitor_t
{
  public:
    std::vector<std::string> seen;

  private:
    void on_event_connected(const zmq_event_t &, const char *) override { seen.emplace_back("connected"); }
    void on_event_connect_delayed(const zmq_event_t &, const char *) override { seen.emplace_back("delayed"); }
    void on_event_handshake_succeeded(const zmq_event_t &, const char *) override { seen.emplace_back("handshake"); }
    void on_event_disconnected(const zmq_event_t &, const char *) override { seen.emplace_back("disconnected"); }
};

void monitor(zmq::context_t &context)
{
    auto pull = open(context, zmq::socket_type::pull), push = open(context, zmq::socket_type::push);
    Events events;
    events.init(push, "inproc://events");
    const auto address = join(pull, push);
    while (events.seen.size() < 3)
        expect(events.check_event(DEADLINE_MS), "no event");
    pull.unbind(address);
    pull.close();
    while (events.seen.size() < 4)
        expect(events.check_event(DEADLINE_MS), "no event");
    const std::vector<std::string> wanted{"delayed", "connected", "handshake", "disconnected"};
    expect(events.seen == wanted, "the events: " + events.seen.back());
}

void curve(zmq::context_t &context)
{
    expect(zmq_has("curve") == 1, "no CURVE");
    char serverPublic[41], serverSecret[41], clientPublic[41], clientSecret[41], derived[41];
    expect(zmq_curve_keypair(serverPublic, serverSecret) == 0, "the server's keys");
    expect(zmq_curve_keypair(clientPublic, clientSecret) == 0, "the client's keys");
    expect(zmq_curve_public(derived, clientSecret) == 0 && !strcmp(derived, clientPublic), "public from secret");
    auto pull = open(context, zmq::socket_type::pull), push = open(context, zmq::socket_type::push);
    pull.set(zmq::sockopt::curve_server, true);
    pull.set(zmq::sockopt::curve_secretkey, serverSecret);
    push.set(zmq::sockopt::curve_serverkey, serverPublic);
    push.set(zmq::sockopt::curve_publickey, clientPublic);
    push.set(zmq::sockopt::curve_secretkey, clientSecret);
    expect(push.get(zmq::sockopt::mechanism) == ZMQ_CURVE, "the mechanism");
    join(pull, push);
    push.send(zmq::str_buffer("sealed"));
    expect(text(pull) == "sealed", "through CURVE");
}

const std::map<std::string, std::function<void(zmq::context_t &)>> TESTS{
  {"version", version}, {"pushPull", pushPull}, {"multipart", multipart}, {"publish", publish},
  {"routerDealer", routerDealer}, {"poll", poll}, {"proxy", proxy}, {"options", options},
  {"shared", shared}, {"errors", errors}, {"monitor", monitor}, {"curve", curve},
};
}

int main(int count, char **arguments)
{
    const auto test = count == 2 ? TESTS.find(arguments[1]) : TESTS.end();
    if (test == TESTS.end()) {
        std::cerr << "usage: smoke TEST\n";
        return 2;
    }
    try {
        zmq::context_t context;
        test->second(context);
    } catch (const std::exception &problem) {
        std::cerr << test->first << ": " << problem.what() << '\n';
        return 1;
    }
    return 0;
}
