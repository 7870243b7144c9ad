/* Misuse by the caller, and several threads on one client: always an error, never a crash.
 *
 * misuse DIR: works below DIR; prints one line per check, and how many passed and failed. */
#include <errno.h>
#include <pinnace.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOON_MS 20000

static const char *place;
static int failures;

static void expect(int truth, const char *what, int line) {
    if (truth)
        return;
    failures++;
    printf("line %d: %s; errno %d, %s\n", line, what, errno, pinnace_client_error());
}
#define EXPECT(truth) expect((truth) ? 1 : 0, #truth, __LINE__)
#define FAILS(call, number) (errno = 0, EXPECT(!((call) + 1) && errno == (number)))
#define IS_NULL(call, number) (errno = 0, EXPECT((call) == NULL && errno == (number)))

static pinnace_client_t *start(const char *name, const char *topic) {
    char text[512];
    pinnace_client_options_t *options = pinnace_client_options_new(name, topic);
    snprintf(text, sizeof text, "%s/%s", place, name);
    EXPECT(pinnace_client_options_set(options, "data_dir", text) == 0);
    snprintf(text, sizeof text, "dir://%s/registry", place);
    EXPECT(pinnace_client_options_set(options, "registry", text) == 0);
    EXPECT(pinnace_client_options_set(options, "retry_first_ms", "1") == 0);
    FAILS(pinnace_client_options_set(options, "retry_first_ms", "forever"), EINVAL);
    FAILS(pinnace_client_options_set(options, "deduplicate_for_ms", "86400001"), EINVAL);
    FAILS(pinnace_client_options_set(options, "deduplicate_for_ms", "ever"), EINVAL);
    pinnace_client_t *client = pinnace_client_start(options);
    EXPECT(client != NULL);
    EXPECT(pinnace_client_options_destroy(options) == 0);
    return client;
}

static int never(pinnace_delivery_t *delivery, void *arg) {
    (void)delivery, (void)arg;
    EXPECT(!"called");
    return PINNACE_STOP;
}

static void no_peer(const char *receiver, const char *topic, uint64_t messages, void *arg) {
    (void)receiver, (void)topic, (void)messages, (void)arg;
    EXPECT(!"called");
}

/* Every function of a client, on an invalid client. */
static void no_client(pinnace_client_t *none) {
    size_t size = 0;
    uint64_t number;
    FAILS(pinnace_client_close(none), EFAULT);
    IS_NULL(pinnace_client_store_id(none), EFAULT);
    FAILS(pinnace_client_close_within(none, 0), EFAULT);
    FAILS(pinnace_client_drain(none, 0), EFAULT);
    FAILS(pinnace_client_in_hand(none, &number), EFAULT);
    IS_NULL(pinnace_client_name(none), EFAULT);
    IS_NULL(pinnace_client_endpoint(none), EFAULT);
    FAILS(pinnace_client_subscribe(none, "t"), EFAULT);
    FAILS(pinnace_client_unsubscribe(none, "t"), EFAULT);
    FAILS(pinnace_client_addresses(none, "t", NULL, &size), EFAULT);
    FAILS(pinnace_client_statistics_json(none, NULL, &size), EFAULT);
    FAILS(pinnace_client_statistics_prometheus(none, NULL, &size), EFAULT);
    FAILS(pinnace_client_metrics_address(none, NULL, &size), EFAULT);
    FAILS(pinnace_client_wait_listeners(none, "t", 0, 0), EFAULT);
    FAILS(pinnace_client_send_to(none, "t", "", 0), EFAULT);
    FAILS(pinnace_client_send_all(none, "t", "", 0), EFAULT);
    FAILS(pinnace_client_send(none, "t", "", 0, NULL), EFAULT);
    FAILS(pinnace_client_send_async(none, "t", "", 0, NULL, &number), EFAULT);
    FAILS(pinnace_client_ack_and_send(none, NULL, NULL, 0), EFAULT);
    FAILS(pinnace_client_ack_and_send_async(none, NULL, NULL, 0, &number), EFAULT);
    FAILS(pinnace_client_wait(none, 0, 0), EFAULT);
    FAILS(pinnace_client_pending(none, &number), EFAULT);
    FAILS(pinnace_client_pending_by_peer(none, no_peer, NULL), EFAULT);
    FAILS(pinnace_client_wait_pending(none, 0, 0), EFAULT);
    IS_NULL(pinnace_client_recv(none, 0), EFAULT);
    FAILS(pinnace_client_fd(none), EFAULT);
    FAILS(pinnace_client_run(none, never, NULL), EFAULT);
    FAILS(pinnace_client_listen(none, never, NULL), EFAULT);
    FAILS(pinnace_client_on_error(none, NULL, NULL), EFAULT);
}

