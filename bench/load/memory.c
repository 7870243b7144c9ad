/* memory: the private user-space memory of an idle connection.
 *
 * One PULL binds; one PUSH of another process connects to it count times, and sends a message over each connection.
 * Both sides read their private bytes before, and again a second after the last message. The result is the difference
 * divided by the number of connections. One connection exists before the first reading, so one-time set-up of the
 * library does not count.
 */
#include "load.h"

#include "stamp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

static struct gate endpoint_gate, step_gate, result_gate;

static int64_t private_bytes(void)
{
    char line[256];
    long kib, total_kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (file == NULL)
        die("/proc/self/smaps_rollup");
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Private_Clean: %ld", &kib) == 1 || sscanf(line, "Private_Dirty: %ld", &kib) == 1)
            total_kib += kib;
    fclose(file);
    return (int64_t)total_kib * 1024;
}

static void wait_for_step(void)
{
    char step;
    gate_hear(&step_gate, &step, 1);
}

static void connecting_side(const struct plan *plan, void *ctx, unsigned index)
{
    (void)index;
    char endpoint[ENDPOINT_BYTES];
    int64_t bytes[2];
    char *body = new_body(plan->size);
    void *socket = open_socket(plan, ctx, SENDING);
    gate_hear(&endpoint_gate, endpoint, sizeof endpoint);
    connect_socket(socket, endpoint);
    send_body(socket, body, plan->size);
    wait_for_step();
    bytes[0] = private_bytes();
    for (uint64_t number = 0; number < plan->count; number++)
        connect_socket(socket, endpoint);
    for (uint64_t number = 0; number <= plan->count; number++)
        send_body(socket, body, plan->size); /* one over each connection, in turn, the first one included */
    wait_for_step();
    bytes[1] = private_bytes();
    gate_say(&result_gate, bytes, sizeof bytes);
    wait_for_step();
    zmq_close(socket);
    free(body);
}

static void step(void) { gate_say(&step_gate, "s", 1); }

static void idle_for_a_second(void) { nanosleep(&(struct timespec){.tv_sec = 1}, NULL); }

int run_memory(const struct plan *plan)
{
    char resolved[ENDPOINT_BYTES] = "";
    int64_t theirs[2];
    gate_open(&endpoint_gate);
    gate_open(&step_gate);
    gate_open(&result_gate);
    void *ctx = other_start(plan, connecting_side);
    char *body = new_body(plan->size);
    void *socket = open_socket(plan, ctx, RECEIVING);
    bind_socket(socket, plan->endpoint, resolved);
    private_bytes(); /* the first reading allocates memory, which must not count */
    gate_say(&endpoint_gate, resolved, sizeof resolved);
    receive_body(socket, body, plan->size);
    idle_for_a_second();
    int64_t before = private_bytes();
    step();
    for (uint64_t number = 0; number <= plan->count; number++)
        receive_body(socket, body, plan->size);
    idle_for_a_second();
    int64_t after = private_bytes();
    step();
    gate_hear(&result_gate, theirs, sizeof theirs);
    step();
    other_wait();
    zmq_close(socket);
    zmq_ctx_term(ctx);
    free(body);
    printf("kind=memory count=%" PRIu64 " accepted_bytes=%.0f connected_bytes=%.0f ", plan->count,
           (double)(after - before) / (double)plan->count, (double)(theirs[1] - theirs[0]) / (double)plan->count);
    print_tail_of_line(plan);
    return 0;
}
