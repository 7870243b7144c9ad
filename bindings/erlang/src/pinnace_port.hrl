%% A socket for its users. The pid is that of pinnace_registry: a handle from another node is known by it, also when a
%% node has got another name since.
-define(HANDLE(Id, Registry), {pinnace_socket, Id, Registry}).
-define(IS_LOCAL(Registry), node(Registry) =:= node()).

%% A context, likewise.
-define(CONTEXT_HANDLE(Id, Registry), {pinnace_context, Id, Registry}).
%% The context of all sockets that name no other.
-define(CONTEXT, 1).

%% The operations of docs/port.md.
-define(LIST_OPTIONS, 1).
-define(NEW_CONTEXT, 2).
-define(SET_CONTEXT, 3).
-define(GET_CONTEXT, 4).
-define(END_CONTEXT, 5).
-define(NEW_SOCKET, 10).
-define(CLOSE, 11).
-define(BIND, 12).
-define(UNBIND, 13).
-define(CONNECT, 14).
-define(DISCONNECT, 15).
-define(SET_OPTION, 16).
-define(GET_OPTION, 17).
-define(JOIN, 18).
-define(LEAVE, 19).
-define(MONITOR, 20).
-define(STATISTICS, 21).
-define(WITHDRAW, 22).
-define(KEY_PAIR, 30).
-define(LOAD_CERT, 31).
-define(SAVE_CERT, 32).
-define(SEND, 40).
-define(START, 50).
-define(DELIVER, 51).
-define(SETTLE, 52).
-define(LISTEN, 53).
-define(UNLISTEN, 54).
-define(PENDING, 55).
-define(DELIVERY_STATISTICS, 56).
-define(DRAIN, 57).
-define(END, 58).
-define(WAIT_LISTENERS, 59).
-define(WAIT_PENDING, 60).
-define(CLEAR_PENDING, 61).
-define(FORGET, 62).
-define(ADDRESSES, 63).
-define(NEW_BODY, 64).
-define(DELIVER_BODY, 65).
-define(DROP_BODY, 66).
-define(TOGETHER, 67).
-define(PENDING_BY_RECEIVER, 68).
-define(ABOUT, 69).

-define(TYPES, [{pair, 0}, {pub, 1}, {sub, 2}, {req, 3}, {rep, 4}, {dealer, 5}, {router, 6}, {pull, 7}, {push, 8},
                {xpub, 9}, {xsub, 10}, {stream, 11}, {server, 12}, {client, 13}, {radio, 14}, {dish, 15}, {gather, 16},
                {scatter, 17}, {dgram, 18}, {peer, 19}, {channel, 20}]).

%% Where the handler is bound that admits peers (RFC 27).
-define(ZAP_ENDPOINT, <<"inproc://zeromq.zap.01">>).

%% The table of sockets, read by each send: {Id, Port, Room, Queue}. The last two are arrays of atomics, `Room' for as
%% long as the program lives, and `Queue' for as long as the socket. `{unanswered, Count, Port}' in place of the port: as
%% many messages of this REP are answers to requests of programs that have died.
-define(SOCKETS, pinnace_sockets).
%% In `Room': the octets that may be sent, the messages that were passed to the program, those of them whose senders wait
%% for what becomes of them, and those that the program has taken.
-define(ROOM, 1).
-define(SENT, 2).
-define(CONFIRMING, 3).
-define(TAKEN, 4).
-define(IN_ROOM, 4).
%% In `Queue': the messages that the process that gathers has, when something was sent last, in microseconds, how many
%% requests of this program callers or the owner have got, if the socket is a REP, and the messages that a process that
%% gathers had when it died.
-define(QUEUED, 1).
-define(LAST, 2).
-define(ASKED, 3).
-define(LOST, 4).
-define(IN_QUEUE, 4).

%% The options that the port's process has, as they were when it ended: {Id, [{Name, Value}]}.
-define(MODES, pinnace_modes).
%% The table of what is needed to make each socket again: {Id, Context, Type, Owner, Steps}. `Steps' are requests, the
%% last first.
-define(SPECS, pinnace_specs).
%% The channels of other processes (pinnace_relays): {Owner, Id, Last request, Port | down}.
-define(RELAYS, pinnace_relays).
%% Contexts, and the options that were set: {Context, [{Option, Value}]}.
-define(CONTEXTS, pinnace_contexts).
%% The contexts of `czmq': {Pid, Table of its sockets}.
-define(CZMQ_CONTEXTS, czmq_contexts).
