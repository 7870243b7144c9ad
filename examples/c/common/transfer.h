/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* A file server (ROUTER) and its client (DEALER), for the models that decide when the client asks and what the server
 * answers.
 *
 * A request is one frame of three 64-bit numbers, little endian: what is asked, offset, size. An answer is one frame:
 * the offset and the size of the whole file, then the bytes of the file. Before it fetches, the client asks for the
 * file's size; therefore it knows afterwards what did not arrive. Chunks of one connection stay in order, so a gap in
 * the offsets is a lost chunk.
 *
 * Neither side waits for ever: a connection that closes ends both, and each message has a deadline. */

#ifndef TRANSFER_H
#define TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#include "transfer_options.h"

/* One side's socket, and a monitor that reports when the connection closes. */
typedef struct {
    const Options *options;
    const char *side;
    void *context, *socket, *monitor;
    int peer_is_gone;
} Side;

typedef struct {
    Side side;
    int file;
    uint64_t file_size;
    unsigned char id[256]; /* routing id of the client that asked last */
    size_t id_size;
} Server;

typedef struct {
    Side side;
    int out; /* -1: the data is discarded */
    uint64_t file_size;
    uint64_t asked;         /* requests for data */
    uint64_t chunks, bytes; /* arrived */
    uint64_t next;          /* end of the last chunk that arrived */
    int ended;              /* the chunk with the file's end has arrived */
    double first_s, last_s; /* the first request; the last chunk's arrival */
    const char *medium;
} Client;

typedef struct {
    Options defaults;
    int client_hwm; /* of the DEALER, in messages */
    void (*answer)(Server *server, uint64_t offset, uint64_t size);
    void (*fetch)(Client *client);
} Model;

/* For `answer`: sends the chunk of at most size bytes at this offset, which must lie within the file. Never waits: at
 * its high-water mark the ROUTER discards the chunk, and this function cannot tell. */
void server_send(Server *server, uint64_t offset, uint64_t size);

/* For `fetch`: asks for the chunk at this offset; receives one chunk. Each returns 1, or 0 if it is pointless to go on:
 * the server is gone, or nothing arrived before the deadline. The reason was printed. */
int client_ask(Client *client, uint64_t offset);
int client_take(Client *client);

/* The whole program. Returns its exit code: 0 if the file arrived completely. */
int transfer_main(const Model *model, int argc, char *argv[]);

#endif
