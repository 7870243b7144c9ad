/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* pubsub [inproc|ipc|tcp] [COUNT]: one publisher, three subscribers in threads, COUNT messages on each of two topics.
 *
 * Two subscribers take one topic each, the third takes both. The publisher is an XPUB, so it receives the subscriptions
 * and starts once all have arrived, without a sleep. High-water marks are off, because a publisher at its mark drops
 * messages. Exits with 0 if each subscriber got exactly the messages it subscribed to, in order. */

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "address.h"
#include "tally.h"

#define SUBSCRIBERS 3
#define WAIT_MS 10000

static const char *const TOPICS[2] = {"tide", "wind"};

typedef struct {
    void *context;
    const char *address;
    const char *subscription; /* a prefix; "" matches everything */
    unsigned long count;
    unsigned long received;
    int good;
} Subscriber;

/* Receives one message of two frames: topic and number. Returns the topic's index in TOPICS, -1 for anything else. */
static int receive(void *socket, unsigned long *number) {
    char topic[16];
    int size = zmq_recv(socket, topic, sizeof topic, 0), more = 0;
    size_t length = sizeof more;
    if (size < 0 || zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &length) || !more)
        return -1;
    if (zmq_recv(socket, number, sizeof *number, 0) != sizeof *number)
        return -1;
    for (int i = 0; i < 2; i++)
        if ((size_t)size == strlen(TOPICS[i]) && memcmp(topic, TOPICS[i], (size_t)size) == 0)
            return i;
    return -1;
}

static void *subscribe(void *argument) {
    Subscriber *self = argument;
    unsigned long next[2] = {1, 1}, wanted = 0;
    void *socket = zmq_socket(self->context, ZMQ_SUB);
    set_option(socket, ZMQ_RCVHWM, 0);
    set_option(socket, ZMQ_RCVTIMEO, WAIT_MS);
    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, self->subscription, strlen(self->subscription));
    if (zmq_connect(socket, self->address))
        die("subscriber: zmq_connect");

    for (int i = 0; i < 2; i++)
        wanted += strncmp(TOPICS[i], self->subscription, strlen(self->subscription)) == 0 ? self->count : 0;
    self->good = 1;
    while (self->good && self->received < wanted) {
        unsigned long number = 0;
        int topic = receive(socket, &number);
        self->good = topic >= 0 && strncmp(TOPICS[topic], self->subscription, strlen(self->subscription)) == 0 &&
                     number == next[topic]++;
        self->received += self->good ? 1 : 0;
    }
    zmq_close(socket);
    return NULL;
}

static int publish(void *publisher, unsigned long count) {
    unsigned char request[32];
    for (int i = 0; i < SUBSCRIBERS; i++) /* a subscription is a byte 1 and the prefix */
        if (zmq_recv(publisher, request, sizeof request, 0) < 1 || request[0] != 1)
            return 0;
    for (unsigned long number = 1; number <= count; number++)
        for (int i = 0; i < 2; i++)
            if (zmq_send(publisher, TOPICS[i], strlen(TOPICS[i]), ZMQ_SNDMORE) < 0 ||
                zmq_send(publisher, &number, sizeof number, 0) < 0)
                return 0;
    return 1;
}

int main(int argc, char *argv[]) {
    const char *transport = argc > 1 ? argv[1] : "tcp";
    const char *address = address_fresh(transport);
    unsigned long count = count_of(argc, argv, 2, 10000), received = 0;
    const char *const subscriptions[SUBSCRIBERS] = {TOPICS[0], TOPICS[1], ""};
    Subscriber subscribers[SUBSCRIBERS];
    pthread_t threads[SUBSCRIBERS];

    void *context = zmq_ctx_new();
    void *publisher = zmq_socket(context, ZMQ_XPUB);
    set_option(publisher, ZMQ_SNDHWM, 0);
    set_option(publisher, ZMQ_RCVTIMEO, WAIT_MS);
    if (zmq_bind(publisher, address))
        die("publisher: zmq_bind");
    for (int i = 0; i < SUBSCRIBERS; i++) {
        subscribers[i] = (Subscriber){.context = context, .address = address, .count = count};
        subscribers[i].subscription = subscriptions[i];
        if (pthread_create(&threads[i], NULL, subscribe, &subscribers[i]))
            die("pthread_create");
    }

    int good = publish(publisher, count);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        pthread_join(threads[i], NULL);
        printf("subscriber to \"%s\": %lu messages%s\n", subscriptions[i], subscribers[i].received,
               subscribers[i].good ? "" : ", then something else than expected");
        good = good && subscribers[i].good;
        received += subscribers[i].received;
    }
    zmq_close(publisher);
    zmq_ctx_term(context);
    address_remove();
    printf("result program=pubsub transport=%s expected=%lu messages=%lu good=%d library=%s\n", transport, 4 * count,
           received, good, library_file());
    return good ? 0 : 1;
}
