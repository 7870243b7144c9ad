%% @doc Sockets of ZeroMQ's patterns, in a program of their own: no fault there ends this node.
%%
%% A socket belongs to the process that made it, and is closed when that ends. Any process of the node may use it.
-module(pinnace).

-export([context/0, context/1, socket/1, socket/2, socket/3, info/1, close/1, controlling_process/2]).
-export([bind/2, connect/2, unbind/2, disconnect/2]).
-export([send/2, send/3, send_many/2, recv/1, recv/2]).
-export([setopts/2, getopts/2, subscribe/2, unsubscribe/2, join/2, leave/2]).
-export([statistics/1, monitor/1, monitor/2, key_pair/0, version/0, format_error/1]).

-compile({no_auto_import, [monitor/2]}).
-export([pass_gathered/5]).

-export_type([context/0, socket/0, type/0, reason/0, option/0, message/0, info/0]).

-include("pinnace_port.hrl").

-type type() :: pair | pub | sub | req | rep | dealer | router | pull | push | xpub | xsub | stream | server | client
              | radio | dish | gather | scatter | dgram | peer | channel.
-opaque context() :: ?CONTEXT_HANDLE(pos_integer(), pid() | undefined).
-opaque socket() :: ?HANDLE(pos_integer(), pid()).
-type info() :: #{type := type() | monitor, owner := pid(), active := boolean() | once | pos_integer(),
                  queued := non_neg_integer(), room := integer(), bound := [binary()], connected := [binary()],
                  os_pid := non_neg_integer()}.
-type reason() :: atom() | {errno, integer()}.
-type endpoint() :: iodata().
%% The options that the node has, and not the program.
-define(IS_OWN(Name), Name =:= active; Name =:= deliver; Name =:= copy; Name =:= window).
-type frames() :: binary() | [iodata()].
%% What is sent: a frame, or a list of frames.
-type message() :: pinnace_wire:message().
-type option() :: {active, boolean() | once | pos_integer()} | {deliver, message | batch}
                | {copy, non_neg_integer()} | {window, pos_integer()} | {atom(), integer() | boolean() | infinity | iodata()}.
%% `active', `deliver', `copy' and `window', or an option of zmq_setsockopt(3) in lower case and without `ZMQ_'.

%% @doc The context of sockets that name no other.
-spec context() -> context().
context() ->
    ?CONTEXT_HANDLE(?CONTEXT, whereis(pinnace_registry)).

%% @doc A new context: its sockets have threads of their own in the program, and see no `inproc' endpoints of others.
%% The options are those of zmq_ctx_set(3) with a number, in lower case and without `ZMQ_', such as `max_sockets'. It
%% ends with `close/1', and its sockets with it.
-spec context([{atom(), integer() | boolean()}]) -> {ok, context()} | {error, reason()}.
context(Options) ->
    case pinnace_context:new(Options) of
        {ok, Id} -> {ok, ?CONTEXT_HANDLE(Id, whereis(pinnace_registry))};
        Error -> Error
    end.

%% Does something with a context of this node.
of_context(?CONTEXT_HANDLE(Id, Registry), Do) when Registry =:= undefined; ?IS_LOCAL(Registry) -> Do(Id);
of_context(?CONTEXT_HANDLE(_, _), _Do) -> {error, remote_node}.

%% @doc A new socket.
-spec socket(type()) -> {ok, socket()} | {error, reason()}.
socket(Type) ->
    socket(Type, []).

%% @doc A new socket with these options.
-spec socket(type(), [option()]) -> {ok, socket()} | {error, reason()}.
socket(Type, Options) ->
    socket(context(), Type, Options).

%% @doc A new socket of a context, with these options.
-spec socket(context(), type(), [option()]) -> {ok, socket()} | {error, reason()}.
socket(Context, Type, Options) ->
    of_context(Context, fun(Id) -> new_socket(Id, Type, Options) end).

new_socket(Context, Type, Options) ->
    case lists:keymember(Type, 1, ?TYPES) andalso pinnace_port:call({socket, Context, Type, self()}) of
        {ok, Socket} ->
            case setopts(Socket, Options) of
                ok ->
                    {ok, Socket};
                Error ->
                    _ = close(Socket),
                    Error
            end;
        false ->
            {error, einval};
        Error ->
            Error
    end.

%% @doc Closes a socket, or a context with its sockets. What waits is sent, for as long as the option `linger' says.
-spec close(socket() | context()) -> ok | {error, reason()}.
close(?CONTEXT_HANDLE(_, _) = Context) ->
    of_context(Context, fun pinnace_context:close/1);
