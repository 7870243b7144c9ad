/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

#define _GNU_SOURCE
#include "transfer.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "address.h"
#include "medium.h"
#include "tally.h"

#define SLICE_MS 250            /* how often a side that waits looks whether its connection has closed */
#define FIRST_CLIENT_MS 60000   /* how long a server waits for its client */
#define NEXT_REQUEST_MS 600000  /* and then for the next request; a connection that closes ends it at once */
#define MONITOR "inproc://monitor"

enum { ASK_SIZE, ASK_DATA, ASK_END };
enum { REQUEST_SIZE = 3 * sizeof(uint64_t), HEAD_SIZE = 2 * sizeof(uint64_t) };

typedef struct {
    double cpu_s;
    unsigned long peak_kib;
} Usage;

static Usage usage_now(void) { return (Usage){.cpu_s = cpu_s(), .peak_kib = peak_kib()}; }

/* Both sides */

static void side_open(Side *side, const Options *options, const char *name, int type, int hwm) {
    int slice = options->wait_ms < SLICE_MS ? options->wait_ms : SLICE_MS;
    *side = (Side){.options = options, .side = name, .context = zmq_ctx_new()};
    side->socket = zmq_socket(side->context, type);
    side->monitor = zmq_socket(side->context, ZMQ_PAIR);
    if (!side->socket || !side->monitor)
        die("zmq_socket");
    set_option(side->socket, ZMQ_SNDHWM, hwm);
    set_option(side->socket, ZMQ_RCVHWM, hwm);
    set_option(side->socket, ZMQ_RCVTIMEO, slice);
    set_option(side->socket, ZMQ_SNDTIMEO, options->wait_ms);
    set_option(side->socket, ZMQ_LINGER, options->wait_ms);
    if (zmq_socket_monitor(side->socket, MONITOR, ZMQ_EVENT_DISCONNECTED) || zmq_connect(side->monitor, MONITOR))
        die("zmq_socket_monitor");
}

static void side_close(Side *side) {
    if (side->peer_is_gone)
        set_option(side->socket, ZMQ_LINGER, 0);
    zmq_socket_monitor(side->socket, NULL, 0);
    zmq_close(side->monitor);
    zmq_close(side->socket);
    zmq_ctx_term(side->context);
}

static void complain(const Side *side, const char *what) {
    fprintf(stderr, "%s: %s: %s\n", side->options->program, side->side, what);
}

/* Receives a frame, or prints why there is none and returns 0. */
static int receive(Side *side, zmq_msg_t *frame, int wait_ms) {
    double deadline_s = now_s() + wait_ms * 1e-3;
    while (zmq_msg_recv(frame, side->socket, 0) < 0) {
        char event[64];
        if (zmq_errno() != EAGAIN && zmq_errno() != EINTR)
            die("zmq_msg_recv");
        /* The monitor reports nothing but closed connections. */
        if (zmq_recv(side->monitor, event, sizeof event, ZMQ_DONTWAIT) >= 0) {
            side->peer_is_gone = 1;
            complain(side, "the connection has closed: the peer went away");
            return 0;
        }
        if (now_s() >= deadline_s) {
            fprintf(stderr, "%s: %s: nothing arrived for %d s\n", side->options->program, side->side, wait_ms / 1000);
            return 0;
        }
    }
    return 1;
}

/* The server */

static void answer_with(Server *server, zmq_msg_t *answer) {
    if (zmq_send(server->side.socket, server->id, server->id_size, ZMQ_SNDMORE) < 0 ||
        zmq_msg_send(answer, server->side.socket, 0) < 0)
        die("server: zmq_send");
}

static void head_write(zmq_msg_t *answer, uint64_t offset, uint64_t file_size) {
    uint64_t head[2] = {htole64(offset), htole64(file_size)};
    memcpy(zmq_msg_data(answer), head, HEAD_SIZE);
}

