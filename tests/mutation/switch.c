/* A library with libzmq's C ABI that forwards to another one, except for one feature that it switches off.
 *
 * SWITCH_REAL is the real library; SWITCH_OFF is the disabled feature, as a word and a name or number:
 *
 *   function:zmq_poll     returns -1 or NULL (ENOTSUP), and does nothing
 *   option:23             is accepted, checked and read back as usual, without effect: it is set on a twin, a
 *                         socket of the same type and context that is never bound or connected
 *   context:1             as option, for a context's option; the twin is a context without sockets
 *   unknown-option:25     can be neither set nor read (EINVAL); likewise unknown-context
 *   type:12               zmq_socket returns NULL (EINVAL)
 *   transport:ws          can be neither bound nor connected (EPROTONOSUPPORT)
 *   mechanism:2           its options are unknown (EINVAL); sockets with NULL are not bound nor connected
 *   property:User-Id      zmq_msg_gets returns NULL (EINVAL)
 *   message-property:1    zmq_msg_get returns -1 (EINVAL)
 *   event:0x20            monitors do not report it
 *   has:curve             zmq_has returns the opposite
 *   taken-option:62, taken-transport:vmci, taken-type:99
 *                         what the library refuses is accepted, and does nothing
 */
#include "switch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A socket or a context with its twin, which is created at first use. */
struct pair {
    void *original;
    void *context; /* of a socket */
    int type;
    void *twin;
    struct pair *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pair *pairs;

void *switch_real(const char *name)
{
    static void *library;
    if (!library) {
        const char *path = getenv("SWITCH_REAL");
        library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (!library) {
            fprintf(stderr, "switch: SWITCH_REAL names no library: %s\n", path ? dlerror() : "it is not set");
            exit(2);
        }
    }
    return dlsym(library, name);
}

bool switch_is(const char *kind, const char *name)
{
    const char *off = getenv("SWITCH_OFF");
    size_t length = strlen(kind);
    return off && strncmp(off, kind, length) == 0 && off[length] == ':' && strcmp(off + length + 1, name) == 0;
}

bool switch_is_number(const char *kind, long long number)
{
    const char *off = getenv("SWITCH_OFF");
    size_t length = strlen(kind);
    return off && strncmp(off, kind, length) == 0 && off[length] == ':' && strtoll(off + length + 1, NULL, 0) == number;
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

static void remember(void *original, void *context, int type)
{
    struct pair *pair = calloc(1, sizeof *pair);
    if (!pair)
        return;
    *pair = (struct pair){original, context, type, NULL, NULL};
    pthread_mutex_lock(&lock);
    pair->next = pairs;
    pairs = pair;
    pthread_mutex_unlock(&lock);
}

/* Removes a pair from the list. */
static struct pair *forget(void *original)
{
    pthread_mutex_lock(&lock);
    struct pair **at = &pairs;
    while (*at && (*at)->original != original)
        at = &(*at)->next;
    struct pair *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

static void *socket_twin(void *socket)
{
    void *(*make)(void *, int) = (void *(*)(void *, int))switch_real("zmq_socket");
    void *twin = NULL;
    pthread_mutex_lock(&lock);
    for (struct pair *pair = pairs; pair; pair = pair->next) {
        if (pair->original != socket)
            continue;
        if (!pair->twin)
            pair->twin = make(pair->context, pair->type);
        twin = pair->twin;
    }
    pthread_mutex_unlock(&lock);
    return twin;
}

static void *context_twin(void *context)
{
    void *(*make)(void) = (void *(*)(void))switch_real("zmq_ctx_new");
    void *twin = NULL;
    pthread_mutex_lock(&lock);
    for (struct pair *pair = pairs; pair; pair = pair->next)
        if (pair->original == context)
            twin = pair->twin;
    pthread_mutex_unlock(&lock);
    if (twin || !context)
        return twin;
    remember(context, NULL, 0);
    twin = make();
    pthread_mutex_lock(&lock);
    pairs->twin = twin;
    pthread_mutex_unlock(&lock);
    return twin;
}

void *hook_zmq_socket(void *(*real)(void *, int), void *context, int type)
{
    static char pretended;
    if (switch_is_number("type", type)) {
        errno = EINVAL;
        return NULL;
    }
    if (switch_is_number("taken-type", type))
        return &pretended;
    void *socket = real(context, type);
    const char *off = getenv("SWITCH_OFF");
    if (socket && off && strncmp(off, "option:", 7) == 0)
        remember(socket, context, type);
    return socket;
}

int hook_zmq_close(int (*real)(void *), void *socket)
{
    struct pair *pair = forget(socket);
    if (pair && pair->twin)
        real(pair->twin);
    free(pair);
    return real(socket);
}

/* The mechanism to which the option belongs; 0 is NULL, which has none. */
static int mechanism_of(int option)
{
    switch (option) {
    case ZMQ_PLAIN_SERVER:
    case ZMQ_PLAIN_USERNAME:
    case ZMQ_PLAIN_PASSWORD:
        return ZMQ_PLAIN;
    case ZMQ_CURVE_SERVER:
    case ZMQ_CURVE_PUBLICKEY:
    case ZMQ_CURVE_SECRETKEY:
    case ZMQ_CURVE_SERVERKEY:
        return ZMQ_CURVE;
    case ZMQ_GSSAPI_SERVER:
    case ZMQ_GSSAPI_PRINCIPAL:
    case ZMQ_GSSAPI_SERVICE_PRINCIPAL:
    case ZMQ_GSSAPI_PLAINTEXT:
        return ZMQ_GSSAPI;
    default:
        return ZMQ_NULL;
    }
}

static bool is_unknown(int option)
{
    int mechanism = mechanism_of(option);
    return switch_is_number("unknown-option", option) || (mechanism && switch_is_number("mechanism", mechanism));
}

static bool is_taken(int option)
{
    int mechanism = mechanism_of(option);
    return switch_is_number("taken-option", option) || (mechanism && switch_is_number("taken-mechanism", mechanism));
}

int hook_zmq_setsockopt(int (*real)(void *, int, const void *, size_t), void *socket, int option, const void *value,
                        size_t size)
{
    if (is_unknown(option))
        return refuse(EINVAL);
    if (is_taken(option))
        return 0;
    void *twin = switch_is_number("option", option) ? socket_twin(socket) : NULL;
    return real(twin ? twin : socket, option, value, size);
}

int hook_zmq_getsockopt(int (*real)(void *, int, void *, size_t *), void *socket, int option, void *value,
                        size_t *size)
{
    if (is_unknown(option))
        return refuse(EINVAL);
    if (is_taken(option))
        return 0;
    void *twin = switch_is_number("option", option) ? socket_twin(socket) : NULL;
    return real(twin ? twin : socket, option, value, size);
}

static bool has_scheme(const char *kind, const char *endpoint)
{
    char scheme[16];
    const char *end = endpoint ? strstr(endpoint, "://") : NULL;
    if (!end || (size_t)(end - endpoint) >= sizeof scheme)
        return false;
    snprintf(scheme, sizeof scheme, "%.*s", (int)(end - endpoint), endpoint);
    return switch_is(kind, scheme);
}

static bool no_way_to(void *socket, const char *endpoint)
{
    int mechanism = -1;
    size_t size = sizeof mechanism;
    if (has_scheme("transport", endpoint))
        return true;
    if (!switch_is_number("mechanism", ZMQ_NULL) || (endpoint && strncmp(endpoint, "inproc:", 7) == 0))
        return false;
    int (*get)(void *, int, void *, size_t *) = (int (*)(void *, int, void *, size_t *))switch_real("zmq_getsockopt");
    return get(socket, ZMQ_MECHANISM, &mechanism, &size) == 0 && mechanism == ZMQ_NULL;
}

int hook_zmq_bind(int (*real)(void *, const char *), void *socket, const char *endpoint)
{
    if (no_way_to(socket, endpoint))
        return refuse(EPROTONOSUPPORT);
    return has_scheme("taken-transport", endpoint) ? 0 : real(socket, endpoint);
}

int hook_zmq_connect(int (*real)(void *, const char *), void *socket, const char *endpoint)
{
    if (no_way_to(socket, endpoint))
        return refuse(EPROTONOSUPPORT);
    return has_scheme("taken-transport", endpoint) ? 0 : real(socket, endpoint);
}

uint32_t hook_zmq_connect_peer(uint32_t (*real)(void *, const char *), void *socket, const char *endpoint)
{
    if (!no_way_to(socket, endpoint))
        return real(socket, endpoint);
    errno = EPROTONOSUPPORT;
    return 0;
}

/* The context on which an option is set; NULL if the option is unknown. */
static void *context_for(void *context, int option)
{
    if (switch_is_number("unknown-context", option))
        return NULL;
    return switch_is_number("context", option) ? context_twin(context) : context;
}

int hook_zmq_ctx_set(int (*real)(void *, int, int), void *context, int option, int value)
{
    void *target = context_for(context, option);
    return context && !target ? refuse(EINVAL) : real(target, option, value);
}

int hook_zmq_ctx_get(int (*real)(void *, int), void *context, int option)
{
    void *target = context_for(context, option);
    return context && !target ? refuse(EINVAL) : real(target, option);
}

int hook_zmq_ctx_set_ext(int (*real)(void *, int, const void *, size_t), void *context, int option, const void *value,
                         size_t size)
{
    void *target = context_for(context, option);
    return context && !target ? refuse(EINVAL) : real(target, option, value, size);
}

int hook_zmq_ctx_get_ext(int (*real)(void *, int, void *, size_t *), void *context, int option, void *value,
                         size_t *size)
{
    void *target = context_for(context, option);
    return context && !target ? refuse(EINVAL) : real(target, option, value, size);
}

/* zmq_term and zmq_ctx_destroy are older names of this function. */
int hook_zmq_ctx_term(int (*real)(void *), void *context)
{
    struct pair *pair = forget(context);
    if (pair && pair->twin)
        real(pair->twin);
    free(pair);
    return real(context);
}

int hook_zmq_msg_get(int (*real)(const zmq_msg_t *, int), const zmq_msg_t *message, int property)
{
    return switch_is_number("message-property", property) ? refuse(EINVAL) : real(message, property);
}

const char *hook_zmq_msg_gets(const char *(*real)(const zmq_msg_t *, const char *), const zmq_msg_t *message,
                              const char *property)
{
    bool own = property && strncmp(property, "X-", 2) == 0 && switch_is("property", "X-");
    if (property && (own || switch_is("property", property))) {
        errno = EINVAL;
        return NULL;
    }
    return real(message, property);
}

int hook_zmq_has(int (*real)(const char *), const char *capability)
{
    int answer = real(capability);
    return capability && switch_is("has", capability) ? !answer : answer;
}

/* The events without the one that is switched off. */
static uint64_t without(uint64_t events)
{
    const char *off = getenv("SWITCH_OFF");
    return off && strncmp(off, "event:", 6) == 0 ? events & ~strtoull(off + 6, NULL, 0) : events;
}

int hook_zmq_socket_monitor(int (*real)(void *, const char *, int), void *socket, const char *endpoint, int events)
{
    return real(socket, endpoint, (int)without((uint64_t)(unsigned)events));
}

int hook_zmq_socket_monitor_versioned(int (*real)(void *, const char *, uint64_t, int, int), void *socket,
                                      const char *endpoint, uint64_t events, int version, int type)
{
    return real(socket, endpoint, without(events), version, type);
}
