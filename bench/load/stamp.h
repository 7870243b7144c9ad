/* stamp: a message's number, written where a loss, a repetition, a swap or a tear must show.
 *
 * The number stands in the first eight bytes and, from 16 bytes on, in the last eight too. A message of the
 * wrong length, out of turn, or put together from two halves does not check.
 * Shared by load.c and limit.c, so that both do the same work per message.
 */
#ifndef PINNACE_BENCH_STAMP_H
#define PINNACE_BENCH_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STAMP_BYTES sizeof(uint64_t)

/* Precedes the numbered messages while the two sides find each other; never counted. */
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

/* Whether both ends of the body carry the same number. */
static inline bool stamp_whole(const char *body, size_t size)
{
    return size < 2 * STAMP_BYTES || memcmp(body, body + size - STAMP_BYTES, STAMP_BYTES) == 0;
}

#endif
