%% @private
%% Owns the tables from which `pinnace_port' makes each socket again. They stay when that process dies.
-module(pinnace_registry).
-behaviour(gen_server).

-export([start_link/0, handle/1]).
-export([init/1, handle_call/3, handle_cast/2]).

-include("pinnace_port.hrl").

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% A socket for its users.
-spec handle(pos_integer()) -> {pinnace_socket, pos_integer(), pid()}.
handle(Id) ->
    ?HANDLE(Id, whereis(?MODULE)).

-spec init([]) -> {ok, []}.
init([]) ->
    ?MODES = ets:new(?MODES, [named_table, public]),
    ?SOCKETS = ets:new(?SOCKETS, [named_table, public, {read_concurrency, true}]),
    ?SPECS = ets:new(?SPECS, [named_table, public]),
    ?RELAYS = ets:new(?RELAYS, [named_table, public, {read_concurrency, true}]),
    ?CONTEXTS = ets:new(?CONTEXTS, [named_table, public]),
    ?CZMQ_CONTEXTS = ets:new(?CZMQ_CONTEXTS, [named_table, public, {read_concurrency, true}]),
    true = ets:insert(?CONTEXTS, {?CONTEXT, []}),
    {ok, []}.

-spec handle_call(term(), gen_server:from(), []) -> {reply, {error, einval}, []}.
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

-spec handle_cast(term(), []) -> {noreply, []}.
handle_cast(_Request, State) ->
    {noreply, State}.
