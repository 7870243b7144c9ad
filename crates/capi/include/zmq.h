/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Pinnace's header for the C interface that libzmq 4.3.5 defines: the same names, numbers, shapes and signatures.
 *
 * Unless a comment says otherwise a function returns 0, or -1 with the reason in errno. Whatever works on a socket
 * can fail with ENOTSOCK (not an open socket) and ETERM (its context is being terminated); a call that waits can
 * fail with EINTR. Times are milliseconds, sizes bytes, and -1 means "without limit" or "the system's own".
 * Sockets may be used from any thread. Each group names the manual page that describes it in full. */

#ifndef __ZMQ_H_INCLUDED__
#define __ZMQ_H_INCLUDED__

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ZMQ_VERSION_MAJOR 4
#define ZMQ_VERSION_MINOR 3
#define ZMQ_VERSION_PATCH 5
#define ZMQ_MAKE_VERSION(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
#define ZMQ_VERSION ZMQ_MAKE_VERSION(ZMQ_VERSION_MAJOR, ZMQ_VERSION_MINOR, ZMQ_VERSION_PATCH)
#define ZMQ_DEFINED_STDINT 1

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define ZMQ_EXPORT __attribute__((visibility("default")))
#else
#define ZMQ_EXPORT
#endif

/* ---- Errors: zmq_errno(3), zmq_strerror(3) ---- */

/* First of the error numbers that the operating system does not define. */
#define ZMQ_HAUSNUMERO 156384712
#ifndef ENOTSUP
#define ENOTSUP (ZMQ_HAUSNUMERO + 1)
#endif
#ifndef EPROTONOSUPPORT
#define EPROTONOSUPPORT (ZMQ_HAUSNUMERO + 2)
#endif
#ifndef ENOBUFS
#define ENOBUFS (ZMQ_HAUSNUMERO + 3)
#endif
#ifndef ENETDOWN
#define ENETDOWN (ZMQ_HAUSNUMERO + 4)
#endif
#ifndef EADDRINUSE
#define EADDRINUSE (ZMQ_HAUSNUMERO + 5)
#endif
#ifndef EADDRNOTAVAIL
#define EADDRNOTAVAIL (ZMQ_HAUSNUMERO + 6)
#endif
#ifndef ECONNREFUSED
#define ECONNREFUSED (ZMQ_HAUSNUMERO + 7)
#endif
#ifndef EINPROGRESS
#define EINPROGRESS (ZMQ_HAUSNUMERO + 8)
#endif
#ifndef ENOTSOCK
#define ENOTSOCK (ZMQ_HAUSNUMERO + 9)
#endif
#ifndef EMSGSIZE
#define EMSGSIZE (ZMQ_HAUSNUMERO + 10)
#endif
#ifndef EAFNOSUPPORT
#define EAFNOSUPPORT (ZMQ_HAUSNUMERO + 11)
#endif
#ifndef ENETUNREACH
#define ENETUNREACH (ZMQ_HAUSNUMERO + 12)
#endif
#ifndef ECONNABORTED
#define ECONNABORTED (ZMQ_HAUSNUMERO + 13)
#endif
#ifndef ECONNRESET
#define ECONNRESET (ZMQ_HAUSNUMERO + 14)
#endif
#ifndef ENOTCONN
#define ENOTCONN (ZMQ_HAUSNUMERO + 15)
#endif
#ifndef ETIMEDOUT
#define ETIMEDOUT (ZMQ_HAUSNUMERO + 16)
#endif
#ifndef EHOSTUNREACH
#define EHOSTUNREACH (ZMQ_HAUSNUMERO + 17)
#endif
#ifndef ENETRESET
#define ENETRESET (ZMQ_HAUSNUMERO + 18)
#endif
#define EFSM (ZMQ_HAUSNUMERO + 51)           /* not this socket's turn: REQ and REP alternate */
#define ENOCOMPATPROTO (ZMQ_HAUSNUMERO + 52) /* the socket's type cannot use this transport */
#define ETERM (ZMQ_HAUSNUMERO + 53)          /* the context is being terminated */
#define EMTHREAD (ZMQ_HAUSNUMERO + 54)       /* there is no I/O thread to serve the call */

