/* The sender and the receiver in C: messages of one size over one connection.
 *
 *     peer send ENDPOINT OCTETS          sends until it is killed
 *     peer recv ENDPOINT MILLISECONDS    binds, prints the endpoint, and then messages a second
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int send_for_ever(void *context, const char *endpoint, size_t octets)
{
    void *push = zmq_socket(context, ZMQ_PUSH);
    char *content = calloc(1, octets + 1);
    if (zmq_connect(push, endpoint))
        return 1;
    while (zmq_send(push, content, octets, 0) >= 0)
        ;
    return 1;
}

static int receive_for(void *context, const char *endpoint, double seconds)
{
    void *pull = zmq_socket(context, ZMQ_PULL);
    char bound[256];
    size_t size = sizeof bound;
    if (zmq_bind(pull, endpoint) || zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, bound, &size))
        return 1;
    printf("bound %s\n", bound);
    fflush(stdout);
    zmq_msg_t message;
    zmq_msg_init(&message);
    /* The first tenth of a second is not measured. */
    double begin = 0, end = 0;
    long count = 0;
    for (;;) {
        if (zmq_msg_recv(&message, pull, 0) < 0)
            return 1;
        if (count++ % 256)
            continue;
        double at = now();
        if (!end) {
            end = at + 0.1;
        } else if (!begin && at > end) {
            printf("begin\n");
            fflush(stdout);
            begin = at, end = at + seconds, count = 1;
        } else if (begin && at > end) {
            printf("end %.0f\n", (double)(count - 1) / (at - begin));
            return 0;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    void *context = zmq_ctx_new();
    if (!strcmp(argv[1], "send"))
        return send_for_ever(context, argv[2], (size_t)atol(argv[3]));
    return receive_for(context, argv[2], atof(argv[3]) / 1000);
}
