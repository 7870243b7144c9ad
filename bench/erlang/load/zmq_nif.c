/* A NIF that makes a call for each message, as NIF bindings do: sockets of libzmq, sends and receives on a dirty I/O
 * scheduler. */
#include <erl_nif.h>
#include <string.h>
#include <zmq.h>

static void *context;
static ErlNifResourceType *sockets;

static ERL_NIF_TERM error(ErlNifEnv *env)
{
    return enif_make_tuple2(env, enif_make_atom(env, "error"), enif_make_int(env, zmq_errno()));
}

static ERL_NIF_TERM socket_new(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int type;
    (void)argc;
    if (!enif_get_int(env, argv[0], &type))
        return enif_make_badarg(env);
    void **socket = enif_alloc_resource(sockets, sizeof *socket);
    *socket = zmq_socket(context, type);
    ERL_NIF_TERM term = enif_make_resource(env, socket);
    enif_release_resource(socket);
    return term;
}

static int arguments(ErlNifEnv *env, const ERL_NIF_TERM argv[], void ***socket, ErlNifBinary *binary)
{
    return enif_get_resource(env, argv[0], sockets, (void **)socket) && enif_inspect_binary(env, argv[1], binary);
}

static ERL_NIF_TERM endpoint(ErlNifEnv *env, const ERL_NIF_TERM argv[], int (*call)(void *, const char *))
{
    void **socket;
    ErlNifBinary binary;
    char text[256] = {0};
    size_t size = sizeof text;
    if (!arguments(env, argv, &socket, &binary) || binary.size >= sizeof text)
        return enif_make_badarg(env);
    memcpy(text, binary.data, binary.size);
    if (call(*socket, text) || zmq_getsockopt(*socket, ZMQ_LAST_ENDPOINT, text, &size))
        return error(env);
    return enif_make_string(env, text, ERL_NIF_LATIN1);
}

static ERL_NIF_TERM socket_bind(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    return endpoint(env, argv, zmq_bind);
}

static ERL_NIF_TERM socket_connect(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    return endpoint(env, argv, zmq_connect);
}

static ERL_NIF_TERM socket_send(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    void **socket;
    ErlNifBinary binary;
    (void)argc;
    if (!arguments(env, argv, &socket, &binary))
        return enif_make_badarg(env);
    return zmq_send(*socket, binary.data, binary.size, 0) < 0 ? error(env) : enif_make_atom(env, "ok");
}

static ERL_NIF_TERM socket_recv(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    void **socket;
    zmq_msg_t message;
    ERL_NIF_TERM binary;
    (void)argc;
    if (!enif_get_resource(env, argv[0], sockets, (void **)&socket))
        return enif_make_badarg(env);
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, *socket, 0) < 0)
        return error(env);
    memcpy(enif_make_new_binary(env, zmq_msg_size(&message), &binary), zmq_msg_data(&message), zmq_msg_size(&message));
    zmq_msg_close(&message);
    return binary;
}

static int load(ErlNifEnv *env, void **data, ERL_NIF_TERM info)
{
    (void)data, (void)info;
    context = zmq_ctx_new();
    sockets = enif_open_resource_type(env, NULL, "socket", NULL, ERL_NIF_RT_CREATE, NULL);
    return !context || !sockets;
}

static ErlNifFunc functions[] = {
    {"socket", 1, socket_new, 0},
    {"bind", 2, socket_bind, 0},
    {"connect", 2, socket_connect, 0},
    {"send", 2, socket_send, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"recv", 1, socket_recv, ERL_NIF_DIRTY_JOB_IO_BOUND},
};

ERL_NIF_INIT(zmq_nif, functions, load, NULL, NULL, NULL)
