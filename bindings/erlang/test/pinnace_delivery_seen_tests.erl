%% What a client has seen of the streams of its senders.
-module(pinnace_delivery_seen_tests).

-include_lib("eunit/include/eunit.hrl").

cursor(Sender, Number, Settled) ->
    #{sender => Sender, stream => 1, number => Number, settled => Settled}.

looked(Cursor, Seen) ->
    {Verdict, Next} = pinnace_delivery_seen:look(Cursor, Seen),
    {Verdict, Next}.

verdicts_test() ->
    {new, A} = looked(cursor(<<"a">>, 1, 0), pinnace_delivery_seen:new()),
    {open, B} = looked(cursor(<<"a">>, 1, 0), A),
    C = pinnace_delivery_seen:settled(cursor(<<"a">>, 1, 0), 2, B),
    ?assertMatch({2, _}, looked(cursor(<<"a">>, 1, 0), C)),
    ?assertMatch({new, _}, looked(cursor(<<"b">>, 1, 0), C)),
    ?assertMatch({new, _}, looked((cursor(<<"a">>, 1, 0))#{stream := 2}, C)),
    ?assertEqual(C, pinnace_delivery_seen:settled(cursor(<<"c">>, 1, 0), 0, C)).

%% What cannot come again is forgotten, and nothing else.
forgotten_test() ->
    Count = 10000,
    Seen = lists:foldl(fun(Number, Before) ->
        {new, Next} = looked(cursor(<<"a">>, Number, max(Number - 100, 0)), Before),
        pinnace_delivery_seen:settled(cursor(<<"a">>, Number, 0), 0, Next)
    end, pinnace_delivery_seen:new(), lists:seq(1, Count)),
    ?assert(erts_debug:flat_size(Seen) < 2000),
    [?assertMatch({0, _}, looked(cursor(<<"a">>, Number, 0), Seen)) || Number <- lists:seq(Count - 99, Count)].
