/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* What Pinnace adds to zmq.h. A program that uses it links to libpinnace and no longer runs on libzmq. */

#ifndef PINNACE_H
#define PINNACE_H

#include "zmq.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pinnace's own version, "major.minor.patch"; static. zmq_version tells which libzmq it stands for. */
const char *pinnace_version(void);

/* Every function below returns -1 and sets errno where it fails, beside what it names: EFAULT for a null pointer,
 * ENOTSOCK for what is no open socket, ETERM after zmq_ctx_shutdown. Times are in milliseconds; below 0 is for ever.
 * Each may be called from any thread. */

/* What went one way. */
typedef struct pinnace_traffic_t {
    uint64_t messages; /* in: received by the application; out: taken by the kernel, or by the peer over inproc */
    uint64_t bytes;    /* theirs, with ZMTP's headers and before any encryption */
    uint64_t queued;   /* messages that wait */
} pinnace_traffic_t;

/* Why messages were lost: indices of pinnace_stats_t.dropped. */
#define PINNACE_FULL 0       /* the peer's high-water mark was reached */
#define PINNACE_UNROUTABLE 1 /* nobody has the routing id that it was sent to */
#define PINNACE_PEER_LOST 2  /* the peer went while it was being sent */
#define PINNACE_CUT 3        /* a lost connection cut it, and it could not be begun again */
#define PINNACE_UNWANTED 4   /* the socket does not take such messages, or not from this peer */
#define PINNACE_MALFORMED 5  /* it breaks the pattern's rules */
#define PINNACE_DUPLICATE 6  /* another peer has the sender's routing id */
#define PINNACE_CONFLATED 7  /* a newer one took its place: ZMQ_CONFLATE */
#define PINNACE_LIMIT 8      /* over a limit: too many topics, too large for a datagram */
#define PINNACE_NO_MEMORY 9
#define PINNACE_EXPIRED 10   /* not sent within ZMQ_LINGER, or its endpoint was taken back */
#define PINNACE_UNREAD 11    /* it had come in, and was not received before the socket was closed */
#define PINNACE_REASONS 12

typedef struct pinnace_stats_t {
    size_t size; /* bytes of this struct: set it before the call; later versions have more members */
    pinnace_traffic_t received, sent;
    uint64_t dropped[PINNACE_REASONS]; /* messages lost, by reason */
    uint64_t connected, accepted, disconnected, retried; /* connections */
    uint64_t handshakes_succeeded, handshakes_failed;
    uint64_t events_dropped; /* events that a monitor had no room for */
    uint64_t peers;          /* that are there now */
    uint64_t ended_peers;    /* that have come and gone, and of which all was received */
} pinnace_stats_t;

typedef struct pinnace_peer_t {
    uint64_t number; /* stands for the peer in pinnace_kick; never used again */
    pinnace_traffic_t received, sent;
    uint64_t dropped, reconnects;
    uint64_t round_trip_us; /* of the last PING, else as the kernel estimates it for tcp; 0: not known */
    int connected;
    int mechanism;          /* ZMQ_NULL, ZMQ_PLAIN, ZMQ_CURVE */
    size_t routing_id_size; /* bytes, 0 to 255 */
    uint8_t routing_id[256];
    char socket_type[16]; /* the texts are cut where they are too long */
    char address[128];    /* an IP address, or "localhost:uid:gid:pid" */
    char user_id[256];    /* as a ZAP handler said (RFC 27) */
    char endpoint[256];   /* ours, that it came by */
    char carrier[16];     /* how its messages move: "memory" or "socket"; empty over inproc */
    char socket_because[64]; /* why they do not go through memory; empty where they do */
} pinnace_peer_t;

/* The statistics of a socket. */
int pinnace_socket_stats(void *socket, pinnace_stats_t *stats);

/* The peers of a socket: writes at most *count, and how many there are to *count. */
int pinnace_socket_peers(void *socket, pinnace_peer_t *peers, size_t *count);

/* The same as JSON (RFC 8259), and in Prometheus' text format with `name` as the label `socket`. *size is the room at
 * `buffer` before the call and what the text needs, with its NUL, after it. ENOBUFS: it does not fit. */
