%% Counts the orders that come to it.
-module(warehouse).
-behaviour(pinnace_delivery).

-export([init/1, handle_message/2, handle_call/3]).

%% The argument: how many orders are expected.
init(Count) ->
    {ok, #{expected => Count, orders => #{}, handled => 0, redelivered => 0, pause => 0, last => none}}.

handle_message(#{body := <<Number:32>>, redelivered := Again}, State) ->
    #{expected := Expected, orders := Orders, handled := Handled, redelivered := Redelivered} = State,
    %% tools/demo-erlang kills a program of each node when it reads these.
    _ = (Handled + 1) rem (Expected div 10) =:= 0 andalso io:format("handled ~b~n", [Handled + 1]),
    Next = State#{orders := Orders#{Number => true}, handled := Handled + 1,
                  redelivered := Redelivered + case Again of true -> 1; false -> 0 end},
    {ack, paused(Next)}.

paused(#{last := Last, pause := Pause} = State) ->
    Now = erlang:monotonic_time(millisecond),
    Since = case Last of none -> 0; _ -> Now - Last end,
    State#{last := Now, pause := max(Pause, Since)}.

handle_call(report, _From, #{orders := Orders} = State) ->
    {reply, State#{orders := map_size(Orders)}, State}.
