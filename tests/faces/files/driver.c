/* The driver of the C face of file transfer: commands.py describes each command. */
#include <errno.h>
#include <pinnace.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS 64
#define WORDS 64
#define SOON_MS 20000

static struct {
    char word[32];
    void *object;
} objects[OBJECTS];

static void **object(const char *word) {
    size_t at = 0;
    while (objects[at].word[0] != 0 && strcmp(objects[at].word, word) != 0)
        at++;
    snprintf(objects[at].word, sizeof objects[at].word, "%s", word);
    return &objects[at].object;
}

static void refused(void) {
    int number = errno;
    printf("error %d %s\n", number, pinnace_files_error());
}

static void answer(int result) {
    if (result < 0)
        refused();
    else
        puts("ok");
}

/* Cuts a text at the next `mark`, and returns what is behind it. */
static char *cut(char *text, char mark) {
    char *at = strchr(text, mark);
    *at = 0;
    return at + 1;
}

static int set_server(pinnace_files_server_options_t *options, char *key, char *value) {
    if (strcmp(key, "bind") == 0)
        return pinnace_files_server_options_bind(options, value);
    if (strcmp(key, "cert") == 0)
        return pinnace_files_server_options_cert(options, value);
    if (strcmp(key, "folder") == 0 || strcmp(key, "writable") == 0) {
        char *path = cut(value, '@');
        return pinnace_files_server_options_folder(options, value, path, key[0] == 'w');
    }
    if (strcmp(key, "user") == 0) {
        char *file = cut(value, '@');
        return pinnace_files_server_options_user_file(options, value, file);
    }
    if (strcmp(key, "key") == 0) {
        char *key_text = cut(value, '@');
        return pinnace_files_server_options_user(options, value, key_text);
    }
    if (strcmp(key, "password") == 0) {
        char *word = cut(value, '@');
        return pinnace_files_server_options_password(options, value, word);
    }
    if (strcmp(key, "grant") == 0) {
        char *path = cut(value, '@');
        char *right = cut(path, '@');
        return pinnace_files_server_options_grant(options, value, path,
                                                  right[0] == 'w' ? PINNACE_FILES_WRITE : PINNACE_FILES_READ);
    }
    return pinnace_files_server_options_set(options, key, value);
}

static void serve(int count, char **words) {
    pinnace_files_server_options_t *options = pinnace_files_server_options_new();
    int result = 0;
    for (int at = 2; at < count && result == 0; at++) {
        char *value = cut(words[at], '=');
        result = set_server(options, words[at], value);
    }
    pinnace_files_server_t *server = result == 0 ? pinnace_files_server_start(options) : NULL;
    if (server == NULL) {
        refused();
    } else {
        *object(words[1]) = server;
        printf("endpoints");
        for (size_t at = 0; pinnace_files_server_endpoint(server, at) != NULL; at++)
            printf(" %s", pinnace_files_server_endpoint(server, at));
        puts("");
    }
    pinnace_files_server_options_destroy(options);
}

static void sent(int count, char **words) {
    (void)count;
    uint64_t bytes;
    if (pinnace_files_server_sent(*object(words[1]), &bytes) < 0)
        refused();
    else
        printf("number %llu\n", (unsigned long long)bytes);
}

static void stop(int count, char **words) {
    (void)count;
    answer(pinnace_files_server_close(*object(words[1])));
}

static void connect_client(int count, char **words) {
    pinnace_files_client_options_t *options = pinnace_files_client_options_new(words[2]);
    int result = 0;
    for (int at = 3; at < count && result == 0; at++) {
        char *value = cut(words[at], '=');
        if (strcmp(words[at], "cert") == 0) {
            char *server = cut(value, '@');
            result = pinnace_files_client_options_cert(options, value, server);
        } else if (strcmp(words[at], "curve") == 0) {
            char *server_key = cut(value, '@');
            void *own = pinnace_cert_load(value);
            result = pinnace_files_client_options_curve(options, own, server_key);
            pinnace_cert_destroy(own);
        } else if (strcmp(words[at], "password") == 0) {
            char *word = cut(value, '@');
            result = pinnace_files_client_options_password(options, value, word);
        } else {
            result = pinnace_files_client_options_set(options, words[at], value);
        }
    }
    pinnace_files_client_t *client = result == 0 ? pinnace_files_client_connect(options) : NULL;
    *object(words[1]) = client;
    answer(client == NULL ? -1 : 0);
    pinnace_files_client_options_destroy(options);
}