int pinnace_socket_stats_json(void *socket, char *buffer, size_t *size);
int pinnace_socket_stats_prometheus(void *socket, const char *name, char *buffer, size_t *size);

/* Cuts a peer off. EHOSTUNREACH: there is none of this number, or no connection to it. */
int pinnace_kick(void *socket, uint64_t peer);

/* These wait, and return 0; EAGAIN when the time is over, ENOTSUP for a socket type that it means nothing to. */
int pinnace_wait_peers(void *socket, size_t count, long timeout_ms); /* until so many peers are there */
int pinnace_wait_subscribers(void *socket, const void *topic, size_t size, size_t count,
                             long timeout_ms); /* PUB, XPUB: until so many get messages that begin so */
int pinnace_wait_subscribed(void *socket,
                            long timeout_ms); /* SUB, XSUB: until publishers have all subscriptions */
int pinnace_wait_ended(void *socket, uint64_t count,
                       long timeout_ms); /* until so many have come and gone, and all they sent was received */

/* A descriptor that is readable exactly while the socket is ready for one of `events` (ZMQ_POLLIN, ZMQ_POLLOUT); it is
 * closed with the socket. EINVAL: other events. */
int pinnace_fd(void *socket, short events);

/* The messages that closed sockets of a context have lost, by reason: `lost` has room for PINNACE_REASONS numbers. A
 * socket that still sends what its linger time allows may lose more. */
int pinnace_ctx_lost(void *context, uint64_t *lost);

/* What a context has left behind at its end, over all its sockets and all its time. */
typedef struct pinnace_leftover_t {
    size_t size;       /* bytes of this struct: set it before the call; later versions have more members */
    uint64_t messages; /* accepted to be sent, and taken by no kernel and, over inproc, by no socket */
    uint64_t bytes;    /* theirs, with ZMTP's headers */
    uint64_t lost[PINNACE_REASONS]; /* all that its sockets have lost, by reason: these messages too */
    uint64_t open_sockets;          /* that were not closed when the time was over, and are now */
} pinnace_leftover_t;

/* As zmq_ctx_term, but it is over after `timeout_ms`: sockets that are still open are closed then, whoever uses them,
 * and what was not sent is given up. The context is gone when it returns 0; `left`, unless it is NULL, says what was
 * left. EFAULT: no context, or ended already; EINVAL: a `size` too small for itself; EINTR: a signal was handled, call
 * it again; EDEADLK: called by a free function on one of the context's own threads. */
int pinnace_ctx_term(void *context, long timeout_ms, pinnace_leftover_t *left);

/* Socket options of Pinnace's own, int64_t: the bytes that one peer's queue may hold beside ZMQ_SNDHWM and ZMQ_RCVHWM,
 * with ZMTP's headers; another message is accepted while it holds fewer. 0 [default]: no limit. */
#define PINNACE_SNDBYTES 10001
#define PINNACE_RCVBYTES 10002

/* Socket option, int: whether ipc:// connections move their messages through memory that both processes have, which
 * they agree on when they connect; else, and with any other implementation, they go over the connection. 0: never,
 * 1 [default]: with processes of the same user, 2: of any user. It counts for connections made after it was set. The
 * default is what the environment's PINNACE_SHARED_MEMORY says. pinnace_socket_peers tells which way a peer's go. */
#define PINNACE_SHARED_MEMORY 10003

/* Socket option, int: whether bodies of 4 KiB and more that come through that memory are received without a copy, for
 * peers that are trusted. 0 [default]: no. 1: zmq_msg_recv(3) gives a message whose zmq_msg_data(3) lies in the peer's
 * memory. It can only be read (who writes there gets SIGSEGV), in this process and not in a child of fork(2); a peer
 * that breaks its word may change it; and until it is closed its peer has less room for others. It counts for
 * connections made after it was set. */
#define PINNACE_BORROW 10004

/* Limits the bytes that all queues of a context hold together; while they hold so many nothing more is accepted from
 * the application, nor read from peers, but for queues that hold nothing. 0: no limit. It counts for peers that come
 * after the first call. */
