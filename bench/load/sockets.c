/* sockets: libzmq's calls with error checks, and numbered messages. */
#include "load.h"

#include "stamp.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <zmq.h>

#ifndef ZMQ_BUSY_POLL
#define ZMQ_BUSY_POLL 113 /* a draft */
#endif

void set_option(void *socket, int option, int value)
{
    if (zmq_setsockopt(socket, option, &value, sizeof value) != 0)
        die("zmq_setsockopt");
}

/* Both sides use the public example keys of zmq_curve(7), which secure nothing. The receiver is the server. */
static void set_keys(void *socket, enum end end)
{
    static const char server_public[] = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
    static const char server_secret[] = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";
    static const char client_public[] = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
    static const char client_secret[] = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";
    bool serves = end == RECEIVING;
    if (serves)
        set_option(socket, ZMQ_CURVE_SERVER, 1);
    else if (zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_public, sizeof server_public) != 0)
        die("ZMQ_CURVE_SERVERKEY");
    if (zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, serves ? server_public : client_public, sizeof server_public) != 0)
        die("ZMQ_CURVE_PUBLICKEY");
    if (zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, serves ? server_secret : client_secret, sizeof server_secret) != 0)
        die("ZMQ_CURVE_SECRETKEY");
}

typedef int stats_fn(void *socket, void *stats);

struct watched {
    void *socket;
    unsigned every_ms;
    stats_fn *read;
};

/* Reads the statistics until the socket is closed. `stats` is larger than a pinnace_stats_t, which begins with its
 * size. */
static void *watch(void *argument)
{
    struct watched watched = *(struct watched *)argument;
    struct timespec pause = {watched.every_ms / 1000, watched.every_ms % 1000 * 1000000L};
    size_t stats[128] = {sizeof stats};
    free(argument);
    while (watched.read(watched.socket, stats) == 0)
        nanosleep(&pause, NULL);
    return NULL;
}

static void start_watching(void *socket, unsigned every_ms)
{
    struct watched *watched = malloc(sizeof *watched);
    pthread_t thread;
    if (watched == NULL)
        die("malloc");
    *watched = (struct watched){socket, every_ms, (stats_fn *)dlsym(RTLD_DEFAULT, "pinnace_socket_stats")};
    if (watched->read == NULL)
        die("pinnace_socket_stats");
    if (pthread_create(&thread, NULL, watch, watched) != 0 || pthread_detach(thread) != 0)
        die("pthread_create");
}

/* The high-water mark keeps its default of 1,000, except for PUB and SUB, which have none on both sides and with both
 * libraries: a PUB drops messages at its mark, and a stream with gaps measures nothing. */
void *open_socket(const struct plan *plan, void *ctx, enum end end)
{
    static const int types[][2] = {
        [PATTERN_PUSH] = {ZMQ_PUSH, ZMQ_PULL}, [PATTERN_PUB] = {ZMQ_PUB, ZMQ_SUB}, [PATTERN_REQ] = {ZMQ_REQ, ZMQ_REP}};
    void *socket = zmq_socket(ctx, types[plan->pattern][end]);
    if (socket == NULL)
        die("zmq_socket");
    if (plan->curve)
        set_keys(socket, end);
    if (plan->pattern == PATTERN_PUB) {
        set_option(socket, end == SENDING ? ZMQ_SNDHWM : ZMQ_RCVHWM, 0);
        if (end == RECEIVING && zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0) != 0)
            die("ZMQ_SUBSCRIBE");
    }
    int never = -1;
    if (plan->never_spins) /* libzmq may refuse the option; it never spins */
        zmq_setsockopt(socket, ZMQ_BUSY_POLL, &never, sizeof never);
    if (plan->watch_ms != 0)
        start_watching(socket, plan->watch_ms);
    return socket;
}

void bind_socket(void *socket, const char *endpoint, char resolved[ENDPOINT_BYTES])
{
    size_t bytes = ENDPOINT_BYTES;
    if (zmq_bind(socket, endpoint) != 0)
        die("zmq_bind");
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, resolved, &bytes) != 0)
        die("ZMQ_LAST_ENDPOINT");
}

void connect_socket(void *socket, const char *endpoint)
{
    if (zmq_connect(socket, endpoint) != 0)
        die("zmq_connect");
}

void send_body(void *socket, const char *body, size_t size)
{
    while (zmq_send(socket, body, size, 0) < 0)
        if (zmq_errno() != EINTR)
            die("zmq_send");
}

bool receive_body(void *socket, char *body, size_t size)
{
    int got;
    while ((got = zmq_recv(socket, body, size, 0)) < 0) {
        if (zmq_errno() == EAGAIN)
            return false;
        if (zmq_errno() != EINTR)
            die("zmq_recv");
    }
    if ((size_t)got != size)
        fail("a message of %zu bytes came with %d", size, got);
    return true;
}

char *new_body(size_t size)
{
    char *body = calloc(1, size);
    if (body == NULL)
        die("calloc");
    return body;
}

uint64_t sum_to(uint64_t count, unsigned power)
{
    unsigned __int128 n = count;
    return (uint64_t)(power == 1 ? n * (n - 1) / 2 : (n - 1) * n * (2 * n - 1) / 6);
}

void expect_number(const char *body, size_t size, uint64_t want)
{
    uint64_t number = stamp_read(body);
    if (number != want)
        fail("message %" PRIu64 " came as number %" PRIu64, want, number);
    if (!stamp_whole(body, size))
        fail("message %" PRIu64 " came torn", want);
}

/* Sends a message with the plan's fault; see enum fault. */
static void send_with_fault(const struct plan *plan, void *socket, char *body, uint64_t number)
{
    switch (plan->fault) {
    case FAULT_WRONG:
        stamp(body, plan->size, number + 1);
        break;
    case FAULT_TORN:
        body[plan->size - 1] ^= 1;
        break;
    case FAULT_LOST:
        return;
    case FAULT_TWICE:
        send_body(socket, body, plan->size);
        break;
    case FAULT_NONE:
        break;
    }
    send_body(socket, body, plan->size);
}

void send_numbered(const struct plan *plan, void *socket, char *body)
{
    uint64_t fault_at = plan->fault == FAULT_NONE ? UINT64_MAX : plan->fault_at;
    for (uint64_t number = 0; number < plan->count; number++) {
        stamp(body, plan->size, number);
        if (__builtin_expect(number == fault_at, 0))
            send_with_fault(plan, socket, body, number);
        else
            send_body(socket, body, plan->size);
    }
}
