/* The driver of the C face: driver.py describes each command. */
#include <errno.h>
#include <pinnace.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS 64
#define DELIVERIES 4096
#define WORDS 64

static struct {
    char word[32];
    pinnace_client_t *client;
} clients[CLIENTS];
static pinnace_delivery_t *deliveries[DELIVERIES];
static size_t received;

static pinnace_client_t *client(const char *word) {
    for (size_t at = 0; at < CLIENTS; at++)
        if (strcmp(clients[at].word, word) == 0)
            return clients[at].client;
    return NULL;
}

static void refused(void) {
    int number = errno;
    printf("error %d %s\n", number, pinnace_client_error());
}

static void answer(int result) {
    if (result < 0)
        refused();
    else
        puts("ok");
}

static int set(pinnace_client_options_t *options, char *word) {
    char *value = strchr(word, '=');
    *value++ = 0;
    if (strcmp(word, "topic") == 0)
        return pinnace_client_options_topic(options, value);
    if (strcmp(word, "peer") != 0)
        return pinnace_client_options_set(options, word, value);
    char *endpoint = strchr(value, '@');
    *endpoint++ = 0;
    char *topic = strchr(endpoint, '@');
    *topic++ = 0;
    return pinnace_client_options_peer(options, value, endpoint, (const char *const[]){topic}, 1);
}

static void start(int count, char **words) {
    pinnace_client_options_t *options = pinnace_client_options_new(words[2], words[3]);
    int result = 0;
    for (int at = 4; at < count && result == 0; at++)
        result = set(options, words[at]);
    pinnace_client_t *started = result == 0 ? pinnace_client_start(options) : NULL;
    if (started == NULL) {
        refused();
        pinnace_client_options_destroy(options);
        return;
    }
    size_t at = 0;
    while (clients[at].word[0] != 0 && strcmp(clients[at].word, words[1]) != 0)
        at++;
    snprintf(clients[at].word, sizeof clients[at].word, "%s", words[1]);
    clients[at].client = started;
    answer(pinnace_client_options_destroy(options));
}

static void close_client(int count, char **words) {
    (void)count;
    answer(pinnace_client_close(client(words[1])));
}

/* Returns a body; the caller frees it. */
static unsigned char *body(const char *word, size_t *size) {
    if (word[0] == '=') {
        *size = strlen(word + 1);
        return (unsigned char *)strdup(word + 1);
    }
    char *end;
    *size = strtoul(word, &end, 10);
    size_t seed = strtoul(end + 1, NULL, 10);
    unsigned char *bytes = malloc(*size + 1);
    for (size_t at = 0; at < *size; at++)
        bytes[at] = (unsigned char)(at / 7 + seed);
    return bytes;
}

static void send_some(int count, char **words) {
    size_t size;
    unsigned char *bytes = body(words[3], &size);
    pinnace_send_options_t options = PINNACE_SEND_OPTIONS;
    pinnace_client_t *to = client(words[1]);
    if (count > 4) {
        options.all = atoi(words[4]);
        options.durability = atoi(words[5]) ? PINNACE_INTERVAL : PINNACE_SYNC;
        options.ttl_ms = atoll(words[6]);
        options.timeout_ms = atoll(words[7]);
        answer(pinnace_client_send(to, words[2], bytes, size, &options));
    } else if (words[0][0] == 'a') {
        int receivers = pinnace_client_send_all(to, words[2], bytes, size);
        if (receivers < 0)
            answer(receivers);
        else
            printf("number %d\n", receivers);
    } else {
        answer(pinnace_client_send_to(to, words[2], bytes, size));
    }
    free(bytes);
}

#include "describe.h"
#include "readiness.h"
#include "together.h"
static void burst(int count, char **words) {
    (void)count;
    uint64_t ticket = 0;
    int result = 0, messages = atoi(words[3]);
    for (int number = 0; number < messages && result == 0; number++) {
        char text[16];
        int size = snprintf(text, sizeof text, "%d", number);
        result = pinnace_client_send_async(client(words[1]), words[2], text, (size_t)size, NULL, &ticket);
    }
    answer(result == 0 ? pinnace_client_wait(client(words[1]), ticket, -1) : result);
}

static uint32_t adler32(const unsigned char *bytes, size_t size) {
    uint32_t low = 1, high = 0;
    for (size_t at = 0; at < size; at++) {
        low = (low + bytes[at]) % 65521;
        high = (high + low) % 65521;
    }
    return high << 16 | low;
}

