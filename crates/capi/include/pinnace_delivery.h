/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Guaranteed delivery: a part of Pinnace's C interface, which pinnace.h includes. */
#ifndef PINNACE_DELIVERY_H
#define PINNACE_DELIVERY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Guaranteed delivery between named clients; docs/delivery.md states the guarantees. A function that fails returns -1,
 * NULL or 0, sets errno, and stores a text: pinnace_client_error. Every function may be called from any thread, and
 * from a handler. Invalid or released options, clients and deliveries are EFAULT, and so are null pointers, except
 * where NULL has a stated meaning, and for the `data` of an empty body. Texts are UTF-8.
 * EINVAL: an invalid value, or a name that is empty or longer than 255 bytes; EAGAIN: timeout; ECANCELED: the client
 * was closed meanwhile; ENOSPC: no room on the disk, or a limit is reached; EIO: a write to the disk failed, and the
 * client's store accepts nothing more until it is reopened; EEXIST: another client has the name; EBUSY: another process
 * has the store, or others keep the registry locked; EPERM: every user can change the store's directory or its parent;
 * EBADMSG: the store or the registry is damaged, or of another format; and the system's errors for files. */
typedef struct pinnace_client_options_t pinnace_client_options_t;
typedef struct pinnace_client_t pinnace_client_t;
typedef struct pinnace_delivery_t pinnace_delivery_t;

const char *pinnace_client_error(void); /* of the calling thread; valid until its next failure */

/* Options of a client; they serve for any number of clients. Each is set as text. Times are 1 to 86400000 ms, or 0
 * where stated:
 *   data_dir           directory of the client's store; by default one of the user's
 *   registry           dir://PATH, sqlite://PATH, redis://HOST, none; by default a directory of the user's
 *   listen             endpoint to listen on [a local socket, for processes of this host]
 *   advertise          endpoint announced to others, if it differs
 *   metrics            port of 127.0.0.1, or ADDRESS:PORT, where the statistics are served over HTTP to all that can
 *                      connect: GET /metrics for Prometheus, GET /statistics as JSON; port 0: a free one [not served]
 *   lease_ms           how long the name stays reserved without renewal, 1 to 2592000000 [10000]
 *   send_only          1: the client neither listens nor is registered: it sends, clears and waits for what is pending;
 *                      receiving is ECANCELED, subscribing EINVAL [0]
 *   interval_ms        for PINNACE_INTERVAL: the longest delay until a message is on the disk [100]
 *   retry_first_ms     delay before the first redelivery of a failed message [100]; doubles each time,
 *   retry_most_ms      up to this [60000]
 *   max_deliveries     deliveries, also over crashes, after which a message is given up [0: never]
 *   dead_letter_expired 1: a message of this client that expires, by its clock or by the receiver's, becomes a dead
 *                      letter; 0: it is only counted [0]
 *   ack_within_ms      how long a handler may take before its message has failed [0: no limit]
 *   reassign_after_ms  how long a message sent to one of many waits for its receiver [30000; 0: no limit]
 *   durable            0: subscriptions end with the process, and nothing is kept while the client is away [1]
 *   retain_for_ms      how long messages are kept for a receiver that is away, and messages to all, sent while no
 *                      receiver is known, for those to come: up to 10 years [7 days; 0: no limit]
 *   retain_bytes       bytes that are kept for such a receiver and topic, 64 more for each message [1 GiB; 0: no limit]
 *   skip_failing       1: other messages go on while a failed one waits [0]
 *   skip_damage        1: opens a damaged store without the damaged parts [0]
 *   memory_limit       bytes of PINNACE_MEMORY messages that are kept [64 MiB]
 *   deduplicate_for_ms how long a message's id counts, by which a retry is recognized; `forever`: as long as it is one
 *                      of the client's 65,536 newest [120000; 0: not at all]
 *   linger_ms          how long closing waits until these are acknowledged [1000; 0: not at all]
 *   handler_linger_ms  how long closing waits for calls and handlers that do not return [10000; 0: not at all]
 *   disk_limit         bytes of the store's files, at least 4 MiB; a body takes at most a sixteenth of them, or
 *                      half of the part beyond 16 MiB [a tenth of the file system, 4 MiB to 4 GiB; 0: no limit]
 *   max_body           bytes of the largest body that is sent or accepted [1 GiB]
 *   compress_from      bodies of at least this many bytes are compressed, if that saves space [1 MiB] */
