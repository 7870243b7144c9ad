%% @doc The functions of erlang-czmq, over `pinnace'.
%%
%% A context is a process. Sockets, certificates and the ZAP handler belong to it, and end with it. Sending and
%% receiving do not use its process. A call that fails returns `{error, invalid_socket}' (or `_context', `_auth',
%% `_cert') if that does not exist, else the function's name after its first word with `_failed': `{error,
%% bind_failed}'. See docs/erlang.md for what is different.
-module(czmq).

-export([start/0, start_link/0, ping/1, ping/2, terminate/1]).
-export([zctx_set_iothreads/2, zctx_set_linger/2, zctx_set_pipehwm/2, zctx_set_sndhwm/2, zctx_set_rcvhwm/2]).
-export([zsocket_new/2, zsocket_type_str/1, zsocket_bind/2, zsocket_unbind/2, zsocket_connect/2, zsocket_disconnect/2,
         zsocket_sendmem/2, zsocket_sendmem/3, zsocket_send_all/2, zsocket_destroy/1]).
-export([zsocket_sndhwm/1, zsocket_rcvhwm/1, zsocket_backlog/1, zsocket_identity/1]).
-export([zsocket_set_zap_domain/2, zsocket_set_plain_server/2, zsocket_set_plain_username/2,
         zsocket_set_plain_password/2, zsocket_set_curve_server/2, zsocket_set_curve_serverkey/2,
         zsocket_set_sndhwm/2, zsocket_set_rcvhwm/2, zsocket_set_backlog/2, zsocket_set_identity/2,
         zsocket_set_subscribe/2, zsocket_set_unsubscribe/2]).
-export([zstr_send/2, zstr_recv_nowait/1, zstr_recv/1, zstr_recv/2]).
-export([zframe_recv_nowait/1, zframe_recv_all/1, zframe_data/1, zframe_more/1]).
-export([zauth_new/1, zauth_deny/2, zauth_allow/2, zauth_configure_plain/3, zauth_configure_curve/3, zauth_destroy/1]).
-export([zcert_new/1, zcert_apply/2, zcert_public_txt/1, zcert_save_public/2, zcert_destroy/1]).
-export([subscribe/1, subscribe/2, subscribe_link/1, subscribe_link/2, unsubscribe/1]).

-export_type([context/0, socket/0, auth/0, cert/0, frame/0, type/0]).

-type context() :: pid().
-type socket() :: czmq_context:handle().
-type auth() :: czmq_context:handle().
-type cert() :: czmq_context:handle().
-type frame() :: {binary(), More :: boolean()}.
%% The content, and whether more frames of the message follow.
-type type() :: pinnace:type().
-type flag() :: more | reuse | dontwait.
-type failed() :: {error, atom()}.
%% What a call returns that fails.

%% As CZMQ has it: what was not sent when a socket is destroyed is dropped.
-define(LINGER, 0).