/* The calling thread's error number; the text of an error (static, never NULL); the libzmq version implemented. */
ZMQ_EXPORT int zmq_errno(void);
ZMQ_EXPORT const char *zmq_strerror(int errnum);
ZMQ_EXPORT void zmq_version(int *major, int *minor, int *patch);

/* ---- Contexts: zmq_ctx_new(3), zmq_ctx_set(3), zmq_ctx_term(3), zmq_ctx_shutdown(3) ---- */

#define ZMQ_IO_THREADS 1
#define ZMQ_MAX_SOCKETS 2
#define ZMQ_SOCKET_LIMIT 3    /* read only: the largest ZMQ_MAX_SOCKETS */
#define ZMQ_THREAD_PRIORITY 3 /* write only, so the number is shared */
#define ZMQ_THREAD_SCHED_POLICY 4
#define ZMQ_MAX_MSGSZ 5
#define ZMQ_MSG_T_SIZE 6 /* read only: sizeof(zmq_msg_t) */
#define ZMQ_THREAD_AFFINITY_CPU_ADD 7
#define ZMQ_THREAD_AFFINITY_CPU_REMOVE 8
#define ZMQ_THREAD_NAME_PREFIX 9
#define ZMQ_IO_THREADS_DFLT 1
#define ZMQ_MAX_SOCKETS_DFLT 1023
#define ZMQ_THREAD_PRIORITY_DFLT -1
#define ZMQ_THREAD_SCHED_POLICY_DFLT -1

/* A new context, or NULL. zmq_ctx_term waits until every socket is closed and has sent what its linger allows; EFAULT:
 * not a context. zmq_ctx_shutdown only makes blocked and later calls fail with ETERM. */
ZMQ_EXPORT void *zmq_ctx_new(void);
ZMQ_EXPORT int zmq_ctx_term(void *context);
ZMQ_EXPORT int zmq_ctx_shutdown(void *context);
/* The value of a context option is an int; zmq_ctx_get returns it. EINVAL: unknown option or value. */
ZMQ_EXPORT int zmq_ctx_set(void *context, int option, int optval);
ZMQ_EXPORT int zmq_ctx_get(void *context, int option);
/* Older names: zmq_init takes the number of I/O threads, the other two are zmq_ctx_term. */
ZMQ_EXPORT void *zmq_init(int io_threads);
ZMQ_EXPORT int zmq_term(void *context);
ZMQ_EXPORT int zmq_ctx_destroy(void *context);

/* ---- Messages: zmq_msg_init(3), zmq_msg_init_data(3), zmq_msg_get(3), zmq_msg_gets(3) ---- */

/* One frame. Opaque; may be moved in memory; every initialised message must be closed or sent. */
typedef struct zmq_msg_t {
#ifdef __GNUC__
    unsigned char _[64] __attribute__((aligned(sizeof(void *))));
#else
    unsigned char _[64];
#endif
} zmq_msg_t;

/* Frees a buffer passed to zmq_msg_init_data; called once, on any thread. */
typedef void(zmq_free_fn)(void *data, void *hint);

#define ZMQ_MORE 1   /* another frame of the same message follows */
#define ZMQ_SRCFD 2  /* descriptor it came from (deprecated) */
#define ZMQ_SHARED 3 /* the body is shared with a copy */

/* An empty message; one of size bytes, contents undefined; one around the caller's buffer. ENOMEM. */
ZMQ_EXPORT int zmq_msg_init(zmq_msg_t *msg);
ZMQ_EXPORT int zmq_msg_init_size(zmq_msg_t *msg, size_t size);
ZMQ_EXPORT int zmq_msg_init_data(zmq_msg_t *msg, void *data, size_t size, zmq_free_fn *ffn, void *hint);
/* Return the body's size. A sent message is empty afterwards; one that could not be sent still holds its body. */
ZMQ_EXPORT int zmq_msg_send(zmq_msg_t *msg, void *socket, int flags);
ZMQ_EXPORT int zmq_msg_recv(zmq_msg_t *msg, void *socket, int flags);
/* EFAULT: not an initialised message. */
ZMQ_EXPORT int zmq_msg_close(zmq_msg_t *msg);
ZMQ_EXPORT int zmq_msg_move(zmq_msg_t *dest, zmq_msg_t *src);
ZMQ_EXPORT int zmq_msg_copy(zmq_msg_t *dest, zmq_msg_t *src);
ZMQ_EXPORT void *zmq_msg_data(zmq_msg_t *msg);
ZMQ_EXPORT size_t zmq_msg_size(const zmq_msg_t *msg);
ZMQ_EXPORT int zmq_msg_more(const zmq_msg_t *msg);
/* One of ZMQ_MORE, ZMQ_SRCFD, ZMQ_SHARED; nothing can be set. EINVAL. */
ZMQ_EXPORT int zmq_msg_get(const zmq_msg_t *msg, int property);
ZMQ_EXPORT int zmq_msg_set(zmq_msg_t *msg, int property, int optval);
/* A property that the peer announced: "Socket-Type", "Routing-Id", "User-Id", "Peer-Address" or an "X-" name; valid as
 * long as the message. NULL with EINVAL if there is no such property. */
