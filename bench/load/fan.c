/* fan: one sender and several receivers, each a process. A PUSH distributes the messages; a PUB sends all to each.
 *
 * The clock runs from the first message that any receiver gets to the last. With PUB, every receiver must get every
 * number in order. With PUSH, each receiver must get rising numbers, and together they must get each number once; their
 * count, sum and sum of squares prove it.
 * The receivers report through shared memory, each on cache lines of its own.
 */
#define _GNU_SOURCE
#include "load.h"

#include "clock.h"
#include "stamp.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define PEERS_MAX 64
#define CLOCK_EVERY 64   /* messages between two readings of the clock while the sender is still sending */
#define QUIET_MS 100     /* interval at which a receiver of PUSH checks whether the others have the rest */
#define GIVE_UP_ROUNDS 100

struct slot {
    _Alignas(128) _Atomic bool heard;
    _Atomic uint64_t count;
    uint64_t sum, squares;
    double first_s, last_s;
};

static struct board {
    char endpoint[ENDPOINT_BYTES];
    _Atomic bool sent_all;
    struct slot slots[PEERS_MAX];
} *board;

static struct gate endpoint_gate;

static uint64_t received_by_all(const struct plan *plan)
{
    uint64_t total = 0;
    for (unsigned peer = 0; peer < plan->peers; peer++)
        total += atomic_load_explicit(&board->slots[peer].count, memory_order_acquire);
    return total;
}

static void check_turn(const struct plan *plan, const char *body, uint64_t count, uint64_t least)
{
    uint64_t number = stamp_read(body);
    if (plan->pattern == PATTERN_PUB)
        expect_number(body, plan->size, count);
    else if (number < least)
        fail("number %" PRIu64 " came where %" PRIu64 " or more was due", number, least);
    else
        expect_number(body, plan->size, number);
}

static void receiving_side(const struct plan *plan, void *ctx, unsigned index)
{
    struct slot *mine = &board->slots[index];
    uint64_t count = 0, least = 0;
    unsigned quiet = 0;
    bool one_each = plan->pattern == PATTERN_PUB;
    char *body = new_body(plan->size), go;
    void *socket = open_socket(plan, ctx, RECEIVING);
    set_option(socket, ZMQ_RCVTIMEO, QUIET_MS);
    gate_hear(&endpoint_gate, &go, 1);
    connect_socket(socket, board->endpoint);
    while (quiet < GIVE_UP_ROUNDS && (one_each ? count : received_by_all(plan)) < plan->count) {
        while ((!one_each || count < plan->count) && receive_body(socket, body, plan->size)) {
            uint64_t number = stamp_read(body);
            quiet = 0;
            if (number == HELLO) {
                mine->heard = true;
                continue;
            }
            check_turn(plan, body, count, least);
            if (count == 0)
                mine->first_s = now_s();
            least = number + 1;
            mine->sum += number;
            mine->squares += number * number;
            atomic_store_explicit(&mine->count, ++count, memory_order_release);
            if (count % CLOCK_EVERY == 0 || atomic_load_explicit(&board->sent_all, memory_order_relaxed))
                mine->last_s = now_s();
        }
        quiet++;
    }
    zmq_close(socket);
    free(body);
}

/* Sends hellos until each receiver got one: earlier messages would all go to the receivers that connected first. */
static void greet_all(const struct plan *plan, void *socket, char *body)
{
    unsigned heard = 0;
    while (heard < plan->peers) {
        stamp(body, plan->size, HELLO);
        zmq_send(socket, body, plan->size, ZMQ_DONTWAIT);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        heard = 0;
        for (unsigned peer = 0; peer < plan->peers; peer++)
            heard += board->slots[peer].heard;
    }
}

static void check_sums(const struct plan *plan, uint64_t sum, uint64_t squares)
{
    if (plan->pattern == PATTERN_PUB)
        return; /* each receiver has checked each number */
    if (sum != sum_to(plan->count, 1) || squares != sum_to(plan->count, 2))
        fail("as many messages came as were sent, but not the same ones");
}

static int report(const struct plan *plan)
{
    double first_s = 0, last_s = 0;
    uint64_t sum = 0, squares = 0, want = plan->pattern == PATTERN_PUB ? plan->count * plan->peers : plan->count;
    uint64_t got = received_by_all(plan), least = UINT64_MAX;
    for (unsigned peer = 0; peer < plan->peers; peer++) {
        const struct slot *slot = &board->slots[peer];
        least = slot->count < least ? slot->count : least;
        sum += slot->sum;
        squares += slot->squares;
        if (slot->count > 0 && (first_s == 0 || slot->first_s < first_s))
            first_s = slot->first_s;
        if (slot->last_s > last_s)
            last_s = slot->last_s;
    }
    if (got != want)
        fail("%" PRIu64 " of %" PRIu64 " messages came", got, want);
    check_sums(plan, sum, squares);
    double took_s = last_s > first_s ? last_s - first_s : 1e-9;
    printf("kind=fan peers=%u least=%" PRIu64 " count=%" PRIu64 " ", plan->peers, least, want);
    printf("seconds=%.6f rate=%.1f cpu_s=%.6f ", took_s, (double)(want - 1) / took_s, cpu_both_s());
    print_tail_of_line(plan);
    return 0;
}

int run_fan(const struct plan *plan)
{
    if (plan->peers < 1 || plan->peers > PEERS_MAX)
        fail("peers=1 to %d", PEERS_MAX);
    gate_open(&endpoint_gate);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        die("mmap");
    for (unsigned peer = 0; peer < plan->peers; peer++)
        fork_part(plan, receiving_side, peer);
    void *ctx = zmq_ctx_new();
    if (ctx == NULL)
        die("zmq_ctx_new");
    void *socket = open_socket(plan, ctx, SENDING);
    bind_socket(socket, plan->endpoint, board->endpoint);
    for (unsigned peer = 0; peer < plan->peers; peer++)
        gate_say(&endpoint_gate, "g", 1);
    char *body = new_body(plan->size);
    greet_all(plan, socket, body);
    send_numbered(plan, socket, body);
    board->sent_all = true;
    other_wait();
    zmq_close(socket);
    zmq_ctx_term(ctx);
    free(body);
    return report(plan);
}
