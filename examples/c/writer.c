/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* writer [ipc|tcp|ADDRESS] [push|req] [COUNT]: connects and sends COUNT messages.
 *
 * It closes its socket after the last send; zmq_ctx_term then waits until everything is delivered. In req mode it waits
 * for the answer to each message and checks it. Exits with 0 on success. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "address.h"
#include "tally.h"

int main(int argc, char *argv[]) {
    const char *address = address_to_connect(argc > 1 ? argv[1] : "ipc");
    const char *mode = argc > 2 ? argv[2] : "push";
    unsigned long count = count_of(argc, argv, 3, N_MESSAGES);
    int asks = strcmp(mode, "req") == 0;
    Data data;

    void *context = zmq_ctx_new();
    void *writer = zmq_socket(context, asks ? ZMQ_REQ : ZMQ_PUSH);
    if (!writer)
        die("writer: zmq_socket");
    if (zmq_connect(writer, address))
        die("writer: zmq_connect");
    printf("writer (%d): started on %s\n", (int)getpid(), address);
    fflush(stdout);

    data_start(&data);
    for (unsigned long index = 1; index <= count; index++) {
        data_compose(&data, index);
        if (zmq_send(writer, &data, sizeof data, 0) < 0)
            die("writer: zmq_send");
        unsigned long answer = 0;
        if (!asks)
            continue;
        if (zmq_recv(writer, &answer, sizeof answer, 0) < 0)
            die("writer: zmq_recv");
        if (answer != index) {
            fprintf(stderr, "writer: the answer to %lu was %lu\n", index, answer);
            return 1;
        }
    }

    printf("writer (%d): done (text=%s index=%lu)\n", (int)getpid(), data.text, data.index);
    zmq_close(writer);
    return zmq_ctx_term(context) ? 1 : 0;
}