close(Socket) ->
    local(Socket, fun(Id) ->
        ok = sync_of(Id),
        done(pinnace_port:call({close, Id}))
    end).

%% @doc Gives a socket to another process. Error: `not_owner'.
-spec controlling_process(socket(), pid()) -> ok | {error, reason()}.
controlling_process(?HANDLE(Id, Registry), Pid) when ?IS_LOCAL(Registry), node(Pid) =:= node() ->
    pinnace_port:call({owner, Id, Pid});
controlling_process(?HANDLE(_, _), Pid) when is_pid(Pid) ->
    {error, remote_node}.

%% @doc Binds a socket. The result is the endpoint, with the port that the system chose for `*'.
-spec bind(socket(), endpoint()) -> {ok, binary()} | {error, reason()}.
bind(Socket, Endpoint) ->
    step(Socket, ?BIND, pinnace_wire:bytes(Endpoint)).

-spec connect(socket(), endpoint()) -> ok | {error, reason()}.
connect(Socket, Endpoint) ->
    done(step(Socket, ?CONNECT, pinnace_wire:bytes(Endpoint))).

-spec unbind(socket(), endpoint()) -> ok | {error, reason()}.
unbind(Socket, Endpoint) ->
    done(step(Socket, ?UNBIND, pinnace_wire:bytes(Endpoint))).

-spec disconnect(socket(), endpoint()) -> ok | {error, reason()}.
disconnect(Socket, Endpoint) ->
    done(step(Socket, ?DISCONNECT, pinnace_wire:bytes(Endpoint))).

-spec subscribe(socket(), iodata()) -> ok | {error, reason()}.
subscribe(Socket, Topic) ->
    setopts(Socket, [{subscribe, Topic}]).

-spec unsubscribe(socket(), iodata()) -> ok | {error, reason()}.
unsubscribe(Socket, Topic) ->
    setopts(Socket, [{unsubscribe, Topic}]).

%% @doc Lets a DISH receive what is sent to a group.
-spec join(socket(), iodata()) -> ok | {error, reason()}.
join(Socket, Group) ->
    done(step(Socket, ?JOIN, pinnace_wire:bytes(Group))).

-spec leave(socket(), iodata()) -> ok | {error, reason()}.
leave(Socket, Group) ->
    done(step(Socket, ?LEAVE, pinnace_wire:bytes(Group))).

%% @doc Sends a message: a binary, or a list of frames. It waits for room.
-spec send(socket(), frames()) -> ok | {error, reason()}.
send(Socket, Frames) ->
    send(Socket, Frames, []).

