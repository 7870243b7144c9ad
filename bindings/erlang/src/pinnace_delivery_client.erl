%% @private
%% The process of a client of guaranteed delivery: it has the client started in each program, and passes what comes to
%% the module of its user.
-module(pinnace_delivery_client).
-behaviour(gen_server).

-export([settle/2, close_within/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, code_change/3]).

-include_lib("kernel/include/logger.hrl").
-include("pinnace_port.hrl").

%% The process of the client, its channel, the program's port, and the number of the delivery in the program.
-opaque ref() :: {pid(), pos_integer(), port(), non_neg_integer()}.
-export_type([ref/0]).

-define(PREFETCH, 100).
-define(CLOSE_MS, 3000).
%% The octets that the program may deliver beyond those that are settled.
-define(WINDOW, 4194304).
%% How long the name and the store of a client that has just ended may be in use, and how often they are tried.
-define(START_AGAIN_MS, 5000).
-define(START_STEP_MS, 50).

%% What the program's verdicts are called in its protocol.
-define(ACK, 0).
-define(NACK, 1).
-define(TERMINATE, 2).
-define(GIVE_BACK, 3).
-define(IN_PROGRESS, 4).
-define(FAIL, 5).

-record(state, {
    id :: pos_integer(),
    %% The port to the program in which the client is started.
    port = down :: port() | down,
    %% The request that starts it in this program.
    starting = none :: none | {gen_server:request_id(), port(), Deadline :: integer()},
    options :: pinnace_delivery:options(),
    topics :: [binary()],
    module :: module() | none,
    state :: term(),
    %% The tokens of deliveries that the module has not got.
    queue = queue:new() :: queue:queue(non_neg_integer()),
    %% Those that are not settled, and their octets, by their tokens.
    in_hand = #{} :: #{non_neg_integer() => {pos_integer(), map()}},
    seen = pinnace_delivery_seen:new() :: pinnace_delivery_seen:seen(),
    %% The begin of a delivery that comes in parts.
    part = [] :: iodata(),
    %% Callers that wait until the client is started.
    waiting = [] :: [gen_server:from()],
    %% The topics that the last request to start it had.
    listed = [] :: [binary()]
}).

%% As pinnace_delivery:settle/2.
-spec settle(ref(), pinnace_delivery:verdict()) -> ok | {error, pinnace:reason()}.
settle({Pid, Id, Port, Token}, Verdict) when node(Pid) =:= node() ->
    try verdict(Verdict) of
        Settlement ->
            {Operation, Arguments, Settled} = request(Id, Token, Settlement),
            case pinnace_relays:request(Port, Operation, Arguments) of
                {ok, _} ->
                    Pid ! {?MODULE, {settled, Port, Token, Settled}},
                    ok;
                {error, {ecanceled, Text}} when is_binary(Text) -> {error, closed};
                {error, {Reason, Text}} when is_binary(Text) -> {error, Reason};
                Error -> Error
            end
    catch
        error:_ -> {error, einval}
    end;
settle(_Ref, _Verdict) ->
    {error, remote_node}.

%% The request that settles a delivery, and the verdict as a number.
request(Id, Token, {together, Messages}) -> {?TOGETHER, [<<Id:32, Token:64>> | Messages], ?ACK};
request(Id, Token, {Verdict, Delay}) -> {?SETTLE, <<Id:32, Token:64, Verdict, Delay:32/signed>>, Verdict}.

%% How long the end of a client may take, in milliseconds.
-spec close_within(pinnace_delivery:options()) -> non_neg_integer().
close_within(Options) ->
    maps:get(close_within, Options, ?CLOSE_MS).

