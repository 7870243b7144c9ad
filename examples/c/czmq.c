/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* czmq [ipc|tcp|inproc] [COUNT]: the same exchange with CZMQ's high-level sockets, messages and actors.
 *
 * Uses Debian's CZMQ, unchanged; it calls the libzmq.so.5 that the loader finds. The writer is an actor. Exits with 0
 * if every message arrived once, in order and intact. */

#include <czmq.h>

#include "address.h"
#include "tally.h"

#define WAIT_MS 10000

typedef struct {
    const char *address;
    unsigned long count;
} Task;

static void write_all(zsock_t *pipe, void *argument) {
    const Task *task = argument;
    zsock_t *writer = zsock_new(ZMQ_PUSH);
    zsock_set_linger(writer, -1);
    if (zsock_connect(writer, "%s", task->address))
        die("writer: zsock_connect");
    zsock_signal(pipe, 0);

    Data data;
    data_start(&data);
    for (unsigned long index = 1; index <= task->count; index++) {
        data_compose(&data, index);
        zmsg_t *message = zmsg_new();
        zmsg_addstr(message, "data");
        zmsg_addmem(message, &data, sizeof data);
        if (zmsg_send(&message, writer))
            die("writer: zmsg_send");
    }
    zsock_destroy(&writer);
    zstr_free(&(char *){zstr_recv(pipe)}); /* waits for $TERM, which zactor_destroy sends */
}

int main(int argc, char *argv[]) {
    static Tally tally;
    const char *transport = argc > 1 ? argv[1] : "ipc";
    Task task = {address_fresh(transport), count_of(argc, argv, 2, 100000)};

    zsock_t *reader = zsock_new(ZMQ_PULL);
    zsock_set_rcvtimeo(reader, WAIT_MS);
    if (zsock_bind(reader, "%s", task.address) == -1)
        die("reader: zsock_bind");
    zactor_t *writer = zactor_new(write_all, &task);

    tally_start(&tally, task.count);
    for (int more = 1; more;) {
        zmsg_t *message = zmsg_recv(reader);
        if (!message)
            break;
        char *kind = zmsg_popstr(message);
        zframe_t *body = zmsg_first(message);
        if (kind && streq(kind, "data") && body) {
            Data data = {0}; /* the bytes of a frame may not be aligned for a Data: copy them */
            memcpy(&data, zframe_data(body), zframe_size(body) < sizeof data ? zframe_size(body) : sizeof data);
            more = tally_take(&tally, &data, zframe_size(body));
        }
        zstr_free(&kind);
        zmsg_destroy(&message);
    }
    int good = tally_report(&tally, "czmq", transport, "push");
    zactor_destroy(&writer);
    zsock_destroy(&reader);
    address_remove();
    return good ? 0 : 1;
}