pinnace_client_options_t *pinnace_client_options_new(const char *name, const char *topic);
int pinnace_client_options_set(pinnace_client_options_t *options, const char *key, const char *value);
int pinnace_client_options_topic(pinnace_client_options_t *options, const char *topic); /* a further topic */
int pinnace_client_options_peer(pinnace_client_options_t *options, const char *name, const char *endpoint,
                                const char *const *topics, size_t count); /* a client known in advance */
int pinnace_client_options_destroy(pinnace_client_options_t *options);

/* Encrypts all traffic with the keys of a certificate (ENOKEY: it has no secret key). The client talks only to clients
 * with a trusted public key, 40 characters of Z85. */
int pinnace_client_options_curve(pinnace_client_options_t *options, void *cert);
int pinnace_client_options_trust(pinnace_client_options_t *options, const char *name, const char *z85_public_key);

/* The same with files, as `pinnace keygen NAME` writes them: the path of NAME or NAME_secret for the client itself, of
 * NAME for another client. EKEYREJECTED: no secret key that matches; and the errors of pinnace_cert_load. */
int pinnace_client_options_cert(pinnace_client_options_t *options, const char *file);
int pinnace_client_options_trust_file(pinnace_client_options_t *options, const char *name, const char *file);

pinnace_client_t *pinnace_client_start(const pinnace_client_options_t *options);

/* How many received messages are in hand: with a handler, or received and not settled. */
int pinnace_client_in_hand(pinnace_client_t *client, uint64_t *count);

/* Stops receiving, for good: calls that wait for a message, now or later, return ECANCELED. Sending and settling
 * continue, so handlers can send their results. Returns 0 once every delivery in hand is settled, what was acknowledged
 * is on the disk, and messages of PINNACE_MEMORY are acknowledged. EAGAIN: timeout; it can be called again. A handler
 * that calls it does not wait for its own delivery, nor for other handlers that wait here or in close_within. */
int pinnace_client_drain(pinnace_client_t *client, long timeout_ms);

/* Drains the client until the timeout, then ends it in any case: it gives its name back, and the handle is released. It
 * takes no longer than the timeout and a bounded moment, for the registry (2 s) and the last acknowledgements (1 s).
 * 0: all is settled, and all calls and handlers have returned, except the handler that calls it. ETIMEDOUT: something
 * is left, as of pinnace_client_close; or messages of PINNACE_MEMORY were not acknowledged, and are lost. The same
 * handle can be closed again, by either function, to wait for what is left; EFAULT: nothing is. */
int pinnace_client_close_within(pinnace_client_t *client, long timeout_ms);

/* Calls that wait in the client for messages, room or acknowledgements return ECANCELED. Returns when all calls and
 * handlers have returned. If a handler calls it, it returns at once, and the client ends when the last call or handler
 * returns; until then, another close waits for that. No handler is called after the end.
 * ETIMEDOUT: a call or a handler has not returned within handler_linger_ms. The client has ended and its name is free,
 * but a handler that runs goes on using its `arg` and its delivery: do not free `arg`, nor unload the handler's code,
 * until another close of this handle returns 0 or EFAULT. Its acknowledgement counts until a client of the same name is
 * started in this process. */
int pinnace_client_close(pinnace_client_t *client);

const char *pinnace_client_name(pinnace_client_t *client);     /* valid until it is closed */
const char *pinnace_client_endpoint(pinnace_client_t *client); /* where others reach it; valid until it is closed */
/* Its id in its store: 32 hexadecimal digits, random; another store has another one. Valid until it is closed. */
const char *pinnace_client_store_id(pinnace_client_t *client);
int pinnace_client_subscribe(pinnace_client_t *client, const char *topic);
int pinnace_client_unsubscribe(pinnace_client_t *client, const char *topic);