static void receive(int count, char **words) {
    (void)count;
    pinnace_delivery_t *delivery = pinnace_client_recv(client(words[1]), atol(words[2]));
    if (delivery == NULL) {
        refused();
        return;
    }
    deliveries[received] = delivery;
    size_t size = pinnace_delivery_size(delivery);
    printf("delivery %zu %s %s %llu %llu %zu %u\n", received++, pinnace_delivery_from(delivery),
           pinnace_delivery_topic(delivery), (unsigned long long)pinnace_delivery_deliveries(delivery),
           (unsigned long long)pinnace_delivery_accepted_ms(delivery), size,
           adler32(pinnace_delivery_body(delivery), size));
}

static void dead(int count, char **words) {
    (void)count;
    pinnace_delivery_t *delivery = deliveries[atoi(words[1])];
    int reason = pinnace_delivery_dead_reason(delivery);
    if (reason < 0)
        refused();
    else
        printf("dead %s %s %llu %d\n", pinnace_delivery_dead_topic(delivery),
               pinnace_delivery_dead_receiver(delivery),
               (unsigned long long)pinnace_delivery_dead_deliveries(delivery), reason);
}

static void cursor(int count, char **words) {
    (void)count;
    pinnace_cursor_t found;
    if (pinnace_delivery_cursor(deliveries[atoi(words[1])], &found) < 0)
        refused();
    else
        printf("cursor %s %llu %llu %llu\n", found.sender, (unsigned long long)found.stream,
               (unsigned long long)found.number, (unsigned long long)found.settled);
}

static void schema(int count, char **words) {
    (void)count, (void)words;
    fputs("schema ", stdout);
    for (const char *at = pinnace_cursor_schema(); *at != 0; at++)
        putchar(*at == '\n' ? ' ' : *at);
    puts("");
}

static void settle(int count, char **words) {
    pinnace_delivery_t *delivery = deliveries[atoi(words[1])];
    if (count > 2)
        answer(pinnace_delivery_nack(delivery, atol(words[2])));
    else if (words[0][0] == 'a')
        answer(pinnace_delivery_ack(delivery));
    else
        answer(words[0][0] == 't' ? pinnace_delivery_terminate(delivery) : pinnace_delivery_fail(delivery));
}

static void take(int count, char **words) {
    (void)count;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int left = atoi(words[2]);
    for (; left > 0; left--) {
        pinnace_delivery_t *delivery = pinnace_client_recv(client(words[1]), 20000);
        if (delivery == NULL)
            break;
        fprintf(out, " %.*s", (int)pinnace_delivery_size(delivery),
                (const char *)pinnace_delivery_body(delivery));
        pinnace_delivery_ack(delivery);
    }
    int number = errno;
    fclose(out);
    errno = number;
    if (left > 0)
        refused();
    else
        printf("took%s\n", text);
    free(text);
}

/* The verdicts that a handler returns. */
typedef struct script_t {
    char **verdicts;
    int left;
    FILE *out;
} script_t;

static int say(pinnace_delivery_t *delivery, void *arg) {
    script_t *script = arg;
    fprintf(script->out, " %.*s:%llu", (int)pinnace_delivery_size(delivery),
            (const char *)pinnace_delivery_body(delivery),
            (unsigned long long)pinnace_delivery_deliveries(delivery));
    int stop = --script->left == 0 ? PINNACE_STOP : 0;
    switch (*(*script->verdicts++)) {
    case 'a':
        return PINNACE_ACK | stop;
    case 'n':
        return PINNACE_NACK | stop;
    case 'f':
        return PINNACE_FAIL | stop;
    case 't':
        if (script->verdicts[-1][1] == 'e')
            return PINNACE_TERMINATE | stop;
    }
    /* C has no exceptions: return an invalid verdict. */
    return -1;
}

static void run(int count, char **words) {
    char *text = NULL;
    size_t size = 0;
    script_t script = {words + 2, count - 2, open_memstream(&text, &size)};
    int result = pinnace_client_run(client(words[1]), say, &script);
    fclose(script.out);
    if (result < 0)
        refused();
    else
        printf("ran%s\n", text);
    free(text);
}

typedef struct route_t {
    pinnace_client_t *client;
    char topic[32];
} route_t;

static int pass_on(pinnace_delivery_t *delivery, void *arg) {
    route_t *route = arg;
    return pinnace_client_send_to(route->client, route->topic, pinnace_delivery_body(delivery),
                                  pinnace_delivery_size(delivery));
}

