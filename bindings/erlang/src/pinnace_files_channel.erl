%% @private
%% The process of a server or of a client of file transfer: it has a channel, and makes it again in the next program
%% when one dies. A server binds then to the endpoints that it had.
-module(pinnace_files_channel).
-behaviour(gen_server).

-export([channel/2, endpoints/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, format_status/1]).

-include("pinnace_files.hrl").

%% How long a server tries to bind to the ports that the program before may still have.
-define(BIND_AGAIN_MS, 5000).
-define(BIND_STEP_MS, 20).

-type what() :: {server, pinnace_files:server_options()}
              | {client, unicode:chardata(), pinnace_files:client_options()}.

-record(state, {
    id :: pos_integer(),
    what :: what(),
    %% The program that has the channel.
    port = down :: port() | down,
    endpoints = [] :: [binary()],
    %% Callers that wait for another program than this one.
    waiting = [] :: [{gen_server:from(), port() | none}]
}).

%% The channel of such a process, once it is made. `Dead': not in this program.
-spec channel(pid(), port() | none) -> {ok, pos_integer(), port()}.
channel(Server, Dead) ->
    gen_server:call(Server, {channel, Dead}, infinity).

-spec endpoints(pid()) -> {ok, [binary()]}.
endpoints(Server) ->
    gen_server:call(Server, endpoints, infinity).

-spec init(what()) -> {ok, #state{}} | {stop, term()}.
init(What) ->
    process_flag(trap_exit, true),
    try arguments(1, What) of
        _ ->
            case pinnace_relays:open({operation(close, What), <<>>}) of
                {ok, Id, Port} ->
                    _ = monitor(process, pinnace_registry),
                    first(Port, #state{id = Id, what = What});
                {error, Reason} ->
                    {stop, Reason}
            end
    catch
        error:_ -> {stop, einval}
    end.

operation(open, {server, _}) -> ?START_SERVER;
operation(open, {client, _, _}) -> ?CONNECT_CLIENT;
operation(close, {server, _}) -> ?STOP_SERVER;
operation(close, {client, _, _}) -> ?CLOSE_CLIENT.

arguments(Id, {server, Options}) -> iolist_to_binary([<<Id:32>> | pinnace_files_wire:server(Options)]);
arguments(Id, {client, Endpoint, Options}) ->
    iolist_to_binary([<<Id:32>> | pinnace_files_wire:client(Endpoint, Options)]).

%% Makes the channel for the first time.
first(Port, State) ->
    case make(Port, State) of
        {error, port_crashed} ->
            case pinnace_relays:next_program() of
                {ok, Next} -> first(Next, State);
                {error, Reason} -> {stop, Reason}
            end;
        {error, Reason} -> {stop, Reason};
        Made -> {ok, Made}
    end.

make(Port, #state{id = Id, what = What} = State) ->
    case pinnace_relays:request(Port, operation(open, What), arguments(Id, What)) of
        {ok, Values} ->
            ok = pinnace_relays:is_up(Port),
            answer_waiting(made(pinnace_files_wire:endpoints(Values), State#state{port = Port}));
        Error -> Error
    end.

%% A server keeps the ports that the system chose.
made(Endpoints, #state{what = {server, Options}} = State) ->
    State#state{endpoints = Endpoints, what = {server, Options#{endpoints => Endpoints}}};
made([], State) ->
    State.

answer_waiting(#state{id = Id, port = Port, waiting = Waiting} = State) ->
    {Still, Served} = lists:partition(fun({_From, Dead}) -> Dead =:= Port end, Waiting),
    lists:foreach(fun({From, _}) -> gen_server:reply(From, {ok, Id, Port}) end, Served),
    State#state{waiting = Still}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}} | {noreply, #state{}}.
handle_call({channel, Dead}, _From, #state{id = Id, port = Port} = State) when Port =/= down, Port =/= Dead ->
    {reply, {ok, Id, Port}, State};
handle_call({channel, Dead}, From, #state{waiting = Waiting} = State) ->
    {noreply, State#state{waiting = [{From, Dead} | Waiting]}};
handle_call(endpoints, _From, #state{endpoints = Endpoints} = State) ->
    {reply, {ok, Endpoints}, State};
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({pinnace_port, down}, State) ->
    ok = pinnace_relays:is_up(down),
    {noreply, State#state{port = down}};
handle_info({pinnace_port, Port}, #state{port = down} = State) ->
    make_again(Port, erlang:monotonic_time(millisecond) + ?BIND_AGAIN_MS, State);
handle_info({make_again, Port, Deadline}, #state{port = down} = State) ->
    make_again(Port, Deadline, State);
handle_info({'DOWN', _, process, {pinnace_registry, _}, _}, State) ->
    {stop, not_started, State};
handle_info(_Message, State) ->
    {noreply, State}.

make_again(Port, Deadline, State) ->
    case make(Port, State) of
        {error, port_crashed} ->
            {noreply, State};
        {error, {eaddrinuse, _} = Reason} ->
            case erlang:monotonic_time(millisecond) < Deadline of
                true ->
                    _ = erlang:send_after(?BIND_STEP_MS, self(), {make_again, Port, Deadline}),
                    {noreply, State};
                false ->
                    {stop, Reason, State}
            end;
        {error, Reason} ->
            {stop, Reason, State};
        Made ->
            {noreply, Made}
    end.

%% Waits until the threads have ended, so that an endpoint is free.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{port = down}) ->
    ok;
terminate(_Reason, #state{id = Id, port = Port, what = What}) ->
    _ = pinnace_relays:request(Port, operation(close, What), <<Id:32>>),
    ok.

%% Logs do not get keys and passwords.
-spec format_status(gen_server:format_status()) -> gen_server:format_status().
format_status(#{state := #state{what = What} = State} = Status) ->
    Status#{state := State#state{what = without_options(What)}};
format_status(Status) ->
    Status.

without_options({server, _Options}) -> {server, #{}};
without_options({client, Endpoint, _Options}) -> {client, Endpoint, #{}}.
