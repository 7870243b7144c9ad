/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* libzmq's draft API; zmq.h includes this when ZMQ_BUILD_DRAFT_API is defined. Names and numbers are libzmq's (4.3.5
 * and the main line after it) and may still change there. */

#ifndef PINNACE_ZMQ_DRAFT_H
#define PINNACE_ZMQ_DRAFT_H

#include <signal.h>
#include "zmq.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define ZMQ_EXPORT __attribute__((visibility("default")))
#else
#define ZMQ_EXPORT
#endif

/* Socket types: zmq_socket(3). Single frames only. */
#define ZMQ_SERVER 12
#define ZMQ_CLIENT 13
#define ZMQ_RADIO 14
#define ZMQ_DISH 15
#define ZMQ_GATHER 16
#define ZMQ_SCATTER 17
#define ZMQ_DGRAM 18 /* the only one with two frames: the address first */
#define ZMQ_PEER 19
#define ZMQ_CHANNEL 20

/* Socket options: zmq_setsockopt(3); an int unless the comment names another type. [default] */
#define ZMQ_ZAP_ENFORCE_DOMAIN 93       /* 1: no ZAP without a domain [0] */
#define ZMQ_LOOPBACK_FASTPATH 94        /* 0 or 1 [0] */
#define ZMQ_METADATA 95                 /* text "X-key:value", sent in the handshake */
#define ZMQ_MULTICAST_LOOP 96           /* 0 or 1 [1] */
#define ZMQ_ROUTER_NOTIFY 97            /* ZMQ_NOTIFY_* or-ed [0] */
#define ZMQ_XPUB_MANUAL_LAST_VALUE 98   /* 1: a reply goes to the last subscriber only [0] */
#define ZMQ_SOCKS_USERNAME 99           /* text */
#define ZMQ_SOCKS_PASSWORD 100          /* text */
#define ZMQ_IN_BATCH_SIZE 101           /* bytes [8192] */
#define ZMQ_OUT_BATCH_SIZE 102          /* bytes [8192] */
#define ZMQ_WSS_KEY_PEM 103             /* text */
#define ZMQ_WSS_CERT_PEM 104            /* text */
#define ZMQ_WSS_TRUST_PEM 105           /* text */
#define ZMQ_WSS_HOSTNAME 106            /* text */
#define ZMQ_WSS_TRUST_SYSTEM 107        /* 0 or 1 [0] */
#define ZMQ_ONLY_FIRST_SUBSCRIBE 108    /* 1: only a message's first frame may subscribe [0] */
#define ZMQ_RECONNECT_STOP 109          /* ZMQ_RECONNECT_STOP_* or-ed [0] */
#define ZMQ_HELLO_MSG 110               /* bytes, sent to a new peer */
#define ZMQ_DISCONNECT_MSG 111          /* bytes, delivered when a peer has disconnected */
#define ZMQ_PRIORITY 112                /* SO_PRIORITY [0] */
#define ZMQ_BUSY_POLL 113               /* microseconds [0] */
#define ZMQ_HICCUP_MSG 114              /* bytes, delivered when a connection broke and reconnects */
#define ZMQ_XSUB_VERBOSE_UNSUBSCRIBE 115 /* 1: pass on every unsubscription [0] */
#define ZMQ_TOPICS_COUNT 116            /* read only: distinct subscriptions */
#define ZMQ_NORM_MODE 117               /* ZMQ_NORM_* [ZMQ_NORM_CC] */
#define ZMQ_NORM_UNICAST_NACK 118       /* 0 or 1 [0] */
#define ZMQ_NORM_BUFFER_SIZE 119        /* KiB [2048] */
#define ZMQ_NORM_SEGMENT_SIZE 120       /* bytes [1400] */
#define ZMQ_NORM_BLOCK_SIZE 121         /* segments [16] */
#define ZMQ_NORM_NUM_PARITY 122         /* segments [4] */
#define ZMQ_NORM_NUM_AUTOPARITY 123     /* segments [0] */
#define ZMQ_NORM_PUSH 124               /* 0 or 1 [0] */

#define ZMQ_NORM_FIXED 0
#define ZMQ_NORM_CC 1
#define ZMQ_NORM_CCL 2
#define ZMQ_NORM_CCE 3
#define ZMQ_NORM_CCE_ECNONLY 4
#define ZMQ_RECONNECT_STOP_CONN_REFUSED 0x1
#define ZMQ_RECONNECT_STOP_HANDSHAKE_FAILED 0x2
#define ZMQ_RECONNECT_STOP_AFTER_DISCONNECT 0x4
#define ZMQ_NOTIFY_CONNECT 1
#define ZMQ_NOTIFY_DISCONNECT 2
#define ZMQ_ZERO_COPY_RECV 10 /* context option: 0 or 1 [1] */

/* zmq_ctx_set_ext(3), zmq_ctx_get_ext(3): context options of any type. EINVAL. */
ZMQ_EXPORT int zmq_ctx_set_ext(void *context, int option, const void *optval, size_t optvallen);
ZMQ_EXPORT int zmq_ctx_get_ext(void *context, int option, void *optval, size_t *optvallen);

