/* process: the two sides of a workload, their processors, and the pipes between them. */
#define _GNU_SOURCE
#include "load.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

_Noreturn void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

_Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(3); /* any thread may call this; a failed run needs no orderly shutdown */
}

/* Prints the library file that the loader found; the caller checks that it is the intended one. */
void print_tail_of_line(const struct plan *plan)
{
    int major, minor, patch;
    Dl_info info;
    zmq_version(&major, &minor, &patch);
    void *symbol = dlsym(RTLD_DEFAULT, "zmq_version");
    bool known = symbol != NULL && dladdr(symbol, &info) != 0;
    printf("pattern=%s size=%zu version=%d.%d.%d lib=%s\n", plan->pattern_name, plan->size, major, minor, patch,
           known ? info.dli_fname : "?");
}

/* Chooses among the processors that this process may use, so a cpuset or taskset stays in force. */
static void pin(enum place place, unsigned side)
{
    if (place == PLACE_FREE)
        return;
    cpu_set_t allowed, chosen;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        die("sched_getaffinity");
    unsigned skip = place == PLACE_SPLIT ? side : 0;
    CPU_ZERO(&chosen);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&chosen) == 0; cpu++)
        if (CPU_ISSET(cpu, &allowed) && skip-- == 0)
            CPU_SET(cpu, &chosen);
    if (CPU_COUNT(&chosen) == 0)
        fail("place=split wants two processors");
    if (sched_setaffinity(0, sizeof chosen, &chosen) != 0)
        die("sched_setaffinity");
}

void gate_open(struct gate *gate)
{
    int fds[2];
    if (pipe(fds) != 0)
        die("pipe");
    gate->from_fd = fds[0];
    gate->to_fd = fds[1];
}

void gate_say(struct gate *gate, const void *data, size_t bytes)
{
    if (write(gate->to_fd, data, bytes) != (ssize_t)bytes)
        die("gate");
}

void gate_hear(struct gate *gate, void *data, size_t bytes)
{
    ssize_t got;
    while ((got = read(gate->from_fd, data, bytes)) < 0 && errno == EINTR)
        ;
    if (got != (ssize_t)bytes)
        die("gate");
}

bool gate_heard(struct gate *gate, int timeout_ms)
{
    struct pollfd wait = {.fd = gate->from_fd, .events = POLLIN};
    return poll(&wait, 1, timeout_ms) > 0;
}

/* If a child fails, this process exits too: it would otherwise wait for the child for ever. */
static void on_child(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    if (info->si_code != CLD_EXITED || info->si_status != 0)
        _exit(info->si_code == CLD_EXITED ? info->si_status : 1);
}

void fork_part(const struct plan *plan, part_fn *part, unsigned index)
{
    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP};
    sigaction(SIGCHLD, &action, NULL);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(plan->place, 1);
    void *ctx = zmq_ctx_new();
    if (ctx == NULL)
        die("zmq_ctx_new");
    part(plan, ctx, index);
    zmq_ctx_term(ctx);
    _exit(0);
}

static struct {
    const struct plan *plan;
    part_fn *part;
    void *ctx;
    pthread_t thread;
    bool is_thread;
} other;

static void *thread_main(void *unused)
{
    (void)unused;
    other.part(other.plan, other.ctx, 0);
    return NULL;
}

void *other_start(const struct plan *plan, part_fn *part)
{
    other.plan = plan;
    other.part = part;
    other.is_thread = strncmp(plan->endpoint, "inproc:", 7) == 0;
    if (!other.is_thread)
        fork_part(plan, part, 0); /* before this side's context has threads */
    pin(plan->place, 0);
    other.ctx = zmq_ctx_new();
    if (other.ctx == NULL)
        die("zmq_ctx_new");
    if (other.is_thread && pthread_create(&other.thread, NULL, thread_main, NULL) != 0)
        die("pthread_create");
    return other.ctx;
}

void other_wait(void)
{
    if (other.is_thread)
        pthread_join(other.thread, NULL);
    else
        while (wait(NULL) > 0 || errno == EINTR)
            ;
}
