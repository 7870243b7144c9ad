/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* reader [ipc|tcp|ADDRESS] [push|req] [COUNT]: binds, receives COUNT messages and checks every one.
 *
 * In push mode its socket is a PULL. In req mode it is a REP, which answers each message with its index. Exits with 0
 * if every index arrived once, in order and with its full text; otherwise with 1, also after a receive timeout. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "address.h"
#include "medium.h"
#include "tally.h"

#define FIRST_WAIT_MS 60000
#define NEXT_WAIT_MS 10000

int main(int argc, char *argv[]) {
    const char *address = address_to_bind(argc > 1 ? argv[1] : "ipc");
    const char *mode = argc > 2 ? argv[2] : "push";
    unsigned long count = count_of(argc, argv, 3, N_MESSAGES);
    int answers = strcmp(mode, "req") == 0;
    static Tally tally;
    const char *medium = "-";
    Data data;

    void *context = zmq_ctx_new();
    void *reader = zmq_socket(context, answers ? ZMQ_REP : ZMQ_PULL);
    if (!reader)
        die("reader: zmq_socket");
    set_option(reader, ZMQ_RCVTIMEO, FIRST_WAIT_MS);
    if (zmq_bind(reader, address))
        die("reader: zmq_bind");
    printf("reader (%d): started on %s\n", (int)getpid(), address);
    fflush(stdout);

    tally_start(&tally, count);
    for (int more = 1; more;) {
        int size = zmq_recv(reader, &data, sizeof data, 0);
        if (size < 0) {
            fprintf(stderr, "reader: zmq_recv: %s\n", zmq_strerror(zmq_errno()));
            break;
        }
        if (tally.received == 0) {
            set_option(reader, ZMQ_RCVTIMEO, NEXT_WAIT_MS);
            medium = medium_of(reader);
        }
        more = tally_take(&tally, &data, (size_t)size);
        if (answers && zmq_send(reader, &data.index, sizeof data.index, 0) < 0)
            die("reader: zmq_send");
    }

    if (strcmp(medium, "memory") == 0)
        printf("reader: messages came through shared memory\n");
    printf("result medium=%s\n", medium);
    int good = tally_report(&tally, "reader", transport_of(address), mode);
    zmq_close(reader);
    zmq_ctx_term(context);
    return good ? 0 : 1;
}
