%% @private
%% The process that has the port program: it asks for operations, passes messages on, and makes all sockets again when
%% the program has died.
-module(pinnace_port).
-behaviour(gen_server).

-export([start_link/0]).
-export([call/1, call/2, request/2, option/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-include_lib("kernel/include/logger.hrl").
-include("pinnace_port.hrl").

%% How often the program is asked whether it lives.
-define(PING_MS, 5000).
%% How often the program may die within how many seconds, before this process ends.
-define(INTENSITY, {10, 10}).
%% How long until it is logged that a socket cannot be bound again, and how often that is tried before and after.
-define(BIND_AGAIN_MS, 2000).
-define(BIND_STEP_MS, 10).
-define(BIND_LATE_STEP_MS, 500).
-define(OPTIONS, {?MODULE, options}).

%% What becomes of an answer.
-type answer() :: none | options | {call | told, gen_server:from()} | {made_again, pos_integer()}
                | {step, pos_integer(), pinnace_steps:step(), gen_server:from()}
                | {made, pos_integer(), gen_server:from()}
                | {again, pos_integer(), pinnace_steps:step(), deadline()}.
-type deadline() :: integer() | over.

-record(state, {
    program :: pinnace_program:program(),
    last_request = 0 :: non_neg_integer(),
    requests = #{} :: #{non_neg_integer() => answer()},
    socks = #{} :: #{pos_integer() => pinnace_sock:sock()},
    %% By the monitor of the owner.
    owners = #{} :: #{reference() => pos_integer()},
    relays = #{} :: pinnace_relays:relays(),
    %% When programs died last, in seconds.
    deaths = [] :: [integer()],
    pings = 0 :: non_neg_integer(),
    %% Something came from the program since the last ping.
    is_alive = true :: boolean()
}).

-include("pinnace_sock.hrl").

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% Calls the process.
-spec call(term()) -> term().
call(Request) ->
    call(?MODULE, Request).

%% Calls a process of the application by its name.
-spec call(atom(), term()) -> term().
call(Process, Request) ->
    try gen_server:call(Process, Request, infinity)
    catch
        exit:{noproc, _} -> {error, not_started};
        exit:{_Reason, {gen_server, call, _}} -> {error, port_crashed}
    end.

%% Requests an operation of the program.
-spec request(pos_integer(), iodata()) -> {ok, binary()} | {error, pinnace:reason()}.
request(Operation, Arguments) ->
    call({request, Operation, Arguments}).

%% The number of an option of sockets, and the kind of its values.
-spec option(atom()) -> {integer(), atom()} | undefined.
option(Name) ->
    maps:get(Name, persistent_term:get(?OPTIONS, #{}), undefined).

-spec init([]) -> {ok, #state{}} | {stop, term()}.
init([]) ->
    process_flag(trap_exit, true),
    process_flag(message_queue_data, off_heap),
    case pinnace_program:start() of
        {ok, Program} ->
            _ = erlang:send_after(ping_ms(), self(), ping),
            State = #state{program = Program, relays = pinnace_relays:load(element(1, Program))},
            {ok, restore(ask(?LIST_OPTIONS, [], options, State))};
        {error, Reason} ->
            {stop, Reason}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}} | {noreply, #state{}}.
handle_call({recv, Id, Timeout}, From, State) ->
    with_sock(Id, State, fun(Sock) -> replied(pinnace_sock:recv(From, Timeout, Sock), State) end);
handle_call({wait, What, Id, Room}, From, State) ->
    with_sock(Id, State, fun(Sock) -> replied(pinnace_sock:wait(What, Room, From, Sock), State) end);
handle_call({drop_answer, Id, Tell}, _From, State) ->
    with_sock(Id, State, fun(Sock) -> {reply, pinnace_sock:drop_answer(Tell, Sock), State} end);
handle_call({socket, Context, Type, Owner}, From, State) ->
    Id = new_channel(),
    true = ets:insert(?SPECS, {Id, Context, Type, Owner, []}),
    Arguments = <<Id:32, Context:32, (type_number(Type))>>,
    {noreply, ask(?NEW_SOCKET, Arguments, {made, Id, From}, State)};
handle_call({monitor, Of, Events, Owner}, From, State) ->
    Id = new_channel(),
    with_sock(Of, State, fun(_Sock) ->
        true = ets:insert(?SPECS, {Id, Of, {monitor, Events}, Owner, []}),
        Arguments = <<Of:32, Id:32, Events:64>>,
        {noreply, ask(?MONITOR, Arguments, {made, Id, From}, State)}
    end);
handle_call({step, Id, Operation, Argument}, From, State) ->
    with_sock(Id, State, fun(_Sock) ->
        requested(Operation, [<<Id:32>> | Argument], {step, Id, {Operation, Argument}, From}, State)
    end);
handle_call({close, Id}, From, State) ->
    with_sock(Id, State, fun(Sock) -> {noreply, close(Sock, {call, From}, State)} end);
handle_call({request, Operation, Arguments}, From, State) ->
    requested(Operation, Arguments, {call, From}, State);
handle_call({request, Port, Operation, Arguments}, From, #state{program = {Port, _}} = State) ->
    requested(Operation, Arguments, {told, From}, State);
handle_call({request, _Port, _Operation, _Arguments}, _From, State) ->
    {reply, {error, port_crashed}, State};
handle_call({relay, Last}, {Owner, _}, #state{program = {Port, _}, relays = Relays} = State) ->
    Id = new_channel(),
    {reply, {ok, Id, Port}, State#state{relays = pinnace_relays:add(Id, Owner, Last, Relays)}};
handle_call({context, Id}, From, State) ->
    true = ets:insert(?CONTEXTS, {Id, []}),
    {noreply, ask(?NEW_CONTEXT, <<Id:32>>, {call, From}, State)};
handle_call({set, Id, Option}, _From, State) ->
    with_sock(Id, State, fun(Sock) ->
        case pinnace_sock:set(Option, Sock) of
            {ok, Set} -> {reply, ok, put_sock(Set, State)};
            error -> {reply, {error, einval}, State}
        end
    end);
handle_call({get, Id, Name}, _From, State) ->
    with_sock(Id, State, fun(Sock) -> {reply, pinnace_sock:get(Name, Sock), State} end);
handle_call({info, Id}, _From, State) ->
    with_sock(Id, State, fun(Sock) -> {reply, {ok, info(Sock, State)}, State} end);
handle_call({owner, Id, Owner}, {Caller, _}, State) ->
    with_sock(Id, State, fun(Sock) -> change_owner(Caller, Owner, Sock, State) end);
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

%% Asks for what a caller wants. The program ends at a packet that is too large.
requested(Operation, Arguments, Answer, State) ->
    case pinnace_wire:fits_request(Arguments) of
        true -> {noreply, ask(Operation, Arguments, Answer, State)};
        false -> {reply, {error, emsgsize}, State}
    end.

%% A number that no socket of this node has had, also before the application was started again.
new_channel() ->
    erlang:unique_integer([positive, monotonic]) band 16#FFFFFFFF.

with_sock(Id, #state{socks = Socks} = State, Do) ->
    case Socks of
        #{Id := Sock} -> Do(Sock);
        #{} -> {reply, {error, missing(Id)}, State}
    end.

%% Another process had the socket, and this one has not made it again yet.
missing(Id) ->
    case ets:member(?SPECS, Id) of
        true -> port_crashed;
        false -> closed
    end.

replied({reply, Reply, Sock}, State) -> {reply, Reply, put_sock(Sock, State)};
replied({wait, Sock}, State) -> {noreply, put_sock(Sock, State)}.

info(#sock{id = Id} = Sock, #state{program = {_, OsPid}}) ->
    [{_, _, Type, _, Steps}] = ets:lookup(?SPECS, Id),
    Endpoints = fun(Operation) -> pinnace_steps:endpoints(Operation, Steps) end,
    Name = case Type of {monitor, _} -> monitor; _ -> Type end,
    (pinnace_sock:info(Sock))#{type => Name, bound => Endpoints(?BIND), connected => Endpoints(?CONNECT),
                               os_pid => OsPid}.

change_owner(Caller, Owner, #sock{owner = Caller, monitor = Monitor, id = Id} = Sock, State) ->
    true = demonitor(Monitor, [flush]),
    New = monitor(process, Owner),
    true = ets:update_element(?SPECS, Id, {4, Owner}),
    Owners = maps:remove(Monitor, State#state.owners),
    {reply, ok, put_sock(Sock#sock{owner = Owner, monitor = New}, State#state{owners = Owners#{New => Id}})};
change_owner(_Caller, _Owner, _Sock, State) ->
    {reply, {error, not_owner}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({Port, {data, Packet}}, #state{program = {Port, _}} = State) ->
    try handle_packet(Packet, State#state{is_alive = true}) of
        Next -> {noreply, Next}
    catch
        error:function_clause ->
            Begin = binary:part(Packet, 0, min(64, byte_size(Packet))),
            ?LOG_ERROR("pinnace-port: a packet that is not understood: ~0p", [Begin]),
            ok = pinnace_program:kill(State#state.program),
            died(protocol, State)
    end;
handle_info({recv_timeout, Id, From}, State) ->
    {noreply, change(Id, fun(Sock) -> pinnace_sock:give_up(From, Sock) end, State)};
handle_info({tell_unsent, Id}, State) ->
    {noreply, change(Id, fun pinnace_sock:tell_unsent/1, State)};
handle_info({resume, Id}, State) ->
    {noreply, change(Id, fun pinnace_sock:resume/1, State)};
handle_info({bind_again, Port, Id, Step, Deadline}, #state{program = {Port, _}} = State) ->
    %% It may have been unbound or closed since.
    case has_step(Id, Step) of
        true -> {noreply, repeat(Id, Step, Deadline, State)};
        false -> {noreply, State}
    end;
handle_info({'DOWN', Monitor, process, Pid, _}, #state{owners = Owners, relays = Relays} = State) ->
    case Owners of
        #{Monitor := _} ->
            %% What it has sent may not be passed on yet.
            ok = pinnace_sender:sync(self(), Monitor),
            {noreply, State};
        #{} ->
            case pinnace_relays:down(Pid, Relays) of
                {Operation, Arguments, Left} ->
                    {noreply, ask(Operation, Arguments, none, State#state{relays = Left})};
                none -> {noreply, State}
            end
    end;
handle_info({synced, Monitor}, #state{owners = Owners, socks = Socks} = State) ->
    case Owners of
        #{Monitor := Id} -> {noreply, close(maps:get(Id, Socks), none, State)};
        #{} -> {noreply, State}
    end;
handle_info(ping, #state{is_alive = false, program = Program} = State) ->
    ?LOG_ERROR("pinnace-port does not answer; it is ended"),
    ok = pinnace_program:kill(Program),
    _ = erlang:send_after(ping_ms(), self(), ping),
    died(silent, State);
handle_info(ping, #state{pings = Pings} = State) ->
    to_program(pinnace_wire:ping(Pings), State),
    _ = erlang:send_after(ping_ms(), self(), ping),
    {noreply, State#state{pings = Pings + 1, is_alive = false}};
handle_info({'EXIT', Port, Reason}, #state{program = {Port, _} = Program} = State) ->
    %% It has closed its input, and may still run.
    ?LOG_ERROR("pinnace-port has gone: ~0p", [Reason]),
    ok = pinnace_program:kill(Program),
    died(Reason, State);
handle_info({Port, {exit_status, Status}}, #state{program = {Port, _}} = State) ->
    ?LOG_ERROR("pinnace-port has ended with status ~b", [Status]),
    died({exit_status, Status}, State);
handle_info(_Message, State) ->
    {noreply, State}.

ping_ms() ->
    application:get_env(pinnace, ping_ms, ?PING_MS).

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{program = {Port, _}, socks = Socks}) ->
    true = ets:insert(?MODES, [{Id, pinnace_sock:modes(Sock)} || {Id, Sock} <- maps:to_list(Socks)]),
    _ = catch port_close(Port),
    ok.

to_program(Packet, #state{program = {Port, _}}) ->
    pinnace_writer:pass(Port, Packet).

ask(Operation, Arguments, Answer, #state{last_request = Last, requests = Requests} = State) ->
    %% 0 would be a request without an answer.
    Id = Last rem 16#FFFFFFFF + 1,
    to_program(pinnace_wire:request(Id, Operation, Arguments), State),
    State#state{last_request = Id, requests = Requests#{Id => Answer}}.

change(Id, Do, #state{socks = Socks} = State) ->
    case Socks of
        #{Id := Sock} -> State#state{socks = Socks#{Id := Do(Sock)}};
        #{} -> State
    end.

put_sock(#sock{id = Id} = Sock, #state{socks = Socks} = State) ->
    State#state{socks = Socks#{Id => Sock}}.

handle_packet(<<Kind, Id:32, _/binary>> = Packet, #state{relays = Relays, program = {Port, _}} = State)
  when is_map_key(Id, Relays), Kind >= 132, Kind =< 137, Kind =/= 135 ->
    ok = pinnace_relays:packet(maps:get(Id, Relays), Port, Packet),
    State;
handle_packet(<<132, Id:32, Messages/binary>>, State) ->
    change(Id, fun(Sock) -> pinnace_sock:delivered(Messages, Sock) end, State);
handle_packet(<<133, Id:32, Last, Content/binary>>, State) ->
    change(Id, fun(Sock) -> pinnace_sock:part(Last =:= 1, Content, Sock) end, State);
handle_packet(<<134, Id:32, Messages:32, Octets:32>>, State) ->
    change(Id, fun(Sock) -> pinnace_sock:room(Messages, Octets, Sock) end, State);
handle_packet(<<130, Id:32, Values/binary>>, State) ->
    answered(Id, {ok, Values}, State);
handle_packet(<<131, Id:32, Errno:32, Text/binary>>, #state{requests = Requests} = State) ->
    Reason = pinnace_error:reason(Errno),
    case Requests of
        #{Id := {told, _}} -> answered(Id, {error, {Reason, Text}}, State);
        #{} -> answered(Id, {error, Reason}, State)
    end;
handle_packet(<<135, _Number:64>>, State) ->
    State;
handle_packet(<<136, Id:32, Messages:32, Errno:32>>, State) ->
    unsent(Id, Messages, pinnace_error:reason(Errno), State);
handle_packet(<<137, Id:32, Errno:32>>, State) ->
    tell(Id, {pinnace_error, pinnace_registry:handle(Id), pinnace_error:reason(Errno)}, State);
handle_packet(<<138, Text/binary>>, State) ->
    ?LOG_WARNING("pinnace-port: ~ts", [Text]),
    State;
handle_packet(<<255, Text/binary>>, State) ->
    ?LOG_ERROR("pinnace-port refuses what it was sent: ~ts", [Text]),
    State.

unsent(Id, Messages, Reason, State) ->
    change(Id, fun(Sock) -> pinnace_sock:unsent(Messages, Reason, Sock) end, State).

%% Tells the owner of a socket.
tell(Id, Message, #state{socks = Socks} = State) ->
    _ = case Socks of
        #{Id := #sock{owner = Owner}} -> Owner ! Message;
        #{} -> nobody
    end,
    State.

answered(Id, Reply, #state{requests = Requests} = State) when is_map_key(Id, Requests) ->
    {Answer, Left} = maps:take(Id, Requests),
    answer(Answer, Reply, State#state{requests = Left}).

answer(none, _Reply, State) ->
    State;
answer(options, {ok, Table}, State) ->
    persistent_term:put(?OPTIONS, pinnace_wire:options(Table)),
    State;
answer({Call, From}, Reply, State) when Call =:= call; Call =:= told ->
    gen_server:reply(From, Reply),
    State;
answer({made, Id, From}, {ok, Values}, State) ->
    %% The caller may send at once.
    Made = made(Id, Values, State),
    gen_server:reply(From, {ok, pinnace_registry:handle(Id)}),
    Made;
answer({made, Id, From}, Error, State) ->
    true = ets:delete(?SPECS, Id),
    gen_server:reply(From, Error),
    State;
answer({step, Id, Step, From}, {ok, Value} = Reply, State) ->
    note_step(Id, Step, Value),
    gen_server:reply(From, Reply),
    State;
answer({step, Id, {?UNBIND, Endpoint} = Step, From}, {error, enoent} = Error, State) ->
    %% The socket may wait for an endpoint that is in use.
    Reply = case has_step(Id, {?BIND, iolist_to_binary(Endpoint)}) of
        true ->
            note_step(Id, Step, <<>>),
            {ok, <<>>};
        false ->
            Error
    end,
    gen_server:reply(From, Reply),
    State;
answer({step, _Id, _Step, From}, Error, State) ->
    gen_server:reply(From, Error),
    State;
answer({made_again, Id}, {ok, Values}, State) ->
    case ets:member(?SPECS, Id) of
        true -> made(Id, Values, State);
        %% It was closed since.
        false -> State
    end;
answer({made_again, Id}, {error, Reason}, State) ->
    ?LOG_ERROR("pinnace: a socket could not be made again: ~0p", [Reason]),
    case State#state.socks of
        #{Id := Sock} -> close(Sock, none, State);
        #{} ->
            lists:foreach(fun(Table) -> true = ets:delete(Table, Id) end, [?SOCKETS, ?SPECS, ?MODES]),
            State
    end;
answer({again, Id, {?BIND, Argument} = Step, Deadline}, {error, eaddrinuse}, #state{program = {Port, _}} = State) ->
    {Wait, Next} = bind_later(Argument, Deadline),
    _ = erlang:send_after(Wait, self(), {bind_again, Port, Id, Step, Next}),
    State;
answer({again, Id, {Operation, _}, _Deadline}, {error, Reason}, State) ->
    _ = ets:member(?SPECS, Id) andalso
        ?LOG_ERROR("pinnace: a socket is not as before, operation ~b: ~ts", [Operation, pinnace_error:format(Reason)]),
    State;
answer({again, _Id, _Step, _Deadline}, {ok, _}, State) ->
    State.

%% When a socket is tried to be bound again. That the endpoint is in use is logged once.
bind_later(_Argument, over) ->
    {?BIND_LATE_STEP_MS, over};
bind_later(<<_Length:32, Endpoint/binary>>, Deadline) ->
    case erlang:monotonic_time(millisecond) < Deadline of
        true ->
            {?BIND_STEP_MS, Deadline};
        false ->
            ?LOG_ERROR("pinnace: ~ts is in use; the socket that was bound to it is bound when it is free", [Endpoint]),
            {?BIND_LATE_STEP_MS, over}
    end.

%% A socket was made, for the first time or again.
made(Id, Values, #state{program = {Port, _}, socks = Socks, owners = Owners} = State) ->
    [{_, Context, Type, Owner, _}] = ets:lookup(?SPECS, Id),
    {Window, Is} = window(Values, Type, Context),
    case Socks of
        #{Id := Sock} ->
            State#state{socks = Socks#{Id := pinnace_sock:renew(Port, Window, Sock)}};
        #{} ->
            New = pinnace_sock:credit(pinnace_sock:new(Id, Port, Owner, Is, Window)),
            Sock = pinnace_sock:set_modes(modes(Id, Type), New),
            State#state{socks = Socks#{Id => Sock}, owners = Owners#{Sock#sock.monitor => Id}}
    end.

%% What the last process of this name has left, if it had the socket.
modes(Id, Type) ->
    case {ets:take(?MODES, Id), Type} of
        {[{_, Modes}], _} -> Modes;
        {[], {monitor, _}} -> [{active, true}];
        {[], _} -> []
    end.

%% The room of a new channel, and what it is.
window(<<>>, {monitor, _}, Of) -> {0, {events_of, Of}};
window(<<Room:32>>, Type, _Context) when is_atom(Type) -> {Room, Type}.

%% Keeps what is needed to make the socket again. An endpoint is kept as it was resolved.
note_step(Id, Step, Value) ->
    case ets:lookup(?SPECS, Id) of
        [{_, _, _, _, Steps}] -> true = ets:update_element(?SPECS, Id, {5, pinnace_steps:add(Step, Value, Steps)});
        [] -> true
    end.

has_step(Id, Step) ->
    case ets:lookup(?SPECS, Id) of
        [{_, _, _, _, Steps}] -> lists:member(Step, Steps);
        [] -> false
    end.

close(#sock{id = Id, monitor = Monitor} = Sock, Answer, #state{socks = Socks, owners = Owners} = State) ->
    ok = pinnace_sock:close(closed, Sock),
    true = ets:delete(?SPECS, Id),
    ask(?CLOSE, <<Id:32>>, Answer, State#state{socks = maps:remove(Id, Socks), owners = maps:remove(Monitor, Owners)}).

%% The program has died: callers with requests under way get an error, a new program is started, and it makes all
%% contexts and sockets again.
died(Reason, #state{requests = Requests, socks = Socks, deaths = Deaths, relays = Relays} = State) ->
    ok = pinnace_relays:tell(down, Relays),
    maps:foreach(fun(_Id, Answer) -> fail(Answer) end, Requests),
    Told = maps:map(fun(_Id, Sock) ->
        case pinnace_sock:unconfirmed(Sock) of
            0 -> Sock;
            Messages -> pinnace_sock:unsent(Messages, port_crashed, Sock)
        end
    end, Socks),
    {Most, Seconds} = application:get_env(pinnace, restart_intensity, ?INTENSITY),
    Now = erlang:monotonic_time(second),
    Recent = [Now | [Death || Death <- Deaths, Now - Death < Seconds]],
    case length(Recent) =< Most andalso pinnace_program:start() of
        {ok, {Port, _} = Program} ->
            ok = pinnace_relays:tell(Port, Relays),
            Next = State#state{program = Program, requests = #{}, socks = Told, deaths = Recent, is_alive = true},
            {noreply, restore(Next)};
        false ->
            {stop, {port_crashed, Reason}, State};
        {error, Problem} ->
            {stop, Problem, State}
    end.

fail({Call, From}) when Call =:= call; Call =:= told -> gen_server:reply(From, {error, port_crashed});
fail({step, _Id, _Step, From}) -> gen_server:reply(From, {error, port_crashed});
fail({made, Id, From}) ->
    true = ets:delete(?SPECS, Id),
    gen_server:reply(From, {error, port_crashed});
fail(_) -> ok.

%% Makes all contexts and sockets again.
restore(State) ->
    Contexts = lists:sort(ets:tab2list(?CONTEXTS)),
    Asked = lists:foldl(fun({Context, Options}, Next) ->
        lists:foldl(fun({Option, Value}, Then) ->
            ask(?SET_CONTEXT, <<Context:32, Option:32/signed, Value:32/signed>>, none, Then)
        end, ask(?NEW_CONTEXT, <<Context:32>>, none, Next), Options)
    end, State, Contexts),
    Deadline = erlang:monotonic_time(millisecond) + ?BIND_AGAIN_MS,
    %% The ZAP handler comes first: without it, the others would admit every peer.
    {Handlers, Others} = lists:partition(fun is_zap_handler/1, lists:sort(ets:tab2list(?SPECS))),
    lists:foldl(fun(Spec, Next) -> make_again(Spec, Deadline, Next) end, Asked, Handlers ++ Others).

is_zap_handler({_Id, _Context, _Type, _Owner, Steps}) ->
    lists:member(?ZAP_ENDPOINT, pinnace_steps:endpoints(?BIND, Steps)).

make_again({Id, Of, {monitor, Events}, _Owner, _Steps}, _Deadline, State) ->
    ask(?MONITOR, <<Of:32, Id:32, Events:64>>, {made_again, Id}, State);
make_again({Id, Context, Type, _Owner, Steps}, Deadline, State) ->
    Made = ask(?NEW_SOCKET, <<Id:32, Context:32, (type_number(Type))>>, {made_again, Id}, State),
    lists:foldl(fun(Step, Next) -> repeat(Id, Step, Deadline, Next) end, Made, lists:reverse(Steps)).

repeat(Id, {Operation, Argument} = Step, Deadline, State) ->
    ask(Operation, [<<Id:32>> | Argument], {again, Id, Step, Deadline}, State).

type_number(Type) ->
    {_, Number} = lists:keyfind(Type, 1, ?TYPES),
    Number.
