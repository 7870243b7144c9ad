/* Misuse of file transfer by the caller, and several threads on one object: always an error, never a crash.
 *
 * files_misuse DIR: works below DIR; prints one line per check, and how many passed and failed. */
#include <errno.h>
#include <pinnace.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOON_MS 20000
#define PATIENCE_S 60 /* then a signal ends a check that hangs */
#define THREADS 8
#define ROUNDS 20

static const char *place;
static int failures;

static void expect(int truth, const char *what, int line) {
    if (truth)
        return;
    __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    printf("line %d: %s; errno %d, %s\n", line, what, errno, pinnace_files_error());
}
#define EXPECT(truth) expect((truth) ? 1 : 0, #truth, __LINE__)
#define FAILS(call, number) (errno = 0, EXPECT((call) == -1 && errno == (number)))
#define IS_NULL(call, number) (errno = 0, EXPECT((call) == NULL && errno == (number)))

/* A path below the place. */
static char *path(char *text, size_t size, const char *name) {
    snprintf(text, size, "%s/%s", place, name);
    return text;
}

/* Serves the folder `source`, in which there is a file `a`. */
static pinnace_files_server_t *serve(void) {
    char text[512];
    mkdir(path(text, sizeof text, "source"), 0700);
    FILE *file = fopen(path(text, sizeof text, "source/a"), "w");
    fputs("content", file);
    fclose(file);
    pinnace_files_server_options_t *options = pinnace_files_server_options_new();
    EXPECT(pinnace_files_server_options_folder(options, "/data", path(text, sizeof text, "source"), 0) == 0);
    EXPECT(pinnace_files_server_options_bind(options, "tcp://127.0.0.1:*") == 0);
    pinnace_files_server_t *server = pinnace_files_server_start(options);
    EXPECT(server != NULL);
    EXPECT(pinnace_files_server_options_destroy(options) == 0);
    return server;
}

static pinnace_files_client_t *connect_to(pinnace_files_server_t *server) {
    pinnace_files_client_options_t *options =
        pinnace_files_client_options_new(pinnace_files_server_endpoint(server, 0));
    pinnace_files_client_t *client = pinnace_files_client_connect(options);
    EXPECT(client != NULL);
    EXPECT(pinnace_files_client_options_destroy(options) == 0);
    return client;
}

/* A transfer that does not end by itself. */
static pinnace_files_transfer_t *follow(pinnace_files_client_t *client) {
    char text[512];
    return pinnace_files_follow(client, "/data/", path(text, sizeof text, "target"), NULL);
}

static void no_options(void *none) {
    FAILS(pinnace_files_server_options_set(none, "workers", "1"), EFAULT);
    FAILS(pinnace_files_server_options_folder(none, "/a", "/", 0), EFAULT);
    FAILS(pinnace_files_server_options_bind(none, "inproc://a"), EFAULT);
    FAILS(pinnace_files_server_options_curve(none, NULL), EFAULT);
    FAILS(pinnace_files_server_options_cert(none, "file"), EFAULT);
    FAILS(pinnace_files_server_options_user(none, "a", "key"), EFAULT);
    FAILS(pinnace_files_server_options_user_file(none, "a", "file"), EFAULT);
    FAILS(pinnace_files_server_options_password(none, "a", "word"), EFAULT);
    FAILS(pinnace_files_server_options_grant(none, "a", "/", PINNACE_FILES_READ), EFAULT);
    FAILS(pinnace_files_server_options_destroy(none), EFAULT);
    IS_NULL(pinnace_files_server_start(none), EFAULT);
    FAILS(pinnace_files_client_options_set(none, "chunk", "1"), EFAULT);
    FAILS(pinnace_files_client_options_curve(none, NULL, "key"), EFAULT);
    FAILS(pinnace_files_client_options_cert(none, "file", "file"), EFAULT);
    FAILS(pinnace_files_client_options_password(none, "a", "word"), EFAULT);
    FAILS(pinnace_files_client_options_destroy(none), EFAULT);
    IS_NULL(pinnace_files_client_connect(none), EFAULT);
    FAILS(pinnace_files_rules_set(none, "fsync", "1"), EFAULT);
    FAILS(pinnace_files_rules_exclude(none, "a"), EFAULT);
    FAILS(pinnace_files_rules_include(none, "a"), EFAULT);
    FAILS(pinnace_files_rules_destroy(none), EFAULT);
}