static void no_delivery(pinnace_delivery_t *none) {
    IS_NULL(pinnace_delivery_body(none), EFAULT);
    IS_NULL(pinnace_delivery_from(none), EFAULT);
    IS_NULL(pinnace_delivery_topic(none), EFAULT);
    IS_NULL(pinnace_delivery_dead_topic(none), EFAULT);
    IS_NULL(pinnace_delivery_dead_receiver(none), EFAULT);
    EXPECT(pinnace_delivery_size(none) == 0 && pinnace_delivery_deliveries(none) == 0);
    EXPECT(pinnace_delivery_accepted_ms(none) == 0 && pinnace_delivery_dead_deliveries(none) == 0);
    FAILS(pinnace_delivery_dead_reason(none), EFAULT);
    IS_NULL(pinnace_delivery_id(none), EFAULT);
    IS_NULL(pinnace_delivery_content_type(none), EFAULT);
    IS_NULL(pinnace_delivery_traceparent(none), EFAULT);
    IS_NULL(pinnace_delivery_tracestate(none), EFAULT);
    IS_NULL(pinnace_delivery_ordering_key(none), EFAULT);
    EXPECT(pinnace_delivery_headers(none) == 0);
    FAILS(pinnace_delivery_header_at(none, 0, &(pinnace_header_t){0}), EFAULT);
    FAILS(pinnace_delivery_header(none, "key", &(pinnace_header_t){0}), EFAULT);
    FAILS(pinnace_delivery_cursor(none, &(pinnace_cursor_t){0}), EFAULT);
    FAILS(pinnace_delivery_ack(none), EFAULT);
    FAILS(pinnace_delivery_nack(none, 0), EFAULT);
    FAILS(pinnace_delivery_terminate(none), EFAULT);
    FAILS(pinnace_delivery_fail(none), EFAULT);
    FAILS(pinnace_delivery_give_back(none), EFAULT);
}

static void what_is_none(void) {
    static uint64_t something[64];
    IS_NULL(pinnace_client_options_new(NULL, "t"), EFAULT);
    IS_NULL(pinnace_client_options_new("n", NULL), EFAULT);
    IS_NULL(pinnace_client_start(NULL), EFAULT);
    IS_NULL(pinnace_client_start((void *)something), EFAULT);
    FAILS(pinnace_client_options_set(NULL, "listen", ""), EFAULT);
    FAILS(pinnace_client_options_topic(NULL, "t"), EFAULT);
    FAILS(pinnace_client_options_peer(NULL, "n", "e", NULL, 0), EFAULT);
    FAILS(pinnace_client_options_cert(NULL, "f"), EFAULT);
    FAILS(pinnace_client_options_trust_file(NULL, "n", "f"), EFAULT);
    FAILS(pinnace_client_options_destroy(NULL), EFAULT);
    no_client(NULL);
    no_client((void *)something);
    no_delivery(NULL);
    no_delivery((void *)something);
}