ZMQ_EXPORT const char *zmq_msg_gets(const zmq_msg_t *msg, const char *property);

/* ---- Sockets: zmq_socket(3), zmq_setsockopt(3), zmq_getsockopt(3), zmq_bind(3), zmq_send(3), zmq_recv(3) ---- */

#define ZMQ_PAIR 0
#define ZMQ_PUB 1
#define ZMQ_SUB 2
#define ZMQ_REQ 3
#define ZMQ_REP 4
#define ZMQ_DEALER 5
#define ZMQ_ROUTER 6
#define ZMQ_PULL 7
#define ZMQ_PUSH 8
#define ZMQ_XPUB 9
#define ZMQ_XSUB 10
#define ZMQ_STREAM 11
#define ZMQ_XREQ ZMQ_DEALER /* older names */
#define ZMQ_XREP ZMQ_ROUTER

/* Socket options; an int unless the comment names another type. [default] */
#define ZMQ_AFFINITY 4             /* uint64_t, one bit per I/O thread [0: all] */
#define ZMQ_ROUTING_ID 5           /* 1..255 bytes, the first not zero */
#define ZMQ_SUBSCRIBE 6            /* bytes, a prefix; write only */
#define ZMQ_UNSUBSCRIBE 7          /* bytes; write only */
#define ZMQ_RATE 8                 /* kbit/s of multicast [100] */
#define ZMQ_RECOVERY_IVL 9         /* ms [10000] */
#define ZMQ_SNDBUF 11              /* bytes in the kernel [-1] */
#define ZMQ_RCVBUF 12              /* bytes in the kernel [-1] */
#define ZMQ_RCVMORE 13             /* read only */
#define ZMQ_FD 14                  /* zmq_fd_t, read only: readable when ZMQ_EVENTS may have changed */
#define ZMQ_EVENTS 15              /* read only: ZMQ_POLLIN and ZMQ_POLLOUT */
#define ZMQ_TYPE 16                /* read only */
#define ZMQ_LINGER 17              /* ms to keep sending after zmq_close [-1] */
#define ZMQ_RECONNECT_IVL 18       /* ms, -1: never [100] */
#define ZMQ_BACKLOG 19             /* connections [100] */
#define ZMQ_RECONNECT_IVL_MAX 21   /* ms, 0: the interval does not grow [0] */
#define ZMQ_MAXMSGSIZE 22          /* int64_t, bytes [-1] */
#define ZMQ_SNDHWM 23              /* messages, 0: no limit [1000] */
#define ZMQ_RCVHWM 24              /* messages, 0: no limit [1000] */
#define ZMQ_MULTICAST_HOPS 25      /* [1] */
#define ZMQ_RCVTIMEO 27            /* ms [-1] */
#define ZMQ_SNDTIMEO 28            /* ms [-1] */
#define ZMQ_IPV4ONLY 31            /* 0 or 1; deprecated: ZMQ_IPV6 */
#define ZMQ_LAST_ENDPOINT 32       /* text with its NUL; read only */
#define ZMQ_ROUTER_MANDATORY 33    /* 1: no such peer is EHOSTUNREACH, else dropped [0] */
#define ZMQ_TCP_KEEPALIVE 34       /* -1, 0, 1 [-1] */
#define ZMQ_TCP_KEEPALIVE_CNT 35   /* probes [-1] */
#define ZMQ_TCP_KEEPALIVE_IDLE 36  /* s [-1] */
#define ZMQ_TCP_KEEPALIVE_INTVL 37 /* s [-1] */
#define ZMQ_TCP_ACCEPT_FILTER 38   /* bytes; deprecated */
#define ZMQ_IMMEDIATE 39           /* 1: queue only for finished connections [0] */
#define ZMQ_XPUB_VERBOSE 40        /* 1: pass on every subscription [0] */
#define ZMQ_ROUTER_RAW 41          /* 1: bare tcp peers [0] */
#define ZMQ_IPV6 42                /* 0 or 1 [0]; a context option too */
#define ZMQ_MECHANISM 43           /* read only: ZMQ_NULL .. ZMQ_GSSAPI */
#define ZMQ_PLAIN_SERVER 44        /* 0 or 1 [0] */
#define ZMQ_PLAIN_USERNAME 45      /* text */
#define ZMQ_PLAIN_PASSWORD 46      /* text */
#define ZMQ_CURVE_SERVER 47        /* 0 or 1 [0] */
#define ZMQ_CURVE_PUBLICKEY 48     /* 32 bytes, or 40 characters of Z85 */
#define ZMQ_CURVE_SECRETKEY 49     /* the same */
#define ZMQ_CURVE_SERVERKEY 50     /* the same */
#define ZMQ_PROBE_ROUTER 51        /* 1: an empty message on connecting [0] */
#define ZMQ_REQ_CORRELATE 52       /* 1: number requests, match replies [0] */
#define ZMQ_REQ_RELAXED 53         /* 1: a new request before the reply [0] */
#define ZMQ_CONFLATE 54            /* 1: keep the last message only [0] */
#define ZMQ_ZAP_DOMAIN 55          /* text */
#define ZMQ_ROUTER_HANDOVER 56     /* 1: a routing id goes to its newest claimant [0] */
#define ZMQ_TOS 57                 /* the IP header's byte [0] */
#define ZMQ_IPC_FILTER_PID 58      /* pid_t; deprecated, like the next two */
#define ZMQ_IPC_FILTER_UID 59      /* uid_t */
#define ZMQ_IPC_FILTER_GID 60      /* gid_t */
#define ZMQ_CONNECT_ROUTING_ID 61  /* bytes: the routing id for the next peer; write only */
#define ZMQ_GSSAPI_SERVER 62       /* 0 or 1 [0] */
#define ZMQ_GSSAPI_PRINCIPAL 63    /* text */
#define ZMQ_GSSAPI_SERVICE_PRINCIPAL 64 /* text */
#define ZMQ_GSSAPI_PLAINTEXT 65    /* 0 or 1 [0] */
#define ZMQ_HANDSHAKE_IVL 66       /* ms, 0: no limit [30000] */
#define ZMQ_SOCKS_PROXY 68         /* text, host:port */
#define ZMQ_XPUB_NODROP 69         /* 1: EAGAIN at the high-water mark, else dropped [0] */
#define ZMQ_BLOCKY 70              /* context option: 0: sockets start with linger 0 [1] */
#define ZMQ_XPUB_MANUAL 71         /* 1: the caller decides on subscriptions [0] */
#define ZMQ_XPUB_WELCOME_MSG 72    /* bytes: the first message to a new subscriber */
#define ZMQ_STREAM_NOTIFY 73       /* 1: empty messages on connect and disconnect [1] */
#define ZMQ_INVERT_MATCHING 74     /* 1: what matches is not delivered [0] */
#define ZMQ_HEARTBEAT_IVL 75       /* ms between PINGs, 0: none [0] */
#define ZMQ_HEARTBEAT_TTL 76       /* ms, 0..6553599: sent to the peer [0] */
#define ZMQ_HEARTBEAT_TIMEOUT 77   /* ms to wait for an answer [-1: ZMQ_HEARTBEAT_IVL] */
#define ZMQ_XPUB_VERBOSER 78       /* 1: pass on every unsubscription too [0] */
#define ZMQ_CONNECT_TIMEOUT 79     /* ms, 0: the system's own [0] */
#define ZMQ_TCP_MAXRT 80           /* ms, 0: the system's own [0] */
#define ZMQ_THREAD_SAFE 81         /* read only */
#define ZMQ_MULTICAST_MAXTPDU 84   /* bytes [1500] */
#define ZMQ_VMCI_BUFFER_SIZE 85    /* uint64_t, bytes; like the next two */
#define ZMQ_VMCI_BUFFER_MIN_SIZE 86
#define ZMQ_VMCI_BUFFER_MAX_SIZE 87
#define ZMQ_VMCI_CONNECT_TIMEOUT 88 /* ms [-1] */
#define ZMQ_USE_FD 89              /* a listening or connected descriptor of the caller's [-1] */
#define ZMQ_GSSAPI_PRINCIPAL_NAMETYPE 90 /* ZMQ_GSSAPI_NT_*; like the next */
#define ZMQ_GSSAPI_SERVICE_PRINCIPAL_NAMETYPE 91
#define ZMQ_BINDTODEVICE 92        /* text, an interface's name */
#define ZMQ_IDENTITY ZMQ_ROUTING_ID /* older names */
#define ZMQ_CONNECT_RID ZMQ_CONNECT_ROUTING_ID
#define ZMQ_DELAY_ATTACH_ON_CONNECT ZMQ_IMMEDIATE
#define ZMQ_FAIL_UNROUTABLE ZMQ_ROUTER_MANDATORY
#define ZMQ_ROUTER_BEHAVIOR ZMQ_ROUTER_MANDATORY

