/* ring: a bare ring in shared memory, without a library: the limit with one copy in and one copy out.
 *
 *   ring stream|round size=BYTES count=N wait=spin|block
 *
 * Two processes of one thread each. A record is eight bytes of length and the body; each record is published at once. A
 * side that has to wait polls again (spin), or sets its sleep flag and sleeps (block, futex(2)). Only the numbers are
 * checked, only the ring is bounded, and a side that dies leaves the other waiting.
 */
#define _GNU_SOURCE
#include "../load/clock.h"
#include "../load/stamp.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING (1u << 20)
#define HEAD sizeof(uint64_t)

struct ring {
    _Alignas(128) _Atomic uint64_t sent;
    _Atomic uint32_t writer_sleeps;
    _Alignas(128) _Atomic uint64_t taken;
    _Atomic uint32_t reader_sleeps;
    _Alignas(128) char data[RING];
};

static struct ring *rings; /* one for each direction */
static size_t size = 8;
static uint64_t count;
static bool blocks;

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Waits until `*reached` differs from `was`. Returns its new value. */
static uint64_t await_other(_Atomic uint64_t *reached, uint64_t was, _Atomic uint32_t *sleeps)
{
    for (;;) {
        uint64_t now = atomic_load_explicit(reached, memory_order_acquire);
        if (now != was)
            return now;
        if (!blocks) {
            __builtin_ia32_pause();
            continue;
        }
        atomic_store(sleeps, 1);
        if (atomic_load(reached) == was)
            syscall(SYS_futex, sleeps, FUTEX_WAIT, 1, NULL, NULL, 0);
        atomic_store(sleeps, 0);
    }
}

static void tell_other(_Atomic uint64_t *reached, uint64_t now, _Atomic uint32_t *sleeps)
{
    atomic_store_explicit(reached, now, memory_order_release);
    if (!blocks)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(sleeps, memory_order_relaxed) && atomic_exchange(sleeps, 0))
        syscall(SYS_futex, sleeps, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static size_t record(void) { return (HEAD + size + 7) & ~(size_t)7; }

/* The first position from `at` where a record does not wrap. */
static uint64_t place(uint64_t at) { return RING - at % RING < record() ? at + RING - at % RING : at; }

static void put(struct ring *ring, uint64_t *at, uint64_t *taken, const char *body)
{
    uint64_t begin = place(*at), length = size;
    while (begin + record() - *taken > RING)
        *taken = await_other(&ring->taken, *taken, &ring->writer_sleeps);
    memcpy(ring->data + begin % RING, &length, HEAD);
    memcpy(ring->data + begin % RING + HEAD, body, size);
    *at = begin + record();
    tell_other(&ring->sent, *at, &ring->reader_sleeps);
}

static void take(struct ring *ring, uint64_t *at, uint64_t *sent, char *body)
{
    uint64_t begin = place(*at), length;
    while (*sent <= begin)
        *sent = await_other(&ring->sent, *sent, &ring->reader_sleeps);
    memcpy(&length, ring->data + begin % RING, HEAD);
    memcpy(body, ring->data + begin % RING + HEAD, length <= size ? length : size);
    *at = begin + record();
    tell_other(&ring->taken, *at, &ring->writer_sleeps);
}

static void pin(int side)
{
    cpu_set_t allowed, chosen;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&chosen);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&chosen) == 0; cpu++)
        if (CPU_ISSET(cpu, &allowed) && side-- == 0)
            CPU_SET(cpu, &chosen);
    if (CPU_COUNT(&chosen) > 0 && sched_setaffinity(0, sizeof chosen, &chosen) != 0)
        die("sched_setaffinity");
}

static void other_side(bool streams, char *body)
{
    uint64_t at[2] = {0}, known[2] = {0};
    pin(1);
    for (uint64_t number = 0; number < count; number++) {
        if (streams)
            stamp(body, size, number);
        else
            take(&rings[1], &at[1], &known[1], body);
        put(&rings[0], &at[0], &known[0], body);
    }
}

static double stream(char *body)
{
    uint64_t at = 0, sent = 0;
    double began_s = 0;
    for (uint64_t number = 0; number < count; number++) {
        take(&rings[0], &at, &sent, body);
        if (stamp_read(body) != number || !stamp_whole(body, size))
            die("a wrong number");
        if (number == 0)
            began_s = now_s();
    }
    return now_s() - began_s;
}

static int by_length(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the round trips, in microseconds. */
static double round_trips(char *body)
{
    uint64_t at[2] = {0}, known[2] = {0};
    double *took_us = calloc(count, sizeof *took_us);
    if (took_us == NULL)
        die("calloc");
    for (uint64_t number = 0; number < count; number++) {
        stamp(body, size, number);
        double sent_s = now_s();
        put(&rings[1], &at[1], &known[1], body);
        take(&rings[0], &at[0], &known[0], body);
        took_us[number] = (now_s() - sent_s) * 1e6;
        if (stamp_read(body) != number)
            die("a wrong number");
    }
    qsort(took_us, count, sizeof *took_us, by_length);
    return took_us[count / 2];
}

static int usage(void)
{
    fputs("usage: ring stream|round size=BYTES count=N wait=spin|block\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    bool streams = argc > 1 && strcmp(argv[1], "stream") == 0;
    if (argc < 2 || (!streams && strcmp(argv[1], "round") != 0))
        return usage();
    for (int index = 2; index < argc; index++) {
        if (strncmp(argv[index], "size=", 5) == 0)
            size = strtoull(argv[index] + 5, NULL, 10);
        else if (strncmp(argv[index], "count=", 6) == 0)
            count = strtoull(argv[index] + 6, NULL, 10);
        else if (strcmp(argv[index], "wait=block") == 0)
            blocks = true;
        else if (strcmp(argv[index], "wait=spin") != 0)
            return usage();
    }
    if (count < 2 || size < STAMP_BYTES || size > RING / 4)
        return usage();
    rings = mmap(NULL, 2 * sizeof *rings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *body = calloc(1, size);
    if (rings == MAP_FAILED || body == NULL)
        die("memory");
    pid_t other = fork();
    if (other < 0)
        die("fork");
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        other_side(streams, body);
        _exit(0);
    }
    pin(0);
    double figure = streams ? (double)(count - 1) / stream(body) : round_trips(body);
    int status;
    waitpid(other, &status, 0);
    printf("kind=%s %s=%.3f cpu_s=%.6f\n", argv[1], streams ? "rate" : "p50_us", figure, cpu_both_s());
    return 0;
}