-spec init({pinnace_delivery:options(), module() | none, term()}) -> {ok, #state{}} | {stop, term()} | ignore.
init({Options, Module, Arguments}) ->
    process_flag(trap_exit, true),
    case init_module(Module, Arguments) of
        {ok, State} ->
            try open(#state{id = 1, options = Options, topics = topics(Options), module = Module, state = State})
            catch error:_ -> {stop, einval}
            end;
        Other ->
            Other
    end.

init_module(none, _Arguments) ->
    {ok, none};
init_module(Module, Arguments) ->
    _ = code:ensure_loaded(Module),
    case has(Module, handle_message, 2) of
        true ->
            case has(Module, init, 1) of
                true -> Module:init(Arguments);
                false -> {ok, Arguments}
            end;
        false ->
            {stop, {undef, {Module, handle_message, 2}}}
    end.

has(Module, Function, Arity) ->
    erlang:function_exported(Module, Function, Arity).

topics(Options) ->
    [pinnace_options:text(Topic) || Topic <- maps:get(topics, Options, [])].

open(#state{options = Options} = State) ->
    %% It fails here if an option is of a wrong type.
    _ = iolist_size(start_arguments(State)),
    true = is_number_from(0, close_within(Options)) andalso is_number_from(1, prefetch(Options)),
    case pinnace_relays:open({?END, <<?FAIL, (close_within(Options)):32>>}) of
        {ok, Id, Port} ->
            _ = monitor(process, pinnace_registry),
            first(Port, soon(?START_AGAIN_MS), State#state{id = Id, listed = State#state.topics});
        {error, Reason} ->
            {stop, Reason}
    end.

is_number_from(Least, Number) ->
    is_integer(Number) andalso Number >= Least andalso Number < 1 bsl 31.

start_arguments(#state{id = Id, options = Options, topics = Topics}) ->
    [<<Id:32>> | pinnace_delivery_wire:start(Options, Topics)].

soon(Ms) ->
    erlang:monotonic_time(millisecond) + Ms.

%% Starts the client for the first time.
first(Port, Deadline, State) ->
    case pinnace_relays:request(Port, ?START, start_arguments(State)) of
        {ok, _Endpoint} ->
            {ok, started(Port, State)};
        {error, port_crashed} ->
            case pinnace_relays:next_program() of
                {ok, Next} -> first(Next, Deadline, State);
                {error, Reason} -> {stop, Reason}
            end;
        {error, Reason} ->
            case is_in_use(Reason) andalso soon(0) < Deadline of
                true ->
                    timer:sleep(?START_STEP_MS),
                    first(Port, Deadline, State);
                false ->
                    {stop, Reason}
            end
    end.

%% The client of the name may be one that has just ended.
is_in_use({Reason, _Text}) -> Reason =:= eexist orelse Reason =:= ebusy;
is_in_use(_Reason) -> false.

started(Port, #state{id = Id, options = Options, module = Module, waiting = Waiting} = State) ->
    #state{topics = Topics, listed = Listed} = State,
    ok = pinnace_relays:is_up(Port),
    Started = State#state{port = Port, starting = none, waiting = []},
    _ = Module =:= none orelse grant(prefetch(Options), ?WINDOW, Started),
    lists:foreach(fun(From) -> gen_server:reply(From, {ok, Id, Port}) end, Waiting),
    %% Topics may have come and gone since it was asked for.
    lists:foreach(fun(Topic) -> listen(?LISTEN, Topic, Started) end, Topics -- Listed),
    lists:foreach(fun(Topic) -> listen(?UNLISTEN, Topic, Started) end, Listed -- Topics),
    Started.

listen(Operation, Topic, #state{id = Id, port = Port}) ->
    catch port_command(Port, pinnace_wire:order(Operation, [<<Id:32>> | pinnace_wire:bytes(Topic)])).

prefetch(Options) ->
    maps:get(prefetch, Options, ?PREFETCH).

grant(Messages, Octets, #state{id = Id, port = Port}) ->
    catch port_command(Port, pinnace_wire:credit(Id, Messages, Octets)).

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}} | {noreply, #state{}} | {stop, term(), #state{}} | {stop, term(), term(), #state{}}.
handle_call({?MODULE, up}, From, #state{id = Id, port = Port, waiting = Waiting} = State) ->
    case Port =/= down andalso erlang:port_info(Port, id) of
        {id, _} -> {reply, {ok, Id, Port}, State};
        _ -> {noreply, State#state{waiting = [From | Waiting]}}
    end;
handle_call(Request, From, #state{module = Module} = State) ->
    case has(Module, handle_call, 3) of
        true -> result(Module:handle_call(Request, From, State#state.state), State);
        false -> {reply, {error, einval}, State}
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_cast(Message, #state{module = Module} = State) ->
    case has(Module, handle_cast, 2) of
        true -> result(Module:handle_cast(Message, State#state.state), State);
        false -> {noreply, State}
    end.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({pinnace_channel, Port, <<132, _Id:32, Messages/binary>>}, #state{port = Port} = State) ->
    {noreply, arrived(pinnace_wire:messages(Messages), State)};
handle_info({pinnace_channel, Port, <<133, _Id:32, 0, Content/binary>>}, #state{port = Port, part = Part} = State) ->
    {noreply, State#state{part = [Part, Content]}};
handle_info({pinnace_channel, Port, <<133, _Id:32, 1, Content/binary>>}, #state{port = Port, part = Part} = State) ->
    {noreply, arrived(pinnace_wire:messages(iolist_to_binary([Part, Content])), State#state{part = []})};
handle_info({pinnace_channel, _Port, _Packet}, State) ->
    {noreply, State};
handle_info({?MODULE, next}, #state{queue = Queue} = State) ->
    case queue:out(Queue) of
        {{value, Token}, Left} -> handle(Token, State#state{queue = Left});
        {empty, _} -> {noreply, State}
    end;
handle_info({pinnace_port, down}, State) ->
    ok = pinnace_relays:is_up(down),
    {noreply, State#state{port = down, starting = none, queue = queue:new(), in_hand = #{}, part = []}};
handle_info({pinnace_port, Port}, State) ->
    {noreply, start_again(Port, soon(?START_AGAIN_MS), State)};
handle_info({?MODULE, {settled, Port, Token, Verdict}}, #state{port = Port} = State) ->
    {noreply, done(Token, Verdict, State)};
handle_info({?MODULE, {settled, _Port, _Token, _Verdict}}, State) ->
    {noreply, State};
handle_info({?MODULE, {listens, Port, Operation, Topic}}, #state{topics = Topics} = State) ->
    Others = lists:delete(Topic, Topics),
    Next = State#state{topics = case Operation of ?LISTEN -> [Topic | Others]; ?UNLISTEN -> Others end},
    %% The program that knows has died since.
    _ = Port =:= State#state.port orelse listen(Operation, Topic, Next),
    {noreply, Next};
handle_info({?MODULE, {start, Port, Deadline}}, #state{starting = none, port = down} = State) ->
    {noreply, start_again(Port, Deadline, State)};
handle_info({?MODULE, {start, _Port, _Deadline}}, State) ->
    {noreply, State};
handle_info({'DOWN', _Monitor, process, {pinnace_registry, _Node}, _Reason}, State) ->
    {stop, not_started, State};
handle_info(Message, #state{starting = {Request, Port, Deadline}} = State) ->
    case gen_server:check_response(Message, Request) of
        no_reply -> other(Message, State);
        {reply, Reply} -> start_answered(Reply, Port, Deadline, State);
        %% Another process of this name comes.
        {error, _} -> {noreply, State#state{starting = none}}
    end;
handle_info(Message, State) ->
    other(Message, State).

other(Message, #state{module = Module} = State) ->
    case has(Module, handle_info, 2) of
        true -> result(Module:handle_info(Message, State#state.state), State);
        false -> {noreply, State}
    end.

%% Starts the client in another program. It may be the next of several.
start_again(Port, Deadline, State) ->
    Request = gen_server:send_request(pinnace_port, {request, Port, ?START, start_arguments(State)}),
    State#state{starting = {Request, Port, Deadline}, listed = State#state.topics}.

start_answered({ok, _Endpoint}, Port, _Deadline, State) ->
    {noreply, started(Port, State)};
start_answered({error, port_crashed}, _Port, _Deadline, State) ->
    {noreply, State#state{starting = none}};
start_answered({error, Reason}, Port, Deadline, State) ->
    case is_in_use(Reason) andalso soon(0) < Deadline of
        true ->
            _ = erlang:send_after(?START_STEP_MS, self(), {?MODULE, {start, Port, Deadline}}),
            {noreply, State#state{starting = none}};
        false ->
            {stop, Reason, State}
    end.

%% Deliveries came. The module gets them one by one, so that calls are answered between them.
arrived(Messages, #state{queue = Queue, in_hand = InHand} = State) ->
    _ = queue:is_empty(Queue) andalso (self() ! {?MODULE, next}),
    Deliveries = [pinnace_delivery_wire:delivery(Message) || Message <- Messages],
    Held = maps:from_list([{Token, {Octets, Message}} || {Token, Octets, Message} <- Deliveries]),
    Tokens = queue:from_list([Token || {Token, _, _} <- Deliveries]),
    State#state{queue = queue:join(Queue, Tokens), in_hand = maps:merge(InHand, Held)}.

%% The module gets a delivery, unless it has settled it for good before the program died.
handle(Token, #state{queue = Queue, in_hand = InHand, seen = Seen} = State) ->
    _ = queue:is_empty(Queue) orelse (self() ! {?MODULE, next}),
    #{Token := {_, #{cursor := Cursor} = Message}} = InHand,
    case pinnace_delivery_seen:look(Cursor, Seen) of
        {new, Next} -> pass(Token, Message, State#state{seen = Next});
        {open, Next} -> pass(Token, Message#{redelivered => true}, State#state{seen = Next});
        {Verdict, Next} -> {noreply, told(Token, {Verdict, 0}, State#state{seen = Next})}
    end.

pass(Token, #{deliveries := Deliveries} = Message, #state{port = Port, module = Module} = State) ->
    Again = Deliveries > 1 orelse is_map_key(redelivered, Message),
    Marked = Message#{ref => {self(), State#state.id, Port, Token}, redelivered => Again},
    try outcome(Module:handle_message(Marked, State#state.state)) of
        {later, Next} -> {noreply, State#state{state = Next}};
        {stop, Reason, Next} -> {stop, Reason, State#state{state = Next}};
        {Settlement, Next} ->
            case settled(Token, Settlement, State#state{state = Next}) of
                {ok, Settled} -> {noreply, Settled};
                {{error, port_crashed}, _} -> {noreply, State};
                {{error, Reason}, _} -> failed(Token, "~tp", [Reason], State)
            end
    catch
        Class:Reason:Stack -> failed(Token, "~0tp:~0tp~n~0tp", [Class, Reason, Stack], State)
    end.

failed(Token, Format, Arguments, #state{module = Module} = State) ->
    ?LOG_ERROR("~tp:handle_message/2 has failed: " ++ Format ++ "~nThe message comes again.", [Module | Arguments]),
    {noreply, told(Token, {?FAIL, 0}, State)}.

%% The result of handle_message/2, checked.
outcome({later, _} = Result) -> Result;
outcome({stop, _, _} = Result) -> Result;
outcome({Verdict, Next}) when Verdict =/= in_progress -> {verdict(Verdict), Next}.

verdict(ack) -> {?ACK, 0};
verdict({ack, Messages}) -> {together, pinnace_delivery_wire:together(Messages)};
verdict(nack) -> {?NACK, -1};
verdict({nack, Ms}) when is_integer(Ms), Ms >= 0, Ms < 1 bsl 31 -> {?NACK, Ms};
verdict(terminate) -> {?TERMINATE, 0};
verdict(give_back) -> {?GIVE_BACK, 0};
verdict(in_progress) -> {?IN_PROGRESS, 0}.

settled(Token, {together, _} = Settlement, #state{id = Id, port = Port} = State) ->
    {Operation, Arguments, ?ACK} = request(Id, Token, Settlement),
    case pinnace_relays:request(Port, Operation, Arguments) of
        {ok, _} -> {ok, done(Token, ?ACK, State)};
        {error, {Reason, Text}} when is_binary(Text) -> {{error, Reason}, State};
        Error -> {Error, State}
    end;
settled(Token, Verdict, State) ->
    {ok, told(Token, Verdict, State)}.

%% Tells the program.
told(Token, Settlement, #state{id = Id, port = Port} = State) ->
    {Operation, Arguments, Verdict} = request(Id, Token, Settlement),
    _ = catch port_command(Port, pinnace_wire:order(Operation, Arguments)),
    done(Token, Verdict, State).

%% Grants the program as much again.
done(Token, Verdict, #state{in_hand = InHand} = State) ->
    case InHand of
        #{Token := {Octets, #{cursor := Cursor}}} when Verdict =/= ?IN_PROGRESS ->
            _ = grant(1, Octets, State),
            noted(Verdict, Cursor, State#state{in_hand = maps:remove(Token, InHand)});
        #{} ->
            State
    end.

%% What is settled for good does not come to the module again.
noted(Verdict, Cursor, #state{seen = Seen} = State) when Verdict =:= ?ACK; Verdict =:= ?TERMINATE ->
    State#state{seen = pinnace_delivery_seen:settled(Cursor, Verdict, Seen)};
noted(_Verdict, _Cursor, State) ->
    State.

%% The result of one of the module's functions.
result({reply, Reply, Next}, State) -> {reply, Reply, State#state{state = Next}};
result({noreply, Next}, State) -> {noreply, State#state{state = Next}};
result({stop, Reason, Next}, State) -> {stop, Reason, State#state{state = Next}};
result({stop, Reason, Reply, Next}, State) -> {stop, Reason, Reply, State#state{state = Next}}.

-spec terminate(term(), #state{}) -> ok.
terminate(Reason, #state{module = Module} = State) ->
    _ = has(Module, terminate, 2) andalso catch Module:terminate(Reason, State#state.state),
    close(State).

close(#state{port = down}) ->
    ok;
close(#state{id = Id, port = Port, options = Options}) ->
    %% Nothing more is handled, so the program gives back what is not settled.
    _ = pinnace_relays:request(Port, ?END, <<Id:32, ?GIVE_BACK, (close_within(Options)):32>>),
    ok.

-spec code_change(term(), #state{}, term()) -> {ok, #state{}} | {error, term()}.
code_change(Old, #state{module = Module} = State, Extra) ->
    case has(Module, code_change, 3) of
        true ->
            case Module:code_change(Old, State#state.state, Extra) of
                {ok, Next} -> {ok, State#state{state = Next}};
                Error -> Error
            end;
        false ->
            {ok, State}
    end.
