/* turns: many connections of one socket, and one message over each in turn.
 *
 * One PULL binds; one PUSH of another process connects to it `peers` times, and distributes its messages in turn. The
 * first message over each connection is a hello, which shows that it is established. The receiver's clock runs from the
 * first numbered message to the last. The receiver must get each number once; their count, sum and sum of squares prove
 * it.
 */
#include "load.h"

#include "clock.h"
#include "stamp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

#define BACKLOG 4096 /* backlog of the listening socket (the system may allow less) */

static struct gate endpoint_gate, go_gate;

static void connecting_side(const struct plan *plan, void *ctx, unsigned index)
{
    (void)index;
    char endpoint[ENDPOINT_BYTES], go;
    char *body = new_body(plan->size);
    void *socket = open_socket(plan, ctx, SENDING);
    gate_hear(&endpoint_gate, endpoint, sizeof endpoint);
    for (unsigned peer = 0; peer < plan->peers; peer++)
        connect_socket(socket, endpoint);
    stamp(body, plan->size, HELLO);
    for (unsigned peer = 0; peer < plan->peers; peer++)
        send_body(socket, body, plan->size);
    gate_hear(&go_gate, &go, 1);
    send_numbered(plan, socket, body);
    gate_hear(&go_gate, &go, 1);
    zmq_close(socket);
    free(body);
}

int run_turns(const struct plan *plan)
{
    char resolved[ENDPOINT_BYTES] = "";
    uint64_t sum = 0, squares = 0;
    double first_s = 0;
    gate_open(&endpoint_gate);
    gate_open(&go_gate);
    void *ctx = other_start(plan, connecting_side);
    char *body = new_body(plan->size);
    void *socket = open_socket(plan, ctx, RECEIVING);
    set_option(socket, ZMQ_BACKLOG, BACKLOG);
    bind_socket(socket, plan->endpoint, resolved);
    gate_say(&endpoint_gate, resolved, sizeof resolved);
    for (unsigned peer = 0; peer < plan->peers; peer++) {
        receive_body(socket, body, plan->size);
        expect_number(body, plan->size, HELLO);
    }
    gate_say(&go_gate, "g", 1);
    for (uint64_t got = 0; got < plan->count; got++) {
        receive_body(socket, body, plan->size);
        uint64_t number = stamp_read(body);
        expect_number(body, plan->size, number);
        if (got == 0)
            first_s = now_s();
        sum += number;
        squares += number * number;
    }
    double took_s = now_s() - first_s;
    if (sum != sum_to(plan->count, 1) || squares != sum_to(plan->count, 2))
        fail("as many messages came as were sent, but not the same ones");
    gate_say(&go_gate, "g", 1);
    other_wait();
    zmq_close(socket);
    zmq_ctx_term(ctx);
    free(body);
    printf("kind=turns peers=%u count=%" PRIu64 " seconds=%.6f rate=%.1f cpu_s=%.6f ", plan->peers, plan->count, took_s,
           (double)(plan->count - 1) / took_s, cpu_both_s());
    print_tail_of_line(plan);
    return 0;
}