static void no_object(void *none) {
    uint64_t bytes;
    pinnace_files_event_t event = {.size = sizeof event};
    pinnace_files_report_t report = {.size = sizeof report};
    pinnace_files_failure_t failure = {.size = sizeof failure};
    IS_NULL(pinnace_files_server_endpoint(none, 0), EFAULT);
    FAILS(pinnace_files_server_sent(none, &bytes), EFAULT);
    FAILS(pinnace_files_server_close(none), EFAULT);
    FAILS(pinnace_files_client_close(none), EFAULT);
    IS_NULL(pinnace_files_get(none, "/data/a", "to", NULL), EFAULT);
    IS_NULL(pinnace_files_put(none, "from", "/data/a", NULL), EFAULT);
    IS_NULL(pinnace_files_follow(none, "/data/", "to", NULL), EFAULT);
    IS_NULL(pinnace_files_list(none, "/data/"), EFAULT);
    IS_NULL(pinnace_files_discard(none, "/data/a"), EFAULT);
    FAILS(pinnace_files_transfer_next_event(none, &event, 0), EFAULT);
    FAILS(pinnace_files_transfer_wait(none, &report, 0), EFAULT);
    FAILS(pinnace_files_transfer_failure(none, 0, &failure), EFAULT);
    FAILS(pinnace_files_transfer_fd(none), EFAULT);
    FAILS(pinnace_files_transfer_cancel(none), EFAULT);
    FAILS(pinnace_files_transfer_close(none), EFAULT);
    EXPECT(strstr(pinnace_files_error(), "transfer") != NULL);
}

static void what_is_none(void) {
    int number = 0;
    for (size_t at = 0; at < 2; at++) {
        no_options(at == 0 ? NULL : &number);
        no_object(at == 0 ? NULL : &number);
    }
}

static void what_is_released(void) {
    pinnace_files_server_t *server = serve();
    pinnace_files_client_t *client = connect_to(server);
    pinnace_files_transfer_t *transfer = pinnace_files_list(client, "/data/");
    pinnace_files_rules_t *rules = pinnace_files_rules_new();
    /* One object is not another. */
    no_object(rules);
    FAILS(pinnace_files_transfer_close((pinnace_files_transfer_t *)client), EFAULT);
    IS_NULL(pinnace_files_get(client, "/data/a", "to", (pinnace_files_rules_t *)transfer), EFAULT);
    EXPECT(pinnace_files_rules_destroy(rules) == 0);
    EXPECT(pinnace_files_transfer_close(transfer) == 0);
    EXPECT(pinnace_files_client_close(client) == 0);
    EXPECT(pinnace_files_server_close(server) == 0);
    IS_NULL(pinnace_files_get(client, "/data/a", "to", rules), EFAULT);
    no_options(rules);
    no_object(transfer);
    no_object(client);
    no_object(server);
}

