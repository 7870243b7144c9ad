/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Pinnace's extensions to zmq.h. A program that uses them links to libpinnace and no longer runs on libzmq. */

#ifndef PINNACE_H
#define PINNACE_H

#include "zmq.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pinnace's own version, "major.minor.patch"; static. zmq_version returns the libzmq version that it implements. */
const char *pinnace_version(void);

/* Unless stated otherwise, functions return 0, or -1 with errno set. Besides the errors named at each function: EFAULT
 * for a null pointer, ENOTSOCK if the socket is not open, ETERM after zmq_ctx_shutdown. Times are in milliseconds; a
 * negative value means no limit. Every function may be called from any thread. */

/* The traffic of one direction. */
typedef struct pinnace_traffic_t {
    uint64_t messages; /* in: received by the application; out: taken by the kernel, or by the peer over inproc */
    uint64_t bytes;    /* of these messages, with ZMTP's headers and before any encryption */
    uint64_t queued;   /* messages that are queued now */
} pinnace_traffic_t;

/* Reasons for lost messages: indices of pinnace_stats_t.dropped. */
#define PINNACE_FULL 0       /* the peer's high-water mark was reached */
#define PINNACE_UNROUTABLE 1 /* no peer has the routing id that it was sent to */
#define PINNACE_PEER_LOST 2  /* the peer disconnected while it was being sent */
#define PINNACE_CUT 3        /* a lost connection cut it, and it could not be sent again */
#define PINNACE_UNWANTED 4   /* the socket does not accept such messages, or not from this peer */
#define PINNACE_MALFORMED 5  /* it violates the pattern's rules */
#define PINNACE_DUPLICATE 6  /* another peer has the sender's routing id */
#define PINNACE_CONFLATED 7  /* replaced by a newer one: ZMQ_CONFLATE */
#define PINNACE_LIMIT 8      /* over a limit: too many topics, too large for a datagram */
#define PINNACE_NO_MEMORY 9
#define PINNACE_EXPIRED 10   /* not sent within ZMQ_LINGER, or its endpoint was disconnected */
#define PINNACE_UNREAD 11    /* received by the library, but not by the application before the socket was closed */
#define PINNACE_REASONS 32  /* elements of an array by reason; those without a name are 0, and for later versions */

typedef struct pinnace_stats_t {
    size_t size; /* set to sizeof(pinnace_stats_t) before the call; later versions append members */
    pinnace_traffic_t received, sent;
    uint64_t dropped[PINNACE_REASONS]; /* messages lost, by reason */
    uint64_t connected, accepted, disconnected, retried; /* connections */
    uint64_t handshakes_succeeded, handshakes_failed;
    uint64_t events_dropped; /* events that did not fit into a monitor's queue */
    uint64_t peers;          /* connected now */
    uint64_t ended_peers;    /* disconnected, with all their messages received */
} pinnace_stats_t;

typedef struct pinnace_peer_t {
    uint64_t number; /* identifies the peer in pinnace_kick; never reused */
    pinnace_traffic_t received, sent;
    uint64_t dropped, reconnects;
    uint64_t round_trip_us; /* of the last PING, else the kernel's estimate for tcp; 0: unknown */
    int connected;
    int mechanism;          /* ZMQ_NULL, ZMQ_PLAIN, ZMQ_CURVE */
    size_t routing_id_size; /* bytes, 0 to 255 */
    uint8_t routing_id[256];
    char socket_type[16]; /* the texts are truncated if too long */
    char address[128];    /* an IP address, or "localhost:uid:gid:pid" */
    char user_id[256];    /* as the ZAP handler returned it (RFC 27) */
    char endpoint[256];   /* our endpoint that the connection belongs to */
    char medium[16];     /* how its messages are transferred: "memory" or "socket"; empty over inproc */
    char fallback_reason[64]; /* why shared memory is not used; empty if it is */
} pinnace_peer_t;

/* The statistics of a socket. */
int pinnace_socket_stats(void *socket, pinnace_stats_t *stats);