/* The endpoints of the clients that listen on a topic, one per line; returns their number. *size is the size of
 * `buffer` on entry, and the size of the text with its NUL on return. ENOBUFS: the text does not fit. */
int pinnace_client_addresses(pinnace_client_t *client, const char *topic, char *buffer, size_t *size);

/* Waits until at least `count` clients listen on a topic, of which it may be one. EAGAIN: timeout. */
int pinnace_client_wait_listeners(pinnace_client_t *client, const char *topic, size_t count, long timeout_ms);

/* Returns 0, or -1 with the current error of the registry: the client is not registered, or cannot read the other
 * clients. It retries on its own. EHOSTUNREACH: a server does not answer; EEXIST: another client has taken the name. */
int pinnace_client_registry_error(pinnace_client_t *client);

/* Ends all subscriptions of a client that is gone for good. The clients that have the same registry drop what they keep
 * for it alone; messages to one client of a topic go to another. EEXIST: it lives. */
int pinnace_client_forget(pinnace_client_t *client, const char *name);

/* Ends the subscriptions of a topic by dead clients, for which messages to all are kept no longer; returns how many. */
int pinnace_client_clear_addresses(pinnace_client_t *client, const char *topic);

#define PINNACE_SYNC 0     /* on the disk before the call returns */
#define PINNACE_INTERVAL 1 /* on the disk later, within interval_ms */
#define PINNACE_MEMORY 2   /* never on the disk; lost with the process */

/* A header of a message. Of a message that is received, key and value are valid until the delivery is settled. */
typedef struct pinnace_header_t {
    const char *key; /* 1 to 255 bytes of UTF-8 */
    const void *value;
    size_t size; /* bytes of the value */
} pinnace_header_t;

typedef struct pinnace_send_options_t {
    size_t size;        /* bytes of this struct; later versions append members, with 0 as their default */
    int64_t timeout_ms; /* how long to wait for room and the disk; negative: no limit */
    int64_t ttl_ms;     /* the message's time to live, at most UINT32_MAX; 0: no limit */
    int all;            /* 0: to one of the clients that listen on the topic; 1: to each, as send_all does */
    int durability;     /* PINNACE_SYNC, PINNACE_INTERVAL, PINNACE_MEMORY */
    /* The message's id, 1 to 255 bytes of UTF-8; NULL: none. A further message with it, of this client and on this
     * topic within deduplicate_for_ms, is a retry: it is not stored again, and the call returns as the first did. */
    const char *id;
    const char *content_type; /* of the body, such as "application/json", 1 to 255 bytes; NULL: none */
    const char *traceparent;  /* W3C trace context; NULL: none */
    const char *tracestate;   /* only with traceparent; NULL: none */
    const pinnace_header_t *headers; /* with distinct keys; all that a message carries beside its body, 16 KiB */
    size_t header_count;             /* at most 64 */
    /* The ordering key, 1 to 255 bytes of UTF-8; NULL: none. Messages to one with the same key go to the same client
     * while it lives, in order. Messages to all ignore it. */
    const char *ordering_key;
} pinnace_send_options_t;

/* The options of pinnace_client_send_to. */
#define PINNACE_SEND_OPTIONS                                                                                           \
    {sizeof(pinnace_send_options_t), -1, 0, 0, PINNACE_SYNC, NULL, NULL, NULL, NULL, NULL, 0, NULL}

/* Returns 0 once the message is on this machine's disk and will be delivered: to a client that listens or, if there is
 * none yet, to the first that will. send_all delivers to each client that listens, and to each that is away and has not
 * unsubscribed; it returns the number of these receivers, as do send and send_async with `all`. 0: the message is kept
 * for each client that begins to listen within retain_for_ms; of PINNACE_MEMORY, for the first. After EAGAIN and EIO
 * the message may be stored, or may be stored later. `options` NULL: as pinnace_client_send_to. E2BIG: options are set
 * that this version does not know. */
