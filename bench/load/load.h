/* load.h: shared by the workloads. ../load.c describes the program. */
#ifndef PINNACE_BENCH_LOAD_H
#define PINNACE_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum pattern { PATTERN_PUSH, PATTERN_PUB, PATTERN_REQ };

/* Where the two sides run: as the kernel schedules them, on a processor each, or both on one. */
enum place { PLACE_FREE, PLACE_SPLIT, PLACE_ONE };

/* A fault that the sending side injects, to test the checks. */
enum fault { FAULT_NONE, FAULT_WRONG, FAULT_TORN, FAULT_LOST, FAULT_TWICE };

struct plan {
    enum pattern pattern;
    const char *pattern_name;
    const char *endpoint; /* to bind; the other side connects to the resolved endpoint if it has a wildcard */
    size_t size;          /* bytes of a message, 8 or more */
    uint64_t count;       /* messages, round trips or connections */
    unsigned peers;       /* receivers of a fan-out, connections of turns */
    enum place place;
    bool curve; /* secured by CURVE; the receiver is the server */
    bool never_spins; /* a waiting thread sleeps at once */
    unsigned watch_ms; /* interval at which a thread reads the statistics of each socket; 0: never */
    enum fault fault;
    uint64_t fault_at;
};

/* The workloads; each prints its result line and returns the exit status. */
int run_stream(const struct plan *plan);
int run_tail(const struct plan *plan);
int run_round(const struct plan *plan);
int run_fan(const struct plan *plan);
int run_turns(const struct plan *plan);
int run_memory(const struct plan *plan);

/* process.c: the two sides, and the pipes between them */

#define ENDPOINT_BYTES 256

/* A one-way pipe for signals to proceed and for endpoints. */
struct gate {
    int from_fd, to_fd;
};

void gate_open(struct gate *gate);
void gate_say(struct gate *gate, const void *data, size_t bytes);
void gate_hear(struct gate *gate, void *data, size_t bytes);
bool gate_heard(struct gate *gate, int timeout_ms); /* true if there is something to read */

/* The other side of a workload: a process, or with inproc a thread with the same context. */
typedef void part_fn(const struct plan *plan, void *ctx, unsigned index);

void *other_start(const struct plan *plan, part_fn *part); /* returns this side's context */
void other_wait(void);
void fork_part(const struct plan *plan, part_fn *part, unsigned index);

void print_tail_of_line(const struct plan *plan);

_Noreturn void die(const char *what);             /* the library or the system refused something */
_Noreturn void fail(const char *format, ...);     /* a message was lost, repeated, swapped or torn */

/* sockets.c: thin wrappers that end the program on an error */

enum end { SENDING, RECEIVING };

void *open_socket(const struct plan *plan, void *ctx, enum end end);
void bind_socket(void *socket, const char *endpoint, char resolved[ENDPOINT_BYTES]);
void connect_socket(void *socket, const char *endpoint);
void set_option(void *socket, int option, int value);
void send_body(void *socket, const char *body, size_t size);
bool receive_body(void *socket, char *body, size_t size); /* false after a timeout (RCVTIMEO) */
char *new_body(size_t size);
uint64_t sum_to(uint64_t count, unsigned power); /* of all numbers below count, or of their squares; modulo 2^64 */
void send_numbered(const struct plan *plan, void *socket, char *body);
void expect_number(const char *body, size_t size, uint64_t want);

#endif
