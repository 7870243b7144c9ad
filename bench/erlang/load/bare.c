/* What a port can do at most: writes batches to its output as fast as they are taken, or passes on what comes.
 *
 *     bare send MESSAGES OCTETS    packets of messages, each with a length of four octets, until it is killed
 *     bare pass FROM TO            from its input to the pipe TO, and from the pipe FROM to its output
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int put(int to, const char *octets, size_t left)
{
    while (left) {
        ssize_t written = write(to, octets, left);
        if (written <= 0)
            return 0;
        octets += written, left -= (size_t)written;
    }
    return 1;
}

static int pass(const char *from, const char *to)
{
    static char octets[65536];
    /* Opened both ways, a pipe with a name does not wait for its other end. */
    int other_in = open(from, O_RDWR), other_out = open(to, O_RDWR);
    struct pollfd fds[] = {{.fd = 0, .events = POLLIN}, {.fd = other_in, .events = POLLIN}};
    int outputs[] = {other_out, 1};
    while (poll(fds, 2, -1) > 0) {
        for (int side = 0; side < 2; side++) {
            if (!fds[side].revents)
                continue;
            ssize_t taken = read(fds[side].fd, octets, sizeof octets);
            if (taken <= 0 || !put(outputs[side], octets, (size_t)taken))
                return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    fcntl(1, F_SETPIPE_SZ, 1 << 20);
    if (argc != 4)
        return 2;
    if (!strcmp(argv[1], "pass"))
        return pass(argv[2], argv[3]);
    uint32_t messages = (uint32_t)atol(argv[2]), octets = (uint32_t)atol(argv[3]);
    uint32_t length = messages * (octets + 4), number = htonl(length);
    char *packet = calloc(1, length + 4);
    memcpy(packet, &number, 4);
    number = htonl(octets);
    for (uint32_t at = 0; at < messages; at++)
        memcpy(packet + 4 + at * (octets + 4), &number, 4);
    while (put(1, packet, length + 4))
        ;
    return 0;
}