/* Sends the signals that are blocked in a process that a handler starts with fork and exec. */
static int start_process(pinnace_delivery_t *delivery, void *arg) {
    (void)delivery;
    route_t *route = arg;
    int ends[2];
    if (pipe(ends) != 0)
        return PINNACE_FAIL;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execlp("grep", "grep", "SigBlk", "/proc/self/status", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *said = fdopen(ends[0], "r");
    char blocked[32] = "";
    int found = fscanf(said, "SigBlk: %31s", blocked);
    fclose(said);
    waitpid(child, NULL, 0);
    return found == 1 ? pinnace_client_send_to(route->client, route->topic, blocked, strlen(blocked)) : PINNACE_FAIL;
}

/* Permissions for handlers that hang, and what handlers that close have got. */
static sem_t released, closed;
static int close_error;

static int hang(pinnace_delivery_t *delivery, void *arg) {
    route_t *route = arg;
    while (sem_wait(&released) != 0)
        ;
    return route->topic[0] == '-' ? PINNACE_ACK : pass_on(delivery, arg);
}

static void forward(int count, char **words) {
    (void)count;
    static route_t routes[4];
    static size_t used;
    route_t *route = &routes[used++];
    route->client = client(words[1]);
    snprintf(route->topic, sizeof route->topic, "%s", words[2]);
    pinnace_handler_fn *handler = words[0][0] == 'f' ? pass_on : words[0][0] == 'h' ? hang : start_process;
    answer(pinnace_client_listen(route->client, handler, route));
}

static void release(int count, char **words) {
    (void)count, (void)words;
    answer(sem_post(&released));
}

static void drain(int count, char **words) {
    (void)count;
    int (*end)(pinnace_client_t *, long) = words[0][0] == 'd' ? pinnace_client_drain : pinnace_client_close_within;
    answer(end(client(words[1]), atol(words[2])));
}

typedef struct end_t {
    pinnace_client_t *client;
    long timeout_ms;
} end_t;

static int close_here(pinnace_delivery_t *delivery, void *arg) {
    (void)delivery;
    end_t *end = arg;
    int result = pinnace_client_drain(end->client, end->timeout_ms);
    result = result == 0 ? pinnace_client_close_within(end->client, end->timeout_ms) : result;
    /* EFAULT: it has ended. */
    if (result == 0 && pinnace_client_close_within(end->client, end->timeout_ms) < 0 && errno != EFAULT)
        result = -1;
    close_error = result == 0 ? 0 : errno;
    sem_post(&closed);
    return PINNACE_ACK;
}

static void close_by_handler(int count, char **words) {
    (void)count;
    static end_t end;
    end = (end_t){client(words[1]), atol(words[2])};
    answer(pinnace_client_listen(end.client, close_here, &end));
}

static void wait_closed(int count, char **words) {
    (void)count, (void)words;
    while (sem_wait(&closed) != 0)
        ;
    errno = close_error;
    answer(close_error == 0 ? 0 : -1);
}

static void *close_once(void *arg) {
    end_t *end = arg;
    int result = pinnace_client_close_within(end->client, end->timeout_ms);
    return (void *)(intptr_t)(result == 0 || errno == EFAULT ? 0 : errno);
}

static void close_twice(int count, char **words) {
    (void)count;
    end_t end = {client(words[1]), atol(words[2])};
    pthread_t threads[2];
    void *errors[3];
    for (size_t at = 0; at < 2; at++)
        pthread_create(&threads[at], NULL, close_once, &end);
    for (size_t at = 0; at < 2; at++)
        pthread_join(threads[at], &errors[at]);
    errors[2] = close_once(&end);
    void *error = errors[0] != NULL ? errors[0] : errors[1] != NULL ? errors[1] : errors[2];
    errno = (int)(intptr_t)error;
    answer(error == NULL ? 0 : -1);
}

static void pending(int count, char **words) {
    (void)count;
    uint64_t number;
    pinnace_client_t *of = client(words[1]);
    if ((words[0][0] == 'p' ? pinnace_client_pending(of, &number) : pinnace_client_in_hand(of, &number)) < 0)
        refused();
    else
        printf("number %llu\n", (unsigned long long)number);
}

static void print_peer(const char *receiver, const char *topic, uint64_t messages, void *arg) {
    fprintf(arg, " %s:%s:%llu", receiver == NULL ? "-" : receiver, topic, (unsigned long long)messages);
}

static void by_peer(int count, char **words) {
    (void)count;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int result = pinnace_client_pending_by_peer(client(words[1]), print_peer, out);
    fclose(out);
    if (result < 0)
        refused();
    else
        printf("by_peer%s\n", text);
    free(text);
}

static void wait_pending(int count, char **words) {
    (void)count;
    answer(pinnace_client_wait_pending(client(words[1]), strtoull(words[2], NULL, 10), atol(words[3])));
}

static void wait_listeners(int count, char **words) {
    (void)count;
    size_t listeners = strtoull(words[3], NULL, 10);
    answer(pinnace_client_wait_listeners(client(words[1]), words[2], listeners, atol(words[4])));
}

static void subscribe(int count, char **words) {
    (void)count;
    pinnace_client_t *one = client(words[1]);
    answer(strcmp(words[0], "subscribe") == 0 ? pinnace_client_subscribe(one, words[2])
           : strcmp(words[0], "forget") == 0  ? pinnace_client_forget(one, words[2])
                                              : pinnace_client_unsubscribe(one, words[2]));
}

static void addresses(int count, char **words) {
    (void)count;
    static char buffer[1 << 16];
    size_t size = sizeof buffer;
    pinnace_client_t *of = client(words[1]);
    if ((words[0][0] == 'a'   ? pinnace_client_addresses(of, words[2], buffer, &size)
         : words[0][0] == 's' ? pinnace_client_statistics_json(of, buffer, &size)
                              : pinnace_client_metrics_address(of, buffer, &size)) < 0) {
        return refused();
    }
    for (char *at = buffer; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    printf("%s %s\n", words[0], buffer);
}

static void identity(int count, char **words) {
    (void)count;
    pinnace_client_t *one = client(words[1]);
    printf("identity %s %s\n", pinnace_client_name(one), pinnace_client_endpoint(one));
}

static void *receiver(void *arg) {
    intptr_t number = pinnace_client_recv(arg, -1) == NULL ? errno : 0;
    return (void *)number;
}

static void interrupt(int count, char **words) {
    (void)count;
    pthread_t thread;
    void *number;
    pthread_create(&thread, NULL, receiver, client(words[1]));
    pinnace_client_close(client(words[1]));
    pthread_join(thread, &number);
    printf("error %d of the thread that received\n", (int)(intptr_t)number);
}

static const struct {
    const char *word;
    void (*call)(int count, char **words);
} commands[] = {
    {"start", start},       {"close", close_client},        {"send", send_some},      {"all", send_some},
    {"with", send_some}, {"burst", burst}, {"recv", receive}, {"dead", dead}, {"together", together},
    {"ack", settle},        {"nack", settle},               {"terminate", settle},    {"fail", settle},
    {"take", take}, {"run", run}, {"forward", forward}, {"pending", pending}, {"start_process", forward},
    {"settle", wait_pending}, {"subscribe", subscribe}, {"unsubscribe", subscribe}, {"addresses", addresses},
    {"statistics", addresses}, {"metrics", addresses}, {"identity", identity}, {"interrupt", interrupt},
    {"cursor", cursor}, {"forget", subscribe}, {"hang", forward}, {"wait_listeners", wait_listeners},
    {"poll", poll_client}, {"give_back", give_back}, {"release", release}, {"in_hand", pending}, {"drain", drain},
    {"close_within", drain}, {"closed", wait_closed}, {"close_by_handler", close_by_handler}, {"schema", schema},
    {"close_twice", close_twice}, {"describe", describe}, {"properties", properties}, {"by_peer", by_peer},
};

int main(void) {
    char *line = NULL;
    size_t room = 0;
    sem_init(&released, 0, 0);
    sem_init(&closed, 0, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (getline(&line, &room, stdin) > 0) {
        char *words[WORDS] = {NULL}, *rest = line;
        int count = 0;
        while (count < WORDS && (words[count] = strtok_r(rest, " \n", &rest)) != NULL)
            count++;
        for (size_t at = 0; at < sizeof commands / sizeof *commands; at++)
            if (strcmp(commands[at].word, words[0]) == 0)
                commands[at].call(count, words);
    }
    for (size_t at = 0; at < CLIENTS && clients[at].word[0] != 0; at++)
        pinnace_client_close(clients[at].client);
    free(line);
    return 0;
}