#define ZMQ_NULL 0 /* ZMQ_MECHANISM */
#define ZMQ_PLAIN 1
#define ZMQ_CURVE 2
#define ZMQ_GSSAPI 3
#define ZMQ_GSSAPI_NT_HOSTBASED 0
#define ZMQ_GSSAPI_NT_USER_NAME 1
#define ZMQ_GSSAPI_NT_KRB5_PRINCIPAL 2
#define ZMQ_GROUP_MAX_LENGTH 255 /* characters */

#define ZMQ_DONTWAIT 1 /* flags of send and recv: EAGAIN instead of waiting */
#define ZMQ_SNDMORE 2  /* another frame of the same message follows */
#define ZMQ_NOBLOCK ZMQ_DONTWAIT

/* A new socket, or NULL. EINVAL: type; EFAULT: context; EMFILE: ZMQ_MAX_SOCKETS or descriptors are used up. */
ZMQ_EXPORT void *zmq_socket(void *context, int type);
ZMQ_EXPORT int zmq_close(void *socket);
/* EINVAL: unknown option, wrong length or value. zmq_getsockopt sets *optvallen to what it wrote. */
ZMQ_EXPORT int zmq_setsockopt(void *socket, int option, const void *optval, size_t optvallen);
ZMQ_EXPORT int zmq_getsockopt(void *socket, int option, void *optval, size_t *optvallen);
/* Addresses: tcp://interface-or-host:port ("*" is any), ipc://path ("*", "@name"), inproc://name.
 * EINVAL: address; EPROTONOSUPPORT, ENOCOMPATPROTO: transport; EADDRINUSE, EADDRNOTAVAIL, ENODEV: bind. */