int pinnace_ctx_set_max_bytes(void *context, uint64_t max_bytes);
int pinnace_ctx_held_bytes(void *context, uint64_t *held);

typedef struct pinnace_part_t {
    const void *data;
    size_t size;
} pinnace_part_t;

/* Sends a whole message, all its frames or none; returns its bytes, at most INT_MAX. `flags`: 0 or ZMQ_DONTWAIT. */
int pinnace_send_parts(void *socket, const pinnace_part_t *parts, size_t count, int flags);

/* CURVE certificates as files, in the form of CZMQ's zcert(3): NAME has the public key, NAME_secret, which its owner
 * alone can read, has both. A function that fails returns NULL or -1; beside errno it leaves a line that says which
 * file it was, which line of it, and what is wrong there: pinnace_cert_error.
 * EFAULT: no certificate, or destroyed already, or a null pointer; EINVAL: what is no key, or cannot be written;
 * EBADMSG: the file is no certificate; EKEYREJECTED: its secret key is none, or does not belong to the public one;
 * ENOKEY: there is no secret key; EAGAIN: the system has no random bytes; and what the system says of files. */
const char *pinnace_cert_error(void); /* of the calling thread; it stays until the next failure */

/* Of keys as 40 characters of Z85: new ones where both are NULL, somebody else's where `secret` is. */
void *pinnace_cert_new(const char *z85_public_key, const char *z85_secret_key);
void *pinnace_cert_load(const char *file);        /* both keys of FILE_secret where it is there, else as below */
void *pinnace_cert_load_public(const char *file); /* the public key of this very file */
void *pinnace_cert_load_secret(const char *file); /* both keys of this very file */
int pinnace_cert_destroy(void *cert);             /* the secret key is wiped */

/* What was there is replaced as a whole. */
int pinnace_cert_save(void *cert, const char *file);        /* FILE and FILE_secret */
int pinnace_cert_save_public(void *cert, const char *file); /* this very file */
int pinnace_cert_save_secret(void *cert, const char *file); /* this very file */

/* Writes 40 characters and a NUL to each that is not NULL. */
int pinnace_cert_keys(void *cert, char *z85_public_key, char *z85_secret_key);
int pinnace_cert_apply(void *cert, void *socket); /* sets ZMQ_CURVE_PUBLICKEY and ZMQ_CURVE_SECRETKEY */

/* What is said of the owner by name. *size is the room at `buffer` before the call and what the value needs, with its
 * NUL, after it. ENOENT: nothing is said so; ENOBUFS: it does not fit. */
int pinnace_cert_meta(void *cert, const char *name, char *buffer, size_t *size);
int pinnace_cert_set_meta(void *cert, const char *name, const char *value);

/* A directory of public certificates, with those below it, as it is now: who is known. */
void *pinnace_certstore_load(const char *directory);
int pinnace_certstore_destroy(void *store);
int pinnace_certstore_size(void *store); /* how many are known */

/* A certificate, to be destroyed, of whoever has this public key: 32 bytes, or 40 characters. ENOENT: nobody. */
void *pinnace_certstore_find(void *store, const void *key, size_t size);

/* Files of the directory that hold no certificate, from index 0 on until ENOENT: "file: what is wrong". ENOBUFS as
 * above. */
int pinnace_certstore_refused(void *store, size_t index, char *buffer, size_t *size);

/* Guaranteed delivery between named clients: docs/delivery.md says what is promised. A function that fails returns -1,
 * NULL or 0; beside errno it leaves words: pinnace_client_error. Any function may be called from any thread, also by a
 * handler. Options, clients and deliveries that are none, or were let go, are EFAULT, and so are null pointers, but
 * where NULL is said to mean something, or the `data` of an empty body. Texts are UTF-8.
 * EINVAL: a value that is not taken, a name that is empty or has more than 255 bytes; EAGAIN: the time is over;
 * ECANCELED: the client was closed meanwhile; ENOSPC: no room on the disk, or a limit is reached; EIO: a write to the
 * disk failed, and the client's store takes nothing more until it is opened anew; EEXIST: another client has the name;
 * EBUSY: another process has the store, or others keep the registry locked; EBADMSG: the store or the registry is
 * damaged, or something else; and what the system says of files. */
