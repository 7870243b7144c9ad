/* clock: elapsed time and CPU time in seconds, for load and limit. */
#ifndef PINNACE_BENCH_CLOCK_H
#define PINNACE_BENCH_CLOCK_H

#include <sys/resource.h>
#include <time.h>

static inline double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static inline double cpu_of_s(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* CPU time of this process and of the children that it has waited for. */
static inline double cpu_both_s(void) { return cpu_of_s(RUSAGE_SELF) + cpu_of_s(RUSAGE_CHILDREN); }

#endif
