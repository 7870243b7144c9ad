/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* queue_udp [COUNT]: the same messages between two processes as UDP datagrams over the loopback, for comparison.
 *
 * UDP has no back-pressure, so datagrams are lost when the reader's buffer is full. They are counted, and do not make
 * this program fail. Messages out of order and torn messages do. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tally.h"

static int write_all(const struct sockaddr_in *to, unsigned long count) {
    int writer = socket(AF_INET, SOCK_DGRAM, 0);
    Data data;
    data_start(&data);
    for (unsigned long index = 1; index <= count; index++) {
        data_compose(&data, index);
        if (sendto(writer, &data, sizeof data, 0, (const struct sockaddr *)to, sizeof *to) < 0) {
            perror("sendto");
            return 1;
        }
    }
    return 0;
}

/* Reads datagrams until the last index arrived, or until the writer's end of the pipe is closed and nothing is left. */
static void read_all(int reader, int writer_alive, Tally *tally) {
    struct pollfd events[2] = {{.fd = reader, .events = POLLIN}, {.fd = writer_alive, .events = POLLIN}};
    Data data;
    for (int more = 1; more;) {
        ssize_t size = recv(reader, &data, sizeof data, MSG_DONTWAIT);
        if (size >= 0) {
            more = tally_take(tally, &data, (size_t)size);
            continue;
        }
        if (errno != EAGAIN || poll(events, 2, 10000) <= 0)
            return;
        if (events[1].revents && !events[0].revents)
            return;
    }
}

int main(int argc, char *argv[]) {
    static Tally tally;
    unsigned long count = count_of(argc, argv, 1, N_MESSAGES);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int alive[2];

    int reader = socket(AF_INET, SOCK_DGRAM, 0);
    if (reader < 0 || bind(reader, (struct sockaddr *)&at, length) ||
        getsockname(reader, (struct sockaddr *)&at, &length) || pipe(alive)) {
        perror("queue_udp");
        return 1;
    }
    pid_t writer = fork();
    if (writer == 0)
        _exit(write_all(&at, count));
    close(alive[1]);

    tally_start(&tally, count);
    read_all(reader, alive[0], &tally);
    int status = 1;
    waitpid(writer, &status, 0);
    tally_report(&tally, "queue_udp", "udp", "push");
    return status == 0 && tally.received > 0 && !tally.disordered && !tally.torn ? 0 : 1;
}