static void disconnect(int count, char **words) {
    (void)count;
    answer(pinnace_files_client_close(*object(words[1])));
}

static pinnace_files_rules_t *rules_of(int count, char **words) {
    pinnace_files_rules_t *rules = pinnace_files_rules_new();
    int result = 0;
    for (int at = 5; at < count && result == 0; at++) {
        char *value = cut(words[at], '=');
        if (strcmp(words[at], "exclude") == 0)
            result = pinnace_files_rules_exclude(rules, value);
        else if (strcmp(words[at], "include") == 0)
            result = pinnace_files_rules_include(rules, value);
        else
            result = pinnace_files_rules_set(rules, words[at], value);
    }
    if (result == 0)
        return rules;
    pinnace_files_rules_destroy(rules);
    return NULL;
}

static void begin(int count, char **words) {
    pinnace_files_client_t *client = *object(words[2]);
    pinnace_files_transfer_t *transfer = NULL;
    pinnace_files_rules_t *rules = rules_of(count, words);
    if (rules == NULL) {
        refused();
        return;
    }
    const pinnace_files_rules_t *given = count > 5 ? rules : NULL;
    switch (words[0][0]) {
    case 'g':
        transfer = pinnace_files_get(client, words[3], words[4], given);
        break;
    case 'p':
        transfer = pinnace_files_put(client, words[3], words[4], given);
        break;
    case 'f':
        transfer = pinnace_files_follow(client, words[3], words[4], given);
        break;
    case 'l':
        transfer = pinnace_files_list(client, words[3]);
        break;
    default:
        transfer = pinnace_files_discard(client, words[3]);
    }
    *object(words[1]) = transfer;
    answer(transfer == NULL ? -1 : 0);
    pinnace_files_rules_destroy(rules);
}

static const char *word_of(const char *text) { return text == NULL || text[0] == 0 ? "-" : text; }

static const char *const TYPES[] = {"", "file", "directory", "link"};

static void print_event(const pinnace_files_event_t *event) {
    unsigned long long bytes = event->bytes;
    switch (event->kind) {
    case PINNACE_FILES_LISTED:
        printf("event listed %s %s %llu %o %lld %s\n", word_of(event->path), TYPES[event->type], bytes, event->mode,
               (long long)event->mtime_ns, word_of(event->other));
        break;
    case PINNACE_FILES_BEGUN:
        printf("event begun %s %llu\n", event->path, bytes);
        break;
    case PINNACE_FILES_PROGRESS:
        printf("event progress %llu\n", bytes);
        break;
    case PINNACE_FILES_FINISHED:
        printf("event finished %s %llu ", event->path, bytes);
        for (size_t at = 0; at < sizeof event->digest; at++)
            printf("%02x", event->digest[at]);
        puts("");
        break;
    case PINNACE_FILES_REMOVED:
        printf("event removed %s %d\n", event->path, event->here);
        break;
    case PINNACE_FILES_MOVED:
        printf("event moved %s %s %d\n", event->path, event->other, event->here);
        break;
    case PINNACE_FILES_PLANNED:
        printf("event planned %s %d\n", event->path, event->removal);
        break;
    case PINNACE_FILES_CURRENT:
        puts("event current");
        break;
    case PINNACE_FILES_FAILED:
        printf("event failed %s %d %d\n", event->path, event->error, event->here);
        break;
    case PINNACE_FILES_ENDED:
        printf("event ended %llu %llu %llu\n", (unsigned long long)event->files, bytes,
               (unsigned long long)event->failed);
        break;
    case PINNACE_FILES_ABORTED:
        printf("event aborted %d\n", event->error);
        break;
    case PINNACE_FILES_LINKED:
        printf("event linked %s %s\n", event->path, event->other);
        break;
    case PINNACE_FILES_LOST:
        printf("event lost %d\n", event->error);
        break;
    default:
        puts("event unknown");
    }
}

