/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* The message that all programs here exchange: a number and a text, 1032 bytes. */

#ifndef DATA_H
#define DATA_H

#define N_MESSAGES 2000000UL

typedef struct {
    unsigned long index; /* 1, 2, 3, ... */
    char text[1024];
} Data;

/* Makes *data ready for its first data_compose. */
void data_start(Data *data);

/* Writes the message of this index, which must be larger than all before it. The text names the index, and a fixed
 * pattern follows the text, so all 1032 bytes are determined by the index. */
void data_compose(Data *data, unsigned long index);

#endif