void server_send(Server *server, uint64_t offset, uint64_t size) {
    uint64_t rest = server->file_size - offset;
    zmq_msg_t answer;
    size = size < rest ? size : rest;
    if (zmq_msg_init_size(&answer, HEAD_SIZE + size))
        die("server: memory for a chunk");
    head_write(&answer, offset, server->file_size);
    char *to = (char *)zmq_msg_data(&answer) + HEAD_SIZE;
    for (uint64_t got = 0; got < size;) {
        ssize_t more = pread(server->file, to + got, size - got, (off_t)(offset + got));
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            die(server->side.options->file);
        if (more == 0) {
            complain(&server->side, "the file became shorter while it was sent");
            exit(1);
        }
        got += (uint64_t)more;
    }
    answer_with(server, &answer);
}

static void send_size(Server *server) {
    zmq_msg_t answer;
    if (zmq_msg_init_size(&answer, HEAD_SIZE))
        die("server: memory for an answer");
    head_write(&answer, 0, server->file_size);
    answer_with(server, &answer);
}

/* Receives the next request. Returns 0 if there is none any more. */
static int next_request(Server *server, uint64_t request[3], int wait_ms) {
    for (;;) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (!receive(&server->side, &frame, wait_ms))
            return 0;
        server->id_size = zmq_msg_size(&frame); /* at most 255 bytes */
        memcpy(server->id, zmq_msg_data(&frame), server->id_size);
        int frames = 0;
        size_t size = 0;
        while (zmq_msg_more(&frame) && receive(&server->side, &frame, wait_ms)) {
            frames++;
            size = zmq_msg_size(&frame);
            if (size == REQUEST_SIZE)
                memcpy(request, zmq_msg_data(&frame), REQUEST_SIZE);
        }
        zmq_msg_close(&frame);
        for (int i = 0; i < 3; i++)
            request[i] = le64toh(request[i]);
        int is_fetch = request[0] == ASK_DATA;
        int fits = request[1] < server->file_size && request[2] >= 1 && request[2] <= CHUNK_MAX;
        if (frames == 1 && size == REQUEST_SIZE && request[0] <= ASK_END && (!is_fetch || fits))
            return 1;
        complain(&server->side, "ignored a malformed request");
    }
}

/* Serves one client. Writes a byte to `ready` once it is bound, and at the end its usage. Returns an exit code. */
static int serve(const Model *model, const Options *options, int file, const char *address, int ready) {
    Server server = {.file = file};
    struct stat about;
    uint64_t request[3] = {0};
    int wait_ms = FIRST_CLIENT_MS;
    if (fstat(file, &about))
        die(options->file);
    server.file_size = (uint64_t)about.st_size;
    side_open(&server.side, options, "server", ZMQ_ROUTER, options->hwm);
    if (zmq_bind(server.side.socket, address))
        die(address);
    if (ready >= 0 && write(ready, "", 1) != 1)
        die("server: the parent");

    while (next_request(&server, request, wait_ms) && request[0] != ASK_END) {
        if (request[0] == ASK_DATA)
            model->answer(&server, request[1], request[2]);
        else
            send_size(&server);
        request[0] = ASK_SIZE;
        wait_ms = NEXT_REQUEST_MS;
    }
    side_close(&server.side);
    Usage usage = usage_now();
    if (ready >= 0 && write(ready, &usage, sizeof usage) != sizeof usage)
        die("server: the parent");
    if (ready < 0)
        printf("result program=%s role=server server_cpu_s=%.3f server_peak_kib=%lu library=%s\n", options->program,
               usage.cpu_s, usage.peak_kib, library_file());
    return request[0] == ASK_END ? 0 : 1;
}

/* The client */

static int ask(Client *client, uint64_t what, uint64_t offset) {
    uint64_t request[3] = {htole64(what), htole64(offset), htole64(client->side.options->chunk)};
    if (zmq_send(client->side.socket, request, REQUEST_SIZE, 0) >= 0)
        return 1;
    complain(&client->side, zmq_strerror(zmq_errno()));
    return 0;
}

int client_ask(Client *client, uint64_t offset) {
    if (client->first_s == 0)
        client->first_s = client->last_s = now_s();
    int sent = ask(client, ASK_DATA, offset);
    client->asked += (uint64_t)sent;
    return sent;
}