typedef struct pinnace_client_options_t pinnace_client_options_t;
typedef struct pinnace_client_t pinnace_client_t;
typedef struct pinnace_delivery_t pinnace_delivery_t;

const char *pinnace_client_error(void); /* of the calling thread; it stays until the next failure */

/* What a client is to be; options serve for any number of clients. Each is set as text; times are 1 to 86400000, or 0
 * where that is said:
 *   data_dir           the directory of its store; by default one of the user's
 *   registry           dir://PATH, sqlite://PATH, redis://HOST, none; by default a directory of the user's
 *   listen             where others reach it, an endpoint [a local socket, for processes of this host]
 *   advertise          where they are told to, where that differs
 *   lease_ms           how long the name stays its own where it says nothing, 1 to 2592000000 [10000]
 *   interval_ms        how long PINNACE_INTERVAL may be away from the disk [100]
 *   retry_first_ms     the wait before a message that failed comes again [100]; each is twice the last,
 *   retry_most_ms      at most this [60000]
 *   max_deliveries     after which a message is given up [0: never]
 *   ack_within_ms      how long a message may be with its handler before it has failed [0: as it likes]
 *   reassign_after_ms  how long one that went to one of many waits for that one [30000; 0: for ever]
 *   skip_failing       1: others go on while a message that failed waits [0]
 *   skip_damage        1: opens a damaged store without what is damaged [0]
 *   memory_limit       bytes that PINNACE_MEMORY may keep [64 MiB]
 *   linger_ms          how long closing waits for these to be acknowledged [1000; 0: not at all]
 *   disk_limit         bytes of the store's files, 4 MiB at least; of them a body takes a sixteenth at most, or
 *                      half of what is beyond 16 MiB [0: none]
 *   max_body           bytes of the largest body that is sent and taken [1 GiB]
 *   compress_from      bytes from which on bodies are compressed, where that pays [1 MiB] */
pinnace_client_options_t *pinnace_client_options_new(const char *name, const char *topic);
int pinnace_client_options_set(pinnace_client_options_t *options, const char *key, const char *value);
int pinnace_client_options_peer(pinnace_client_options_t *options, const char *name, const char *endpoint,
                                const char *const *topics, size_t count); /* one that is known beforehand */
int pinnace_client_options_destroy(pinnace_client_options_t *options);

/* All that it says and hears is encrypted, with the keys of a certificate (ENOKEY: it has no secret one); it speaks to
 * those alone whose public keys, 40 characters of Z85, are given. */
int pinnace_client_options_curve(pinnace_client_options_t *options, void *cert);
int pinnace_client_options_trust(pinnace_client_options_t *options, const char *name, const char *z85_public_key);

pinnace_client_t *pinnace_client_start(const pinnace_client_options_t *options);

/* Whoever waits in the client for messages, room or acknowledgements gets ECANCELED. It returns when all calls and
 * handlers have; called by a handler, at once, and the client ends with the last of them: until then another call waits
 * for that, and no handler is called after it. */
int pinnace_client_close(pinnace_client_t *client);

const char *pinnace_client_name(pinnace_client_t *client);     /* stays until it is closed */
const char *pinnace_client_endpoint(pinnace_client_t *client); /* where others reach it; stays as long */
int pinnace_client_subscribe(pinnace_client_t *client, const char *topic);
int pinnace_client_unsubscribe(pinnace_client_t *client, const char *topic);

/* Where those are that listen on a topic, a line each; returns how many they are. *size is the room at `buffer` before
 * the call and what the text needs, with its NUL, after it. ENOBUFS: it does not fit. */
int pinnace_client_addresses(pinnace_client_t *client, const char *topic, char *buffer, size_t *size);

/* 0, or an error for what keeps it from being known in its registry, or from knowing who is there; that is tried again
 * and again. EHOSTUNREACH: a server does not answer; EEXIST: another has taken the name meanwhile. */
int pinnace_client_registry_error(pinnace_client_t *client);

