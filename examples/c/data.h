/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* What every program here exchanges: a number and a text, 1032 bytes. */

#ifndef DATA_H
#define DATA_H

#define N_MESSAGES 2000000UL

typedef struct {
    unsigned long index; /* 1, 2, 3, ... */
    char text[1024];
} Data;

/* Makes *data ready for its first data_compose. */
void data_start(Data *data);

/* Writes the message of this index, larger than any before it: the text names the index, and the bytes behind the
 * text are a fixed pattern, so that whoever knows the index knows all 1032 bytes. */
void data_compose(Data *data, unsigned long index);

#endif