/* The peers of a socket: writes at most *count of them, and the number of all to *count. */
int pinnace_socket_peers(void *socket, pinnace_peer_t *peers, size_t *count);

/* The statistics as JSON (RFC 8259), and in Prometheus' text format with `name` as the label `socket`. *size is the
 * size of `buffer` on entry, and the size of the text with its NUL on return. ENOBUFS: the text does not fit. */
int pinnace_socket_stats_json(void *socket, char *buffer, size_t *size);
int pinnace_socket_stats_prometheus(void *socket, const char *name, char *buffer, size_t *size);

/* Disconnects a peer. EHOSTUNREACH: no peer has this number, or there is no connection to it. */
int pinnace_kick(void *socket, uint64_t peer);

/* These wait, then return 0. EAGAIN: timeout; ENOTSUP: not for this socket type. */
int pinnace_wait_peers(void *socket, size_t count, long timeout_ms); /* until `count` peers are connected */
int pinnace_wait_subscribers(void *socket, const void *topic, size_t size, size_t count,
                             long timeout_ms); /* PUB, XPUB: until `count` peers subscribe to this prefix */
int pinnace_wait_subscribed(void *socket,
                            long timeout_ms); /* SUB, XSUB: until publishers have all subscriptions */
int pinnace_wait_ended(void *socket, uint64_t count,
                       long timeout_ms); /* until `count` peers have left and all they sent was received */

/* A level-triggered descriptor: readable exactly while the socket is ready for one of `events` (ZMQ_POLLIN,
 * ZMQ_POLLOUT). It is closed with the socket. EINVAL: other events. */
int pinnace_fd(void *socket, short events);

/* The numbers of messages that closed sockets of a context have lost, by reason; `lost` has PINNACE_REASONS elements. A
 * socket that is still lingering may lose more. */
int pinnace_ctx_lost(void *context, uint64_t *lost);

/* What a terminated context left unsent, over all sockets that it ever had. */
typedef struct pinnace_leftover_t {
    size_t size;       /* set to sizeof(pinnace_leftover_t) before the call; later versions append members */
    uint64_t messages; /* accepted, but not passed to the kernel, nor over inproc to a socket */
    uint64_t bytes;    /* of these messages, with ZMTP's headers */
    uint64_t lost[PINNACE_REASONS]; /* messages that its sockets have lost, by reason; includes `messages` */
    uint64_t open_sockets;          /* not closed by the application before the deadline; closed now */
} pinnace_leftover_t;

/* As zmq_ctx_term, but takes at most `timeout_ms`: after that, sockets that are still open are closed, even while in
 * use, and unsent messages are discarded. The context is freed if it returns 0; what was left is written to `left`,
 * unless it is NULL. EFAULT: not a context, or terminated already; EINVAL: `size` is smaller than itself; EINTR: a
 * signal was handled, repeat the call; EDEADLK: called by a free function on one of the context's own threads. */
int pinnace_ctx_term(void *context, long timeout_ms, pinnace_leftover_t *left);

/* Pinnace's own socket options, int64_t: the bytes that the queue of one peer may hold, in addition to ZMQ_SNDHWM and
 * ZMQ_RCVHWM, with ZMTP's headers. A message is accepted while the queue holds fewer. 0 [default]: no limit. */
#define PINNACE_SNDBYTES 10001
#define PINNACE_RCVBYTES 10002

/* Socket option, int: whether ipc:// connections transfer messages through shared memory. Both processes agree on that
 * when they connect; otherwise, and with other implementations, messages go over the connection. 0: never, 1 [default]:
 * with processes of the same user, 2: of any user. It affects connections made after it was set. The environment
 * variable PINNACE_SHARED_MEMORY sets the default. pinnace_socket_peers reports the medium of each peer. */
#define PINNACE_SHARED_MEMORY 10003

