/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

#include "data.h"

#include <string.h>

static const char WORDS[] = "test message ";

void data_start(Data *data) {
    data->index = 0;
    for (size_t i = 0; i < sizeof data->text; i++)
        data->text[i] = (char)('a' + i % 26);
    memcpy(data->text, WORDS, sizeof WORDS);
}

void data_compose(Data *data, unsigned long index) {
    char digits[24];
    char *first = digits + sizeof digits;
    *--first = '\0';
    unsigned long rest = index;
    do
        *--first = (char)('0' + rest % 10);
    while (rest /= 10);
    memcpy(data->text + sizeof WORDS - 1, first, (size_t)(digits + sizeof digits - first));
    data->index = index;
}