static void next(int count, char **words) {
    (void)count;
    pinnace_files_event_t event = {.size = sizeof event};
    int found = pinnace_files_transfer_next_event(*object(words[1]), &event, atol(words[2]));
    if (found < 0)
        refused();
    else if (found == 0)
        puts("over");
    else
        print_event(&event);
}

/* The kinds of all events but progress. `async`: waits for the descriptor. */
static void events(int count, char **words) {
    (void)count;
    static const char *const names[] = {"",      "listed",  "begun",   "progress", "finished", "removed",
                                        "moved", "planned", "current", "failed",   "ended",    "aborted",
                                        "linked", "lost"};
    pinnace_files_transfer_t *transfer = *object(words[1]);
    pinnace_files_event_t event = {.size = sizeof event};
    int is_async = words[0][0] == 'a', found;
    struct pollfd item = {.fd = is_async ? pinnace_files_transfer_fd(transfer) : -1, .events = POLLIN};
    printf("events");
    while ((found = pinnace_files_transfer_next_event(transfer, &event, is_async ? 0 : SOON_MS)) != 0) {
        if (found > 0 && event.kind != PINNACE_FILES_PROGRESS)
            printf(" %s", names[event.kind]);
        if (found < 0 && (!is_async || errno != EAGAIN || poll(&item, 1, SOON_MS) != 1)) {
            printf(" error:%d", errno);
            break;
        }
    }
    puts("");
}

static void wait_for(int count, char **words) {
    pinnace_files_transfer_t *transfer = *object(words[1]);
    pinnace_files_report_t report = {.size = sizeof report};
    pinnace_files_failure_t failure = {.size = sizeof failure};
    if (pinnace_files_transfer_wait(transfer, &report, count > 2 ? atol(words[2]) : SOON_MS) < 0) {
        refused();
        return;
    }
    printf("report %llu %llu %llu", (unsigned long long)report.files, (unsigned long long)report.bytes,
           (unsigned long long)report.failed);
    for (size_t at = 0; pinnace_files_transfer_failure(transfer, at, &failure) == 0; at++)
        printf(" %s:%d:%d", failure.path, failure.error, failure.here);
    puts("");
}

static void *cancel_soon(void *transfer) {
    pinnace_files_transfer_cancel(transfer);
    return NULL;
}

static void interrupt(int count, char **words) {
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_soon, *object(words[1]));
    wait_for(count, words);
    pthread_join(thread, NULL);
}

static void cancel(int count, char **words) {
    (void)count;
    answer(pinnace_files_transfer_cancel(*object(words[1])));
}

static void close_transfer(int count, char **words) {
    (void)count;
    answer(pinnace_files_transfer_close(*object(words[1])));
}

static const struct {
    const char *name;
    void (*call)(int count, char **words);
} COMMANDS[] = {
    {"serve", serve},   {"sent", sent},     {"stop", stop},          {"connect", connect_client},
    {"get", begin},     {"put", begin},     {"follow", begin},       {"list", begin},
    {"discard", begin}, {"next", next},     {"events", events},      {"async", events},
    {"wait", wait_for}, {"cancel", cancel}, {"interrupt", interrupt}, {"close", close_transfer},
    {"disconnect", disconnect},
};

int main(void) {
    char line[4096], *words[WORDS];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin) != NULL) {
        int count = 0;
        for (char *word = strtok(line, " \n"); word != NULL && count < WORDS; word = strtok(NULL, " \n"))
            words[count++] = word;
        size_t at = 0;
        while (strcmp(COMMANDS[at].name, words[0]) != 0)
            at++;
        COMMANDS[at].call(count, words);
    }
    return 0;
}
