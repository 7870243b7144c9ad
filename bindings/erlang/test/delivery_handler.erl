%% A handler of messages for tests: it tells a process what comes, and returns what a function says.
-module(delivery_handler).
-behaviour(pinnace_delivery).

-export([init/1, handle_message/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

init({Pid, Decide}) when is_pid(Pid), is_function(Decide, 1) -> {ok, {Pid, Decide, 0}};
init(ignore) -> ignore;
init(Reason) -> {stop, Reason}.

handle_message(Message, {Pid, Decide, Count}) ->
    Pid ! {got, Message},
    State = {Pid, Decide, Count + 1},
    case Decide(Message) of
        stop -> {stop, normal, State};
        Verdict -> {Verdict, State}
    end.

handle_call(count, _From, {_, _, Count} = State) -> {reply, Count, State};
handle_call(stop, _From, State) -> {stop, normal, stopped, State}.

handle_cast(Message, {Pid, _, _} = State) ->
    Pid ! {cast, Message},
    {noreply, State}.

handle_info(Message, {Pid, _, _} = State) ->
    Pid ! {info, Message},
    {noreply, State}.

terminate(Reason, {Pid, _, _}) ->
    Pid ! {terminated, Reason}.