static void null_arguments(void) {
    pinnace_client_options_t *options = pinnace_client_options_new("n", "t");
    FAILS(pinnace_client_options_set(options, NULL, ""), EFAULT);
    FAILS(pinnace_client_options_set(options, "listen", NULL), EFAULT);
    FAILS(pinnace_client_options_topic(options, NULL), EFAULT);
    FAILS(pinnace_client_options_peer(options, NULL, "e", NULL, 0), EFAULT);
    FAILS(pinnace_client_options_cert(options, NULL), EFAULT);
    FAILS(pinnace_client_options_cert(options, "/dev/null"), EBADMSG);
    FAILS(pinnace_client_options_trust_file(options, NULL, "f"), EFAULT);
    FAILS(pinnace_client_options_trust_file(options, "n", NULL), EFAULT);
    FAILS(pinnace_client_options_trust_file(options, "n", "/dev/null/none"), ENOTDIR);
    FAILS(pinnace_client_options_peer(options, "n", "e", NULL, 1), EFAULT);
    FAILS(pinnace_client_options_peer(options, "n", "e", (const char *const[]){NULL}, 1), EFAULT);
    EXPECT(pinnace_client_options_destroy(options) == 0);
    FAILS(pinnace_client_options_destroy(options), EFAULT);
    IS_NULL(pinnace_client_start(options), EFAULT);

    pinnace_client_t *client = start("n", "t");
    size_t size = 0;
    FAILS(pinnace_client_send_to(client, NULL, "", 0), EFAULT);
    FAILS(pinnace_client_send_to(client, "t", NULL, 1), EFAULT);
    FAILS(pinnace_client_send_to(client, "t", "", SIZE_MAX), EINVAL);
    FAILS(pinnace_client_send_to(client, "\xff", "", 0), EINVAL);
    FAILS(pinnace_client_send_async(client, "t", "", 0, NULL, NULL), EFAULT);
    pinnace_send_options_t options_of_send = PINNACE_SEND_OPTIONS;
    options_of_send.header_count = 1;
    FAILS(pinnace_client_send(client, "t", "", 0, &options_of_send), EFAULT);
    options_of_send.headers = (const pinnace_header_t[]){{NULL, "", 0}};
    FAILS(pinnace_client_send(client, "t", "", 0, &options_of_send), EFAULT);
    options_of_send.headers = (const pinnace_header_t[]){{"key", NULL, 1}};
    FAILS(pinnace_client_send(client, "t", "", 0, &options_of_send), EFAULT);
    options_of_send.headers = (const pinnace_header_t[]){{"\xff", "", 0}};
    FAILS(pinnace_client_send(client, "t", "", 0, &options_of_send), EINVAL);
    FAILS(pinnace_client_pending(client, NULL), EFAULT);
    FAILS(pinnace_client_in_hand(client, NULL), EFAULT);
    FAILS(pinnace_client_pending_by_peer(client, NULL, NULL), EFAULT);
    FAILS(pinnace_client_wait_listeners(client, NULL, 0, 0), EFAULT);
    FAILS(pinnace_client_addresses(client, "t", NULL, NULL), EFAULT);
    FAILS(pinnace_client_addresses(client, "t", NULL, &size), ENOBUFS);
    EXPECT(size > 1);
    size = 0;
    FAILS(pinnace_client_statistics_json(client, NULL, NULL), EFAULT);
    FAILS(pinnace_client_statistics_json(client, NULL, &size), ENOBUFS);
    EXPECT(size > 100);
    FAILS(pinnace_client_statistics_prometheus(client, NULL, NULL), EFAULT);
    FAILS(pinnace_client_metrics_address(client, NULL, &size), ENOENT);
    FAILS(pinnace_client_subscribe(client, NULL), EFAULT);
    FAILS(pinnace_client_run(client, NULL, NULL), EFAULT);
    FAILS(pinnace_client_listen(client, NULL, NULL), EFAULT);
    EXPECT(pinnace_client_on_error(client, NULL, NULL) == 0);
    EXPECT(pinnace_client_close(client) == 0);
    no_client(client);
}

/* A program that was compiled with the header of another version: its options end earlier, or have further members. */
static void send_options_of_other_versions(void) {
    pinnace_client_t *sender = start("sender", "s"), *receiver = start("receiver", "r");
    struct {
        pinnace_send_options_t known;
        const char *beyond;
    } given = {PINNACE_SEND_OPTIONS, NULL};
    given.known.ordering_key = "";
    FAILS(pinnace_client_send(sender, "r", "", 0, &given.known), EINVAL);
    EXPECT(strstr(pinnace_client_error(), "ordering key") != NULL);
    given.known.size = offsetof(pinnace_send_options_t, ordering_key);
    EXPECT(pinnace_client_send(sender, "r", "one", 3, &given.known) == 0);
    given.known.ordering_key = "key";
    given.known.size = sizeof given;
    EXPECT(pinnace_client_send(sender, "r", "two", 3, &given.known) == 0);
    given.beyond = "set";
    FAILS(pinnace_client_send(sender, "r", "", 0, &given.known), E2BIG);
    for (int number = 0; number < 2; number++) {
        pinnace_delivery_t *delivery = pinnace_client_recv(receiver, SOON_MS);
        const char *key = pinnace_delivery_ordering_key(delivery);
        EXPECT(number == 0 ? key == NULL : key != NULL && strcmp(key, "key") == 0);
        EXPECT(pinnace_delivery_ack(delivery) == 0);
    }
    EXPECT(pinnace_client_wait_pending(sender, 0, SOON_MS) == 0);
    EXPECT(pinnace_client_close(sender) == 0 && pinnace_client_close(receiver) == 0);
}

