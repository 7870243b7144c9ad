%% A process on another node that owns what the tests make there, and does what they say.
-module(node_role).
-behaviour(gen_server).

-export([start/0, do/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

start() ->
    {ok, _} = application:ensure_all_started(pinnace),
    {ok, _} = gen_server:start({local, ?MODULE}, ?MODULE, [], []),
    ok.

%% Applies a function in the process.
do(Module, Function, Arguments) ->
    gen_server:call(?MODULE, {Module, Function, Arguments}, infinity).

init([]) ->
    {ok, []}.

handle_call({Module, Function, Arguments}, _From, State) ->
    {reply, apply(Module, Function, Arguments), State}.

handle_cast(_Message, State) ->
    {noreply, State}.

handle_info(_Message, State) ->
    {noreply, State}.