ZMQ_EXPORT int zmq_bind(void *socket, const char *addr);
ZMQ_EXPORT int zmq_connect(void *socket, const char *addr);
/* ENOENT: not bound or connected there. */
ZMQ_EXPORT int zmq_unbind(void *socket, const char *addr);
ZMQ_EXPORT int zmq_disconnect(void *socket, const char *addr);
/* Return the number of bytes in the frame; zmq_recv truncates a longer one to len and still returns its full size.
 * EAGAIN: not now; ENOTSUP: not this type; EFSM: not its turn; EHOSTUNREACH: no such peer. zmq_send_const does not
 * copy: the buffer must stay unchanged until the process ends. */
ZMQ_EXPORT int zmq_send(void *socket, const void *buf, size_t len, int flags);
ZMQ_EXPORT int zmq_send_const(void *socket, const void *buf, size_t len, int flags);
ZMQ_EXPORT int zmq_recv(void *socket, void *buf, size_t len, int flags);

/* ---- Monitoring: zmq_socket_monitor(3) ---- */

/* An event is two frames: uint16_t event, uint32_t value (6 bytes, native order); then the endpoint's address. */
#define ZMQ_EVENT_CONNECTED 0x0001
#define ZMQ_EVENT_CONNECT_DELAYED 0x0002
#define ZMQ_EVENT_CONNECT_RETRIED 0x0004
#define ZMQ_EVENT_LISTENING 0x0008
#define ZMQ_EVENT_BIND_FAILED 0x0010
#define ZMQ_EVENT_ACCEPTED 0x0020
#define ZMQ_EVENT_ACCEPT_FAILED 0x0040
#define ZMQ_EVENT_CLOSED 0x0080
#define ZMQ_EVENT_CLOSE_FAILED 0x0100
#define ZMQ_EVENT_DISCONNECTED 0x0200
#define ZMQ_EVENT_MONITOR_STOPPED 0x0400
#define ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL 0x0800 /* value: an errno */
#define ZMQ_EVENT_HANDSHAKE_SUCCEEDED 0x1000
#define ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL 0x2000 /* value: ZMQ_PROTOCOL_ERROR_* */
#define ZMQ_EVENT_HANDSHAKE_FAILED_AUTH 0x4000     /* value: ZAP's 300, 400 or 500 */
#define ZMQ_EVENT_ALL 0xFFFF
#define ZMQ_PROTOCOL_ERROR_ZMTP_UNSPECIFIED 0x10000000
#define ZMQ_PROTOCOL_ERROR_ZMTP_UNEXPECTED_COMMAND 0x10000001
#define ZMQ_PROTOCOL_ERROR_ZMTP_INVALID_SEQUENCE 0x10000002
#define ZMQ_PROTOCOL_ERROR_ZMTP_KEY_EXCHANGE 0x10000003
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_UNSPECIFIED 0x10000011
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_MESSAGE 0x10000012
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_HELLO 0x10000013
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_INITIATE 0x10000014
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_ERROR 0x10000015
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_READY 0x10000016
#define ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_WELCOME 0x10000017
#define ZMQ_PROTOCOL_ERROR_ZMTP_INVALID_METADATA 0x10000018
#define ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC 0x11000001
#define ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH 0x11000002
#define ZMQ_PROTOCOL_ERROR_ZAP_UNSPECIFIED 0x20000000
#define ZMQ_PROTOCOL_ERROR_ZAP_MALFORMED_REPLY 0x20000001
#define ZMQ_PROTOCOL_ERROR_ZAP_BAD_REQUEST_ID 0x20000002
#define ZMQ_PROTOCOL_ERROR_ZAP_BAD_VERSION 0x20000003
#define ZMQ_PROTOCOL_ERROR_ZAP_INVALID_STATUS_CODE 0x20000004
#define ZMQ_PROTOCOL_ERROR_ZAP_INVALID_METADATA 0x20000005
#define ZMQ_PROTOCOL_ERROR_WS_UNSPECIFIED 0x30000000