/* Clears away what dead clients left of themselves in the registry on a topic; returns how many that were. */
int pinnace_client_clear_addresses(pinnace_client_t *client, const char *topic);

#define PINNACE_SYNC 0     /* on the disk before the call returns */
#define PINNACE_INTERVAL 1 /* on the disk some time after: interval_ms */
#define PINNACE_MEMORY 2   /* never on the disk, and lost with the process */

typedef struct pinnace_send_options_t {
    size_t size;        /* bytes of this struct; later versions have more members, whose default is 0 */
    int64_t timeout_ms; /* how long to wait for room and the disk; below 0 is for ever */
    int64_t ttl_ms;     /* how long the message may live, at most UINT32_MAX; 0: as long as it takes */
    int all;            /* 0: to one of those that listen on the topic, in turn; 1: to each, as send_all does */
    int durability;     /* PINNACE_SYNC, PINNACE_INTERVAL, PINNACE_MEMORY */
} pinnace_send_options_t;

/* How pinnace_client_send_to sends. */
#define PINNACE_SEND_OPTIONS {sizeof(pinnace_send_options_t), -1, 0, 0, PINNACE_SYNC}

/* 0: the message is on this machine's disk and will be delivered, to whom listens or, where nobody does yet, to the
 * first that will; with send_all to each that listens, and to each that did until it was killed. After EAGAIN and EIO
 * it may be there, or come to be. Where `options` is NULL it is sent as pinnace_client_send_to does. E2BIG: options are
 * set that this version does not know. */
int pinnace_client_send_to(pinnace_client_t *client, const char *topic, const void *data, size_t size);
int pinnace_client_send_all(pinnace_client_t *client, const char *topic, const void *data, size_t size);
int pinnace_client_send(pinnace_client_t *client, const char *topic, const void *data, size_t size,
                        const pinnace_send_options_t *options);

/* Does not wait for the disk: pinnace_client_wait does, with the ticket. Messages are on the disk in the order of their
 * tickets, so that to wait for the last is to wait for all. */
int pinnace_client_send_async(pinnace_client_t *client, const char *topic, const void *data, size_t size,
                              const pinnace_send_options_t *options, uint64_t *ticket);
int pinnace_client_wait(pinnace_client_t *client, uint64_t ticket, long timeout_ms);

/* How many messages, and parts of such, nobody has yet said to have; and waiting until they are so few. */
int pinnace_client_pending(pinnace_client_t *client, uint64_t *pending);
int pinnace_client_wait_pending(pinnace_client_t *client, uint64_t most, long timeout_ms);

/* Calls a function with each receiver and topic that messages were sent to, and how many of them, and parts of such,
 * wait for it; the receiver is NULL where that is whoever comes first. Returns how many those are. */
typedef void(pinnace_pending_fn)(const char *receiver, const char *topic, uint64_t messages, void *arg);
int pinnace_client_pending_by_peer(pinnace_client_t *client, pinnace_pending_fn *each, void *arg);

/* Forgets what waits on a topic; writes how many messages, and parts of such, that were, unless `cleared` is NULL. */
int pinnace_client_clear_pending(pinnace_client_t *client, const char *topic, uint64_t *cleared);

/* The next message. It is the caller's until it is settled, by one of pinnace_delivery_ack, _nack, _terminate and
 * _fail, also after the client was closed; then it is gone, with all that its functions pointed to. */
pinnace_delivery_t *pinnace_client_recv(pinnace_client_t *client, long timeout_ms);

const void *pinnace_delivery_body(pinnace_delivery_t *delivery); /* not NULL, even where it is empty */
size_t pinnace_delivery_size(pinnace_delivery_t *delivery);
const char *pinnace_delivery_from(pinnace_delivery_t *delivery);
const char *pinnace_delivery_topic(pinnace_delivery_t *delivery);
uint64_t pinnace_delivery_accepted_ms(pinnace_delivery_t *delivery); /* since 1970, by the sender's clock */
uint64_t pinnace_delivery_deliveries(pinnace_delivery_t *delivery);       /* of its deliveries, this one included */

