%% What is kept to make a socket again.
-module(pinnace_steps_tests).

-include_lib("eunit/include/eunit.hrl").
-include("../src/pinnace_port.hrl").

steps(Steps) ->
    lists:foldl(fun({Step, Value}, Kept) -> pinnace_steps:add(Step, Value, Kept) end, [], Steps).

endpoint(Text) ->
    pinnace_wire:bytes(Text).

set(Option, Value) ->
    {{?SET_OPTION, [<<Option:32>>, Value]}, <<>>}.

kept(Option, Value) ->
    {?SET_OPTION, <<Option:32, Value/binary>>}.

what_is_undone_is_not_kept_test() ->
    Steps = steps([{{?BIND, endpoint("tcp://*:*")}, <<"tcp://0.0.0.0:7">>},
                   {{?CONNECT, endpoint("inproc://a")}, <<"inproc://a">>},
                   {{?JOIN, endpoint("g")}, <<>>}, set(6, <<"topic">>), set(6, <<"other">>)]),
    ?assertEqual([<<"tcp://0.0.0.0:7">>], pinnace_steps:endpoints(?BIND, Steps)),
    ?assertEqual([<<"inproc://a">>], pinnace_steps:endpoints(?CONNECT, Steps)),
    Undone = [{?UNBIND, endpoint("tcp://0.0.0.0:7")}, {?DISCONNECT, endpoint("inproc://a")}, {?LEAVE, endpoint("g")},
              {?SET_OPTION, [<<7:32>>, <<"topic">>]}],
    Left = lists:foldl(fun(Step, Kept) -> pinnace_steps:add(Step, <<>>, Kept) end, Steps, Undone),
    ?assertEqual([kept(6, <<"other">>)], Left).

%% An option that is set again and again is kept once, unless an endpoint has the earlier value.
the_last_value_is_kept_test() ->
    ?assertEqual([kept(23, <<3:32>>), kept(17, <<1:32>>)],
                 steps([set(23, <<1:32>>), set(17, <<1:32>>), set(23, <<2:32>>), set(23, <<3:32>>)])),
    Bound = steps([set(23, <<1:32>>), {{?BIND, endpoint("inproc://a")}, <<"inproc://a">>}, set(23, <<2:32>>)]),
    ?assertMatch([{?SET_OPTION, <<23:32, 2:32>>}, {?BIND, _}, {?SET_OPTION, <<23:32, 1:32>>}], Bound).