static void write_out(const Client *client, const char *from, uint64_t size, uint64_t offset) {
    while (size > 0) {
        ssize_t wrote = pwrite(client->out, from, size, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            die(client->side.options->out);
        from += wrote;
        size -= (uint64_t)wrote;
        offset += (uint64_t)wrote;
    }
}

/* Counts one answer. Returns 0 if it is not a chunk that was asked for and has not arrived yet. */
static int take(Client *client, zmq_msg_t *answer) {
    uint64_t head[2], chunk = client->side.options->chunk;
    size_t size = zmq_msg_size(answer);
    if (size < HEAD_SIZE || zmq_msg_more(answer))
        return 0;
    size -= HEAD_SIZE;
    memcpy(head, zmq_msg_data(answer), HEAD_SIZE);
    uint64_t offset = le64toh(head[0]);
    if (offset < client->next || offset >= client->file_size || offset % chunk)
        return 0;
    uint64_t rest = client->file_size - offset;
    if (size != (rest < chunk ? rest : chunk))
        return 0;
    if (client->out >= 0)
        write_out(client, (const char *)zmq_msg_data(answer) + HEAD_SIZE, size, offset);
    client->chunks++;
    client->bytes += size;
    client->next = offset + size;
    client->ended = client->next == client->file_size;
    client->last_s = now_s();
    return 1;
}

int client_take(Client *client) {
    zmq_msg_t answer;
    zmq_msg_init(&answer);
    if (!receive(&client->side, &answer, client->side.options->wait_ms))
        return 0;
    int good = take(client, &answer);
    zmq_msg_close(&answer);
    if (!good)
        complain(&client->side, "an answer that is not the chunk that was asked for");
    return good;
}

/* Connects and learns the size of the file. */
static int client_open(Client *client, const char *address) {
    uint64_t head[2];
    zmq_msg_t answer;
    if (zmq_connect(client->side.socket, address))
        die(address);
    zmq_msg_init(&answer);
    if (!ask(client, ASK_SIZE, 0) || !receive(&client->side, &answer, client->side.options->wait_ms)) {
        client->side.peer_is_gone = 1;
        return 0;
    }
    int good = zmq_msg_size(&answer) == HEAD_SIZE;
    if (good)
        memcpy(head, zmq_msg_data(&answer), HEAD_SIZE);
    zmq_msg_close(&answer);
    if (!good) {
        complain(&client->side, "the answer is not the size of a file");
        return 0;
    }
    client->file_size = le64toh(head[1]);
    client->ended = client->file_size == 0;
    return 1;
}

/* Fetches the file. Returns 0 if no server answered. */
static int fetch(Client *client, const Model *model, const Options *options, const char *address) {
    side_open(&client->side, options, "client", ZMQ_DEALER, model->client_hwm);
    client->medium = "-";
    int good = client_open(client, address);
    if (good) {
        printf("%s (%d): the file has %" PRIu64 " bytes\n", options->program, (int)getpid(), client->file_size);
        fflush(stdout);
        model->fetch(client);
        client->medium = medium_of(client->side.socket);
    }
    if (!client->side.peer_is_gone)
        ask(client, ASK_END, 0);
    side_close(&client->side);
    if (client->out >= 0 && close(client->out))
        die(options->out);
    return good;
}

/* Prints what arrived. Returns 1 if nothing is missing. server is NULL if it ran elsewhere. */
static int report(const Client *client, const Usage *own, const Usage *server, const char *address) {
    const Options *options = client->side.options;
    uint64_t chunks = client->file_size / options->chunk + (client->file_size % options->chunk > 0);
    uint64_t asked = options->pipeline ? client->asked : chunks; /* without a pipeline one request is for all */
    uint64_t missing = chunks - client->chunks, lost = asked - client->chunks;
    double seconds = client->last_s - client->first_s;
    char cpu[32] = "-", peak[32] = "-";
    if (server) {
        snprintf(cpu, sizeof cpu, "%.3f", server->cpu_s);
        snprintf(peak, sizeof peak, "%lu", server->peak_kib);
    }
    printf("%s: %" PRIu64 " of %" PRIu64 " chunks arrived, %" PRIu64 " of %" PRIu64 " bytes\n", options->program,
           client->chunks, chunks, client->bytes, client->file_size);
    if (missing)
        printf("%s: %" PRIu64 " chunks are missing: %" PRIu64 " were asked for and did not arrive, %" PRIu64
               " were never asked for; the server's high-water mark is %d\n",
               options->program, missing, lost, chunks - asked, options->hwm);
    printf("result program=%s transport=%s chunk=%" PRIu64 " pipeline=%" PRIu64 " hwm=%d file_bytes=%" PRIu64
           " bytes=%" PRIu64 " chunks=%" PRIu64 " missing=%" PRIu64 " lost=%" PRIu64 " missing_bytes=%" PRIu64
           " seconds=%.6f bytes_per_s=%.0f client_cpu_s=%.3f server_cpu_s=%s client_peak_kib=%lu server_peak_kib=%s"
           " medium=%s library=%s\n",
           options->program, transport_of(address), options->chunk, options->pipeline, options->hwm, client->file_size,
           client->bytes, client->chunks, missing, lost, client->file_size - client->bytes, seconds,
           seconds > 0 ? (double)client->bytes / seconds : 0, own->cpu_s, cpu, own->peak_kib, peak, client->medium,
           library_file());
    fflush(stdout);
    return missing == 0;
}

/* Files, and the two processes */

static int open_source(const Options *options) {
    struct stat about;
    /* O_NONBLOCK: a pipe without a writer must not hold us up; we refuse it below. */
    int file = open(options->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &about))
        die(options->file);
    if (!S_ISREG(about.st_mode)) {
        fprintf(stderr, "%s: %s: not a regular file\n", options->program, options->file);
        exit(1);
    }
    return file;
}

