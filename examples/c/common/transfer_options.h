/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* The command line of fileio1, fileio2 and fileio3. */

#ifndef TRANSFER_OPTIONS_H
#define TRANSFER_OPTIONS_H

#include <stdint.h>

#define CHUNK_MAX (UINT64_C(1) << 30)
#define PIPELINE_MAX 500 /* requests under way: half of a DEALER's default high-water mark */

typedef enum { ROLE_BOTH, ROLE_SERVER, ROLE_CLIENT } Role;

typedef struct {
    const char *program;
    const char *file;     /* NULL in the client's role: only the server reads it */
    const char *endpoint; /* "tcp", "ipc" or an address */
    const char *out;      /* NULL: the client discards the data */
    uint64_t chunk;       /* bytes of the file in one message */
    uint64_t pipeline;    /* requests under way; 0: the model does not limit them */
    int hwm;              /* of the server's ROUTER, in messages; 0: no limit */
    int wait_ms;          /* how long the client waits for the next message */
    Role role;
} Options;

/* Reads the command line. *defaults has the model's program, chunk, pipeline and hwm; hwm is 0, or -1 for the length of
 * the pipeline. Only a pipeline of 2 and more is an option. Prints the reason and exits with 2 if the command line is
 * wrong. */
Options options_parse(const Options *defaults, int argc, char *argv[]);

#endif
