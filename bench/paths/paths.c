/* paths: drives one hot path of the library from one thread, for tools/count-instructions to count its instructions.
 *
 *   paths NAME     under callgrind with --collect-atstart=no: one dump per section
 *   paths --list   the paths, one per line: the name, and the rounds of a section
 *
 * The result is a round's instructions, not its time, and they must be the same in each run. So only this thread is
 * counted, and no thread spins before sleeping (ZMQ_BUSY_POLL=-1), because spinning depends on the clock. Over tcp and
 * ipc each message is received before the next is sent: with several, the I/O thread's share of the work would depend
 * on scheduling. The I/O thread may still take over work if this thread is preempted in a round. Such a section counts
 * too little, so there are several sections to choose from.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pinnace.h>
#include <valgrind/callgrind.h>
#include <zmq.h>

#ifndef ZMQ_BUSY_POLL
#define ZMQ_BUSY_POLL 113 /* a draft */
#endif

#define BODY_MAX 100000
#define READERS 8
#define POLLED 16
#define BURST 64
#define FRAMES 3
#define SECTIONS 9 /* the same as in tools/count-instructions */
#define DEADLINE_MS 60000 /* of one call; callgrind slows everything down by a factor of about 50 */
#define TRIES 100
#define ENDPOINT_BYTES 256

static void *context;
static char out[BODY_MAX], in[BODY_MAX];

static void *writer, *readers[POLLED];
static zmq_pollitem_t items[POLLED];
static size_t size;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "paths: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

static void must(int result, const char *what)
{
    if (result < 0)
        die(what);
}

static void set_option(void *socket, int option, int value)
{
    must(zmq_setsockopt(socket, option, &value, sizeof value), "zmq_setsockopt");
}

static void *open_socket(int type)
{
    void *socket = zmq_socket(context, type);
    if (socket == NULL)
        die("zmq_socket");
    set_option(socket, ZMQ_BUSY_POLL, -1);
    set_option(socket, ZMQ_RCVTIMEO, DEADLINE_MS);
    set_option(socket, ZMQ_SNDTIMEO, DEADLINE_MS);
    set_option(socket, ZMQ_LINGER, 0);
    return socket;
}

static void send_one(void *socket, size_t bytes, int flags)
{
    if (zmq_send(socket, out, bytes, flags) != (int)bytes)
        die("zmq_send");
}

static void receive_one(void *socket, size_t bytes)
{
    if (zmq_recv(socket, in, sizeof in, 0) != (int)bytes)
        die("zmq_recv");
}

static void await(zmq_pollitem_t *item)
{
    if (zmq_poll(item, 1, DEADLINE_MS) != 1)
        die("zmq_poll");
}

/* Set-ups of a path. The writer binds, the readers connect. With a ROUTER or a REP the reader sends first. */

static void join(int writes, int reads, unsigned peers, const char *endpoint)
{
    char resolved[ENDPOINT_BYTES];
    size_t bytes = sizeof resolved;
    writer = open_socket(writes);
    must(zmq_bind(writer, endpoint), "zmq_bind");
    must(zmq_getsockopt(writer, ZMQ_LAST_ENDPOINT, resolved, &bytes), "ZMQ_LAST_ENDPOINT");
    for (unsigned peer = 0; peer < peers; peer++) {
        readers[peer] = open_socket(reads);
        if (reads == ZMQ_SUB)
            must(zmq_setsockopt(readers[peer], ZMQ_SUBSCRIBE, "", 0), "ZMQ_SUBSCRIBE");
        must(zmq_connect(readers[peer], resolved), "zmq_connect");
        items[peer] = (zmq_pollitem_t){.socket = readers[peer], .events = ZMQ_POLLIN};
    }
}

static void pipeline(const char *endpoint) { join(ZMQ_PUSH, ZMQ_PULL, 1, endpoint); }
static void publishing(const char *endpoint) { join(ZMQ_PUB, ZMQ_SUB, READERS, endpoint); }
static void asking(const char *endpoint) { join(ZMQ_REP, ZMQ_REQ, 1, endpoint); }
static void routing(const char *endpoint) { join(ZMQ_ROUTER, ZMQ_DEALER, 1, endpoint); }
static void polling(const char *endpoint) { join(ZMQ_PUSH, ZMQ_PULL, POLLED, endpoint); }

/* Rounds. */

static void copied(void)
{
    send_one(writer, size, 0);
    receive_one(readers[0], size);
}

static void awaited(void)
{
    send_one(writer, size, 0);
    await(&items[0]);
    receive_one(readers[0], size);
}

static void burst(void)
{
    for (unsigned count = 0; count < BURST; count++)
        send_one(writer, size, 0);
    for (unsigned count = 0; count < BURST; count++)
        receive_one(readers[0], size);
}

static void by_message(void)
{
    zmq_msg_t message;
    must(zmq_msg_init_size(&message, size), "zmq_msg_init_size");
    memcpy(zmq_msg_data(&message), out, size);
    must(zmq_msg_send(&message, writer, 0), "zmq_msg_send");
    must(zmq_msg_init(&message), "zmq_msg_init");
    if (zmq_msg_recv(&message, readers[0], 0) != (int)size)
        die("zmq_msg_recv");
    must(zmq_msg_close(&message), "zmq_msg_close");
}