static int open_out(const Options *options, int source) {
    struct stat from, to;
    if (!options->out)
        return -1;
    int out = open(options->out, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (out < 0 || fstat(out, &to))
        die(options->out);
    if (source >= 0 && fstat(source, &from) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino) {
        fprintf(stderr, "%s: %s: this is the file that is sent\n", options->program, options->out);
        exit(1);
    }
    if (S_ISREG(to.st_mode) && ftruncate(out, 0))
        die(options->out);
    return out;
}

/* Reads size bytes from the server's process, unless it ends before or the deadline passes. */
static int from_server(int pipe, void *to, size_t size, int wait_ms) {
    struct pollfd ready = {.fd = pipe, .events = POLLIN};
    return poll(&ready, 1, wait_ms) == 1 && read(pipe, to, size) == (ssize_t)size;
}

static int client_alone(const Model *model, const Options *options) {
    const char *address = address_to_connect(options->endpoint);
    Client client = {.out = open_out(options, -1)};
    int good = fetch(&client, model, options, address);
    Usage own = usage_now();
    return good && report(&client, &own, NULL, address) ? 0 : 1;
}

static int both(const Model *model, const Options *options) {
    int is_address = strstr(options->endpoint, "://") != NULL, ends[2], status = 0;
    const char *address = is_address ? options->endpoint : address_fresh(options->endpoint);
    int source = open_source(options);
    Client client = {.out = open_out(options, source)};
    Usage own, server;
    char byte;
    if (pipe2(ends, O_CLOEXEC))
        die("pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        exit(serve(model, options, source, address, ends[1]));
    }
    if (child < 0)
        die("fork");
    atexit(address_remove);
    close(ends[1]);
    close(source);
    printf("%s (%d): the server is process %d\n", options->program, (int)getpid(), (int)child);
    fflush(stdout);

    int good = from_server(ends[0], &byte, 1, options->wait_ms) && fetch(&client, model, options, address);
    own = usage_now();
    int has_usage = good && from_server(ends[0], &server, sizeof server, options->wait_ms);
    if (!has_usage)
        kill(child, SIGKILL);
    waitpid(child, &status, 0);
    if (status)
        fprintf(stderr, "%s: the server failed (status %d)\n", options->program, status);
    good = good && report(&client, &own, has_usage ? &server : NULL, address);
    return good && status == 0 ? 0 : 1;
}

int transfer_main(const Model *model, int argc, char *argv[]) {
    Options options = options_parse(&model->defaults, argc, argv);
    if (options.role == ROLE_SERVER)
        return serve(model, &options, open_source(&options), address_to_bind(options.endpoint), -1);
    return options.role == ROLE_CLIENT ? client_alone(model, &options) : both(model, &options);
}