/* Exactly once: what a receiver stores with a message's effect, in one transaction of its own database, in the table of
 * pinnace_cursor_schema (SQL that SQLite, PostgreSQL, MySQL and others understand). Insert the receiver's name, sender,
 * stream and number; where that row is there already, this is the same message once more: roll back, and acknowledge
 * it. Else bring about the effect, delete the rows of the same receiver, sender and stream with numbers up to
 * `settled`, commit, and acknowledge. */
typedef struct pinnace_cursor_t {
    char sender[33];  /* the store it comes from: 32 hexadecimal digits */
    uint64_t stream;  /* which of that store's streams it belongs to */
    uint64_t number;  /* its number there; later messages have larger ones */
    uint64_t settled; /* no message of the stream up to this number is delivered again */
} pinnace_cursor_t;
int pinnace_delivery_cursor(pinnace_delivery_t *delivery, pinnace_cursor_t *cursor);
const char *pinnace_cursor_schema(void);

/* A dead letter goes to whoever listens on the topic of the same name with ".dead" behind it. Of it: where it was sent
 * at first, who gave it up, how often it was delivered there, and why it was given up. ENOENT: it is none. */
#define PINNACE_TERMINATED 0 /* its handler said so */
#define PINNACE_DELIVERIES 1 /* it was delivered as often as it may be */
#define PINNACE_TOO_LARGE 2  /* it is larger than its receiver takes */
#define PINNACE_UNREADABLE 3 /* it is compressed, and cannot be read */
const char *pinnace_delivery_dead_topic(pinnace_delivery_t *delivery);
const char *pinnace_delivery_dead_receiver(pinnace_delivery_t *delivery);
uint64_t pinnace_delivery_dead_deliveries(pinnace_delivery_t *delivery);
int pinnace_delivery_dead_reason(pinnace_delivery_t *delivery);

/* ECANCELED: the client was closed; the message comes again when it is started anew. */
int pinnace_delivery_ack(pinnace_delivery_t *delivery);       /* it is handled */
int pinnace_delivery_nack(pinnace_delivery_t *delivery,
                          long delay_ms);                     /* again, then; below 0: after a while that grows */
int pinnace_delivery_terminate(pinnace_delivery_t *delivery); /* it never will be: its sender has a dead letter */
int pinnace_delivery_fail(pinnace_delivery_t *delivery);      /* again, before what follows it, after a while */

int pinnace_delivery_in_progress(pinnace_delivery_t *delivery); /* it is not settled yet: ack_within_ms begins anew */

/* What a handler returns: one of these, and with it, or not, PINNACE_STOP. Anything else is PINNACE_FAIL. A handler may
 * settle its delivery itself; then only PINNACE_STOP counts. It must return: no exception, no longjmp. */
#define PINNACE_ACK 0
#define PINNACE_FAIL 1
#define PINNACE_NACK 2
#define PINNACE_TERMINATE 3
#define PINNACE_KEEP 4 /* it is the handler's from now on, to be settled at any time */
#define PINNACE_STOP 16
typedef int(pinnace_handler_fn)(pinnace_delivery_t *delivery, void *arg);

/* Calls the handler with one message after the other: in this thread, until PINNACE_STOP; or in one of its own, until
 * then or until the client is closed. That one blocks signals while it waits; the handler, and a process that it
 * starts, has the signal mask of the thread that started the client. */
int pinnace_client_run(pinnace_client_t *client, pinnace_handler_fn *handler, void *arg);
int pinnace_client_listen(pinnace_client_t *client, pinnace_handler_fn *handler, void *arg);

/* Has a function called, on any thread, with what goes wrong where no call tells of it; NULL: none. EACCES: a peer
 * refuses what the client sends; EHOSTUNREACH: one cannot be connected to; ESTALE: one knows a copy of the client's
 * store, and what waits for it is sent anew; EIO, EBADMSG: of the store. The library waits for it: it must not call
 * what waits for the disk or for others. */
typedef void(pinnace_error_fn)(int error, const char *text, void *arg);
int pinnace_client_on_error(pinnace_client_t *client, pinnace_error_fn *handler, void *arg);

#ifdef __cplusplus
}
#endif

#endif /* PINNACE_H */
