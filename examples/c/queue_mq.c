/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* queue_mq [COUNT]: the same messages between two processes over a POSIX message queue, for comparison.
 *
 * The queue has the largest depth that the system allows an unprivileged user. */

#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tally.h"

#define WAIT_S 10

static struct timespec deadline(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += WAIT_S;
    return t;
}

static long deepest(void) {
    long depth = 10;
    FILE *limit = fopen("/proc/sys/fs/mqueue/msg_max", "r");
    if (limit) {
        if (fscanf(limit, "%ld", &depth) != 1)
            depth = 10;
        fclose(limit);
    }
    return depth;
}

static int write_all(mqd_t queue, unsigned long count) {
    Data data;
    data_start(&data);
    struct timespec until = deadline();
    for (unsigned long index = 1; index <= count; index++) {
        data_compose(&data, index);
        if (index % 1024 == 0)
            until = deadline();
        if (mq_timedsend(queue, (const char *)&data, sizeof data, 0, &until)) {
            perror("mq_timedsend");
            return 1;
        }
    }
    return 0;
}

int main(int argc, char *argv[]) {
    static Tally tally;
    unsigned long count = count_of(argc, argv, 1, N_MESSAGES);
    struct mq_attr shape = {.mq_maxmsg = deepest(), .mq_msgsize = sizeof(Data)};
    char name[64];
    Data data;

    snprintf(name, sizeof name, "/pinnace-example-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &shape);
    if (queue == (mqd_t)-1) {
        perror("mq_open");
        return 1;
    }
    mq_unlink(name);
    pid_t writer = fork();
    if (writer == 0)
        _exit(write_all(queue, count));

    tally_start(&tally, count);
    struct timespec until = deadline();
    for (int more = 1; more;) {
        if (tally.received % 1024 == 0)
            until = deadline();
        ssize_t size = mq_timedreceive(queue, (char *)&data, sizeof data, NULL, &until);
        if (size < 0) {
            perror("mq_timedreceive");
            break;
        }
        more = tally_take(&tally, &data, (size_t)size);
    }
    int status = 1;
    waitpid(writer, &status, 0);
    return tally_report(&tally, "queue_mq", "mq", "push") && status == 0 ? 0 : 1;
}
