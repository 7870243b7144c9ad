/* What only the C++ face of file transfer has: moves, destructors, texts with a NUL. files_own DIR: works below DIR. */
#include <cstdio>
#include <fstream>
#include <thread>

#include <pinnace/files.hpp>

namespace files = pinnace::files;
namespace fs = std::filesystem;
using pinnace::Millis;

static int failures;

#define EXPECT(truth) \
    do { \
        if (!(truth)) { \
            failures++; \
            std::printf("line %d: %s\n", __LINE__, #truth); \
        } \
    } while (false)

static constexpr Millis soon{20000};
static fs::path place;

/* The errno of what a call throws; 0: nothing. */
template <typename Call> static int error_of(Call call) {
    try {
        call();
    } catch (const pinnace::Error &error) {
        return error.code().value();
    }
    return 0;
}

/* Serves a folder with a file `a`. */
static files::Server serve() {
    fs::create_directories(place / "source");
    std::ofstream(place / "source" / "a") << "content";
    return files::Server(files::ServerOptions().folder("/data", place / "source").bind("tcp://127.0.0.1:*"));
}

static files::Client connect_to(const files::Server &server) {
    return files::Client(files::ClientOptions(server.endpoints()[0]));
}

static void a_text_with_a_nul_is_not_cut_off() {
    const files::Server server = serve();
    files::Client client = connect_to(server);
    const std::string text("/data/a\0b", 9);
    EXPECT(error_of([&] { client.list(text); }) == EINVAL);
    EXPECT(error_of([&] { client.get("/data/a", place / text); }) == EINVAL);
    EXPECT(error_of([&] { client.put(place / text, "/data/a"); }) == EINVAL);
    EXPECT(error_of([&] { files::ServerOptions().user_by_password("alice", text); }) == EINVAL);
    EXPECT(error_of([&] { files::ServerOptions().folder(text, place); }) == EINVAL);
    EXPECT(error_of([&] { files::ClientOptions{text}; }) == EINVAL);
    EXPECT(error_of([&] { files::Rules().exclude(text); }) == EINVAL);
}

static void a_later_deletion_replaces_an_earlier_one() {
    const files::Server server = serve();
    files::Client client = connect_to(server);
    fs::create_directories(place / "target");
    std::ofstream(place / "target" / "old") << "old";
    files::Rules rules;
    rules.deletion(0);
    EXPECT(client.get("/data/", place / "target", rules).wait(soon).failed.size() == 1);
    rules.deletion();
    EXPECT(client.get("/data/", place / "target", rules).wait(soon).failed.empty());
    EXPECT(!fs::exists(place / "target" / "old"));
}

static void closing_while_other_threads_call() {
    files::Server server = serve();
    files::Client client = connect_to(server);
    int of_server = 0, of_client = 0;
    std::thread asks([&] { of_server = error_of([&] { for (;;) server.sent_bytes(); }); });
    std::thread lists([&] { of_client = error_of([&] { for (;;) client.list("/data/").wait(soon); }); });
    client.close();
    lists.join();
    server.close();
    asks.join();
    EXPECT(of_server == EFAULT && of_client == EFAULT);
    EXPECT(server.endpoints().size() == 1);
    server.close();
    client.close();
}

static void moves() {
    files::Server server = serve();
    files::Client client = connect_to(server);
    files::Transfer first = client.follow("/data/", place / "first");
    files::Transfer second = std::move(first);
    EXPECT(error_of([&] { first.next_event(soon); }) == EFAULT);
    EXPECT(second.next_event(soon).has_value());
    /* The one that was here before is cancelled. */
    second = client.list("/data/");
    EXPECT(second.wait(soon).files == 1);
    files::Client other = std::move(client);
    EXPECT(error_of([&] { client.list("/data/"); }) == EFAULT);
    EXPECT(other.list("/data/").wait(soon).files == 1);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*check)();
    } checks[] = {
        {"a text with a NUL is not cut off", a_text_with_a_nul_is_not_cut_off},
        {"a later deletion replaces an earlier one", a_later_deletion_replaces_an_earlier_one},
        {"closing while other threads call", closing_while_other_threads_call},
        {"moves", moves},
    };
    int passed = 0, failed = 0;
    if (count != 2)
        return 2;
    for (const auto &[name, check] : checks) {
        failures = 0;
        place = fs::path(words[1]) / std::to_string(passed + failed);
        if (const int thrown = error_of(check))
            std::printf("it throws errno %d\n", thrown), failures++;
        std::printf("%s C++, files: %s\n", failures ? "FAILED" : "ok", name);
        *(failures ? &failed : &passed) += 1;
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
