/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* threads [COUNT]: reader and writer as two threads of one process, over inproc. */

#include <pthread.h>
#include <stdio.h>
#include <zmq.h>

#include "address.h"
#include "tally.h"

typedef struct {
    void *context;
    unsigned long count;
} Task;

static void *write_all(void *argument) {
    const Task *task = argument;
    void *writer = zmq_socket(task->context, ZMQ_PUSH);
    Data data;
    if (!writer || zmq_connect(writer, "inproc://threads"))
        die("writer");
    data_start(&data);
    for (unsigned long index = 1; index <= task->count; index++) {
        data_compose(&data, index);
        if (zmq_send(writer, &data, sizeof data, 0) < 0)
            die("writer: zmq_send");
    }
    zmq_close(writer);
    return NULL;
}

int main(int argc, char *argv[]) {
    static Tally tally;
    Task task = {zmq_ctx_new(), count_of(argc, argv, 1, N_MESSAGES)};
    pthread_t thread;
    Data data;

    void *reader = zmq_socket(task.context, ZMQ_PULL);
    if (!reader || zmq_bind(reader, "inproc://threads"))
        die("reader");
    set_option(reader, ZMQ_RCVTIMEO, 10000);
    if (pthread_create(&thread, NULL, write_all, &task))
        die("pthread_create");

    tally_start(&tally, task.count);
    for (int size = 0, more = 1; more && (size = zmq_recv(reader, &data, sizeof data, 0)) >= 0;)
        more = tally_take(&tally, &data, (size_t)size);
    int good = tally_report(&tally, "threads", "inproc", "push");
    if (!good)
        return 1;
    pthread_join(thread, NULL);
    zmq_close(reader);
    zmq_ctx_term(task.context);
    return 0;
}
