/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Counts the messages that a reader receives, and reports which were lost, out of order or duplicated, or torn. */

#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>

#include "data.h"

typedef struct {
    Data expected;          /* composed for each message, and compared with all its bytes */
    unsigned long count;    /* expected messages */
    unsigned long received; /* intact messages, each counted once */
    unsigned long next;     /* the index expected next */
    unsigned long disordered;
    unsigned long torn;
    double first_s; /* arrival of the first and the last message */
    double last_s;
} Tally;

/* now_s: seconds since an arbitrary moment. cpu_s: seconds of CPU time that this process, with all its threads, and the
 * children it has waited for have used. */
double now_s(void);
double cpu_s(void);

/* The most memory that this process has had resident so far, in KiB. 0 if the kernel does not tell. */
unsigned long peak_kib(void);

/* A number of at least 1 from the command line; fallback if there is no such argument. Exits with 2 on other text. */
unsigned long count_of(int argc, char *argv[], int position, unsigned long fallback);

void tally_start(Tally *tally, unsigned long count);

/* Counts one message of size bytes. Returns 1 while more are expected, 0 after the last index. */
int tally_take(Tally *tally, const Data *data, size_t size);

/* Prints a summary for people, then one line "result key=value ..." for programs:
 *   program transport mode expected messages lost disordered torn seconds us_per_message cpu_s library
 * `seconds` is the time from the first message to the last. Returns 1 if every message arrived once, in order and
 * intact. */
int tally_report(const Tally *tally, const char *program, const char *transport, const char *mode);

/* The file of the loaded libzmq or libpinnace, from /proc/self/maps; "-" if this process has none. */
const char *library_file(void);

#endif