int pinnace_client_send_to(pinnace_client_t *client, const char *topic, const void *data, size_t size);
int pinnace_client_send_all(pinnace_client_t *client, const char *topic, const void *data, size_t size);
int pinnace_client_send(pinnace_client_t *client, const char *topic, const void *data, size_t size,
                        const pinnace_send_options_t *options);

/* Does not wait for the disk; pinnace_client_wait does, with the ticket. Messages reach the disk in the order of their
 * tickets, so a wait for the last ticket is a wait for all. */
int pinnace_client_send_async(pinnace_client_t *client, const char *topic, const void *data, size_t size,
                              const pinnace_send_options_t *options, uint64_t *ticket);
int pinnace_client_wait(pinnace_client_t *client, uint64_t ticket, long timeout_ms);

/* The statistics of a client as JSON (RFC 8259), and in Prometheus' text format; and where they are served, as
 * ADDRESS:PORT (ENOENT: nowhere). *size is the size of `buffer` on entry, and the size of the text with its NUL on
 * return. ENOBUFS: the text does not fit; it may have grown by the next call. */
int pinnace_client_statistics_json(pinnace_client_t *client, char *buffer, size_t *size);
int pinnace_client_statistics_prometheus(pinnace_client_t *client, char *buffer, size_t *size);
int pinnace_client_metrics_address(pinnace_client_t *client, char *buffer, size_t *size);

/* How many messages are not acknowledged yet; and a wait until at most `most` are left. */
int pinnace_client_pending(pinnace_client_t *client, uint64_t *pending);
int pinnace_client_wait_pending(pinnace_client_t *client, uint64_t most, long timeout_ms);

/* Calls `each` with every receiver and topic, and the number of messages pending for it. The receiver
 * is NULL for messages that go to the first client that listens. Returns the number of calls. */
typedef void(pinnace_pending_fn)(const char *receiver, const char *topic, uint64_t messages, void *arg);
int pinnace_client_pending_by_peer(pinnace_client_t *client, pinnace_pending_fn *each, void *arg);

/* Discards the pending messages of a topic; writes the number of messages to `cleared`, unless it is NULL. */
int pinnace_client_clear_pending(pinnace_client_t *client, const char *topic, uint64_t *cleared);

/* The next message. It belongs to the caller until it is settled by one of pinnace_delivery_ack, _nack, _terminate,
 * _fail and _give_back, even after the client was closed; until then the client's store stays open. Settling frees it,
 * and everything that its functions returned. EAGAIN: timeout; 0: no message is ready. */
pinnace_delivery_t *pinnace_client_recv(pinnace_client_t *client, long timeout_ms);

/* A descriptor for epoll(7), poll(2) and event loops, or -1. It is readable while a message may be ready, and once the
 * client is drained or closed: then call pinnace_client_recv with timeout 0. It stays readable until a receive finds no
 * message. It belongs to the client until that is closed: do not read, write or close it, and remove it from epoll
 * before. The first call creates it; a client without it pays nothing for it. EIO: too many descriptors are open. */
int pinnace_client_fd(pinnace_client_t *client);

const void *pinnace_delivery_body(pinnace_delivery_t *delivery); /* not NULL, even if the body is empty */
size_t pinnace_delivery_size(pinnace_delivery_t *delivery);
const char *pinnace_delivery_from(pinnace_delivery_t *delivery);
const char *pinnace_delivery_topic(pinnace_delivery_t *delivery);
uint64_t pinnace_delivery_accepted_ms(pinnace_delivery_t *delivery); /* ms since 1970, by the sender's clock */
uint64_t pinnace_delivery_deliveries(pinnace_delivery_t *delivery);       /* number of deliveries, this one included */

/* What the message carries beside its body; NULL, or -1 of a header, and ENOENT: it has none. Valid until the delivery
 * is settled. The headers are counted, and found by their index, in the sender's order, or by their key. */