static void null_arguments(void) {
    pinnace_files_server_t *server = serve();
    pinnace_files_client_t *client = connect_to(server);
    pinnace_files_server_options_t *options = pinnace_files_server_options_new();
    pinnace_files_client_options_t *own = pinnace_files_client_options_new("tcp://127.0.0.1:1");
    pinnace_files_rules_t *rules = pinnace_files_rules_new();
    pinnace_files_transfer_t *transfer = pinnace_files_list(client, "/data/");
    IS_NULL(pinnace_files_client_options_new(NULL), EFAULT);
    FAILS(pinnace_files_server_options_set(options, NULL, "1"), EFAULT);
    FAILS(pinnace_files_server_options_set(options, "workers", NULL), EFAULT);
    FAILS(pinnace_files_server_options_folder(options, NULL, "/", 0), EFAULT);
    FAILS(pinnace_files_server_options_folder(options, "/a", NULL, 0), EFAULT);
    FAILS(pinnace_files_server_options_bind(options, NULL), EFAULT);
    FAILS(pinnace_files_server_options_curve(options, NULL), EFAULT);
    FAILS(pinnace_files_server_options_cert(options, NULL), EFAULT);
    FAILS(pinnace_files_server_options_user(options, "a", NULL), EFAULT);
    FAILS(pinnace_files_server_options_user_file(options, NULL, "file"), EFAULT);
    FAILS(pinnace_files_server_options_password(options, "a", NULL), EFAULT);
    FAILS(pinnace_files_server_options_grant(options, "a", NULL, PINNACE_FILES_READ), EFAULT);
    FAILS(pinnace_files_client_options_set(own, "chunk", NULL), EFAULT);
    FAILS(pinnace_files_client_options_curve(own, NULL, NULL), EFAULT);
    FAILS(pinnace_files_client_options_cert(own, NULL, "file"), EFAULT);
    FAILS(pinnace_files_client_options_password(own, NULL, "word"), EFAULT);
    FAILS(pinnace_files_rules_set(rules, NULL, NULL), EFAULT);
    FAILS(pinnace_files_rules_exclude(rules, NULL), EFAULT);
    IS_NULL(pinnace_files_get(client, NULL, "to", NULL), EFAULT);
    IS_NULL(pinnace_files_get(client, "/data/a", NULL, NULL), EFAULT);
    IS_NULL(pinnace_files_put(client, NULL, "/data/a", NULL), EFAULT);
    IS_NULL(pinnace_files_follow(client, "/data/", NULL, NULL), EFAULT);
    IS_NULL(pinnace_files_list(client, NULL), EFAULT);
    IS_NULL(pinnace_files_discard(client, NULL), EFAULT);
    FAILS(pinnace_files_server_sent(server, NULL), EFAULT);
    FAILS(pinnace_files_transfer_next_event(transfer, NULL, 0), EFAULT);
    EXPECT(pinnace_files_transfer_wait(transfer, NULL, SOON_MS) == 0);
    FAILS(pinnace_files_transfer_failure(transfer, 0, NULL), EFAULT);
    EXPECT(pinnace_files_transfer_close(transfer) == 0);
    EXPECT(pinnace_files_rules_destroy(rules) == 0);
    EXPECT(pinnace_files_client_options_destroy(own) == 0);
    EXPECT(pinnace_files_server_options_destroy(options) == 0);
    EXPECT(pinnace_files_client_close(client) == 0);
    EXPECT(pinnace_files_server_close(server) == 0);
}

static void invalid_values(void) {
    pinnace_files_server_options_t *options = pinnace_files_server_options_new();
    pinnace_files_client_options_t *own = pinnace_files_client_options_new("tcp://127.0.0.1:1");
    pinnace_files_rules_t *rules = pinnace_files_rules_new();
    FAILS(pinnace_files_server_options_set(options, "nonsense", "1"), EINVAL);
    FAILS(pinnace_files_server_options_set(options, "workers", "0"), EINVAL);
    FAILS(pinnace_files_server_options_set(options, "rescan_ms", "9"), EINVAL);
    FAILS(pinnace_files_server_options_set(options, "domain", "\xff"), EINVAL);
    FAILS(pinnace_files_server_options_folder(options, "\xff", "/", 0), EINVAL);
    FAILS(pinnace_files_server_options_user(options, "a", "no key"), EINVAL);
    FAILS(pinnace_files_server_options_cert(options, "/none/such"), ENOENT);
    FAILS(pinnace_files_server_options_grant(options, "a", "/", 2), EINVAL);
    FAILS(pinnace_files_client_options_set(own, "patience_ms", ""), EINVAL);
    FAILS(pinnace_files_client_options_set(own, "patience_ms", "0"), EINVAL);
    FAILS(pinnace_files_client_options_set(own, "window_max", "1"), EINVAL);
    FAILS(pinnace_files_client_options_set(own, "chunk", "1048577"), EINVAL);
    FAILS(pinnace_files_client_options_set(own, "limit_rate", "-1"), EINVAL);
    FAILS(pinnace_files_rules_set(rules, "existing", "never"), EINVAL);
    EXPECT(strstr(pinnace_files_error(), "not_newer") != NULL);
    FAILS(pinnace_files_rules_set(rules, "fsync", "2"), EINVAL);
    EXPECT(pinnace_files_rules_destroy(rules) == 0);
    EXPECT(pinnace_files_client_options_destroy(own) == 0);
    EXPECT(pinnace_files_server_options_destroy(options) == 0);
}

