/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Counts what a reader gets and says what is wrong with it: lost, out of order or more than once, torn. */

#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>

#include "data.h"

typedef struct {
    Data expected;          /* composed again for each message, and compared with it as a whole */
    unsigned long count;    /* how many there should be */
    unsigned long received; /* whole ones, each counted once */
    unsigned long next;     /* the index that comes next when all is well */
    unsigned long disordered;
    unsigned long torn;
    double first_s; /* when the first and the last message came */
    double last_s;
} Tally;

/* Seconds from an arbitrary moment; seconds of processor time that this process, with all its threads, and the
 * children it has waited for have used. */
double now_s(void);
double cpu_s(void);

/* A number of at least 1 from the command line; fallback without an argument. Exits with 2 on anything else. */
unsigned long count_of(int argc, char *argv[], int position, unsigned long fallback);

void tally_start(Tally *tally, unsigned long count);

/* Takes one message of size bytes. Returns 1 while more are to come, 0 after the one with the last index. */
int tally_take(Tally *tally, const Data *data, size_t size);

/* Prints for people, then one line "result key=value ..." for programs:
 *   program transport mode expected messages lost disordered torn seconds us_per_message cpu_s library
 * seconds run from the first message to the last one. Returns 1 when every message came once, in order and whole. */
int tally_report(const Tally *tally, const char *program, const char *transport, const char *mode);

/* The file of the loaded libzmq or libpinnace, from /proc/self/maps; "-" when this process has none. */
const char *library_file(void);

#endif