const char *pinnace_delivery_id(pinnace_delivery_t *delivery);
const char *pinnace_delivery_content_type(pinnace_delivery_t *delivery);
const char *pinnace_delivery_traceparent(pinnace_delivery_t *delivery);
const char *pinnace_delivery_tracestate(pinnace_delivery_t *delivery);
const char *pinnace_delivery_ordering_key(pinnace_delivery_t *delivery);
size_t pinnace_delivery_headers(pinnace_delivery_t *delivery);
int pinnace_delivery_header_at(pinnace_delivery_t *delivery, size_t index, pinnace_header_t *header);
int pinnace_delivery_header(pinnace_delivery_t *delivery, const char *key, pinnace_header_t *header);

/* Exactly-once processing: what a receiver stores with a message's effect, in one transaction of its own database, in
 * the table of pinnace_cursor_schema (SQL that SQLite, PostgreSQL, MySQL and others understand). Insert the receiver's
 * name, sender, stream and number. If that row exists already, the message is a redelivery: roll back and acknowledge
 * it. Otherwise apply the effect, delete the rows of the same receiver, sender and stream with numbers up to `settled`,
 * commit, and acknowledge. */
typedef struct pinnace_cursor_t {
    char sender[33];  /* the store that it comes from: 32 hexadecimal digits */
    uint64_t stream;  /* the stream of that store that it belongs to */
    uint64_t number;  /* its number in the stream; later messages have larger ones */
    uint64_t settled; /* no message of the stream up to this number is delivered again */
} pinnace_cursor_t;
int pinnace_delivery_cursor(pinnace_delivery_t *delivery, pinnace_cursor_t *cursor);
const char *pinnace_cursor_schema(void);

/* SQL for the application's own database, SQLite (3.24) or PostgreSQL (13): an outbox whose rows a relay sends, and the
 * cursors of a receiver. docs/reference/delivery.md has the parameters, $1 and following. EINVAL: no such text. */
enum {
    PINNACE_SQL_OUTBOX_SCHEMA_SQLITE,     /* several statements; once, before senders and relays are started */
    PINNACE_SQL_OUTBOX_SCHEMA_POSTGRESQL, /* likewise */
    PINNACE_SQL_OUTBOX_OWNER,             /* the store_id of the client that sends from the outbox, or no row */
    PINNACE_SQL_OUTBOX_CLAIM,             /* makes a client the owner, if there is none */
    PINNACE_SQL_OUTBOX_NEXT,              /* the next rows, in their order */
    PINNACE_SQL_OUTBOX_HEADERS,           /* the headers of rows */
    PINNACE_SQL_OUTBOX_DELETE,            /* a row that is on the disk */
    PINNACE_SQL_OUTBOX_REFUSE,            /* a row that cannot be sent as it is */
    PINNACE_SQL_CURSOR_INSERT,            /* inserts no row: the message was handled before */
    PINNACE_SQL_CURSOR_FORGET             /* deletes what is not needed any more */
};
const char *pinnace_sql(int text);

/* A dead letter goes to a client that listens on the topic of this name with ".dead" appended. These return its
 * original topic, the receiver that gave it up, its deliveries there, and the reason. ENOENT: not a dead letter. */
#define PINNACE_TERMINATED 0 /* its receiver terminated it */
#define PINNACE_DELIVERIES 1 /* it reached max_deliveries */
#define PINNACE_TOO_LARGE 2  /* it is larger than its receiver accepts */
#define PINNACE_UNREADABLE 3 /* it cannot be decompressed, or its headers cannot be read */
#define PINNACE_OUT_OF_TIME 4 /* it expired: dead_letter_expired of its sender */
const char *pinnace_delivery_dead_topic(pinnace_delivery_t *delivery);
const char *pinnace_delivery_dead_receiver(pinnace_delivery_t *delivery);
uint64_t pinnace_delivery_dead_deliveries(pinnace_delivery_t *delivery);
int pinnace_delivery_dead_reason(pinnace_delivery_t *delivery);

/* They count also if the client was closed meanwhile. ECANCELED: a client of the same name was started since; the
 * message is redelivered. */
