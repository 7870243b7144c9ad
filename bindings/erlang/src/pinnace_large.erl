%% @private
%% Messages that are larger than a packet. The sending process passes their parts to the program, so that no other
%% process waits for them. This process lets one sender at a time do so for a channel, completes its message, and gives
%% up the message of a sender that has died between its parts.
-module(pinnace_large).
-behaviour(gen_server).

-export([start_link/0, send/6]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-include("pinnace_port.hrl").

-type key() :: {port(), Channel :: pos_integer()}.
-type message() :: {key(), Room :: atomics:atomics_ref(), Octets :: pos_integer()}.

-record(state, {
    %% Messages that were begun, by the monitors of their senders.
    begun = #{} :: #{reference() => message()},
    %% The channels of these messages, and the senders that wait for their turn.
    waiting = #{} :: #{key() => queue:queue({gen_server:from(), message()})}
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% Sends a message for which its octets were taken from `Room'. `crashed': the program has died before the message was
%% complete.
-spec send(pos_integer(), port(), atomics:atomics_ref(), iodata(), pos_integer(), wait | nowait | direct) ->
    ok | crashed | {error, pinnace:reason()}.
send(Id, Port, Room, Encoded, Octets, How) ->
    case call({start, {{Port, Id}, Room, Octets}, How}) of
        {ok, Token} ->
            _ = lists:all(fun(Part) -> passed(Port, Part) end, pinnace_wire:parts(Id, Encoded)),
            call({finish, Token});
        Error ->
            ok = atomics:add(Room, ?ROOM, Octets),
            Error
    end.

call(Request) ->
    pinnace_port:call(?MODULE, Request).

%% False: the program has died.
passed(Port, Packet) ->
    try port_command(Port, Packet)
    catch error:badarg -> false
    end.

-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}} | {noreply, #state{}}.
handle_call({start, {Key, _, _} = Message, How}, From, #state{waiting = Waiting} = State) ->
    case Waiting of
        #{Key := _} when How =:= nowait ->
            {reply, {error, eagain}, State};
        #{Key := Queue} ->
            {noreply, State#state{waiting = Waiting#{Key := queue:in({From, Message}, Queue)}}};
        #{} ->
            {noreply, start(From, Message, State#state{waiting = Waiting#{Key => queue:new()}})}
    end;
handle_call({finish, Token}, _From, #state{begun = Begun} = State) ->
    case maps:take(Token, Begun) of
        {Message, Others} ->
            true = demonitor(Token, [flush]),
            {reply, complete(Message), next(Message, State#state{begun = Others})};
        error ->
            %% It was given to the sender by a process that has died, and the program with it.
            {reply, crashed, State}
    end;
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'DOWN', Token, process, _, _}, #state{begun = Begun} = State) ->
    {{{Port, Id}, Room, Octets} = Message, Others} = maps:take(Token, Begun),
    _ = passed(Port, pinnace_wire:given_up(Id)),
    ok = atomics:add(Room, ?ROOM, Octets),
    {noreply, next(Message, State#state{begun = Others})};
handle_info(_Message, State) ->
    {noreply, State}.

%% A sender that has died in the meantime is told by its monitor.
start({Pid, _} = From, Message, #state{begun = Begun} = State) ->
    Token = monitor(process, Pid),
    gen_server:reply(From, {ok, Token}),
    State#state{begun = Begun#{Token => Message}}.

%% Lets the next sender begin.
next({Key, _, _}, #state{waiting = Waiting} = State) ->
    case queue:out(maps:get(Key, Waiting)) of
        {{value, {From, Message}}, Left} -> start(From, Message, State#state{waiting = Waiting#{Key := Left}});
        {empty, _} -> State#state{waiting = maps:remove(Key, Waiting)}
    end.

%% Passes the last part, which has no octets. Only this process does so: whatever becomes of the sender, the message is
%% complete and counts as sent, or neither.
complete({{Port, Id}, Room, _Octets}) ->
    case ets:member(?SOCKETS, Id) of
        true ->
            ok = atomics:add(Room, ?SENT, 1),
            case passed(Port, pinnace_wire:last_part(Id)) of
                true ->
                    ok;
                false ->
                    ok = atomics:sub(Room, ?SENT, 1),
                    crashed
            end;
        false ->
            {error, closed}
    end.
