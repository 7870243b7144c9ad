%% A NIF that makes a call for each message (zmq_nif.c).
-module(zmq_nif).

-export([socket/1, bind/2, connect/2, send/2, recv/1]).
-on_load(load/0).

load() ->
    erlang:load_nif(filename:join(filename:dirname(code:which(?MODULE)), "zmq_nif"), 0).

socket(_Type) -> erlang:nif_error(not_loaded).
bind(_Socket, _Endpoint) -> erlang:nif_error(not_loaded).
connect(_Socket, _Endpoint) -> erlang:nif_error(not_loaded).
send(_Socket, _Message) -> erlang:nif_error(not_loaded).
recv(_Socket) -> erlang:nif_error(not_loaded).
