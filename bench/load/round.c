/* round: requests and replies, one at a time; the percentiles of the round trip time.
 *
 * The first rounds connect and warm up. They are checked, but not counted.
 */
#include "load.h"

#include "clock.h"
#include "stamp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

static struct gate endpoint_gate;

static uint64_t warm_up_of(const struct plan *plan) { return plan->count / 20 < 1000 ? plan->count / 20 : 1000; }

static void replying_side(const struct plan *plan, void *ctx, unsigned index)
{
    (void)index;
    char endpoint[ENDPOINT_BYTES];
    void *socket = open_socket(plan, ctx, RECEIVING);
    char *body = new_body(plan->size);
    gate_hear(&endpoint_gate, endpoint, sizeof endpoint);
    connect_socket(socket, endpoint);
    for (uint64_t number = 0, rounds = plan->count + warm_up_of(plan); number < rounds; number++) {
        receive_body(socket, body, plan->size);
        expect_number(body, plan->size, number);
        if (plan->fault != FAULT_NONE && number == plan->fault_at)
            stamp(body, plan->size, number + 1);
        send_body(socket, body, plan->size);
    }
    zmq_close(socket);
    free(body);
}

static int by_length(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int run_round(const struct plan *plan)
{
    char resolved[ENDPOINT_BYTES] = "";
    gate_open(&endpoint_gate);
    void *ctx = other_start(plan, replying_side);
    void *socket = open_socket(plan, ctx, SENDING);
    bind_socket(socket, plan->endpoint, resolved);
    gate_say(&endpoint_gate, resolved, sizeof resolved);

    char *body = new_body(plan->size);
    double *took_us = malloc(plan->count * sizeof *took_us), total_s = 0;
    if (took_us == NULL)
        die("malloc");
    uint64_t warm_up = warm_up_of(plan);
    for (uint64_t number = 0; number < plan->count + warm_up; number++) {
        stamp(body, plan->size, number);
        double began_s = now_s();
        send_body(socket, body, plan->size);
        receive_body(socket, body, plan->size);
        double took_s = now_s() - began_s;
        expect_number(body, plan->size, number);
        if (number >= warm_up) {
            took_us[number - warm_up] = took_s * 1e6;
            total_s += took_s;
        }
    }
    other_wait();
    zmq_close(socket);
    zmq_ctx_term(ctx);

    qsort(took_us, plan->count, sizeof *took_us, by_length);
    uint64_t count = plan->count;
    printf("kind=round count=%" PRIu64 " seconds=%.6f rate=%.1f cpu_s=%.6f ", count, total_s, (double)count / total_s,
           cpu_both_s());
    printf("p50_us=%.3f p90_us=%.3f p99_us=%.3f max_us=%.1f ", took_us[count / 2], took_us[count * 9 / 10],
           took_us[count * 99 / 100], took_us[count - 1]);
    print_tail_of_line(plan);
    free(took_us);
    free(body);
    return 0;
}
