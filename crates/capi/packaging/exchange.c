/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* A typical program of a libzmq user, in the common subset of C and C++: requests over three transports, with
 * zmq_msg_*, zmq_poll and error checks. Prints the library that it ran on, from /proc/self/maps. */

#include <stdio.h>
#include <string.h>
#include <zmq.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
    return 1;
}

/* One request and its reply, of two frames each. */
static int exchange(void *context, const char *address) {
    char at[256];
    size_t length = sizeof at;
    void *server = zmq_socket(context, ZMQ_REP), *client = zmq_socket(context, ZMQ_REQ);
    if (!server || !client || zmq_bind(server, address) || zmq_getsockopt(server, ZMQ_LAST_ENDPOINT, at, &length))
        return failed(address);
    if (zmq_connect(client, at) || zmq_send(client, "ask", 3, ZMQ_SNDMORE) != 3 || zmq_send(client, "me", 2, 0) != 2)
        return failed("ask");
    if (zmq_send(client, "again", 5, 0) != -1 || zmq_errno() != EFSM)
        return failed("a second question before the answer");

    zmq_pollitem_t item = {server, 0, ZMQ_POLLIN, 0};
    if (zmq_poll(&item, 1, 10000) != 1 || !(item.revents & ZMQ_POLLIN))
        return failed("zmq_poll");
    zmq_msg_t frames[2];
    for (int i = 0; i < 2; i++)
        if (zmq_msg_init(&frames[i]) || zmq_msg_recv(&frames[i], server, 0) < 0 || zmq_msg_more(&frames[i]) != !i)
            return failed("zmq_msg_recv");
    for (int i = 0; i < 2; i++)
        if (zmq_msg_send(&frames[i], server, i ? 0 : ZMQ_SNDMORE) < 0 || zmq_msg_close(&frames[i]))
            return failed("zmq_msg_send");
    char first[8], second[8];
    if (zmq_recv(client, first, sizeof first, 0) != 3 || zmq_recv(client, second, sizeof second, 0) != 2 ||
        memcmp(first, "ask", 3) || memcmp(second, "me", 2))
        return failed("the answer");
    if (zmq_recv(server, first, sizeof first, ZMQ_DONTWAIT) != -1 || zmq_errno() != EAGAIN)
        return failed("nothing more");
    return zmq_close(client) || zmq_close(server) ? failed("zmq_close") : 0;
}

static void print_library(void) {
    char line[4352];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (path && (strstr(path, "/libzmq") || strstr(path, "/libpinnace"))) {
            path[strcspn(path, "\n")] = '\0';
            printf("result library=%s\n", path);
            break;
        }
    }
    if (maps)
        fclose(maps);
}

int main(void) {
    int major, minor, patch;
    void *context = zmq_ctx_new();
    zmq_version(&major, &minor, &patch);
    if (major != ZMQ_VERSION_MAJOR || minor != ZMQ_VERSION_MINOR)
        return failed("zmq_version");
    if (zmq_socket(context, 99) || zmq_errno() != EINVAL || zmq_bind(context, "inproc://no-socket") != -1)
        return failed("what is wrong must fail");
    if (exchange(context, "inproc://exchange") || exchange(context, "tcp://127.0.0.1:*") ||
        exchange(context, "ipc://*"))
        return 1;
    if (zmq_ctx_term(context))
        return failed("zmq_ctx_term");
    print_library();
    return 0;
}