static void send_frames(void)
{
    for (unsigned frame = 0; frame < FRAMES; frame++)
        send_one(readers[0], size, frame + 1 < FRAMES ? ZMQ_SNDMORE : 0);
}

/* The frames follow the sender's routing id. */
static void receive_frames(void)
{
    must(zmq_recv(writer, in, sizeof in, 0), "zmq_recv");
    for (unsigned frame = 0; frame < FRAMES; frame++)
        receive_one(writer, size);
}

static void in_frames(void)
{
    send_frames();
    receive_frames();
}

static void awaited_frames(void)
{
    zmq_pollitem_t item = {.socket = writer, .events = ZMQ_POLLIN};
    send_frames();
    await(&item);
    receive_frames();
}

static void to_all(void)
{
    send_one(writer, size, 0);
    for (unsigned peer = 0; peer < READERS; peer++)
        receive_one(readers[peer], size);
}

static void awaited_by_all(void)
{
    send_one(writer, size, 0);
    for (unsigned peer = 0; peer < READERS; peer++) {
        await(&items[peer]);
        receive_one(readers[peer], size);
    }
}

static void request(void)
{
    send_one(readers[0], size, 0);
    receive_one(writer, size);
    send_one(writer, size, 0);
    receive_one(readers[0], size);
}

static void polled(void)
{
    send_one(writer, size, 0);
    if (zmq_poll(items, POLLED, DEADLINE_MS) != 1)
        die("zmq_poll");
    for (unsigned peer = 0; peer < POLLED; peer++)
        if (items[peer].revents & ZMQ_POLLIN)
            receive_one(readers[peer], size);
}

static const struct path {
    const char *name;
    void (*set_up)(const char *endpoint);
    const char *endpoint;
    void (*round)(void);
    size_t size;
    unsigned rounds;
} paths[] = {
    {"inproc-8", pipeline, "inproc://paths", copied, 8, 256},
    {"inproc-burst-8", pipeline, "inproc://paths", burst, 8, 32},
    {"inproc-1k", pipeline, "inproc://paths", copied, 1024, 256},
    {"inproc-100k-message", pipeline, "inproc://paths", by_message, 100000, 16},
    {"inproc-3-frames", routing, "inproc://paths", in_frames, 8, 256},
    {"inproc-pub-8-readers", publishing, "inproc://paths", to_all, 8, 256},
    {"inproc-request", asking, "inproc://paths", request, 8, 256},
    {"inproc-poll-16", polling, "inproc://paths", polled, 8, 256},
    {"tcp-8", pipeline, "tcp://127.0.0.1:*", awaited, 8, 128},
    {"tcp-16k", pipeline, "tcp://127.0.0.1:*", awaited, 16384, 32},
    {"tcp-3-frames", routing, "tcp://127.0.0.1:*", awaited_frames, 8, 128},
    {"tcp-pub-8-readers", publishing, "tcp://127.0.0.1:*", awaited_by_all, 8, 32},
    {"tcp-request", asking, "tcp://127.0.0.1:*", request, 8, 128},
    {"ipc-8", pipeline, "ipc://*", awaited, 8, 128},
    {"ipc-16k", pipeline, "ipc://*", awaited, 16384, 32},
    {"ipc-3-frames", routing, "ipc://*", awaited_frames, 8, 128},
    {"ipc-request", asking, "ipc://*", request, 8, 128},
};

#define PATHS (sizeof paths / sizeof paths[0])

static void make_rounds(const struct path *path)
{
    for (unsigned round = 0; round < path->rounds; round++)
        path->round();
}

/* Over ipc the two sockets must use shared memory, as two processes do. They switch to it after some messages, with the
 * help of the I/O thread. */
static void warm_up(const struct path *path)
{
    pinnace_peer_t peer;
    size_t count = 1;
    for (unsigned tries = 0; tries < TRIES; tries++) {
        make_rounds(path);
        if (strncmp(path->endpoint, "ipc", 3) != 0)
            return;
        must(pinnace_socket_peers(writer, &peer, &count), "pinnace_socket_peers");
        if (count == 1 && strcmp(peer.medium, "memory") == 0)
            return;
    }
    fprintf(stderr, "paths: ipc without shared memory: %s\n", count == 1 ? peer.fallback_reason : "no peer");
    exit(1);
}

/* During a dump the I/O thread takes over work that this thread has left, so each section warms up again. */
static void drive(const struct path *path)
{
    size = path->size;
    path->set_up(path->endpoint);
    if (path->set_up == publishing)
        must(pinnace_wait_subscribers(writer, "", 0, READERS, DEADLINE_MS), "pinnace_wait_subscribers");
    warm_up(path);
    for (unsigned section = 0; section < SECTIONS; section++) {
        make_rounds(path);
        CALLGRIND_TOGGLE_COLLECT;
        make_rounds(path);
        CALLGRIND_TOGGLE_COLLECT;
        CALLGRIND_DUMP_STATS;
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t path = 0; path < PATHS; path++)
            printf("%s %u\n", paths[path].name, paths[path].rounds);
        return 0;
    }
    context = zmq_ctx_new();
    if (context == NULL)
        die("zmq_ctx_new");
    for (size_t path = 0; argc == 2 && path < PATHS; path++)
        if (strcmp(argv[1], paths[path].name) == 0) {
            drive(&paths[path]);
            /* Sockets and context end with the process. */
            return 0;
        }
    fprintf(stderr, "usage: paths --list | NAME\n");
    return 2;
}