/* Sends the socket's chosen events to a PAIR at addr (inproc only); a NULL addr stops it. EINVAL, EPROTONOSUPPORT. */
ZMQ_EXPORT int zmq_socket_monitor(void *socket, const char *addr, int events);

/* ---- Polling: zmq_poll(3) ---- */

typedef int zmq_fd_t;

#define ZMQ_POLLIN 1
#define ZMQ_POLLOUT 2
#define ZMQ_POLLERR 4
#define ZMQ_POLLPRI 8
#define ZMQ_POLLITEMS_DFLT 16

/* A socket, or a descriptor if the socket is NULL. */
typedef struct zmq_pollitem_t {
    void *socket;
    zmq_fd_t fd;
    short events;
    short revents;
} zmq_pollitem_t;

/* Returns how many items have events; 0 after timeout ms. EINVAL, EFAULT. */
ZMQ_EXPORT int zmq_poll(zmq_pollitem_t *items, int nitems, long timeout);

/* ---- Proxies: zmq_proxy(3), zmq_proxy_steerable(3); zmq_has(3) ---- */

#define ZMQ_HAS_CAPABILITIES 1
#define ZMQ_STREAMER 1
#define ZMQ_FORWARDER 2
#define ZMQ_QUEUE 3

/* Forward messages both ways, with a copy to capture unless it is NULL, until the context is terminated (-1, ETERM) or
 * control receives TERMINATE (0); control also takes PAUSE, RESUME and STATISTICS. */
ZMQ_EXPORT int zmq_proxy(void *frontend, void *backend, void *capture);
ZMQ_EXPORT int zmq_proxy_steerable(void *frontend, void *backend, void *capture, void *control);
ZMQ_EXPORT int zmq_device(int type, void *frontend, void *backend); /* deprecated: zmq_proxy */
/* 1 if supported, else 0: "ipc", "pgm", "tipc", "vsock", "norm", "curve", "gssapi", "vmci", "draft", "WS", "WSS",
 * "tls+tcp". */
