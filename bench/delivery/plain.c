/* libzmq's PUSH and PULL, without any guarantee, in cycles of messages with a pause after each, from one process to
   another.

   plain SIZE COUNT CYCLES PAUSE_MS

   Prints cycles_ns=...: from before the first send of a cycle until the other process has received the last message
   (CLOCK_MONOTONIC, which all processes of a machine share). */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

static void expect(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "plain: %s\n", what);
        exit(1);
    }
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

static void pull(int pipe, size_t size, uint64_t count)
{
    void *socket = zmq_socket(zmq_ctx_new(), ZMQ_PULL);
    char endpoint[64] = "";
    size_t length = sizeof endpoint;
    expect(zmq_bind(socket, "tcp://127.0.0.1:*") == 0, "bind");
    expect(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &length) == 0, "endpoint");
    expect(write(pipe, endpoint, sizeof endpoint) == sizeof endpoint, "pipe");
    for (uint64_t expected = 1;; expected++) {
        zmq_msg_t message;
        uint64_t number;
        zmq_msg_init(&message);
        expect(zmq_msg_recv(&message, socket, 0) == (int) size, "a message of the size");
        memcpy(&number, zmq_msg_data(&message), sizeof number);
        expect(number == expected, "none is missing, twice or out of order");
        zmq_msg_close(&message);
        if (expected % count == 0) {
            uint64_t time = now_ns();
            expect(write(pipe, &time, sizeof time) == sizeof time, "pipe");
        }
    }
}

static void push(int pipe, size_t size, uint64_t count, int cycles, int pause_ms)
{
    void *socket = zmq_socket(zmq_ctx_new(), ZMQ_PUSH);
    char endpoint[64], *body = malloc(size);
    uint64_t number = 0, end;
    expect(body != NULL, "memory");
    memset(body, '.', size);
    expect(read(pipe, endpoint, sizeof endpoint) == sizeof endpoint, "pipe");
    expect(zmq_connect(socket, endpoint) == 0, "connect");
    for (int cycle = 0; cycle < cycles; cycle++) {
        uint64_t begin = now_ns();
        for (uint64_t sent = 0; sent < count; sent++) {
            number++;
            memcpy(body, &number, sizeof number);
            expect(zmq_send(socket, body, size, 0) == (int) size, "send");
        }
        expect(read(pipe, &end, sizeof end) == sizeof end, "pipe");
        printf("%s%" PRIu64, cycle == 0 ? "cycles_ns=" : ",", end - begin);
        nanosleep(&(struct timespec){pause_ms / 1000, pause_ms % 1000 * 1000000L}, NULL);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    int ends[2];
    expect(argc == 5, "SIZE COUNT CYCLES PAUSE_MS");
    size_t size = (size_t) atol(argv[1]);
    uint64_t count = (uint64_t) atol(argv[2]);
    expect(size >= sizeof(uint64_t) && pipe(ends) == 0, "a size of 8 at least");
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        pull(ends[1], size, count);
    }
    close(ends[1]);
    push(ends[0], size, count, atoi(argv[3]), atoi(argv[4]));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
