/* stamp: a message's number, placed so that lost, repeated, swapped and torn messages are detected.
 *
 * The number is in the first eight bytes and, in messages of at least 16 bytes, in the last eight too. A message of the
 * wrong length, out of order, or composed of two halves fails the check.
 * Shared by load.c and limit.c, so that both do the same work per message.
 */
#ifndef PINNACE_BENCH_STAMP_H
#define PINNACE_BENCH_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STAMP_BYTES sizeof(uint64_t)

/* The number of messages that are sent before the others, until the sides are connected; not counted. */
#define HELLO UINT64_MAX

static inline void stamp(char *body, size_t size, uint64_t number)
{
    memcpy(body, &number, STAMP_BYTES);
    if (size >= 2 * STAMP_BYTES)
        memcpy(body + size - STAMP_BYTES, &number, STAMP_BYTES);
}

static inline uint64_t stamp_read(const char *body)
{
    uint64_t number;
    memcpy(&number, body, STAMP_BYTES);
    return number;
}

/* True if both ends of the body have the same number. */
static inline bool stamp_whole(const char *body, size_t size)
{
    return size < 2 * STAMP_BYTES || memcmp(body, body + size - STAMP_BYTES, STAMP_BYTES) == 0;
}

#endif