ZMQ_EXPORT int zmq_has(const char *capability);

/* ---- Older ways to send and receive ---- */

struct iovec;
ZMQ_EXPORT int zmq_sendmsg(void *socket, zmq_msg_t *msg, int flags);
ZMQ_EXPORT int zmq_recvmsg(void *socket, zmq_msg_t *msg, int flags);
/* One frame per element. zmq_sendiov returns the last frame's size. zmq_recviov allocates each frame with malloc, and
 * returns the number of frames, also in *count. */
ZMQ_EXPORT int zmq_sendiov(void *socket, struct iovec *iov, size_t count, int flags);
ZMQ_EXPORT int zmq_recviov(void *socket, struct iovec *iov, size_t *count, int flags);

/* ---- Keys: zmq_z85_encode(3), zmq_z85_decode(3), zmq_curve_keypair(3), zmq_curve_public(3) ---- */

/* Return dest, or NULL with EINVAL: size must be a multiple of 4, the text's length a multiple of 5. dest needs
 * size * 5 / 4 + 1, or length * 4 / 5 bytes. */
ZMQ_EXPORT char *zmq_z85_encode(char *dest, const uint8_t *data, size_t size);
ZMQ_EXPORT uint8_t *zmq_z85_decode(uint8_t *dest, const char *string);
/* Keys are 40 characters and a NUL. ENOTSUP: built without CURVE. */
ZMQ_EXPORT int zmq_curve_keypair(char *z85_public_key, char *z85_secret_key);
ZMQ_EXPORT int zmq_curve_public(char *z85_public_key, const char *z85_secret_key);

/* ---- Counters: zmq_atomic_counter_new(3) and related ---- */

/* inc returns the old value; dec returns 0 once the value is 0, else 1; destroy sets the pointer to NULL. */
ZMQ_EXPORT void *zmq_atomic_counter_new(void);
ZMQ_EXPORT void zmq_atomic_counter_set(void *counter, int value);
ZMQ_EXPORT int zmq_atomic_counter_inc(void *counter);
ZMQ_EXPORT int zmq_atomic_counter_dec(void *counter);
ZMQ_EXPORT int zmq_atomic_counter_value(void *counter);
ZMQ_EXPORT void zmq_atomic_counter_destroy(void **counter);

/* ---- Timers: zmq_timers(3) ---- */

#define ZMQ_HAVE_TIMERS
typedef void(zmq_timer_fn)(int timer_id, void *arg);

/* Intervals in ms. add returns the timer's id; timeout returns the ms until the next one, -1 without any; execute calls
 * the handlers of due timers on this thread. EFAULT: not timers; EINVAL: no such timer. */
ZMQ_EXPORT void *zmq_timers_new(void);
ZMQ_EXPORT int zmq_timers_destroy(void **timers);
ZMQ_EXPORT int zmq_timers_add(void *timers, size_t interval, zmq_timer_fn handler, void *arg);
ZMQ_EXPORT int zmq_timers_cancel(void *timers, int timer_id);
ZMQ_EXPORT int zmq_timers_set_interval(void *timers, int timer_id, size_t interval);
ZMQ_EXPORT int zmq_timers_reset(void *timers, int timer_id);
ZMQ_EXPORT long zmq_timers_timeout(void *timers);
ZMQ_EXPORT int zmq_timers_execute(void *timers);

/* ---- Helpers without a manual page ---- */

/* A stopwatch counts microseconds; stop frees it. zmq_threadclose waits until the thread ends. */
typedef void(zmq_thread_fn)(void *arg);
ZMQ_EXPORT void *zmq_stopwatch_start(void);
ZMQ_EXPORT unsigned long zmq_stopwatch_intermediate(void *watch);
ZMQ_EXPORT unsigned long zmq_stopwatch_stop(void *watch);
ZMQ_EXPORT void zmq_sleep(int seconds);
ZMQ_EXPORT void *zmq_threadstart(zmq_thread_fn *func, void *arg);
ZMQ_EXPORT void zmq_threadclose(void *thread);

#ifdef __cplusplus
}
#endif

#undef ZMQ_EXPORT

#ifdef ZMQ_BUILD_DRAFT_API
#include "zmq_draft.h"
#endif

#endif /* __ZMQ_H_INCLUDED__ */
