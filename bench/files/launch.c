/* launch PROGRAM [WORD]...: runs a program, and then prints a line that says how long it ran, its CPU time and its peak
 * resident memory. Exits with its status.
 *
 * Linux counts the memory of the process that has started a program into the program's peak. That of this one is small.
 *
 * CPU time includes that of children that the program has waited for. The peak is that of the largest process. */

#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t us_of(struct timeval time) { return (int64_t)time.tv_sec * 1000000 + time.tv_usec; }

int main(int argc, char *argv[]) {
    if (argc < 2) {
        fprintf(stderr, "usage: launch PROGRAM [WORD]...\n");
        return 2;
    }
    int64_t began = now_ns();
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    /* The harness ends the group of both; the program ends first. */
    signal(SIGTERM, SIG_IGN);
    struct rusage usage;
    int status = 0;
    while (wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return 1;
    int64_t took = now_ns() - began;
    printf("took_ns=%" PRId64 " cpu_us=%" PRId64 " peak_kib=%ld\n", took, us_of(usage.ru_utime) + us_of(usage.ru_stime),
           usage.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