int pinnace_delivery_ack(pinnace_delivery_t *delivery);       /* handled successfully */
int pinnace_delivery_nack(pinnace_delivery_t *delivery, long delay_ms); /* redeliver after it; negative: growing */
int pinnace_delivery_terminate(pinnace_delivery_t *delivery); /* given up: its sender keeps a dead letter */
int pinnace_delivery_fail(pinnace_delivery_t *delivery);      /* failed: redelivered later, before the next */
int pinnace_delivery_give_back(pinnace_delivery_t *delivery); /* as if not received: next again, and not counted */
int pinnace_delivery_in_progress(pinnace_delivery_t *delivery); /* still being handled: restarts ack_within_ms */

typedef struct pinnace_message_t {
    const char *topic;
    const void *data;
    size_t size;
    const pinnace_send_options_t *options; /* NULL: as pinnace_client_send_to */
} pinnace_message_t;

/* Consumes and produces in one step: acknowledges a delivery of this client and sends messages; a crash leaves all of
 * it or nothing. It waits for the shortest timeout_ms. 0: the delivery is settled, and all of it is on the disk or, if
 * all messages have PINNACE_INTERVAL, will be. -1: nothing has happened, and the delivery is still the caller's; but
 * after EINPROGRESS it is settled, and all was accepted, but not known to be on the disk in time. ESTALE: the delivery
 * no longer counts; EMSGSIZE: more than 8 MiB, or a sixteenth of disk_limit, in all; EINVAL: PINNACE_MEMORY, or another
 * client's delivery. _async does not wait for the disk. */
int pinnace_client_ack_and_send(pinnace_client_t *client, pinnace_delivery_t *delivery,
                                const pinnace_message_t *messages, size_t count);
int pinnace_client_ack_and_send_async(pinnace_client_t *client, pinnace_delivery_t *delivery,
                                      const pinnace_message_t *messages, size_t count, uint64_t *ticket);

/* Return values of a handler: one of these, with or without PINNACE_STOP. Anything else is PINNACE_FAIL. A handler may
 * settle its delivery itself; then only PINNACE_STOP counts. It must return normally: no exception, no longjmp. */
#define PINNACE_ACK 0
#define PINNACE_FAIL 1
#define PINNACE_NACK 2
#define PINNACE_TERMINATE 3
#define PINNACE_KEEP 4 /* the handler keeps the delivery, and may settle it at any time */
#define PINNACE_STOP 16
typedef int(pinnace_handler_fn)(pinnace_delivery_t *delivery, void *arg);

/* Calls the handler with one message after the other: _run on this thread until PINNACE_STOP, _listen on a thread of
 * its own until then or until the client is closed. That thread blocks signals while it waits. The handler, and
 * processes that it starts, have the signal mask of the thread that started the client. */
int pinnace_client_run(pinnace_client_t *client, pinnace_handler_fn *handler, void *arg);
int pinnace_client_listen(pinnace_client_t *client, pinnace_handler_fn *handler, void *arg);

/* For bindings whose handlers are not functions of this kind: the calling thread has begun a handler with a delivery,
 * or has ended it, settled or not. In between, closing and draining do as in a handler. Each returns 0. */
int pinnace_handler_enter(pinnace_delivery_t *delivery);
int pinnace_handler_leave(pinnace_delivery_t *delivery);

/* Sets a function that is called, on any thread, with errors that no call can return; NULL removes it. EACCES: a peer
 * refuses the client's messages; EHOSTUNREACH: a peer cannot be connected to, or should be there and has not answered
 * for 5 s; EOPNOTSUPP: a peer is of an earlier version, and gets messages without ids and headers; ESTALE: a peer knows
 * a copy of the client's store, and pending messages are sent to it again; EDQUOT: messages that were kept for a
 * receiver were dropped, because they exceeded a limit or it was forgotten; EIO, EBADMSG: errors of the store. It is
 * called with one error at a time; at most 1,000 wait. Closing the client waits for it. */
typedef void(pinnace_error_fn)(int error, const char *text, void *arg);
int pinnace_client_on_error(pinnace_client_t *client, pinnace_error_fn *handler, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* PINNACE_DELIVERY_H */
