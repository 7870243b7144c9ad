/* limit: the limit of the kernel with one copy in each direction, without a messaging library.
 *
 *   limit ideal    tcp|unix size=BYTES count=N batch=BYTES
 *         one thread per side: ZMTP frames, a copy into a batch, one system call per batch, a copy out of it
 *   limit pingpong tcp|unix size=BYTES count=N place=split|one
 *         a bare socket, a message there and back
 *
 * Two processes. Messages have the same numbers as load's, and the same checks. Prints one line of key=value pairs.
 * `ideal` has no queue, no lock, no second thread and no high-water mark: a library with those cannot be expected to be
 * faster.
 */
#define _GNU_SOURCE
#include "load/clock.h"
#include "load/stamp.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEADER_MAX 9 /* RFC 37: flags and eight bytes of length; a short frame has flags and one */
#define FLAG_LONG 2

static size_t size = 8, batch = 65536;
static uint64_t count;
static int writer_fd, reader_fd;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "limit: %s: %s\n", what, errno ? strerror(errno) : "");
    exit(1);
}

static void *new_bytes(size_t bytes)
{
    void *fresh = calloc(1, bytes);
    if (fresh == NULL)
        die("calloc");
    return fresh;
}

static void connect_tcp(void)
{
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, bytes) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &bytes) != 0)
        die("listen");
    writer_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(writer_fd, (struct sockaddr *)&address, bytes) != 0)
        die("connect");
    reader_fd = accept(listener, NULL, NULL);
    setsockopt(writer_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(reader_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(listener);
}

static void connect_unix(void)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        die("socketpair");
    writer_fd = fds[0];
    reader_fd = fds[1];
}

static void write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t wrote = write(fd, data, bytes);
        if (wrote <= 0)
            die("write");
        data += wrote;
        bytes -= (size_t)wrote;
    }
}

static size_t read_some(int fd, char *data, size_t bytes)
{
    ssize_t got = read(fd, data, bytes);
    if (got <= 0)
        die("read");
    return (size_t)got;
}

/* The outgoing batch. A body larger than the room left is split: the batch has a fixed size and stays in the cache. */
static struct {
    char *data;
    size_t used;
} out;

static void put(const char *data, size_t bytes)
{
    while (bytes > 0) {
        size_t room = batch - out.used, piece = bytes < room ? bytes : room;
        memcpy(out.data + out.used, data, piece);
        out.used += piece;
        data += piece;
        bytes -= piece;
        if (out.used == batch) {
            write_all(writer_fd, out.data, batch);
            out.used = 0;
        }
    }
}

static size_t frame_header(char header[HEADER_MAX])
{
    if (size < 256) {
        header[0] = 0;
        header[1] = (char)size;
        return 2;
    }
    uint64_t length = htobe64(size);
    header[0] = FLAG_LONG;
    memcpy(header + 1, &length, sizeof length);
    return HEADER_MAX;
}

static void ideal_writer(void)
{
    char header[HEADER_MAX] = {0}, *body = new_bytes(size);
    size_t header_bytes = frame_header(header);
    out.data = new_bytes(batch);
    for (uint64_t number = 0; number < count; number++) {
        stamp(body, size, number);
        if (batch - out.used > HEADER_MAX + size) {
            memcpy(out.data + out.used, header, HEADER_MAX); /* constant size; the body overwrites the excess */
            memcpy(out.data + out.used + header_bytes, body, size);
            out.used += header_bytes + size;
        } else {
            put(header, header_bytes);
            put(body, size);
        }
    }
    write_all(writer_fd, out.data, out.used);
}

/* The incoming batch: [taken, filled) is unread. */
static struct {
    char *data;
    size_t taken, filled;
} in;

static void take(char *data, size_t bytes)
{
    while (bytes > 0) {
        if (in.taken == in.filled) {
            in.filled = read_some(reader_fd, in.data, batch);
            in.taken = 0;
        }
        size_t there = in.filled - in.taken, piece = bytes < there ? bytes : there;
        memcpy(data, in.data + in.taken, piece);
        in.taken += piece;
        data += piece;
        bytes -= piece;
    }
}

/* Reads a frame's header, which may be split over two batches. Returns the body's length. */
static size_t take_header(void)
{
    char flags, short_length;
    uint64_t length;
    take(&flags, 1);
    if (!(flags & FLAG_LONG)) {
        take(&short_length, 1);
        return (unsigned char)short_length;
    }
    take((char *)&length, sizeof length);
    return be64toh(length);
}

