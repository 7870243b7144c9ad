%% @doc Sends the messages of a socket of `czmq' to a process, as `{Poller, [Frame]}'.
%%
%% It is told of each message, and does not poll. It ends with its target, with its socket, and by `stop/1'; the socket
%% stays, with the messages that were not sent to the target. At most 10,000 messages wait in the target's mailbox, and
%% as many as it takes to notice that.
-module(czmq_poller).
-behaviour(gen_server).

-export([start/2, start_link/2, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([option/0]).

-type option() :: {poll_interval, non_neg_integer()} | {target, pid()} | {dispatch, fun(([binary()]) -> term())}.
%% `poll_interval' has no effect. `dispatch' is called with the frames of each message, in the poller's process, instead
%% of sending them. `target' is the caller, or none with `dispatch', if it is not given.

%% How many messages come before the target's mailbox is looked at, at which length they are held back, and how long.
-define(STEP, 1000).
-define(MAILBOX_MESSAGES, 10000).
-define(HELD_MS, 1).

-record(state, {
    handle :: czmq_context:handle(),
    table :: ets:table(),
    socket :: pinnace:socket(),
    target :: pid() | none,
    dispatch :: fun(([binary()]) -> term()),
    monitors :: [reference()]
}).

%% @doc Starts a poller. Errors: `invalid_socket'; `subscribed' if the socket has a poller.
-spec start(czmq:socket(), [option()]) -> {ok, pid()} | {error, term()}.
start(Socket, Options) ->
    started(gen_server:start(?MODULE, {Socket, self(), Options}, [])).

%% @doc As `start/2', linked to the caller.
-spec start_link(czmq:socket(), [option()]) -> {ok, pid()} | {error, term()}.
start_link(Socket, Options) ->
    started(gen_server:start_link(?MODULE, {Socket, self(), Options}, [])).

started({ok, Pid}) -> {ok, Pid};
started({error, {shutdown, Reason}}) -> {error, Reason};
started({error, Reason}) -> {error, Reason}.

%% @doc Ends a poller. One that has ended is none.
-spec stop(pid()) -> ok.
stop(Poller) ->
    try gen_server:stop(Poller)
    catch exit:noproc -> ok
    end.

-spec init({czmq:socket(), pid(), [option()]}) -> {ok, #state{}} | {stop, term()}.
init({{Context, Index} = Handle, Caller, Options}) ->
    process_flag(trap_exit, true),
    case czmq_context:call(Context, {lend, Index}) of
        {ok, Table, Socket} ->
            Dispatch = proplists:get_value(dispatch, Options),
            Target = proplists:get_value(target, Options, if Dispatch =:= undefined -> Caller; true -> none end),
            State = #state{handle = Handle, table = Table, socket = Socket, target = Target,
                           dispatch = dispatch(Dispatch, Target, self()),
                           monitors = [monitor(process, Pid) || Pid <- [Context, Target], Pid =/= none]},
            self() ! resume,
            {ok, State};
        {error, not_owner} ->
            {stop, {shutdown, subscribed}};
        {error, _} ->
            {stop, {shutdown, invalid_socket}}
    end.

dispatch(undefined, Target, Self) -> fun(Frames) -> Target ! {Self, Frames} end;
dispatch(Dispatch, _Target, _Self) -> Dispatch.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, {error, einval}, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_cast(destroyed, State) ->
    {stop, normal, State};
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({pinnace, Socket, Frames}, #state{socket = Socket, dispatch = Dispatch} = State) ->
    _ = Dispatch(Frames),
    {noreply, State};
handle_info({pinnace_passive, Socket}, #state{socket = Socket} = State) ->
    handle_info(resume, State);
handle_info(resume, #state{target = Target} = State) ->
    case has_room(Target) of
        true ->
            resume(State);
        false ->
            _ = erlang:send_after(?HELD_MS, self(), resume),
            {noreply, State}
    end;
handle_info({pinnace_error, Socket, _Reason}, #state{socket = Socket} = State) ->
    {stop, normal, State};
handle_info({'DOWN', Monitor, process, _, _}, #state{monitors = Monitors} = State) ->
    case lists:member(Monitor, Monitors) of
        true -> {stop, normal, State};
        false -> {noreply, State}
    end;
handle_info({'EXIT', _, Reason}, State) when Reason =/= normal ->
    {stop, Reason, State};
handle_info({pinnace_unsent, _, _, _} = Unsent, #state{handle = {Context, _}} = State) ->
    _ = Context ! Unsent,
    {noreply, State};
handle_info(_Message, State) ->
    {noreply, State}.

%% What was received before goes first.
resume(#state{handle = {_, Index}, table = Table, socket = Socket, dispatch = Dispatch} = State) ->
    lists:foreach(Dispatch, pinnace_frames:take_kept(Table, Index)),
    case pinnace:setopts(Socket, [{active, ?STEP}]) of
        ok -> {noreply, State};
        {error, _} -> {stop, normal, State}
    end.

has_room(Target) when is_pid(Target), node(Target) =:= node() ->
    case process_info(Target, message_queue_len) of
        {message_queue_len, Length} -> Length =< ?MAILBOX_MESSAGES;
        undefined -> true
    end;
has_room(_Target) ->
    true.

%% The socket and what has come of it go back.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{handle = {Context, Index}, table = Table, socket = Socket}) ->
    _ = pinnace:setopts(Socket, [{active, false}]),
    ok = pinnace_frames:keep(Table, Index, undelivered(Socket)),
    _ = pinnace:controlling_process(Socket, Context),
    _ = czmq_context:call(Context, {give_back, Index}),
    ok.

undelivered(Socket) ->
    receive {pinnace, Socket, Frames} -> [Frames | undelivered(Socket)]
    after 0 -> []
    end.
