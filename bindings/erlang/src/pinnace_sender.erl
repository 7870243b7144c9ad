%% @private
%% Gathers messages of processes that send often, and passes them to the program many at a time: a packet for each
%% message would cost a system call each.
-module(pinnace_sender).

-export([start_link/0, pass/5, sync/0, sync/2]).
-export([init/1, wait/0]).

-include("pinnace_port.hrl").

%% A packet is passed on at so many octets.
-define(BATCH_MAX, 61440).

-spec start_link() -> {ok, pid()}.
start_link() ->
    proc_lib:start_link(?MODULE, init, [self()]).

%% Hands messages over, for which there is room in `Room'. They count in `Queue' until they are passed on.
-spec pass(pos_integer(), atomics:atomics_ref(), atomics:atomics_ref(), iodata(), {pos_integer(), pos_integer()}) -> ok.
pass(Id, Room, Queue, Encoded, {Octets, Count} = Size) ->
    ok = atomics:add(Queue, ?QUEUED, Count),
    try ?MODULE ! {Id, Room, Queue, Encoded, Size} of
        _ -> ok
    catch
        error:badarg ->
            ok = atomics:sub(Queue, ?QUEUED, Count),
            ok = atomics:add(Room, ?ROOM, Octets),
            {error, not_started}
    end.

%% Waits until what was handed over before is passed on.
-spec sync() -> ok.
sync() ->
    case whereis(?MODULE) of
        undefined -> ok;
        Pid ->
            Monitor = erlang:monitor(process, Pid),
            sync(self(), Monitor),
            receive
                {synced, Monitor} ->
                    true = demonitor(Monitor, [flush]),
                    ok;
                {'DOWN', Monitor, process, _, _} -> ok
            end
    end.

%% As `sync/0', without waiting: the process gets `{synced, Reference}'.
-spec sync(pid(), reference()) -> ok.
sync(Pid, Reference) ->
    _ = catch ?MODULE ! {sync, Pid, Reference},
    ok.

-spec init(pid()) -> no_return().
init(Parent) ->
    ok = lost(),
    true = register(?MODULE, self()),
    process_flag(message_queue_data, off_heap),
    proc_lib:init_ack(Parent, {ok, self()}),
    wait().

%% What the process of this name had that has died. The owners are told when their sockets are made again.
lost() ->
    lists:foreach(fun({_Id, _Port, _Room, Queue}) ->
        Messages = atomics:exchange(Queue, ?QUEUED, 0),
        ok = atomics:add(Queue, ?LOST, Messages)
    end, ets:tab2list(?SOCKETS)).

%% Calls from here on are to the code that was loaded last.
-spec wait() -> no_return().
wait() ->
    receive
        {Id, Room, Queue, Encoded, {Octets, Count}} -> gather(Id, Room, Queue, [Encoded], Octets, Count);
        Other -> other(Other)
    end.

other({sync, Pid, Reference}) ->
    Pid ! {synced, Reference},
    ?MODULE:wait();
other(_Message) ->
    ?MODULE:wait().

%% Takes what waits for the same socket, up to a packet.
gather(Id, Room, Queue, Batch, Octets, Count) ->
    receive
        {Id, Room, _, Encoded, {More, Messages}} when Octets + More =< ?BATCH_MAX ->
            gather(Id, Room, Queue, [Batch | Encoded], Octets + More, Count + Messages);
        {Other, OtherRoom, OtherQueue, Encoded, {More, Messages}} ->
            ok = flush(Id, Room, Queue, Batch, Octets, Count),
            gather(Other, OtherRoom, OtherQueue, [Encoded], More, Messages);
        Message ->
            ok = flush(Id, Room, Queue, Batch, Octets, Count),
            other(Message)
    after 0 ->
        ok = flush(Id, Room, Queue, Batch, Octets, Count),
        ?MODULE:wait()
    end.

flush(Id, Room, Queue, Batch, Octets, Count) ->
    _ = pinnace:pass_gathered(Id, Room, Batch, Octets, Count),
    ok = atomics:sub(Queue, ?QUEUED, Count).