static void deliveries_outlive_their_client(void) {
    pinnace_client_t *sender = start("sender", "s"), *receiver = start("receiver", "r");
    EXPECT(pinnace_client_send_to(sender, "r", "one", 3) == 0);
    pinnace_delivery_t *delivery = pinnace_client_recv(receiver, SOON_MS);
    EXPECT(pinnace_client_close(receiver) == 0);
    EXPECT(memcmp(pinnace_delivery_body(delivery), "one", 3) == 0);
    receiver = start("receiver", "r");
    FAILS(pinnace_delivery_ack(delivery), ECANCELED);
    no_delivery(delivery);
    delivery = pinnace_client_recv(receiver, SOON_MS);
    EXPECT(pinnace_delivery_size(delivery) == 3 && pinnace_client_close(receiver) == 0);
    IS_NULL(pinnace_delivery_id(delivery), ENOENT);
    IS_NULL(pinnace_delivery_ordering_key(delivery), ENOENT);
    FAILS(pinnace_delivery_header(delivery, "key", &(pinnace_header_t){0}), ENOENT);
    FAILS(pinnace_delivery_header(delivery, NULL, &(pinnace_header_t){0}), EFAULT);
    FAILS(pinnace_delivery_header_at(delivery, 0, NULL), EFAULT);
    EXPECT(pinnace_delivery_ack(delivery) == 0);
    no_delivery(delivery);
    EXPECT(pinnace_client_wait_pending(sender, 0, SOON_MS) == 0 && pinnace_client_close(sender) == 0);
}

struct crowd {
    pinnace_client_t *client;
    atomic_int sent, handled, ended;
};

static void *send_until_closed(void *arg) {
    struct crowd *crowd = arg;
    while (pinnace_client_send_to(crowd->client, "t", "body", 4) == 0)
        crowd->sent++;
    EXPECT(errno == EFAULT || errno == ECANCELED);
    crowd->ended++;
    return NULL;
}

static void *receive_until_closed(void *arg) {
    struct crowd *crowd = arg;
    pinnace_delivery_t *delivery;
    while ((delivery = pinnace_client_recv(crowd->client, -1)) != NULL)
        EXPECT(pinnace_delivery_ack(delivery) == 0 || errno == ECANCELED);
    EXPECT(errno == EFAULT || errno == ECANCELED);
    crowd->ended++;
    return NULL;
}

static void *settle_until_closed(void *arg) {
    struct crowd *crowd = arg;
    int result = pinnace_client_send_to(crowd->client, "nobody's", "body", 4);
    if (result == 0)
        result = pinnace_client_wait_pending(crowd->client, 0, -1);
    EXPECT(result == -1 && (errno == EFAULT || errno == ECANCELED));
    crowd->ended++;
    return NULL;
}

static int count(pinnace_delivery_t *delivery, void *arg) {
    struct crowd *crowd = arg;
    EXPECT(pinnace_delivery_size(delivery) == 4);
    crowd->handled++;
    return PINNACE_ACK;
}

static void closing_a_client_that_all_use(void) {
    for (int round = 0; round < 5; round++) {
        struct crowd crowd = {.client = start("crowd", "t")};
        pinnace_client_t *other = start("other", "t");
        struct crowd listener = {.client = other};
        EXPECT(pinnace_client_listen(other, count, &listener) == 0);
        void *(*work[])(void *) = {send_until_closed, send_until_closed, receive_until_closed, receive_until_closed,
                                   settle_until_closed};
        pthread_t threads[5];
        for (size_t at = 0; at < 5; at++)
            EXPECT(pthread_create(&threads[at], NULL, work[at], &crowd) == 0);
        while (crowd.sent < 20 || listener.handled < 20)
            sched_yield();
        EXPECT(pinnace_client_close(crowd.client) == 0);
        for (size_t at = 0; at < 5; at++)
            pthread_join(threads[at], NULL);
        EXPECT(crowd.ended == 5);
        EXPECT(pinnace_client_close(other) == 0);
    }
}

struct pair {
    pinnace_client_t *own, *other;
};

