/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* limit [unix|tcp] [COUNT] [BATCH]: the throughput of a bare kernel socket with these messages, for comparison.
 *
 * Two processes with one thread each and a socket between them. Messages are framed as in ZMTP. The writer collects
 * BATCH bytes (default 128 KiB) per write; the reader reads as much as is available. There is no queue, no lock, no
 * I/O thread and no high-water mark. */

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tally.h"

#define HEAD 9       /* a long frame: one byte of flags, eight of length */
#define LONG_FRAME 2 /* the flag of a long frame */

static int fail(const char *what) {
    perror(what);
    return 1;
}

static int tcp_pair(int ends[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&at, &length))
        return -1;
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (ends[0] < 0 || connect(ends[0], (struct sockaddr *)&at, length))
        return -1;
    ends[1] = accept(listener, NULL, NULL);
    setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(listener);
    return ends[1] < 0 ? -1 : 0;
}

static int write_fully(int to, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t wrote = write(to, bytes, size);
        if (wrote <= 0)
            return -1;
        bytes += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

static int write_all(int to, unsigned long count, size_t batch) {
    char *gathered = malloc(batch + HEAD + sizeof(Data));
    uint64_t length = htobe64(sizeof(Data));
    size_t fill = 0;
    Data data;
    data_start(&data);
    for (unsigned long index = 1; gathered && index <= count; index++) {
        data_compose(&data, index);
        gathered[fill] = LONG_FRAME;
        memcpy(gathered + fill + 1, &length, sizeof length);
        memcpy(gathered + fill + HEAD, &data, sizeof data);
        fill += HEAD + sizeof data;
        if (fill < batch && index < count)
            continue;
        if (write_fully(to, gathered, fill))
            return fail("write");
        fill = 0;
    }
    free(gathered);
    return 0;
}

static void read_all(int from, size_t batch, Tally *tally) {
    size_t room = batch + HEAD + sizeof(Data), start = 0, end = 0;
    char *gathered = malloc(room);
    Data data;
    for (int more = 1; gathered && more;) {
        if (end - start < HEAD + sizeof data) {
            memmove(gathered, gathered + start, end - start);
            end -= start;
            start = 0;
            ssize_t got = read(from, gathered + end, room - end);
            if (got <= 0)
                break;
            end += (size_t)got;
            continue;
        }
        uint64_t length;
        memcpy(&length, gathered + start + 1, sizeof length);
        memcpy(&data, gathered + start + HEAD, sizeof data);
        more = tally_take(tally, &data, gathered[start] == LONG_FRAME ? (size_t)be64toh(length) : 0);
        start += HEAD + sizeof data;
    }
    free(gathered);
}

int main(int argc, char *argv[]) {
    static Tally tally;
    const char *transport = argc > 1 ? argv[1] : "unix";
    unsigned long count = count_of(argc, argv, 2, N_MESSAGES);
    size_t batch = count_of(argc, argv, 3, 128 * 1024);
    int ends[2];
    if (strcmp(transport, "tcp") == 0 ? tcp_pair(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return fail("limit");

    pid_t writer = fork();
    if (writer == 0) {
        close(ends[1]);
        _exit(write_all(ends[0], count, batch));
    }
    close(ends[0]);
    tally_start(&tally, count);
    read_all(ends[1], batch, &tally);
    int status = 1;
    close(ends[1]);
    waitpid(writer, &status, 0);
    return tally_report(&tally, "limit", transport, "push") && status == 0 ? 0 : 1;
}
