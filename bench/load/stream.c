/* stream: one sender, one receiver, messages one way at full speed. tail: the same with a sender that exits at once.
 *
 * The receiver's clock runs from the first message received to the last, so it includes neither set-up nor connecting.
 * In stream the sender stays until the receiver has everything. In tail it closes its socket, terminates its context
 * and exits when the last send has returned; the result is the number of messages that arrive.
 */
#include "load.h"

#include "clock.h"
#include "stamp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

static struct gate endpoint_gate, heard_gate, leave_gate;
static bool sender_stays;

/* A PUB drops messages without a subscriber: send hellos until the subscriber has received one. */
static void greet(const struct plan *plan, void *socket, char *body)
{
    do {
        stamp(body, plan->size, HELLO);
        send_body(socket, body, plan->size);
    } while (!gate_heard(&heard_gate, 1));
}

static void sending_side(const struct plan *plan, void *ctx, unsigned index)
{
    (void)index;
    char endpoint[ENDPOINT_BYTES], leave;
    void *socket = open_socket(plan, ctx, SENDING);
    char *body = new_body(plan->size);
    gate_hear(&endpoint_gate, endpoint, sizeof endpoint);
    connect_socket(socket, endpoint);
    if (plan->pattern == PATTERN_PUB)
        greet(plan, socket, body);
    send_numbered(plan, socket, body);
    if (sender_stays)
        gate_hear(&leave_gate, &leave, 1);
    zmq_close(socket);
    free(body);
}

static void *start(const struct plan *plan, void **ctx)
{
    char resolved[ENDPOINT_BYTES] = "";
    gate_open(&endpoint_gate);
    gate_open(&heard_gate);
    gate_open(&leave_gate);
    *ctx = other_start(plan, sending_side);
    void *socket = open_socket(plan, *ctx, RECEIVING);
    bind_socket(socket, plan->endpoint, resolved);
    gate_say(&endpoint_gate, resolved, sizeof resolved);
    return socket;
}

static bool first_message(const struct plan *plan, void *socket, char *body)
{
    bool heard = false;
    while (receive_body(socket, body, plan->size)) {
        if (stamp_read(body) != HELLO || plan->pattern != PATTERN_PUB)
            return true;
        if (!heard)
            gate_say(&heard_gate, "h", 1);
        heard = true;
    }
    return false;
}

int run_stream(const struct plan *plan)
{
    void *ctx;
    sender_stays = true;
    void *socket = start(plan, &ctx);
    char *body = new_body(plan->size);
    first_message(plan, socket, body);
    double began_s = now_s();
    expect_number(body, plan->size, 0);
    for (uint64_t number = 1; number < plan->count; number++) {
        receive_body(socket, body, plan->size);
        expect_number(body, plan->size, number);
    }
    double took_s = now_s() - began_s;
    gate_say(&leave_gate, "l", 1);
    other_wait();
    zmq_close(socket);
    zmq_ctx_term(ctx);
    free(body);
    printf("kind=stream count=%" PRIu64 " seconds=%.6f rate=%.1f cpu_s=%.6f ", plan->count, took_s,
           (double)(plan->count - 1) / took_s, cpu_both_s());
    print_tail_of_line(plan);
    return 0;
}

int run_tail(const struct plan *plan)
{
    void *ctx;
    uint64_t got = 0;
    sender_stays = false;
    void *socket = start(plan, &ctx);
    char *body = new_body(plan->size);
    set_option(socket, ZMQ_RCVTIMEO, 10000);
    if (first_message(plan, socket, body)) {
        set_option(socket, ZMQ_RCVTIMEO, 3000);
        do
            expect_number(body, plan->size, got++);
        while (got < plan->count && receive_body(socket, body, plan->size));
    }
    other_wait();
    zmq_close(socket);
    zmq_ctx_term(ctx);
    free(body);
    printf("kind=tail count=%" PRIu64 " got=%" PRIu64 " lost=%" PRIu64 " ", plan->count, got, plan->count - got);
    print_tail_of_line(plan);
    return got == plan->count ? 0 : 1;
}