%% @doc As `send/2'. `nowait': `{error, eagain}' if there is no room. `confirm': waits until the socket has taken the
%% message, or refused it.
-spec send(socket(), frames(), [nowait | confirm]) -> ok | {error, reason()}.
send(?HANDLE(Id, Registry), Frames, Options) when ?IS_LOCAL(Registry) ->
    {Encoded, Octets} = pinnace_wire:encode(Frames),
    case Options of
        [] -> pass(Id, Encoded, Octets, 1, wait);
        [nowait] -> pass(Id, Encoded, Octets, 1, nowait);
        [confirm] ->
            case pinnace_wire:fits_request([<<Id:32>> | Encoded]) of
                true -> pass(Id, Encoded, Octets, 1, confirm);
                false -> {error, emsgsize}
            end;
        _ -> {error, einval}
    end;
send(?HANDLE(_, _), _Frames, _Options) ->
    {error, remote_node}.

%% @doc Sends messages, each of which is a binary or a list of frames, with few steps for many. It waits for room.
-spec send_many(socket(), [frames()]) -> ok | {error, reason()}.
send_many(?HANDLE(Id, Registry), Messages) when ?IS_LOCAL(Registry) ->
    send_batches(Id, pinnace_wire:batches(Messages));
send_many(?HANDLE(_, _), _Messages) ->
    {error, remote_node}.

send_batches(_Id, []) ->
    ok;
send_batches(Id, [{Encoded, Octets, Count} | Batches]) ->
    case pass(Id, Encoded, Octets, Count, wait) of
        ok -> send_batches(Id, Batches);
        Error -> Error
    end.

%% What is sent again so soon is gathered.
-define(SOON_US, 100).
%% As many octets are not gathered.
-define(MUCH, 32768).

%% Passes messages to the program, if there is room. `How': whether it waits for room, and whether it may hand the
%% messages to the process that gathers.
pass(Id, Encoded, Octets, Count, How) ->
    case found(Id) of
        [{_, Port, Room, Queue}] when is_port(Port) ->
            case atomics:sub_get(Room, ?ROOM, Octets) > -Octets of
                true when How =:= direct ->
                    command(Id, Encoded, Octets, Count, How, Port, Room);
                true ->
                    choose(Id, Encoded, Octets, Count, How, Port, Room, Queue);
                false ->
                    ok = atomics:add(Room, ?ROOM, Octets),
                    wait(room, Id, Encoded, Octets, Count, How, Room)
            end;
        [{_, {unanswered, _, _}, _, _}] ->
            pinnace_port:call({drop_answer, Id, How =:= direct});
        [] ->
            {error, closed};
        not_started ->
            {error, not_started}
    end.

found(Id) ->
    try ets:lookup(?SOCKETS, Id)
    catch error:badarg -> not_started
    end.

choose(Id, Encoded, Octets, Count, How, Port, Room, Queue) ->
    Now = erlang:monotonic_time(microsecond),
    Last = atomics:exchange(Queue, ?LAST, Now),
    case Now - Last < ?SOON_US andalso Octets < ?MUCH andalso How =/= confirm of
        true ->
            pinnace_sender:pass(Id, Room, Queue, Encoded, {Octets, Count});
        false ->
            ok = sync(Queue),
            command(Id, Encoded, Octets, Count, How, Port, Room)
    end.

%% Waits until what was handed over is passed on.
sync(Queue) ->
    case atomics:get(Queue, ?QUEUED) of
        0 -> ok;
        _ -> pinnace_sender:sync()
    end.

sync_of(Id) ->
    case found(Id) of
        [{_, _, _, Queue}] -> sync(Queue);
        _ -> ok
    end.

command(Id, Encoded, _Octets, Count, confirm, _Port, Room) ->
    ok = atomics:add(Room, ?CONFIRMING, Count),
    ok = atomics:add(Room, ?SENT, Count),
    Outcome = done(pinnace_port:request(?SEND, [<<Id:32>> | Encoded])),
    ok = atomics:sub(Room, ?CONFIRMING, Count),
    Outcome;
command(Id, Encoded, Octets, Count, How, Port, Room) ->
    Sent = case pinnace_wire:fits(Octets) of
        true -> packet(Id, Encoded, Count, Port, Room);
        false -> pinnace_large:send(Id, Port, Room, Encoded, Octets, How)
    end,
    case Sent of
        crashed -> wait(program, Id, Encoded, Octets, Count, How, Room);
        _ -> Sent
    end.

