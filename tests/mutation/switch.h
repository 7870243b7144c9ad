/* Shared by the forwarders (written by `build`) and the hooks of switch.c. See README.md. */
#ifndef PINNACE_SWITCH_H
#define PINNACE_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <signal.h>
#include <zmq.h>
#include <pinnace.h>

/* The function of this name in the real library, or NULL. */
void *switch_real(const char *name);

/* True if SWITCH_OFF is "kind:name", or "kind:number". */
bool switch_is(const char *kind, const char *name);
bool switch_is_number(const char *kind, long long number);

/* A forwarder calls its hook in place of the real function, which is the hook's first argument. */
void *hook_zmq_socket(void *(*real)(void *, int), void *context, int type);
int hook_zmq_close(int (*real)(void *), void *socket);
int hook_zmq_setsockopt(int (*real)(void *, int, const void *, size_t), void *socket, int option, const void *value,
                        size_t size);
int hook_zmq_getsockopt(int (*real)(void *, int, void *, size_t *), void *socket, int option, void *value,
                        size_t *size);
int hook_zmq_bind(int (*real)(void *, const char *), void *socket, const char *endpoint);
int hook_zmq_connect(int (*real)(void *, const char *), void *socket, const char *endpoint);
uint32_t hook_zmq_connect_peer(uint32_t (*real)(void *, const char *), void *socket, const char *endpoint);
int hook_zmq_ctx_set(int (*real)(void *, int, int), void *context, int option, int value);
int hook_zmq_ctx_get(int (*real)(void *, int), void *context, int option);
int hook_zmq_ctx_set_ext(int (*real)(void *, int, const void *, size_t), void *context, int option, const void *value,
                         size_t size);
int hook_zmq_ctx_get_ext(int (*real)(void *, int, void *, size_t *), void *context, int option, void *value,
                         size_t *size);
int hook_zmq_ctx_term(int (*real)(void *), void *context);
int hook_zmq_msg_get(int (*real)(const zmq_msg_t *, int), const zmq_msg_t *message, int property);
const char *hook_zmq_msg_gets(const char *(*real)(const zmq_msg_t *, const char *), const zmq_msg_t *message,
                              const char *property);
int hook_zmq_has(int (*real)(const char *), const char *capability);
int hook_zmq_socket_monitor(int (*real)(void *, const char *, int), void *socket, const char *endpoint, int events);
int hook_zmq_socket_monitor_versioned(int (*real)(void *, const char *, uint64_t, int, int), void *socket,
                                      const char *endpoint, uint64_t events, int version, int type);

#endif