static int close_both(pinnace_delivery_t *delivery, void *arg) {
    struct pair *pair = arg;
    EXPECT(pinnace_delivery_ack(delivery) == 0);
    EXPECT(pinnace_client_close(pair->other) == 0 || errno == EFAULT);
    EXPECT(pinnace_client_close(pair->own) == 0 || errno == EFAULT);
    return PINNACE_FAIL; /* no effect: the delivery is already settled */
}

static void handlers_that_close_each_other(void) {
    pinnace_client_t *one = start("one", "1"), *two = start("two", "2"), *sender = start("sender", "s");
    struct pair first = {one, two}, second = {two, one};
    EXPECT(pinnace_client_listen(one, close_both, &first) == 0);
    EXPECT(pinnace_client_send_to(sender, "1", "x", 1) == 0 && pinnace_client_send_to(sender, "2", "x", 1) == 0);
    int ended = pinnace_client_run(two, close_both, &second);
    EXPECT(ended == -1 && (errno == ECANCELED || errno == EFAULT));
    while (pinnace_client_name(one) != NULL)
        sched_yield();
    EXPECT(pinnace_client_close(sender) == 0);
    /* A handler has closed them: this waits until they have ended, unless they have already. */
    EXPECT(pinnace_client_close(one) == 0 || errno == EFAULT);
    EXPECT(pinnace_client_close(two) == 0 || errno == EFAULT);
    no_client(one);
    no_client(two);
}

struct hanging {
    atomic_int begun, may_return, calls;
};

static int hang(pinnace_delivery_t *delivery, void *arg) {
    struct hanging *hanging = arg;
    EXPECT(pinnace_delivery_size(delivery) == 1);
    hanging->calls++;
    hanging->begun = 1;
    while (!hanging->may_return)
        sched_yield();
    return PINNACE_ACK;
}

/* It is left alone, its argument is still used until another close says that nothing is, and what it keeps counts. */
static void a_handler_that_hangs(void) {
    for (int round = 0; round < 2; round++) {
        pinnace_client_t *sender = start("sender", "s"), *receiver;
        pinnace_client_options_t *options = pinnace_client_options_new("receiver", "r");
        char text[512];
        snprintf(text, sizeof text, "%s/receiver", place);
        EXPECT(pinnace_client_options_set(options, "data_dir", text) == 0);
        snprintf(text, sizeof text, "dir://%s/registry", place);
        EXPECT(pinnace_client_options_set(options, "registry", text) == 0);
        EXPECT(pinnace_client_options_set(options, "handler_linger_ms", round == 0 ? "1" : "60000") == 0);
        receiver = pinnace_client_start(options);
        EXPECT(receiver != NULL && pinnace_client_options_destroy(options) == 0);
        struct hanging hanging = {0};
        EXPECT(pinnace_client_listen(receiver, hang, &hanging) == 0);
        EXPECT(pinnace_client_send_to(sender, "r", "1", 1) == 0);
        while (!hanging.begun)
            sched_yield();
        uint64_t number = 0;
        EXPECT(pinnace_client_in_hand(receiver, &number) == 0 && number == 1);
        FAILS(pinnace_client_drain(receiver, 1), EAGAIN);
        FAILS(round == 0 ? pinnace_client_close(receiver) : pinnace_client_close_within(receiver, 1), ETIMEDOUT);
        EXPECT(pinnace_client_send_to(sender, "r", "2", 1) == 0);
        FAILS(pinnace_client_close_within(receiver, 1), ETIMEDOUT);
        IS_NULL(pinnace_client_recv(receiver, 0), EFAULT);
        hanging.may_return = 1;
        EXPECT(pinnace_client_close_within(receiver, SOON_MS) == 0 || errno == EFAULT);
        FAILS(pinnace_client_close(receiver), EFAULT);
        EXPECT(hanging.calls == 1);
        EXPECT(pinnace_client_wait_pending(sender, 1, SOON_MS) == 0);
        receiver = start("receiver", "r");
        pinnace_delivery_t *delivery = pinnace_client_recv(receiver, SOON_MS);
        EXPECT(memcmp(pinnace_delivery_body(delivery), "2", 1) == 0 && pinnace_delivery_ack(delivery) == 0);
        EXPECT(pinnace_client_close_within(receiver, SOON_MS) == 0 && pinnace_client_close(sender) == 0);
    }
}

static int stop_first(pinnace_delivery_t *delivery, void *arg) {
    atomic_int *calls = arg;
    ++*calls;
    EXPECT(pinnace_delivery_size(delivery) == 1);
    return PINNACE_ACK | PINNACE_STOP;
}