/* Programs of earlier and later versions have smaller and larger structs. */
static void structs_of_other_sizes(void) {
    struct {
        pinnace_files_event_t event;
        unsigned char more[8];
    } larger;
    pinnace_files_event_t event = {.size = sizeof(size_t) - 1};
    pinnace_files_report_t report = {.size = 0};
    pinnace_files_server_t *server = serve();
    pinnace_files_client_t *client = connect_to(server);
    pinnace_files_transfer_t *transfer = pinnace_files_list(client, "/data/");
    FAILS(pinnace_files_transfer_next_event(transfer, &event, SOON_MS), EINVAL);
    FAILS(pinnace_files_transfer_wait(transfer, &report, SOON_MS), EINVAL);
    /* No event was lost. One with the first members alone: */
    memset(&event, 0x55, sizeof event);
    event.size = offsetof(pinnace_files_event_t, error);
    EXPECT(pinnace_files_transfer_next_event(transfer, &event, SOON_MS) == 1);
    EXPECT(event.kind == PINNACE_FILES_LISTED && event.error == 0x55555555);
    EXPECT(event.size == offsetof(pinnace_files_event_t, error));
    memset(&larger, 0x55, sizeof larger);
    larger.event.size = sizeof larger;
    EXPECT(pinnace_files_transfer_next_event(transfer, &larger.event, SOON_MS) == 1);
    EXPECT(larger.event.kind == PINNACE_FILES_ENDED && larger.event.size == sizeof larger && larger.more[0] == 0x55);
    event.size = sizeof event;
    EXPECT(pinnace_files_transfer_next_event(transfer, &event, SOON_MS) == 0);
    report.size = sizeof report;
    EXPECT(pinnace_files_transfer_wait(transfer, &report, 0) == 0 && report.files == 1 && report.failed == 0);
    pinnace_files_failure_t failure = {.size = sizeof failure};
    FAILS(pinnace_files_transfer_failure(transfer, 0, &failure), ENOENT);
    EXPECT(pinnace_files_transfer_close(transfer) == 0);
    EXPECT(pinnace_files_client_close(client) == 0);
    EXPECT(pinnace_files_server_close(server) == 0);
}

static int is_cancelled;

/* Takes events until there are none, and waits for the end. */
static void *take_all(void *transfer) {
    pinnace_files_event_t event = {.size = sizeof event};
    int found;
    /* The text of an event that closing causes would be freed. */
    while ((found = pinnace_files_transfer_next_event(transfer, &event, SOON_MS)) == 1)
        EXPECT(event.kind != PINNACE_FILES_ABORTED || is_cancelled);
    /* It is over, or was closed before this thread came. */
    EXPECT(found == 0 || errno == EFAULT);
    FAILS(pinnace_files_transfer_wait(transfer, NULL, SOON_MS), errno == EFAULT ? EFAULT : ECANCELED);
    EXPECT(strlen(pinnace_files_error()) > 0);
    return NULL;
}

static void threads_on_one_transfer(void) {
    pinnace_files_server_t *server = serve();
    pinnace_files_client_t *client = connect_to(server);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        pinnace_files_transfer_t *transfer = follow(client);
        EXPECT(transfer != NULL);
        is_cancelled = round % 2 == 0;
        for (size_t at = 0; at < THREADS; at++)
            pthread_create(&threads[at], NULL, take_all, transfer);
        EXPECT(is_cancelled ? pinnace_files_transfer_cancel(transfer) == 0 : 1);
        EXPECT(pinnace_files_transfer_close(transfer) == 0);
        FAILS(pinnace_files_transfer_close(transfer), EFAULT);
        for (size_t at = 0; at < THREADS; at++)
            pthread_join(threads[at], NULL);
    }
    EXPECT(pinnace_files_client_close(client) == 0);
    EXPECT(pinnace_files_server_close(server) == 0);
}

