%% A ZAP handler for tests: a function decides.
-module(zap_handler).
-behaviour(pinnace_zap).

-export([init/1, handle_request/2, handle_call/3, handle_info/2]).

init(ignore) -> ignore;
init(Decide) -> {ok, {Decide, 0}}.

handle_request(Request, {Decide, Count}) ->
    {Decide(Request), {Decide, Count + 1}}.

handle_call(count, _From, {_, Count} = State) -> {reply, Count, State}.

handle_info({from, Pid}, State) ->
    Pid ! noted,
    {noreply, State};
handle_info(stop, State) -> {stop, normal, State}.
