%% Connected sockets of `czmq', for its tests.
-module(czmq_pairs).

-export([new/2, join/2, endpoint/1, string_of/1]).

-include("waiting_times.hrl").

new(Context, Type) ->
    {ok, Socket} = czmq:zsocket_new(Context, Type),
    Socket.

join(Server, Client) ->
    {ok, Port} = czmq:zsocket_bind(Server, "tcp://127.0.0.1:*"),
    ok = czmq:zsocket_connect(Client, endpoint(Port)).

endpoint(Port) ->
    "tcp://127.0.0.1:" ++ integer_to_list(Port).

string_of(Socket) ->
    czmq:zstr_recv(Socket, [{timeout, ?PATIENCE_MS}]).
