/* What a port can do at most: writes batches to its output as fast as they are taken, or echoes packets.
 *
 *     bare send MESSAGES OCTETS    packets of messages, each with a length of four octets, until it is killed
 *     bare echo                    each packet comes back
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int put(const char *octets, size_t left)
{
    while (left) {
        ssize_t written = write(1, octets, left);
        if (written <= 0)
            return 0;
        octets += written, left -= (size_t)written;
    }
    return 1;
}

static int get(char *octets, size_t left)
{
    while (left) {
        ssize_t taken = read(0, octets, left);
        if (taken <= 0)
            return 0;
        octets += taken, left -= (size_t)taken;
    }
    return 1;
}

static int echo(void)
{
    static char packet[65536];
    uint32_t length;
    while (get(packet, 4)) {
        memcpy(&length, packet, 4);
        length = ntohl(length);
        if (length > sizeof packet - 4 || !get(packet + 4, length) || !put(packet, length + 4))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    fcntl(1, F_SETPIPE_SZ, 1 << 20);
    if (argc != 4)
        return echo();
    uint32_t messages = (uint32_t)atol(argv[2]), octets = (uint32_t)atol(argv[3]);
    uint32_t length = messages * (octets + 4), number = htonl(length);
    char *packet = calloc(1, length + 4);
    memcpy(packet, &number, 4);
    number = htonl(octets);
    for (uint32_t at = 0; at < messages; at++)
        memcpy(packet + 4 + at * (octets + 4), &number, 4);
    while (put(packet, length + 4))
        ;
    return 0;
}