/* DISH: at most ZMQ_GROUP_MAX_LENGTH characters, each group once. EINVAL; ENOTSUP: not a DISH. */
ZMQ_EXPORT int zmq_join(void *socket, const char *group);
ZMQ_EXPORT int zmq_leave(void *socket, const char *group);
/* PEER: connects and returns the routing id of the new peer; messages can be sent to it at once. 0 on an error.
 * ENOTSUP: not a PEER; EFAULT: with ZMQ_IMMEDIATE; and the errors of zmq_connect.
 * SERVER and PEER: disconnects one peer; if we connected to it, its endpoint is disconnected. EHOSTUNREACH: no such
 * peer. */
ZMQ_EXPORT uint32_t zmq_connect_peer(void *socket, const char *addr);
ZMQ_EXPORT int zmq_disconnect_peer(void *socket, uint32_t routing_id);
/* ROUTER: ZMQ_POLLIN and ZMQ_POLLOUT of one peer. EHOSTUNREACH: no such peer. */
ZMQ_EXPORT int zmq_socket_get_peer_state(void *socket, const void *routing_id, size_t routing_id_size);

/* The peer that a SERVER's or PEER's message is for or from (0: none), and a RADIO's group. */
ZMQ_EXPORT int zmq_msg_set_routing_id(zmq_msg_t *msg, uint32_t routing_id);
ZMQ_EXPORT uint32_t zmq_msg_routing_id(zmq_msg_t *msg);
ZMQ_EXPORT int zmq_msg_set_group(zmq_msg_t *msg, const char *group);
ZMQ_EXPORT const char *zmq_msg_group(zmq_msg_t *msg);
/* A message with a copy of size bytes. ENOMEM. */
ZMQ_EXPORT int zmq_msg_init_buffer(zmq_msg_t *msg, const void *buf, size_t size);

#define ZMQ_MSG_PROPERTY_ROUTING_ID "Routing-Id"
#define ZMQ_MSG_PROPERTY_SOCKET_TYPE "Socket-Type"
#define ZMQ_MSG_PROPERTY_USER_ID "User-Id"
#define ZMQ_MSG_PROPERTY_PEER_ADDRESS "Peer-Address"

/* zmq_poller(3). wait returns 0, wait_all the number of events; -1 with EAGAIN after timeout ms. */
#define ZMQ_HAVE_POLLER
typedef struct zmq_poller_event_t {
    void *socket;
    zmq_fd_t fd;
    void *user_data;
    short events;
} zmq_poller_event_t;
ZMQ_EXPORT void *zmq_poller_new(void);
ZMQ_EXPORT int zmq_poller_destroy(void **poller);
ZMQ_EXPORT int zmq_poller_size(void *poller);
ZMQ_EXPORT int zmq_poller_add(void *poller, void *socket, void *user_data, short events);
ZMQ_EXPORT int zmq_poller_modify(void *poller, void *socket, short events);
ZMQ_EXPORT int zmq_poller_remove(void *poller, void *socket);
ZMQ_EXPORT int zmq_poller_wait(void *poller, zmq_poller_event_t *event, long timeout);
ZMQ_EXPORT int zmq_poller_wait_all(void *poller, zmq_poller_event_t *events, int n_events, long timeout);
ZMQ_EXPORT int zmq_poller_fd(void *poller, zmq_fd_t *fd);
ZMQ_EXPORT int zmq_poller_add_fd(void *poller, zmq_fd_t fd, void *user_data, short events);
ZMQ_EXPORT int zmq_poller_modify_fd(void *poller, zmq_fd_t fd, short events);
ZMQ_EXPORT int zmq_poller_remove_fd(void *poller, zmq_fd_t fd);
/* zmq_poll with a signal mask during the wait. */
ZMQ_EXPORT int zmq_ppoll(zmq_pollitem_t *items, int nitems, long timeout, const sigset_t *sigmask);

/* Version 2 of an event: uint64_t event, uint64_t count, count values of uint64_t, local address, remote address.
 * type is the monitor's socket type: PAIR, PUB or PUSH. */
#define ZMQ_EVENT_PIPES_STATS 0x10000
#define ZMQ_CURRENT_EVENT_VERSION 1
#define ZMQ_CURRENT_EVENT_VERSION_DRAFT 2
#define ZMQ_EVENT_ALL_V1 ZMQ_EVENT_ALL
#define ZMQ_EVENT_ALL_V2 (ZMQ_EVENT_ALL_V1 | ZMQ_EVENT_PIPES_STATS)
ZMQ_EXPORT int zmq_socket_monitor_versioned(void *socket, const char *addr, uint64_t events, int event_version,
                                            int type);
ZMQ_EXPORT int zmq_socket_monitor_pipes_stats(void *socket);

#ifdef __cplusplus
}
#endif

#undef ZMQ_EXPORT

#endif /* PINNACE_ZMQ_DRAFT_H */