/* Closes in any order, while transfers are under way. */
static void closing_in_any_order(void) {
    pinnace_files_server_t *server = serve();
    pinnace_files_client_t *client = connect_to(server);
    pinnace_files_transfer_t *transfer = follow(client), *forgotten = follow(client);
    pinnace_files_event_t event = {.size = sizeof event};
    do
        EXPECT(pinnace_files_transfer_next_event(transfer, &event, SOON_MS) == 1);
    while (event.kind != PINNACE_FILES_CURRENT && failures == 0);
    EXPECT(pinnace_files_client_close(client) == 0);
    EXPECT(pinnace_files_server_close(server) == 0);
    FAILS(pinnace_files_transfer_wait(transfer, NULL, 0), EAGAIN);
    EXPECT(pinnace_files_transfer_cancel(transfer) == 0);
    FAILS(pinnace_files_transfer_wait(transfer, NULL, SOON_MS), ECANCELED);
    /* What it has come to stays. */
    FAILS(pinnace_files_transfer_wait(transfer, NULL, 0), ECANCELED);
    EXPECT(pinnace_files_transfer_cancel(transfer) == 0);
    EXPECT(pinnace_files_transfer_close(transfer) == 0);
    EXPECT(pinnace_files_transfer_close(forgotten) == 0);
}

static void a_fork(void) {
    pinnace_files_server_t *server = serve();
    pinnace_files_client_t *client = connect_to(server);
    pinnace_files_transfer_t *transfer = follow(client);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE_S);
        pinnace_files_event_t event = {.size = sizeof event};
        FAILS(pinnace_files_transfer_next_event(transfer, &event, -1), EFAULT);
        FAILS(pinnace_files_transfer_cancel(transfer), EFAULT);
        IS_NULL(pinnace_files_list(client, "/data/"), EFAULT);
        IS_NULL(pinnace_files_server_endpoint(server, 0), EFAULT);
        EXPECT(pinnace_files_transfer_close(transfer) == 0);
        EXPECT(pinnace_files_client_close(client) == 0);
        EXPECT(pinnace_files_server_close(server) == 0);
        fflush(stdout);
        _exit(failures);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* Nothing of the parent's has ended. */
    pinnace_files_transfer_t *list = pinnace_files_list(client, "/data/");
    EXPECT(pinnace_files_transfer_wait(list, NULL, SOON_MS) == 0);
    EXPECT(pinnace_files_transfer_close(list) == 0);
    EXPECT(pinnace_files_transfer_close(transfer) == 0);
    EXPECT(pinnace_files_client_close(client) == 0);
    EXPECT(pinnace_files_server_close(server) == 0);
}

static const struct {
    const char *name;
    void (*check)(void);
} checks[] = {
    {"what is none", what_is_none},
    {"what is released", what_is_released},
    {"null arguments", null_arguments},
    {"invalid values", invalid_values},
    {"structs of other sizes", structs_of_other_sizes},
    {"threads on one transfer", threads_on_one_transfer},
    {"closing in any order", closing_in_any_order},
    {"a fork", a_fork},
};

int main(int count_of_words, char **words) {
    int passed = 0, failed = 0;
    if (count_of_words != 2)
        return 2;
    mkdir(words[1], 0700);
    for (size_t at = 0; at < sizeof checks / sizeof *checks; at++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%zu", words[1], at);
        mkdir(folder, 0700);
        place = folder;
        failures = 0;
        alarm(PATIENCE_S);
        checks[at].check();
        printf("%s files: %s\n", failures ? "FAILED" : "ok", checks[at].name);
        fflush(stdout);
        *(failures ? &failed : &passed) += 1;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