static void a_handler_that_stops(void) {
    pinnace_client_t *sender = start("sender", "s"), *receiver = start("receiver", "r");
    static atomic_int calls;
    EXPECT(pinnace_client_listen(receiver, stop_first, &calls) == 0);
    EXPECT(pinnace_client_send_to(sender, "r", "1", 1) == 0 && pinnace_client_send_to(sender, "r", "2", 1) == 0);
    EXPECT(pinnace_client_wait_pending(sender, 1, SOON_MS) == 0);
    EXPECT(pinnace_client_run(receiver, stop_first, &calls) == 0);
    EXPECT(pinnace_client_wait_pending(sender, 0, SOON_MS) == 0);
    EXPECT(calls == 2);
    EXPECT(pinnace_client_close(sender) == 0 && pinnace_client_close(receiver) == 0);
}

static void a_fork(void) {
    pinnace_client_t *sender = start("sender", "s"), *receiver = start("receiver", "r");
    EXPECT(pinnace_client_send_to(sender, "r", "1", 1) == 0);
    pinnace_delivery_t *delivery = pinnace_client_recv(receiver, SOON_MS);
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        FAILS(pinnace_delivery_fail(delivery), EFAULT);
        FAILS(pinnace_client_send_to(sender, "r", "2", 1), EFAULT);
        IS_NULL(pinnace_client_recv(receiver, -1), EFAULT);
        EXPECT(pinnace_client_close(sender) == 0 && pinnace_client_close(receiver) == 0);
        no_client(sender);
        fflush(stdout);
        _exit(failures);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(pinnace_delivery_ack(delivery) == 0);
    EXPECT(pinnace_client_wait_pending(sender, 0, SOON_MS) == 0);
    EXPECT(pinnace_client_close(sender) == 0 && pinnace_client_close(receiver) == 0);
}

/* Writes beyond the file size limit return an error, and no SIGXFSZ ends the process. */
static void a_limit_of_file_sizes(void) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        char text[512];
        failures = 0;
        void *cert = pinnace_cert_new(NULL, NULL);
        pinnace_client_t *sender = start("sender", "s");
        EXPECT(signal(SIGXFSZ, SIG_DFL) == SIG_DFL && setrlimit(RLIMIT_FSIZE, &none) == 0);
        EXPECT(pinnace_client_send_to(sender, "s", "1", 1) == -1);
        pinnace_client_options_t *options = pinnace_client_options_new("receiver", "r");
        snprintf(text, sizeof text, "%s/receiver", place);
        EXPECT(pinnace_client_options_set(options, "data_dir", text) == 0);
        EXPECT(pinnace_client_options_set(options, "registry", "none") == 0);
        IS_NULL(pinnace_client_start(options), EFBIG);
        /* With the sender's store, which is open, the registry is what cannot be written. */
        snprintf(text, sizeof text, "%s/sender", place);
        EXPECT(pinnace_client_options_set(options, "data_dir", text) == 0);
        snprintf(text, sizeof text, "sqlite://%s/names", place);
        EXPECT(pinnace_client_options_set(options, "registry", text) == 0);
        EXPECT(pinnace_client_start(options) == NULL);
        snprintf(text, sizeof text, "%s/cert", place);
        FAILS(pinnace_cert_save(cert, text), EFBIG);
        fflush(stdout);
        _exit(failures);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const struct {
    const char *name;
    void (*check)(void);
} checks[] = {
    {"what is none", what_is_none},
    {"null arguments", null_arguments},
    {"deliveries outlive their client", deliveries_outlive_their_client},
    {"closing a client that all use", closing_a_client_that_all_use},
    {"handlers that close each other", handlers_that_close_each_other},
    {"a handler that hangs", a_handler_that_hangs},
    {"a handler that stops", a_handler_that_stops},
    {"a fork", a_fork},
    {"send options of other versions", send_options_of_other_versions},
    {"a limit of file sizes", a_limit_of_file_sizes},
};

int main(int count_of_words, char **words) {
    int passed = 0, failed = 0;
    if (count_of_words != 2)
        return 2;
    for (size_t at = 0; at < sizeof checks / sizeof *checks; at++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%zu", words[1], at);
        place = folder;
        failures = 0;
        checks[at].check();
        printf("%s %s\n", failures ? "FAILED" : "ok", checks[at].name);
        fflush(stdout);
        *(failures ? &failed : &passed) += 1;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
