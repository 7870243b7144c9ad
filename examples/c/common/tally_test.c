/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Tests the tally itself: it must detect a message that is missing, duplicated, out of order, truncated or altered. */

#include <stdio.h>
#include <string.h>

#include "tally.h"

static Data messages[6];

/* Feeds the indices, up to a 0, and compares the tally's counts with the expected ones. */
static int judged(const char *what, const unsigned *indices, unsigned long received, unsigned long disordered) {
    static Tally tally;
    tally_start(&tally, 5);
    for (int i = 0; indices[i]; i++)
        tally_take(&tally, &messages[indices[i]], sizeof(Data));
    int good = received == 5 && disordered == 0;
    if (tally.received == received && tally.disordered == disordered && tally_report(&tally, what, "-", "-") == good)
        return 1;
    printf("%s: %lu received, %lu disordered\n", what, tally.received, tally.disordered);
    return 0;
}

static int torn_is_seen(void) {
    static Tally tally;
    Data bad = messages[1];
    bad.text[1023] ^= 1;
    tally_start(&tally, 5);
    tally_take(&tally, &bad, sizeof bad);
    tally_take(&tally, &messages[2], sizeof(Data) - 1);
    return tally.torn == 2 && tally.received == 0 && !tally_report(&tally, "torn", "-", "-");
}

int main(void) {
    Data data;
    data_start(&data);
    for (unsigned long i = 1; i <= 5; i++) {
        data_compose(&data, i);
        messages[i] = data;
    }
    int good = judged("all", (unsigned[]){1, 2, 3, 4, 5, 0}, 5, 0) &
               judged("missing", (unsigned[]){1, 2, 4, 5, 0}, 4, 0) &
               judged("last missing", (unsigned[]){1, 2, 3, 4, 0}, 4, 0) &
               judged("twice", (unsigned[]){1, 2, 2, 3, 4, 5, 0}, 5, 1) &
               judged("swapped", (unsigned[]){1, 3, 2, 4, 5, 0}, 4, 1) & torn_is_seen();
    data_compose(&data, 1234567890);
    good &= strcmp(data.text, "test message 1234567890") == 0 && data.index == 1234567890;
    puts(good ? "the tally sees all" : "the tally is blind");
    return good ? 0 : 1;
}