packet(Id, Encoded, Count, Port, Room) ->
    ok = atomics:add(Room, ?SENT, Count),
    try port_command(Port, [pinnace_wire:send(Id) | Encoded]) of
        true -> ok
    catch
        error:badarg ->
            ok = atomics:sub(Room, ?SENT, Count),
            crashed
    end.

%% Waits for room, or for another program.
wait(room, _Id, _Encoded, _Octets, _Count, nowait, _Room) ->
    {error, eagain};
wait(program, _Id, _Encoded, _Octets, _Count, nowait, _Room) ->
    {error, port_crashed};
wait(What, Id, Encoded, Octets, Count, How, Room) ->
    case pinnace_port:call({wait, What, Id, Room}) of
        ok -> pass(Id, Encoded, Octets, Count, How);
        Error -> Error
    end.

%% @private
%% Passes on what was gathered, for which there was room in `Room'. That of a program that has died is no room.
-spec pass_gathered(pos_integer(), atomics:atomics_ref(), iodata(), pos_integer(), pos_integer()) ->
    ok | {error, reason()}.
pass_gathered(Id, Room, Batch, Octets, Count) ->
    case found(Id) of
        [{_, Port, Room, _}] -> command(Id, Batch, Octets, Count, direct, Port, Room);
        _ -> pass(Id, Batch, Octets, Count, direct)
    end.

%% @doc The next message, as a list of frames. It waits for one.
-spec recv(socket()) -> {ok, message()} | {error, reason()}.
recv(Socket) ->
    recv(Socket, infinity).

%% @doc As `recv/1', but waits at most for a number of milliseconds. A message that comes later is not lost. Errors:
%% `timeout'; with 0, `eagain'; `enotsup': a socket of this type receives nothing.
-spec recv(socket(), timeout()) -> {ok, message()} | {error, reason()}.
recv(Socket, Timeout) when Timeout =:= infinity; is_integer(Timeout), Timeout >= 0, Timeout < 1 bsl 32 ->
    local(Socket, fun(Id) -> pinnace_port:call({recv, Id, Timeout}) end);
recv(_Socket, _Timeout) ->
    {error, einval}.

%% @doc Sets options of a socket, or of a context, in their order, up to the first error. `enotsup': `rcvtimeo' and
%% `sndtimeo', for which `recv/2' and `send/3' have arguments.
-spec setopts(socket() | context(), [option()]) -> ok | {error, reason()}.
setopts(_Socket, []) ->
    ok;
setopts(Socket, [Option | Options]) ->
    case set(Socket, Option) of
        ok -> setopts(Socket, Options);
        Error -> Error
    end;
setopts(_Socket, _Options) ->
    {error, einval}.

set(?CONTEXT_HANDLE(_, _) = Context, Option) ->
    of_context(Context, fun(Id) -> pinnace_context:set(Id, Option) end);
set(Socket, {Name, _} = Option) when ?IS_OWN(Name) ->
    local(Socket, fun(Id) -> pinnace_port:call({set, Id, Option}) end);
set(_Socket, {Name, _}) when Name =:= rcvtimeo; Name =:= sndtimeo ->
    {error, enotsup};
set(Socket, {Name, Value}) when is_atom(Name) ->
    local(Socket, fun(Id) ->
        case pinnace_port:option(Name) of
            {Number, Kind} ->
                case pinnace_wire:option(Kind, Value) of
                    {ok, Encoded} -> done(step_of(Id, ?SET_OPTION, [<<Number:32>>, Encoded]));
                    error -> {error, einval}
                end;
            undefined ->
                {error, einval}
        end
    end);
set(_Socket, _Option) ->
    {error, einval}.

%% @doc The values of options of a socket, or of a context.
-spec getopts(socket() | context(), [atom()]) -> {ok, [{atom(), term()}]} | {error, reason()}.
getopts(Socket, Names) ->
    getopts(Socket, Names, []).

getopts(_Socket, [], Found) ->
    {ok, lists:reverse(Found)};