static size_t header_in_place(void)
{
    const char *frame = in.data + in.taken;
    uint64_t length;
    if (!(frame[0] & FLAG_LONG)) {
        in.taken += 2;
        return (unsigned char)frame[1];
    }
    memcpy(&length, frame + 1, sizeof length);
    in.taken += HEADER_MAX;
    return be64toh(length);
}

static double ideal_reader(void)
{
    char *body = new_bytes(size);
    double began_s = 0;
    in.data = new_bytes(batch);
    for (uint64_t number = 0; number < count; number++) {
        bool in_place = in.filled - in.taken >= HEADER_MAX + size;
        size_t length = in_place ? header_in_place() : take_header();
        if (length != size)
            die("a frame of the wrong length");
        if (in_place) {
            memcpy(body, in.data + in.taken, length);
            in.taken += length;
        } else {
            take(body, length);
        }
        if (stamp_read(body) != number || !stamp_whole(body, size))
            die("a wrong number");
        if (number == 0)
            began_s = now_s();
    }
    return now_s() - began_s;
}

static void child(void (*part)(void))
{
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(reader_fd);
    part();
    _exit(0);
}

static void print_end(const char *transport)
{
    int status;
    while (wait(&status) > 0)
        if (status != 0)
            die("the other side failed");
    printf("size=%zu cpu_s=%.6f transport=%s\n", size, cpu_both_s(), transport);
}

static void run_ideal(const char *transport)
{
    child(ideal_writer);
    close(writer_fd); /* so that reads end when the other side ends */
    double took_s = ideal_reader();
    printf("kind=ideal count=%" PRIu64 " batch=%zu seconds=%.6f rate=%.1f ", count, batch, took_s,
           (double)(count - 1) / took_s);
    print_end(transport);
}

static bool split;

static void pin(int side)
{
    cpu_set_t allowed, chosen;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&chosen);
    int skip = split ? side : 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&chosen) == 0; cpu++)
        if (CPU_ISSET(cpu, &allowed) && skip-- == 0)
            CPU_SET(cpu, &chosen);
    if (sched_setaffinity(0, sizeof chosen, &chosen) != 0)
        die("sched_setaffinity");
}

static void read_body(int fd, char *body)
{
    for (size_t got = 0; got < size;)
        got += read_some(fd, body + got, size - got);
}

static void pong(void)
{
    char *body = new_bytes(size);
    pin(1);
    for (uint64_t number = 0; number < count; number++) {
        read_body(writer_fd, body);
        write_all(writer_fd, body, size);
    }
}

static int by_length(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run_pingpong(const char *transport)
{
    double *took_us = new_bytes(count * sizeof *took_us), began_s = now_s();
    char *body = new_bytes(size);
    child(pong);
    close(writer_fd);
    pin(0);
    for (uint64_t number = 0; number < count; number++) {
        stamp(body, size, number);
        double sent_s = now_s();
        write_all(reader_fd, body, size);
        read_body(reader_fd, body);
        took_us[number] = (now_s() - sent_s) * 1e6;
        if (stamp_read(body) != number)
            die("a wrong number");
    }
    double took_s = now_s() - began_s;
    qsort(took_us, count, sizeof *took_us, by_length);
    printf("kind=pingpong count=%" PRIu64 " seconds=%.6f rate=%.1f ", count, took_s, (double)count / took_s);
    printf("p50_us=%.3f p90_us=%.3f p99_us=%.3f max_us=%.1f ", took_us[count / 2], took_us[count * 9 / 10],
           took_us[count * 99 / 100], took_us[count - 1]);
    print_end(transport);
}

int main(int argc, char **argv)
{
    bool ideal = argc > 2 && strcmp(argv[1], "ideal") == 0, pingpong = argc > 2 && strcmp(argv[1], "pingpong") == 0;
    for (int index = 3; index < argc; index++) {
        unsigned long long value = strtoull(strchr(argv[index], '=') ? strchr(argv[index], '=') + 1 : "0", NULL, 10);
        if (strncmp(argv[index], "size=", 5) == 0)
            size = value;
        else if (strncmp(argv[index], "count=", 6) == 0)
            count = value;
        else if (strncmp(argv[index], "batch=", 6) == 0)
            batch = value;
        else if (strcmp(argv[index], "place=split") == 0)
            split = true;
    }
    if ((!ideal && !pingpong) || size < STAMP_BYTES || count < 2 || batch < 2 * HEADER_MAX) {
        fputs("usage: limit ideal|pingpong tcp|unix size=BYTES count=N [batch=BYTES] [place=split|one]\n", stderr);
        return 2;
    }
    if (strcmp(argv[2], "tcp") == 0)
        connect_tcp();
    else
        connect_unix();
    if (ideal)
        run_ideal(argv[2]);
    else
        run_pingpong(argv[2]);
    return 0;
}
