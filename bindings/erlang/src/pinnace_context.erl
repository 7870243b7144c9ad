%% @private
%% Contexts of the program. They and their options are kept in a table, from which another program gets them.
-module(pinnace_context).

-export([new/1, set/2, get/2, close/1]).

-include("pinnace_port.hrl").

%% The numbers of zmq.h.
-define(OPTIONS, #{io_threads => 1, max_sockets => 2, socket_limit => 3, thread_priority => 3,
                   thread_sched_policy => 4, max_msgsz => 5, msg_t_size => 6, thread_affinity_cpu_add => 7,
                   thread_affinity_cpu_remove => 8, thread_name_prefix => 9, zero_copy_recv => 10, ipv6 => 42,
                   blocky => 70}).

-type option() :: {atom(), integer() | boolean()}.

-spec new([option()]) -> {ok, pos_integer()} | {error, pinnace:reason()}.
new(Options) ->
    %% As of channels: one that none has had.
    Id = erlang:unique_integer([positive, monotonic]) band 16#FFFFFFFF,
    case pinnace_port:request(?NEW_CONTEXT, <<Id:32>>) of
        {ok, _} ->
            true = ets:insert(?CONTEXTS, {Id, []}),
            case set_all(Id, Options) of
                ok ->
                    {ok, Id};
                Error ->
                    _ = close(Id),
                    Error
            end;
        Error ->
            Error
    end.

set_all(_Id, []) ->
    ok;
set_all(Id, [Option | Options]) ->
    case set(Id, Option) of
        ok -> set_all(Id, Options);
        Error -> Error
    end.

-spec set(pos_integer(), option()) -> ok | {error, pinnace:reason()}.
set(Id, {Name, true}) ->
    set(Id, {Name, 1});
set(Id, {Name, false}) ->
    set(Id, {Name, 0});
set(Id, {Name, Value}) when is_map_key(Name, ?OPTIONS), is_integer(Value), Value >= -1 bsl 31, Value < 1 bsl 31 ->
    #{Name := Option} = ?OPTIONS,
    case true =:= known(Id) andalso pinnace_port:request(?SET_CONTEXT, <<Id:32, Option:32, Value:32/signed>>) of
        {ok, _} ->
            %% Those that add up are kept each, in their order.
            [{_, Options}] = ets:lookup(?CONTEXTS, Id),
            true = ets:update_element(?CONTEXTS, Id, {2, Options ++ [{Option, Value}]}),
            ok;
        false -> {error, closed};
        Error -> Error
    end;
set(_Id, _Option) ->
    {error, einval}.

-spec get(pos_integer(), atom()) -> {ok, integer()} | {error, pinnace:reason()}.
get(Id, Name) when is_map_key(Name, ?OPTIONS) ->
    #{Name := Option} = ?OPTIONS,
    case true =:= known(Id) andalso pinnace_port:request(?GET_CONTEXT, <<Id:32, Option:32>>) of
        {ok, <<Value:32/signed>>} -> {ok, Value};
        {ok, _} -> {error, port_protocol};
        false -> {error, closed};
        Error -> Error
    end;
get(_Id, _Name) ->
    {error, einval}.

%% Whether a context has not ended.
known(Id) ->
    try ets:member(?CONTEXTS, Id)
    catch error:badarg -> {error, not_started}
    end.

%% Closes the sockets of a context, and ends it. The one of all sockets that name no other stays.
-spec close(pos_integer()) -> ok | {error, pinnace:reason()}.
close(?CONTEXT) ->
    {error, einval};
close(Id) ->
    case known(Id) of
        true ->
            true = ets:delete(?CONTEXTS, Id),
            ok = pinnace_sender:sync(),
            Sockets = ets:select(?SPECS, [{{'$1', Id, '$2', '_', '_'}, [{is_atom, '$2'}], ['$1']}]),
            lists:foreach(fun(Socket) -> pinnace_port:call({close, Socket}) end, Sockets),
            %% Their lingers count.
            case pinnace_port:request(?END_CONTEXT, <<Id:32, -1:32>>) of
                {ok, _} -> ok;
                %% It is gone with the program.
                {error, port_crashed} -> ok;
                Error -> Error
            end;
        false -> {error, closed};
        Error -> Error
    end.