%% @doc Starts a context, and the application `pinnace' if it is not started.
-spec start() -> {ok, context()} | {error, term()}.
start() ->
    czmq_context:start(#{linger => ?LINGER}).

%% @doc As `start/0', linked to the caller.
-spec start_link() -> {ok, context()} | {error, term()}.
start_link() ->
    czmq_context:start_link(#{linger => ?LINGER}).

%% @doc Asks the context and the program whether they answer.
-spec ping(context()) -> pong | {error, term()}.
ping(Context) ->
    ping(Context, 5000).

%% @doc As `ping/1'. Error: `timeout' after a number of milliseconds.
-spec ping(context(), timeout()) -> pong | {error, term()}.
ping(Context, Timeout) ->
    czmq_context:call(Context, ping, Timeout).

%% @doc Ends a context with its sockets.
-spec terminate(context()) -> ok.
terminate(Context) ->
    czmq_context:stop(Context).

%% @doc Has no effect: all sockets of the node share the threads of the program.
-spec zctx_set_iothreads(context(), pos_integer()) -> ok.
zctx_set_iothreads(Context, Threads) when is_pid(Context), is_integer(Threads) ->
    ok.

%% @doc How long sockets that are made later send what waits when they are destroyed, in ms. -1: without a limit.
-spec zctx_set_linger(context(), integer()) -> ok | failed().
zctx_set_linger(Context, Linger) when is_integer(Linger) ->
    value(czmq_context:call(Context, {set, linger, Linger}), invalid_context, set_linger_failed).

%% @doc Has no effect: there are no pipes of threads.
-spec zctx_set_pipehwm(context(), non_neg_integer()) -> ok.
zctx_set_pipehwm(Context, Messages) when is_pid(Context), is_integer(Messages) ->
    ok.

%% @doc The high-water mark for sending of sockets that are made later.
-spec zctx_set_sndhwm(context(), non_neg_integer()) -> ok | failed().
zctx_set_sndhwm(Context, Messages) when is_integer(Messages) ->
    value(czmq_context:call(Context, {set, sndhwm, Messages}), invalid_context, set_sndhwm_failed).

%% @doc The high-water mark for receiving of sockets that are made later.
-spec zctx_set_rcvhwm(context(), non_neg_integer()) -> ok | failed().
zctx_set_rcvhwm(Context, Messages) when is_integer(Messages) ->
    value(czmq_context:call(Context, {set, rcvhwm, Messages}), invalid_context, set_rcvhwm_failed).

%% @doc A new socket.
-spec zsocket_new(context(), type()) -> {ok, socket()} | failed().
zsocket_new(Context, Type) ->
    value(czmq_context:call(Context, {socket, Type}), invalid_context, new_failed).

%% @doc The name of the type in capitals.
-spec zsocket_type_str(socket()) -> {ok, string()} | failed().
zsocket_type_str(Handle) ->
    case czmq_context:find(Handle) of
        {ok, _, _, Type} -> {ok, string:uppercase(atom_to_list(Type))};
        error -> {error, invalid_socket}
    end.

%% @doc Binds a socket. The result is the port, also that which the system chose for `*', and 0 if there are no ports.
-spec zsocket_bind(socket(), iodata()) -> {ok, inet:port_number()} | failed().
zsocket_bind(Handle, Endpoint) ->
    case with_socket(Handle, fun(Socket) -> pinnace:bind(Socket, Endpoint) end, bind_failed) of
        {ok, Bound} -> {ok, port_of(Bound)};
        Error -> Error
    end.

port_of(Endpoint) ->
    case re:run(Endpoint, "^(?!ipc:|inproc:).*:([0-9]+)(?:/.*)?$", [{capture, all_but_first, list}]) of
        {match, [Port]} -> list_to_integer(Port);
        nomatch -> 0
    end.

-spec zsocket_unbind(socket(), iodata()) -> ok | failed().
zsocket_unbind(Handle, Endpoint) ->
    with_socket(Handle, fun(Socket) -> pinnace:unbind(Socket, Endpoint) end, unbind_failed).

-spec zsocket_connect(socket(), iodata()) -> ok | failed().
zsocket_connect(Handle, Endpoint) ->
    with_socket(Handle, fun(Socket) -> pinnace:connect(Socket, Endpoint) end, connect_failed).

-spec zsocket_disconnect(socket(), iodata()) -> ok | failed().
zsocket_disconnect(Handle, Endpoint) ->
    with_socket(Handle, fun(Socket) -> pinnace:disconnect(Socket, Endpoint) end, disconnect_failed).

%% @doc Sends a message of one frame. It does not wait: `error' if there is no room.
-spec zsocket_sendmem(socket(), iodata()) -> ok | error | failed().
zsocket_sendmem(Handle, Data) ->
    zsocket_sendmem(Handle, Data, []).

%% @doc Sends a frame. `more': other frames of the message follow, and it is sent with the last. `reuse' and `dontwait'
%% change nothing.
-spec zsocket_sendmem(socket(), iodata(), flag() | [flag()]) -> ok | error | failed().
zsocket_sendmem(Handle, Data, Flag) when is_atom(Flag) ->
    zsocket_sendmem(Handle, Data, [Flag]);
zsocket_sendmem({_, Index} = Handle, Data, Flags) ->
    Place = case lists:member(more, Flags) of true -> more; false -> last end,
    case czmq_context:find(Handle) of
        {ok, Table, Socket, _} -> sent(pinnace_frames:send(Table, Index, Socket, Data, Place, [nowait]));
        error -> {error, invalid_socket}
    end.

%% @doc Sends a message of these frames.
-spec zsocket_send_all(socket(), [iodata(), ...]) -> ok | error | failed().
zsocket_send_all(Handle, Frames) ->
    case czmq_context:find(Handle) of
        {ok, _, Socket, _} -> sent(pinnace:send(Socket, Frames, [nowait]));
        error -> {error, invalid_socket}
    end.

sent(ok) -> ok;
sent({error, closed}) -> {error, invalid_socket};
sent({error, _}) -> error.

-spec zsocket_destroy(socket()) -> ok | failed().
zsocket_destroy({Context, Index}) ->
    value(czmq_context:call(Context, {destroy, Index}), invalid_socket, destroy_failed).

-spec zsocket_sndhwm(socket()) -> {ok, integer()} | failed().
zsocket_sndhwm(Handle) ->
    get(Handle, sndhwm, sndhwm_failed).

-spec zsocket_rcvhwm(socket()) -> {ok, integer()} | failed().
zsocket_rcvhwm(Handle) ->
    get(Handle, rcvhwm, rcvhwm_failed).

-spec zsocket_backlog(socket()) -> {ok, integer()} | failed().
zsocket_backlog(Handle) ->
    get(Handle, backlog, backlog_failed).

-spec zsocket_identity(socket()) -> {ok, string()} | failed().
zsocket_identity(Handle) ->
    case get(Handle, routing_id, identity_failed) of
        {ok, Identity} -> {ok, binary_to_list(Identity)};
        Error -> Error
    end.

-spec zsocket_set_zap_domain(socket(), iodata()) -> ok | failed().
zsocket_set_zap_domain(Handle, Domain) ->
    set(Handle, zap_domain, Domain, set_zap_domain_failed).

-spec zsocket_set_plain_server(socket(), boolean()) -> ok | failed().
zsocket_set_plain_server(Handle, IsServer) ->
    set(Handle, plain_server, IsServer, set_plain_server_failed).

-spec zsocket_set_plain_username(socket(), iodata()) -> ok | failed().
zsocket_set_plain_username(Handle, User) ->
    set(Handle, plain_username, User, set_plain_username_failed).

-spec zsocket_set_plain_password(socket(), iodata()) -> ok | failed().
zsocket_set_plain_password(Handle, Password) ->
    set(Handle, plain_password, Password, set_plain_password_failed).

-spec zsocket_set_curve_server(socket(), boolean()) -> ok | failed().
zsocket_set_curve_server(Handle, IsServer) ->
    set(Handle, curve_server, IsServer, set_curve_server_failed).

%% @doc The server's public key: 40 characters of Z85, or 32 octets.
-spec zsocket_set_curve_serverkey(socket(), iodata()) -> ok | failed().
zsocket_set_curve_serverkey(Handle, Key) ->
    set(Handle, curve_serverkey, Key, set_curve_serverkey_failed).

-spec zsocket_set_sndhwm(socket(), non_neg_integer()) -> ok | failed().
zsocket_set_sndhwm(Handle, Messages) ->
    set(Handle, sndhwm, Messages, set_sndhwm_failed).

-spec zsocket_set_rcvhwm(socket(), non_neg_integer()) -> ok | failed().
zsocket_set_rcvhwm(Handle, Messages) ->
    set(Handle, rcvhwm, Messages, set_rcvhwm_failed).

-spec zsocket_set_backlog(socket(), non_neg_integer()) -> ok | failed().
zsocket_set_backlog(Handle, Connections) ->
    set(Handle, backlog, Connections, set_backlog_failed).

-spec zsocket_set_identity(socket(), iodata()) -> ok | failed().
zsocket_set_identity(Handle, Identity) ->
    set(Handle, routing_id, Identity, set_identity_failed).

-spec zsocket_set_subscribe(socket(), iodata()) -> ok | failed().
zsocket_set_subscribe(Handle, Topic) ->
    set(Handle, subscribe, Topic, set_subscribe_failed).

-spec zsocket_set_unsubscribe(socket(), iodata()) -> ok | failed().
zsocket_set_unsubscribe(Handle, Topic) ->
    set(Handle, unsubscribe, Topic, set_unsubscribe_failed).

%% @doc Sends a string, which is a list of octets, or iodata.
-spec zstr_send(socket(), iodata()) -> ok | error | failed().
zstr_send(Handle, String) ->
    zsocket_sendmem(Handle, String).

%% @doc The next frame as a string, or `error' if there is none.
-spec zstr_recv_nowait(socket()) -> {ok, string()} | error | failed().
zstr_recv_nowait(Handle) ->
    case zframe_recv_nowait(Handle) of
        {ok, {Data, _More}} -> {ok, binary_to_list(Data)};
        Error -> Error
    end.

%% @doc The next frame as a string. It waits for one.
-spec zstr_recv(socket()) -> {ok, string()} | failed().
zstr_recv(Handle) ->
    zstr_recv(Handle, []).

%% @doc As `zstr_recv/1', with the option `{timeout, Ms}'. Error: `timeout'.
-spec zstr_recv(socket(), [{timeout, timeout()}]) -> {ok, string()} | failed().
zstr_recv({_, Index} = Handle, Options) ->
    Timeout = proplists:get_value(timeout, Options, infinity),
    case czmq_context:find(Handle) of
        {ok, Table, Socket, _} ->
            case pinnace_frames:recv(Table, Index, Socket, Timeout) of
                {ok, {Data, _More}} -> {ok, binary_to_list(Data)};
                {error, Reason} when Reason =:= timeout; Reason =:= eagain -> {error, timeout};
                {error, closed} -> {error, invalid_socket};
                {error, _} -> {error, recv_failed}
            end;
        error ->
            {error, invalid_socket}
    end.

%% @doc The next frame, or `error' if there is none.
-spec zframe_recv_nowait(socket()) -> {ok, frame()} | error | failed().
zframe_recv_nowait(Handle) ->
    recv_nowait(Handle, fun pinnace_frames:recv/4).

%% @doc All frames of the next message, or what is left of one of which frames were received; `error' if there is none.
-spec zframe_recv_all(socket()) -> {ok, [binary(), ...]} | error | failed().
zframe_recv_all(Handle) ->
    recv_nowait(Handle, fun pinnace_frames:recv_message/4).

recv_nowait({_, Index} = Handle, Receive) ->
    case czmq_context:find(Handle) of
        {ok, Table, Socket, _} ->
            case Receive(Table, Index, Socket, 0) of
                {ok, Received} -> {ok, Received};
                {error, closed} -> {error, invalid_socket};
                {error, _} -> error
            end;
        error ->
            {error, invalid_socket}
    end.

-spec zframe_data(frame()) -> binary().
zframe_data({Data, _More}) ->
    Data.

-spec zframe_more(frame()) -> boolean().
zframe_more({_Data, More}) ->
    More.

%% @doc A ZAP handler, which decides what peers are admitted to the sockets of the node. A node has one.
-spec zauth_new(context()) -> {ok, auth()} | failed().
zauth_new(Context) ->
    value(czmq_context:call(Context, new_auth), invalid_context, new_failed).

%% @doc Denies an address. All others are admitted, unless some are allowed.
-spec zauth_deny(auth(), iodata()) -> ok | failed().
zauth_deny(Auth, Address) ->
    with_auth(Auth, {deny, iolist_to_binary(Address)}, deny_failed).

%% @doc Allows an address. All others are denied.
-spec zauth_allow(auth(), iodata()) -> ok | failed().
zauth_allow(Auth, Address) ->
    with_auth(Auth, {allow, iolist_to_binary(Address)}, allow_failed).

%% @doc Admits users with the passwords of a file, which has lines `user=password', in a domain, or in all: "*".
-spec zauth_configure_plain(auth(), iodata(), file:name_all()) -> ok | failed().
zauth_configure_plain(Auth, Domain, File) ->
    with_auth(Auth, {plain, iolist_to_binary(Domain), File}, configure_plain_failed).

%% @doc Admits the keys of the certificates in a directory, or any key, in a domain, or in all: "*".
-spec zauth_configure_curve(auth(), iodata(), file:name_all() | allow_any) -> ok | failed().
zauth_configure_curve(Auth, Domain, Location) when Location =:= allow_any; Location =:= "*"; Location =:= <<"*">> ->
    with_auth(Auth, {curve, iolist_to_binary(Domain), any}, configure_curve_failed);
zauth_configure_curve(Auth, Domain, Directory) ->
    with_auth(Auth, {curve, iolist_to_binary(Domain), Directory}, configure_curve_failed).

-spec zauth_destroy(auth()) -> ok | failed().
zauth_destroy({Context, Index}) ->
    case czmq_context:call(Context, {destroy_auth, Index}) of
        {ok, Pid} -> czmq_zauth:stop(Pid);
        _ -> {error, invalid_auth}
    end.

with_auth({Context, Index}, Request, Failed) ->
    case czmq_context:call(Context, {auth, Index}) of
        {ok, Pid} -> value(czmq_zauth:call(Pid, Request), invalid_auth, Failed);
        _ -> {error, invalid_auth}
    end.

%% @doc A certificate with new keys.
-spec zcert_new(context()) -> {ok, cert()} | failed().
zcert_new(Context) ->
    value(czmq_context:call(Context, new_cert), invalid_context, new_failed).

%% @doc Gives a socket the keys of a certificate.
-spec zcert_apply(cert(), socket()) -> ok | failed().
zcert_apply(Cert, Handle) ->
    with_cert(Cert, fun({Public, Secret}) ->
        Keys = [{curve_publickey, Public}, {curve_secretkey, Secret}],
        with_socket(Handle, fun(Socket) -> pinnace:setopts(Socket, Keys) end, apply_failed)
    end).

%% @doc The public key as 40 characters of Z85.
-spec zcert_public_txt(cert()) -> {ok, string()} | failed().
zcert_public_txt(Cert) ->
    with_cert(Cert, fun({Public, _Secret}) ->
        {ok, Text} = pinnace_z85:encode(Public),
        {ok, binary_to_list(Text)}
    end).

%% @doc Writes the public certificate to a file.
-spec zcert_save_public(cert(), file:name_all()) -> ok | failed().
zcert_save_public(Cert, File) ->
    with_cert(Cert, fun({Public, _Secret}) ->
        value(pinnace_cert:save_public(#{public => Public}, File), invalid_cert, save_public_failed)
    end).

-spec zcert_destroy(cert()) -> ok | failed().
zcert_destroy({Context, Index}) ->
    case czmq_context:call(Context, {destroy_cert, Index}) of
        {ok, _Keys} -> ok;
        _ -> {error, invalid_cert}
    end.

with_cert({Context, Index}, Do) ->
    case czmq_context:call(Context, {cert, Index}) of
        {ok, Keys} -> Do(Keys);
        _ -> {error, invalid_cert}
    end.

%% @doc Has the messages of a socket sent to the caller, as `{Poller, [Frame]}'.
-spec subscribe(socket()) -> {ok, pid()} | {error, term()}.
subscribe(Handle) ->
    subscribe(Handle, []).

-spec subscribe(socket(), [czmq_poller:option()]) -> {ok, pid()} | {error, term()}.
subscribe(Handle, Options) ->
    czmq_poller:start(Handle, Options).

%% @doc As `subscribe/1', with a poller that is linked to the caller.
-spec subscribe_link(socket()) -> {ok, pid()} | {error, term()}.
subscribe_link(Handle) ->
    subscribe_link(Handle, []).

-spec subscribe_link(socket(), [czmq_poller:option()]) -> {ok, pid()} | {error, term()}.
subscribe_link(Handle, Options) ->
    czmq_poller:start_link(Handle, Options).

%% @doc Ends what `subscribe' has started.
-spec unsubscribe(pid()) -> ok.
unsubscribe(Poller) ->
    czmq_poller:stop(Poller).

with_socket(Handle, Do, Failed) ->
    case czmq_context:find(Handle) of
        {ok, _Table, Socket, _Type} -> value(Do(Socket), invalid_socket, Failed);
        error -> {error, invalid_socket}
    end.

set(Handle, Name, Value, Failed) ->
    with_socket(Handle, fun(Socket) -> pinnace:setopts(Socket, [{Name, Value}]) end, Failed).

get(Handle, Name, Failed) ->
    case with_socket(Handle, fun(Socket) -> pinnace:getopts(Socket, [Name]) end, Failed) of
        {ok, [{Name, Value}]} -> {ok, Value};
        Error -> Error
    end.

%% The result of a call: there is no such thing, or it has failed.
value({error, Reason}, Invalid, _Failed) when Reason =:= closed; Reason =:= noproc -> {error, Invalid};
value({error, _Reason}, _Invalid, Failed) -> {error, Failed};
value(Result, _Invalid, _Failed) -> Result.
