/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* processes [ipc|tcp] [push|req] [COUNT]: starts a reader and a writer, each a process of its own, and waits for both.
 *
 * Reader and writer are the same programs for each transport; only the address differs. Exits with 0 if both succeeded.
 * A "result" line gives the total CPU time of the three processes. */

#define _GNU_SOURCE
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "tally.h"

#define GRACE_S 20 /* how long the second child may run on once the first has ended */

static sigset_t outer_mask;

static pid_t start(const char *program, const char *address, const char *mode, const char *count) {
    char folder[PATH_MAX], path[PATH_MAX + 16];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length < 0)
        return -1;
    folder[length] = '\0';
    snprintf(path, sizeof path, "%s/%s", dirname(folder), program);

    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &outer_mask, NULL);
        execl(path, program, address, mode, count, (char *)NULL);
        perror(path);
        _exit(127);
    }
    printf("parent (%d): child %d runs %s\n", (int)getpid(), (int)child, program);
    fflush(stdout);
    return child;
}

/* Waits for a child to end. Returns its pid, or 0 after timeout_s seconds (negative: no limit). */
static pid_t next_end(const sigset_t *child_signal, double timeout_s, int *status) {
    double deadline = now_s() + timeout_s;
    for (;;) {
        pid_t ended = waitpid(-1, status, WNOHANG);
        if (ended != 0)
            return ended;
        double left = timeout_s < 0 ? 3600 : deadline - now_s();
        if (left <= 0)
            return 0;
        struct timespec wait = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
        sigtimedwait(child_signal, NULL, &wait);
    }
}

/* Returns 1 if both children succeeded. */
static int wait_for_both(pid_t children[2], const sigset_t *child_signal) {
    int good = 1;
    for (int ended = 0; ended < 2; ended++) {
        int status = 0;
        pid_t child = next_end(child_signal, ended ? GRACE_S : -1, &status);
        if (child == 0) {
            fprintf(stderr, "parent (%d): a child is stuck\n", (int)getpid());
            status = 1;
        } else {
            printf("parent (%d): child %d ended (%d)\n", (int)getpid(), (int)child, status);
        }
        children[0] = children[0] == child ? 0 : children[0];
        children[1] = children[1] == child ? 0 : children[1];
        if (status == 0)
            continue;
        good = 0;
        for (int i = 0; i < 2; i++)
            if (children[i] > 0)
                kill(children[i], SIGKILL);
    }
    return good;
}

int main(int argc, char *argv[]) {
    const char *transport = argc > 1 ? argv[1] : "ipc";
    const char *mode = argc > 2 ? argv[2] : "push";
    char count[32];
    if (strcmp(mode, "push") && strcmp(mode, "req")) {
        fprintf(stderr, "usage: %s [ipc|tcp] [push|req] [COUNT]\n", argv[0]);
        return 2;
    }
    snprintf(count, sizeof count, "%lu", count_of(argc, argv, 3, N_MESSAGES));
    const char *address = address_fresh(transport);

    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signal, &outer_mask);

    pid_t children[2] = {start("reader", address, mode, count), start("writer", address, mode, count)};
    int good = children[0] > 0 && children[1] > 0;
    printf("parent (%d): waiting for both\n", (int)getpid());
    fflush(stdout);
    good = wait_for_both(children, &child_signal) && good;
    address_remove();

    printf("result program=processes transport=%s mode=%s expected=%s cpu_s=%.3f good=%d\n", transport, mode, count,
           cpu_s(), good);
    return good ? 0 : 1;
}
