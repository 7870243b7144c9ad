/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

#define _GNU_SOURCE
#include "address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

static char folder[64];

const char *address_to_bind(const char *word) {
    if (strcmp(word, "ipc") == 0)
        return "ipc:///tmp/pinnace-example.ipc";
    return strcmp(word, "tcp") == 0 ? "tcp://*:5555" : word;
}

const char *address_to_connect(const char *word) {
    return strcmp(word, "tcp") == 0 ? "tcp://localhost:5555" : address_to_bind(word);
}

/* The kernel picks free ports at random, so another process is unlikely to get this one before it is bound again. */
static int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int probe = socket(AF_INET, SOCK_STREAM, 0);
    if (probe < 0 || bind(probe, (struct sockaddr *)&at, length) || getsockname(probe, (struct sockaddr *)&at, &length))
        die("a free port");
    close(probe);
    return ntohs(at.sin_port);
}

const char *address_fresh(const char *transport) {
    static char address[128];
    if (strcmp(transport, "ipc") == 0) {
        strcpy(folder, "/tmp/pinnace-example-XXXXXX");
        if (!mkdtemp(folder))
            die("a folder in /tmp");
        snprintf(address, sizeof address, "ipc://%s/socket", folder);
    } else if (strcmp(transport, "tcp") == 0) {
        snprintf(address, sizeof address, "tcp://127.0.0.1:%d", free_port());
    } else if (strcmp(transport, "inproc") == 0) {
        snprintf(address, sizeof address, "inproc://example");
    } else {
        fprintf(stderr, "no transport %s: ipc, tcp or inproc\n", transport);
        exit(2);
    }
    return address;
}

void address_remove(void) {
    char path[96];
    if (!folder[0])
        return;
    snprintf(path, sizeof path, "%s/socket", folder);
    unlink(path);
    rmdir(folder);
}

const char *transport_of(const char *address) {
    static char name[32];
    const char *end = strstr(address, "://");
    snprintf(name, sizeof name, "%.*s", end ? (int)(end - address) : (int)strlen(address), address);
    return name;
}

void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

void set_option(void *socket, int option, int value) {
    if (zmq_setsockopt(socket, option, &value, sizeof value))
        die("zmq_setsockopt");
}