getopts(Socket, [Name | Names], Found) ->
    case get(Socket, Name) of
        {ok, Value} -> getopts(Socket, Names, [{Name, Value} | Found]);
        Error -> Error
    end.

get(?CONTEXT_HANDLE(_, _) = Context, Name) ->
    of_context(Context, fun(Id) -> pinnace_context:get(Id, Name) end);
get(Socket, Name) when ?IS_OWN(Name) ->
    local(Socket, fun(Id) -> pinnace_port:call({get, Id, Name}) end);
get(Socket, Name) ->
    local(Socket, fun(Id) ->
        case pinnace_port:option(Name) of
            {Number, Kind} ->
                case pinnace_port:request(?GET_OPTION, <<Id:32, Number:32>>) of
                    {ok, Encoded} -> {ok, pinnace_wire:value(Kind, Encoded)};
                    Error -> Error
                end;
            undefined ->
                {error, einval}
        end
    end).

%% @doc The state of a socket in this node; the program is not asked. `queued': messages that no caller and not the
%% owner has got; `room': how many octets can be sent before `send/2' waits; `os_pid': the program's process id.
-spec info(socket()) -> {ok, info()} | {error, reason()}.
info(Socket) ->
    local(Socket, fun(Id) -> pinnace_port:call({info, Id}) end).

%% @doc What a socket has received, sent and dropped, with its peers.
-spec statistics(socket()) -> {ok, map()} | {error, reason()}.
statistics(Socket) ->
    local(Socket, fun(Id) ->
        ok = sync_of(Id),
        case pinnace_port:request(?STATISTICS, <<Id:32>>) of
            {ok, Entries} -> pinnace_wire:map(Entries);
            Error -> Error
        end
    end).

%% @doc Has all events of a socket's connections sent to the calling process.
-spec monitor(socket()) -> {ok, socket()} | {error, reason()}.
monitor(Socket) ->
    monitor(Socket, 16#FFFF).

%% @doc As `monitor/1', for these events (zmq_socket_monitor(3)). The messages are `{pinnace_event, Socket, Event}' with
%% a map of `event', `value' and `endpoint'. They end when the result is closed.
-spec monitor(socket(), non_neg_integer()) -> {ok, socket()} | {error, reason()}.
monitor(_Socket, Events) when not is_integer(Events); Events < 0; Events >= 1 bsl 64 ->
    {error, einval};
monitor(Socket, Events) ->
    local(Socket, fun(Id) -> pinnace_port:call({monitor, Id, Events, self()}) end).

%% @doc A new pair of keys for CURVE, public and secret.
-spec key_pair() -> {ok, {binary(), binary()}} | {error, reason()}.
key_pair() ->
    case pinnace_port:request(?KEY_PAIR, []) of
        {ok, <<Public:32/binary, Secret:32/binary>>} -> {ok, {Public, Secret}};
        {ok, _} -> {error, port_protocol};
        Error -> Error
    end.

%% @doc The release of the program, as "1.2.3".
-spec version() -> {ok, binary()} | {error, reason()}.
version() ->
    case pinnace_program:release() of
        {ok, Release} -> {ok, Release};
        error -> {error, not_started}
    end.

%% @doc A reason in words.
-spec format_error(term()) -> string().
format_error(Reason) ->
    pinnace_error:format(Reason).

step(Socket, Operation, Argument) ->
    local(Socket, fun(Id) -> step_of(Id, Operation, Argument) end).

step_of(Id, Operation, Argument) ->
    ok = sync_of(Id),
    pinnace_port:call({step, Id, Operation, Argument}).

%% Does something with a socket of this node.
local(?HANDLE(Id, Registry), Do) when ?IS_LOCAL(Registry) -> Do(Id);
local(?HANDLE(_, _), _Do) -> {error, remote_node}.

done({ok, _}) -> ok;
done(Other) -> Other.