/* Socket option, int: whether bodies of 4 KiB and more in shared memory are received without a copy. Only for trusted
 * peers. 0 [default]: no. 1: zmq_msg_recv(3) returns a message with zmq_msg_data(3) in the peer's memory. It is
 * read-only (a write is SIGSEGV), and readable in this process but not in a child of fork(2). A malicious peer may
 * change it later. Until it is closed, the peer has less room for other messages. It affects connections made after it
 * was set. */
#define PINNACE_BORROW 10004

/* Limits the bytes that all queues of a context hold together. At the limit, nothing more is accepted from the
 * application nor read from peers, except for queues that are empty. 0: no limit. It affects peers that connect after
 * the first call. */
int pinnace_ctx_set_max_bytes(void *context, uint64_t max_bytes);
int pinnace_ctx_held_bytes(void *context, uint64_t *held);

typedef struct pinnace_part_t {
    const void *data;
    size_t size;
} pinnace_part_t;

/* Sends a whole message, all frames or none; returns its bytes, at most INT_MAX. `flags`: 0 or ZMQ_DONTWAIT. */
int pinnace_send_parts(void *socket, const pinnace_part_t *parts, size_t count, int flags);

/* CURVE certificates as files, in the format of CZMQ's zcert(3): NAME has the public key; NAME_secret, readable only by
 * its owner, has both keys. A function that fails returns NULL or -1, sets errno, and stores a text with the file, the
 * line in it and the error: pinnace_cert_error.
 * EFAULT: not a certificate, destroyed already, or a null pointer; EINVAL: an invalid key, or a value that cannot be
 * written; EBADMSG: the file is not a certificate; EKEYREJECTED: its secret key is invalid, or does not match the
 * public key; ENOKEY: no secret key; EAGAIN: the system has no random bytes; and the system's errors for files. */
const char *pinnace_cert_error(void); /* of the calling thread; valid until its next failure */

/* From keys of 40 characters of Z85; both NULL: generates a pair; `secret` NULL: a public certificate. */
void *pinnace_cert_new(const char *z85_public_key, const char *z85_secret_key);
void *pinnace_cert_load(const char *file);        /* both keys of FILE_secret if it exists, else as below */
void *pinnace_cert_load_public(const char *file); /* the public key of exactly this file */
void *pinnace_cert_load_secret(const char *file); /* both keys of exactly this file */
int pinnace_cert_destroy(void *cert);             /* wipes the secret key */

/* An existing file is replaced as a whole. */
int pinnace_cert_save(void *cert, const char *file);        /* FILE and FILE_secret */
int pinnace_cert_save_public(void *cert, const char *file); /* exactly this file */
int pinnace_cert_save_secret(void *cert, const char *file); /* exactly this file */

/* Writes 40 characters and a NUL to each pointer that is not NULL. */
int pinnace_cert_keys(void *cert, char *z85_public_key, char *z85_secret_key);
int pinnace_cert_apply(void *cert, void *socket); /* sets ZMQ_CURVE_PUBLICKEY and ZMQ_CURVE_SECRETKEY */

/* Metadata about the owner, by name. *size is the size of `buffer` on entry, and the size of the value with its NUL on
 * return. ENOENT: no such name; ENOBUFS: the value does not fit. */
int pinnace_cert_meta(void *cert, const char *name, char *buffer, size_t *size);
int pinnace_cert_set_meta(void *cert, const char *name, const char *value);

/* The public certificates in a directory and its subdirectories, as they are at the call. */
void *pinnace_certstore_load(const char *directory);
int pinnace_certstore_destroy(void *store);
int pinnace_certstore_size(void *store); /* number of certificates */

/* Returns the certificate with this public key (32 bytes, or 40 characters); the caller destroys it. ENOENT: none. */
void *pinnace_certstore_find(void *store, const void *key, size_t size);

/* Files without a valid certificate, by index from 0 until ENOENT, as "file: error". ENOBUFS as above. */
int pinnace_certstore_refused(void *store, size_t index, char *buffer, size_t *size);

#ifdef __cplusplus
}
#endif

#include "pinnace_delivery.h"
#include "pinnace_files.h"

#endif /* PINNACE_H */
