/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* routerdealer [inproc|ipc|tcp] [COUNT]: four clients (DEALER, each in a thread) send COUNT requests each to one server
 * (ROUTER). Unlike REQ, they need not wait for each answer.
 *
 * The server sends every request back to the routing id that it arrived with. Exits with 0 if each client got all its
 * own answers, in order, and no others. */

#include <pthread.h>
#include <stdio.h>
#include <zmq.h>

#include "address.h"
#include "tally.h"

#define CLIENTS 4
#define WINDOW 100 /* outstanding requests of a client: fewer than any high-water mark */
#define WAIT_MS 10000

typedef struct {
    unsigned long client;
    unsigned long number;
} Request;

typedef struct {
    void *context;
    const char *address;
    unsigned long client, count, answered;
} Client;

static void *ask(void *argument) {
    Client *self = argument;
    void *dealer = zmq_socket(self->context, ZMQ_DEALER);
    set_option(dealer, ZMQ_RCVTIMEO, WAIT_MS);
    if (zmq_connect(dealer, self->address))
        die("client: zmq_connect");

    unsigned long sent = 0;
    while (self->answered < self->count) {
        while (sent < self->count && sent - self->answered < WINDOW) {
            Request request = {self->client, ++sent};
            if (zmq_send(dealer, &request, sizeof request, 0) < 0)
                die("client: zmq_send");
        }
        Request answer;
        if (zmq_recv(dealer, &answer, sizeof answer, 0) != sizeof answer || answer.client != self->client ||
            answer.number != self->answered + 1)
            break;
        self->answered++;
    }
    zmq_close(dealer);
    return NULL;
}

/* Answers count requests. Returns 1 if all succeeded. */
static int serve(void *router, unsigned long count) {
    for (; count > 0; count--) {
        char id[256];
        Request request;
        int id_size = zmq_recv(router, id, sizeof id, 0);
        if (id_size < 0 || zmq_recv(router, &request, sizeof request, 0) != sizeof request)
            return 0;
        if (zmq_send(router, id, (size_t)id_size, ZMQ_SNDMORE) < 0 ||
            zmq_send(router, &request, sizeof request, 0) < 0)
            return 0;
    }
    return 1;
}

int main(int argc, char *argv[]) {
    const char *transport = argc > 1 ? argv[1] : "tcp";
    const char *address = address_fresh(transport);
    unsigned long count = count_of(argc, argv, 2, 10000), answered = 0;
    Client clients[CLIENTS];
    pthread_t threads[CLIENTS];

    void *context = zmq_ctx_new();
    void *router = zmq_socket(context, ZMQ_ROUTER);
    set_option(router, ZMQ_RCVTIMEO, WAIT_MS);
    set_option(router, ZMQ_ROUTER_MANDATORY, 1);
    if (zmq_bind(router, address))
        die("server: zmq_bind");
    for (unsigned long i = 0; i < CLIENTS; i++) {
        clients[i] = (Client){.context = context, .address = address, .client = i, .count = count};
        if (pthread_create(&threads[i], NULL, ask, &clients[i]))
            die("pthread_create");
    }

    int good = serve(router, CLIENTS * count);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        printf("client %d: %lu of %lu answers\n", i, clients[i].answered, count);
        good = good && clients[i].answered == count;
        answered += clients[i].answered;
    }
    zmq_close(router);
    zmq_ctx_term(context);
    address_remove();
    printf("result program=routerdealer transport=%s expected=%lu messages=%lu good=%d library=%s\n", transport,
           CLIENTS * count, answered, good, library_file());
    return good ? 0 : 1;
}
