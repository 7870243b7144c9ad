/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

#define _GNU_SOURCE
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double used_s(int whose) {
    struct rusage used;
    getrusage(whose, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

double cpu_s(void) { return used_s(RUSAGE_SELF) + used_s(RUSAGE_CHILDREN); }

unsigned long peak_kib(void) {
    char line[256];
    unsigned long peak = 0;
    /* getrusage would also count the program that ran in this process before its exec. */
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %lu kB", &peak) != 1)
        continue;
    if (status)
        fclose(status);
    return peak;
}

unsigned long count_of(int argc, char *argv[], int position, unsigned long fallback) {
    if (position >= argc)
        return fallback;
    char *end;
    unsigned long count = strtoul(argv[position], &end, 10);
    if (*end || count == 0 || argv[position][0] == '-') {
        fprintf(stderr, "%s: not a count: %s\n", argv[0], argv[position]);
        exit(2);
    }
    return count;
}

void tally_start(Tally *tally, unsigned long count) {
    memset(tally, 0, sizeof *tally);
    data_start(&tally->expected);
    tally->count = count;
    tally->next = 1;
}

int tally_take(Tally *tally, const Data *data, size_t size) {
    if (tally->first_s == 0)
        tally->first_s = tally->last_s = now_s();
    if (size != sizeof *data) {
        tally->torn++;
        return 1;
    }
    if (data->index < tally->next || data->index > tally->count) {
        tally->disordered++;
        return 1;
    }
    data_compose(&tally->expected, data->index);
    if (memcmp(&tally->expected, data, sizeof *data) == 0)
        tally->received++;
    else
        tally->torn++;
    tally->next = data->index + 1;
    /* Reading the clock every 256 messages is enough: only an aborted run has an inexact end. */
    if (data->index == tally->count || tally->received % 256 == 0)
        tally->last_s = now_s();
    return data->index != tally->count;
}

int tally_report(const Tally *tally, const char *program, const char *transport, const char *mode) {
    double seconds = tally->last_s - tally->first_s;
    double each_us = tally->received ? seconds * 1e6 / (double)tally->received : 0;
    unsigned long whole = tally->received + tally->torn;
    unsigned long lost = whole < tally->count ? tally->count - whole : 0;
    int good = tally->received == tally->count && !tally->disordered && !tally->torn;

    if (tally->received)
        printf("%s: last message received: %s\n", program, tally->expected.text);
    printf("%s (%d): %lu of %lu messages, CPU time %.3f s, elapsed time %.3f s, %.3f us a message\n", program,
           (int)getpid(), tally->received, tally->count, cpu_s(), seconds, each_us);
    if (!good)
        printf("%s: %lu lost, %lu out of order or twice, %lu torn\n", program, lost, tally->disordered, tally->torn);
    printf("result program=%s transport=%s mode=%s expected=%lu messages=%lu lost=%lu disordered=%lu torn=%lu "
           "seconds=%.6f us_per_message=%.4f cpu_s=%.3f library=%s\n",
           program, transport, mode, tally->count, tally->received, lost, tally->disordered, tally->torn, seconds,
           each_us, cpu_s(), library_file());
    fflush(stdout);
    return good;
}

const char *library_file(void) {
    static char line[4352];
    FILE *maps = fopen("/proc/self/maps", "r");
    const char *found = NULL;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (path && (strstr(path, "/libzmq") || strstr(path, "/libpinnace"))) {
            path[strcspn(path, "\n")] = '\0';
            found = path;
        }
    }
    if (maps)
        fclose(maps);
    return found ? found : "-";
}
