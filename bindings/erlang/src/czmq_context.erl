%% @private
%% A context of `czmq' and `pinnace_erlzmq': the process that owns sockets, certificates and a ZAP handler, which end
%% with it. Sockets are found in a table of its own, so callers send and receive without it.
-module(czmq_context).
-behaviour(gen_server).

-export([start/1, start_link/1, started/0, stop/1, call/2, call/3, find/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-include_lib("kernel/include/logger.hrl").
-include("pinnace_port.hrl").

-type handle() :: {pid(), pos_integer()}.
-export_type([handle/0]).

%% The rows of a socket beside its own.
-define(ROWS, [poller, sent, received, timeout]).

-record(state, {
    %% {Index, Socket, Type}, {{poller, Index}, Pid}, the rows of pinnace_frames, and {{timeout, Index}, Ms} of
    %% pinnace_erlzmq.
    table :: ets:table(),
    monitor :: reference(),
    last_index = 0 :: non_neg_integer(),
    %% Options of sockets that are made later.
    options :: #{atom() => integer()},
    auths = #{} :: #{pos_integer() => pid()},
    certs = #{} :: #{pos_integer() => {Public :: binary(), Secret :: binary()}}
}).

%% Starts a context, of which the sockets have these options. The application is started if it is not.
-spec start(#{atom() => integer()}) -> {ok, pid()} | {error, term()}.
start(Options) ->
    with_application(fun() -> gen_server:start(?MODULE, Options, []) end).

-spec start_link(#{atom() => integer()}) -> {ok, pid()} | {error, term()}.
start_link(Options) ->
    with_application(fun() -> gen_server:start_link(?MODULE, Options, []) end).

with_application(Start) ->
    case started() of
        ok ->
            case Start() of
                {ok, Pid} -> {ok, Pid};
                {error, Reason} -> {error, Reason}
            end;
        Error ->
            Error
    end.

%% Starts the application, unless its processes are there: they may be below a supervisor of somebody else.
-spec started() -> ok | {error, term()}.
started() ->
    case whereis(pinnace_sup) of
        undefined ->
            case application:ensure_all_started(pinnace) of
                {ok, _} -> ok;
                Error -> Error
            end;
        _ ->
            ok
    end.

%% Ends a context. One that has ended is none.
-spec stop(pid()) -> ok.
stop(Context) ->
    try gen_server:stop(Context)
    catch exit:noproc -> ok
    end.

%% Calls a context. Error: `noproc' if it has ended.
-spec call(pid(), term()) -> term().
call(Context, Request) ->
    call(Context, Request, infinity).

-spec call(pid(), term(), timeout()) -> term().
call(Context, Request, Timeout) ->
    try gen_server:call(Context, Request, Timeout)
    catch
        exit:{timeout, _} -> {error, timeout};
        exit:{_Reason, {gen_server, call, _}} -> {error, noproc}
    end.

%% The socket of a handle, its type, and the table for pinnace_frames.
-spec find(handle()) -> {ok, ets:table(), pinnace:socket(), pinnace:type()} | error.
find({Context, Index}) ->
    try
        [{_, Table}] = ets:lookup(?CZMQ_CONTEXTS, Context),
        [{_, Socket, Type}] = ets:lookup(Table, Index),
        {ok, Table, Socket, Type}
    catch
        error:badarg -> error;
        error:{badmatch, _} -> error
    end.

-spec init(#{atom() => integer()}) -> {ok, #state{}}.
init(Options) ->
    Table = ets:new(?MODULE, [public, {read_concurrency, true}]),
    %% The rows of contexts that were killed are still there.
    Known = [Context || {Context, _} <- ets:tab2list(?CZMQ_CONTEXTS)],
    [true = ets:delete(?CZMQ_CONTEXTS, Context) || Context <- Known, not is_process_alive(Context)],
    true = ets:insert(?CZMQ_CONTEXTS, {self(), Table}),
    {ok, #state{table = Table, monitor = monitor(process, pinnace_registry), options = Options}}.

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call(ping, _From, State) ->
    case pinnace_port:request(?LIST_OPTIONS, []) of
        {ok, _} -> {reply, pong, State};
        Error -> {reply, Error, State}
    end;
handle_call({set, Name, Value}, _From, #state{options = Options} = State) ->
    {reply, ok, State#state{options = Options#{Name => Value}}};
handle_call({socket, Type}, _From, #state{table = Table, options = Options} = State) ->
    case pinnace:socket(Type, maps:to_list(Options)) of
        {ok, Socket} ->
            {Index, Next} = next_index(State),
            true = ets:insert(Table, {Index, Socket, Type}),
            {reply, {ok, {self(), Index}}, Next};
        Error ->
            {reply, Error, State}
    end;
handle_call({destroy, Index}, _From, #state{table = Table} = State) ->
    case ets:lookup(Table, Index) of
        [{_, Socket, _}] ->
            [ok = gen_server:cast(Poller, destroyed) || {_, Poller} <- ets:lookup(Table, {poller, Index})],
            [true = ets:delete(Table, Key) || Key <- [Index | [{Row, Index} || Row <- ?ROWS]]],
            {reply, pinnace:close(Socket), State};
        [] ->
            {reply, {error, closed}, State}
    end;
%% A poller gets a socket, and gives it back.
handle_call({lend, Index}, {Poller, _}, #state{table = Table} = State) ->
    case ets:lookup(Table, Index) of
        [{_, Socket, _}] ->
            case pinnace:controlling_process(Socket, Poller) of
                ok ->
                    true = ets:insert(Table, {{poller, Index}, Poller}),
                    {reply, {ok, Table, Socket}, State};
                Error ->
                    {reply, Error, State}
            end;
        [] ->
            {reply, {error, closed}, State}
    end;
handle_call({give_back, Index}, _From, #state{table = Table} = State) ->
    true = ets:delete(Table, {poller, Index}),
    {reply, ok, State};
handle_call(new_auth, _From, #state{auths = Auths} = State) ->
    case czmq_zauth:start(self()) of
        {ok, Pid} ->
            {Index, Next} = next_index(State),
            _ = monitor(process, Pid),
            {reply, {ok, {self(), Index}}, Next#state{auths = Auths#{Index => Pid}}};
        Error ->
            {reply, Error, State}
    end;
handle_call({auth, Index}, _From, #state{auths = Auths} = State) ->
    {reply, maps:find(Index, Auths), State};
handle_call({destroy_auth, Index}, _From, #state{auths = Auths} = State) ->
    {reply, maps:find(Index, Auths), State#state{auths = maps:remove(Index, Auths)}};
handle_call(new_cert, _From, #state{certs = Certs} = State) ->
    case pinnace:key_pair() of
        {ok, Keys} ->
            {Index, Next} = next_index(State),
            {reply, {ok, {self(), Index}}, Next#state{certs = Certs#{Index => Keys}}};
        Error ->
            {reply, Error, State}
    end;
handle_call({cert, Index}, _From, #state{certs = Certs} = State) ->
    {reply, maps:find(Index, Certs), State};
handle_call({destroy_cert, Index}, _From, #state{certs = Certs} = State) ->
    {reply, maps:find(Index, Certs), State#state{certs = maps:remove(Index, Certs)}};
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

next_index(#state{last_index = Last} = State) ->
    {Last + 1, State#state{last_index = Last + 1}}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({'DOWN', Monitor, process, _, Reason}, #state{monitor = Monitor} = State) ->
    {stop, {shutdown, {port_exit, Reason}}, State};
handle_info({'DOWN', _, process, Pid, Reason}, #state{auths = Auths} = State) ->
    %% A handler that fails: without it, the sockets would admit every peer.
    case lists:member(Pid, maps:values(Auths)) of
        true -> {stop, {shutdown, {zauth, Reason}}, State};
        false -> {noreply, State}
    end;
handle_info({pinnace_unsent, _Socket, Count, Reason}, State) ->
    ?LOG_WARNING("pinnace: ~b messages were not sent: ~ts", [Count, pinnace:format_error(Reason)]),
    {noreply, State};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    %% The table is gone if the application has ended.
    _ = catch ets:delete(?CZMQ_CONTEXTS, self()),
    ok.
