%% Guaranteed delivery through `pinnace_delivery'.
-module(pinnace_delivery_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

-import(delivery_places, [options/2, receiver/4, receiver/5, sender/1, pair/2, pair/3, got/0, body/0, all_handled/1]).
-import(delivery_places, [kill_program/0]).

all_test_() ->
    {foreach, fun delivery_places:place/0, fun delivery_places:leave/1, each([
        fun delivered/1, fun properties/1, fun failures/1, fun verdicts/1, fun later/1, fun to_all/1, fun many/1,
        fun kept_for_the_first/1, fun topics/1, fun callbacks/1, fun prefetch/1, fun large/1, fun dead_letter/1,
        fun stopped_in_time/1, fun retry_is_stored_once/1, fun timeouts/1, fun wrong_use/1, fun names/1,
        fun supervised/1, fun together/1, fun together_by_another/1, fun about/1, fun statistics/1,
        fun settled_while_the_handler_waits/1, fun subscribed_by_the_handler/1, fun stopped_with_a_timeout/1,
        fun an_id_is_for_one/1])}.

delivered(Place) ->
    {Sender, _} = pair(Place, fun delivery_places:ack/1),
    Before = erlang:system_time(millisecond),
    ?assertEqual({ok, 1}, pinnace_delivery:deliver(Sender, "orders", ["3 ", <<"pinnaces">>])),
    #{topic := <<"orders">>, from := <<"shop">>, body := <<"3 pinnaces">>, deliveries := 1, headers := [],
      accepted := Accepted, id := Id, redelivered := false,
      cursor := #{sender := <<_:32/binary>>, stream := _, number := _, settled := _}} = got(),
    ?assert(Accepted >= Before - 1000 andalso Accepted =< erlang:system_time(millisecond) + 1000),
    ?assert(byte_size(Id) > 0),
    all_handled(Sender),
    ?assertEqual({ok, 0}, pinnace_delivery:pending(Sender)).

properties(Place) ->
    {Sender, _} = pair(Place, fun delivery_places:ack/1),
    Trace = <<"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01">>,
    Options = #{id => "order-1", content_type => "application/json", traceparent => Trace, tracestate => "a=b",
                ordering_key => <<"k">>, headers => [{"a", <<0, 255>>}, {"b", "c"}], ttl => 60000, timeout => 10000},
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "{}", Options),
    ?assertMatch(#{id := <<"order-1">>, content_type := <<"application/json">>, traceparent := Trace,
                   tracestate := <<"a=b">>, ordering_key := <<"k">>,
                   headers := [{<<"a">>, <<0, 255>>}, {<<"b">>, <<"c">>}]}, got()).

%% The handler fails, and returns what it must not: the message comes again, and the client lives.
failures(Place) ->
    {Sender, Receiver} = pair(Place, fun
        (#{body := <<"y">>}) -> ack;
        (#{deliveries := 1}) -> error(planted);
        (#{deliveries := 2}) -> nonsense;
        (#{deliveries := 3}) -> exit(planted);
        (#{deliveries := 4}) -> throw(planted);
        (#{deliveries := 5}) -> ack
    end, #{prefetch => 1}),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "y"),
    First = [maps:with([deliveries, body], got()) || _ <- lists:seq(1, 5)],
    ?assertEqual([#{deliveries => Count, body => <<"x">>} || Count <- lists:seq(1, 5)], First),
    ?assertMatch(#{body := <<"y">>}, got()),
    %% The state after a failed call is that before it.
    ?assertEqual(2, gen_server:call(Receiver, count)).

verdicts(Place) ->
    {Sender, _} = pair(Place, fun
        (#{body := <<"later">>, deliveries := 1}) -> {nack, 200};
        (#{body := <<"again">>, deliveries := 1}) -> nack;
        (#{body := <<"bad">>}) -> terminate;
        (_) -> ack
    end),
    [{ok, 1}, {ok, 1}, {ok, 1}, {ok, 1}] =
        pinnace_delivery:deliver_many(Sender, "orders", ["later", "again", "bad", "good"]),
    Got = [maps:with([body, deliveries], got()) || _ <- lists:seq(1, 6)],
    ?assertEqual(1, length([bad || #{body := <<"bad">>} <- Got])),
    ?assertEqual([1, 2], [Count || #{body := <<"again">>, deliveries := Count} <- Got]),
    ?assertEqual(#{body => <<"later">>, deliveries => 2}, lists:last(Got)),
    %% The one that is left is a dead letter.
    ok = pinnace_delivery:wait_pending(Sender, 1, ?PATIENCE_MS),
    ?assertEqual({ok, 1}, pinnace_delivery:clear_pending(Sender, "orders.dead")),
    ?assertEqual(nothing, nothing()).

later(Place) ->
    {Sender, _} = pair(Place, fun(_) -> later end, #{ack_within_ms => 1000}),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    Message = got(),
    ?assertEqual(ok, pinnace_delivery:settle(Message, in_progress)),
    ?assertEqual({ok, 1}, pinnace_delivery:pending(Sender)),
    %% By another process.
    Parent = self(),
    spawn_link(fun() -> Parent ! {settled, pinnace_delivery:settle(Message, ack)} end),
    ?assertEqual({settled, ok}, next()),
    ?assertEqual({error, enoent}, pinnace_delivery:settle(Message, ack)),
    ?assertEqual({error, einval}, pinnace_delivery:settle(Message, nonsense)),
    all_handled(Sender).

to_all(Place) ->
    {Sender, _} = pair(Place, fun delivery_places:ack/1),
    _ = receiver(Place, "stock", "orders", fun delivery_places:ack/1),
    ok = pinnace_delivery:wait_listeners(Sender, "orders", 2, ?PATIENCE_MS),
    ?assertEqual({ok, 2}, pinnace_delivery:deliver(Sender, "orders", "x", #{all => true, durability => interval})),
    ?assertEqual([<<"x">>, <<"x">>], [body(), body()]),
    {ok, [_, _]} = pinnace_delivery:addresses(Sender, "orders"),
    ?assertEqual({ok, []}, pinnace_delivery:addresses(Sender, "nobody")),
    ?assertEqual({ok, 1}, pinnace_delivery:deliver(Sender, "orders", "y", #{durability => memory})),
    ?assertEqual(<<"y">>, body()).

many(Place) ->
    {Sender, Receiver} = pair(Place, fun delivery_places:ack/1),
    Numbers = [integer_to_binary(Number) || Number <- lists:seq(1, 1000)],
    Results = pinnace_delivery:deliver_many(Sender, "orders", Numbers),
    ?assertEqual([{ok, 1}], lists:usort(Results)),
    ?assertEqual(Numbers, [body() || _ <- Numbers]),
    all_handled(Sender),
    ?assertEqual(1000, gen_server:call(Receiver, count)).

%% A message without a receiver waits for it; one that is cleared does not come.
kept_for_the_first(Place) ->
    Sender = sender(Place),
    ?assertMatch({ok, _}, pinnace_delivery:deliver(Sender, "orders", "kept")),
    ?assertMatch({ok, _}, pinnace_delivery:deliver(Sender, "waste", "cleared")),
    ?assertEqual({ok, 2}, pinnace_delivery:pending(Sender)),
    ?assertEqual({ok, 1}, pinnace_delivery:clear_pending(Sender, "waste")),
    _ = receiver(Place, "billing", "orders", fun delivery_places:ack/1),
    ?assertEqual(<<"kept">>, body()),
    all_handled(Sender).

%% Topics that are added stay when the program dies.
topics(Place) ->
    {Sender, Receiver} = pair(Place, fun delivery_places:ack/1, #{topics => ["invoices"]}),
    ok = pinnace_delivery:subscribe(Receiver, "offers"),
    ok = pinnace_delivery:wait_listeners(Sender, "offers", 2, ?PATIENCE_MS),
    kill_program(),
    ok = pinnace_delivery:subscribe(Receiver, "refunds"),
    [begin
        ok = pinnace_delivery:wait_listeners(Sender, Topic, 1, ?PATIENCE_MS),
        {ok, _} = pinnace_delivery:deliver(Sender, Topic, Topic),
        ?assertMatch(#{topic := Topic}, got())
    end || Topic <- [<<"invoices">>, <<"refunds">>, <<"orders">>]],
    ok = pinnace_delivery:unsubscribe(Receiver, "refunds"),
    kill_program(),
    until(fun() -> {ok, []} =:= pinnace_delivery:addresses(Sender, "refunds") end).

callbacks(Place) ->
    {_, Receiver} = pair(Place, fun delivery_places:ack/1),
    ?assertEqual(0, gen_server:call(Receiver, count)),
    ok = gen_server:cast(Receiver, hello),
    ?assertEqual({cast, hello}, next()),
    Receiver ! hello,
    ?assertEqual({info, hello}, next()),
    process_flag(trap_exit, true),
    ?assertEqual(stopped, gen_server:call(Receiver, stop)),
    ?assertEqual({terminated, normal}, next()),
    ?assertEqual({'EXIT', Receiver, normal}, next()),
    process_flag(trap_exit, false),
    Options = options(Place, "other"),
    ?assertEqual(ignore, pinnace_delivery:start_link(Options, delivery_handler, ignore)).

%% No more than `prefetch' messages are there that are not settled.
prefetch(Place) ->
    {Sender, _} = pair(Place, fun(_) -> later end, #{prefetch => 2}),
    _ = pinnace_delivery:deliver_many(Sender, "orders", ["1", "2", "3", "4"]),
    First = got(),
    _ = got(),
    ?assertEqual(nothing, nothing()),
    ok = pinnace_delivery:settle(First, ack),
    ?assertEqual(<<"3">>, body()),
    ?assertEqual(nothing, nothing()).

%% Bodies beyond a packet, in both directions.
large(Place) ->
    {Sender, _} = pair(Place, fun delivery_places:ack/1),
    [begin
        Body = rand:bytes(Size),
        ?assertEqual({ok, 1}, pinnace_delivery:deliver(Sender, "orders", Body)),
        ?assert(Body =:= body())
    end || Size <- [1000000, 1048570, 1048576, 5000000]],
    all_handled(Sender).

dead_letter(Place) ->
    {Sender, _} = pair(Place, fun
        (#{topic := <<"orders">>}) -> terminate;
        (_) -> ack
    end),
    _ = receiver(Place, "auditor", "orders.dead", fun delivery_places:ack/1),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "bad"),
    _ = got(),
    ?assertMatch(#{body := <<"bad">>, dead := #{topic := <<"orders">>, receiver := <<"billing">>,
                                                reason := terminated, deliveries := 1}}, got()).

%% The messages that its module has not seen are given back, and come first to the next one.
stopped_in_time(Place) ->
    {Sender, Receiver} = pair(Place, fun(_) -> stop end),
    unlink(Receiver),
    _ = pinnace_delivery:deliver_many(Sender, "orders", ["1", "2", "3"]),
    ?assertEqual(<<"1">>, body()),
    ?assertEqual({terminated, normal}, next()),
    Next = receiver(Place, "billing", "orders", fun delivery_places:ack/1),
    ?assertEqual([{<<"1">>, 1}, {<<"2">>, 1}, {<<"3">>, 1}],
                 [{Body, Count} || #{body := Body, deliveries := Count} <- [got(), got(), got()]]),
    ok = pinnace_delivery:drain(Next, ?PATIENCE_MS),
    ok = pinnace_delivery:stop(Next),
    ?assertEqual({terminated, normal}, next()),
    ?assertEqual({error, closed}, pinnace_delivery:pending(Next)).

retry_is_stored_once(Place) ->
    {Sender, _} = pair(Place, fun delivery_places:ack/1),
    ?assertEqual({ok, 1}, pinnace_delivery:deliver(Sender, "orders", "x", #{id => "1"})),
    ?assertEqual({ok, 1}, pinnace_delivery:deliver(Sender, "orders", "x", #{id => "1"})),
    ?assertEqual(<<"x">>, body()),
    all_handled(Sender),
    ?assertEqual(nothing, nothing()).

timeouts(Place) ->
    Sender = sender(Place),
    ?assertEqual({error, timeout}, pinnace_delivery:wait_listeners(Sender, "orders", 1, 50)),
    {ok, _} = pinnace_delivery:deliver(Sender, "orders", "x"),
    ?assertEqual({error, timeout}, pinnace_delivery:wait_pending(Sender, 0, 50)).

wrong_use(Place) ->
    process_flag(trap_exit, true),
    Start = fun(Options) -> pinnace_delivery:start_link(Options) end,
    ?assertMatch({error, {einval, <<_, _/binary>>}}, Start((options(Place, "a"))#{nonsense => 1})),
    ?assertMatch({error, {einval, _}}, Start((options(Place, "a"))#{max_deliveries => "many"})),
    ?assertMatch({error, {einval, _}}, Start(options(Place, ""))),
    [?assertEqual({error, einval}, Start(maps:merge(options(Place, "a"), Wrong)))
     || Wrong <- [#{prefetch => 0}, #{prefetch => foo}, #{prefetch => 1 bsl 32}, #{close_within => -1}]],
    ?assertMatch({error, {undef, _}}, pinnace_delivery:start_link(options(Place, "a"), no_such_module, [])),
    ?assertEqual({error, einval}, Start((options(Place, "a"))#{topics => [orders]})),
    ?assertMatch({error, {enoent, _}}, Start((options(Place, "a"))#{cert => "/nonexistent"})),
    ?assertEqual({error, planted}, pinnace_delivery:start_link(options(Place, "a"), delivery_handler, planted)),
    Sender = sender(Place),
    ?assertMatch({error, {Reason, _}} when Reason =:= eexist; Reason =:= ebusy, Start(options(Place, "shop"))),
    Send = fun(Options) -> pinnace_delivery:deliver(Sender, "orders", "x", Options) end,
    [?assertEqual({Options, {error, einval}}, {Options, Send(Options)}) || Options <- [
        #{nonsense => 1}, #{durability => never}, #{ttl => -1}, #{headers => [x]}, #{id => ""},
        #{traceparent => "nonsense"}]],
    ?assertEqual({error, einval}, pinnace_delivery:deliver(Sender, lists:duplicate(256, $t), "x")),
    ?assertEqual({error, closed}, pinnace_delivery:deliver(nobody, "orders", "x")),
    ?assertEqual({error, eexist}, pinnace_delivery:forget(Sender, "shop")),
    flush_exits().

flush_exits() ->
    process_flag(trap_exit, false),
    receive {'EXIT', _, _} -> flush_exits()
    after 0 -> ok
    end.

names(Place) ->
    [begin
        Handler = {self(), fun delivery_places:ack/1},
        {ok, Pid} = pinnace_delivery:start_link(Name, options(Place, Client), delivery_handler, Handler),
        ?assertEqual({ok, 0}, pinnace_delivery:pending(Name)),
        ok = pinnace_delivery:stop(Pid)
    end || {Name, Client} <- [{{local, a_client}, "a"}, {{global, a_client}, "b"}, {{via, global, a_via}, "c"}]].

%% In a supervisor; a client that is killed is started again.
supervised(Place) ->
    Arguments = [{local, supervised}, (options(Place, "billing"))#{topic => "orders"}, delivery_handler,
                 {self(), fun delivery_places:ack/1}],
    {ok, Supervisor} = supervisor:start_link(one_child, [pinnace_delivery:child_spec(Arguments)]),
    First = whereis(supervised),
    Sender = sender(Place),
    exit(First, kill),
    {ok, _} = pinnace_delivery:deliver(Sender, "orders", "x"),
    ?assertEqual(<<"x">>, body()),
    all_handled(Sender),
    unlink(Supervisor),
    exit(Supervisor, shutdown),
    ?assertEqual({terminated, shutdown}, next()).

statistics(Place) ->
    {Sender, Receiver} = pair(Place, fun delivery_places:ack/1),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    _ = got(),
    all_handled(Sender),
    ?assertMatch({ok, #{client := <<"shop">>, store := #{disk_bytes := _}, incoming := [],
                        outgoing := [#{topic := <<"orders">>, acknowledged := 1, pending := 0} | _]}},
                 pinnace_delivery:statistics(Sender)),
    ?assertMatch({ok, #{incoming := [#{sender := <<"shop">>, delivered := 1}]}},
                 pinnace_delivery:statistics(Receiver)).

%% An order is acknowledged and its invoice is sent in one step.
together(Place) ->
    {Sender, Receiver} = pair(Place, fun
        (#{deliveries := 1}) -> {ack, [{"invoices", "lost"}, {lists:duplicate(256, $t), "too long"}]};
        (#{deliveries := 2}) -> {ack, [nonsense]};
        (#{body := Body}) -> {ack, [{"invoices", ["invoice: ", Body]}, {"invoices", "copy", #{id => "a copy"}}]}
    end),
    _ = receiver(Place, "printer", "invoices", fun delivery_places:ack/1),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    _ = [got() || _ <- [1, 2, 3]],
    ?assertMatch(#{body := <<"invoice: x">>, from := <<"billing">>}, got()),
    ?assertMatch(#{body := <<"copy">>, id := <<"a copy">>}, got()),
    all_handled(Sender),
    all_handled(Receiver),
    ?assertEqual(1, gen_server:call(Receiver, count)),
    ?assertEqual(nothing, nothing()).

together_by_another(Place) ->
    {Sender, Receiver} = pair(Place, fun(_) -> later end),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    Message = got(),
    ?assertEqual({error, einval}, pinnace_delivery:settle(Message, {ack, [{lists:duplicate(256, $t), "x"}]})),
    ?assertEqual({error, einval}, pinnace_delivery:settle(Message, {ack, [nonsense]})),
    ?assertEqual(ok, pinnace_delivery:settle(Message, {ack, [{"nobody", "y"}]})),
    all_handled(Sender),
    ?assertMatch({ok, [#{topic := <<"nobody">>, messages := 1}]}, pinnace_delivery:pending_by_receiver(Receiver)).

about(Place) ->
    {Sender, Receiver} = pair(Place, fun(_) -> later end, #{metrics => 0}),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    Message = got(),
    {ok, #{name := <<"billing">>, in_hand := 1, endpoint := _, store_id := <<_:32/binary>>, metrics := Metrics}} =
        pinnace_delivery:about(Receiver),
    [_, Port] = binary:split(Metrics, <<":">>),
    {ok, Connection} = gen_tcp:connect("127.0.0.1", binary_to_integer(Port), [binary, {active, false}]),
    ok = gen_tcp:send(Connection, "GET /statistics HTTP/1.0\r\n\r\n"),
    {ok, <<"HTTP/1.", _/binary>>} = gen_tcp:recv(Connection, 0, ?PATIENCE_MS),
    ?assertEqual({ok, []}, pinnace_delivery:pending_by_receiver(Receiver)),
    ok = pinnace_delivery:settle(Message, ack),
    {ok, #{in_hand := 0}} = pinnace_delivery:about(Receiver).

%% A process settles a message, although the client handles another one.
settled_while_the_handler_waits(Place) ->
    {Sender, Receiver} = pair(Place, fun
        (#{body := <<"later">>}) -> later;
        (_) -> receive go -> ack end
    end),
    [{ok, 1}, {ok, 1}] = pinnace_delivery:deliver_many(Sender, "orders", ["later", "waits"]),
    [Message, _] = [got(), got()],
    ?assertEqual(ok, pinnace_delivery:settle(Message, ack)),
    ok = pinnace_delivery:wait_pending(Sender, 1, ?PATIENCE_MS),
    Receiver ! go,
    all_handled(Sender).

subscribed_by_the_handler(Place) ->
    {Sender, Receiver} = pair(Place, fun
        (#{topic := <<"orders">>}) ->
            ok = pinnace_delivery:subscribe(self(), "refunds"),
            ack;
        (_) ->
            ok = pinnace_delivery:unsubscribe(self(), "refunds"),
            ack
    end),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    _ = got(),
    ok = pinnace_delivery:wait_listeners(Sender, "refunds", 1, ?PATIENCE_MS),
    kill_program(),
    ok = pinnace_delivery:wait_listeners(Sender, "refunds", 1, ?PATIENCE_MS),
    {ok, 1} = pinnace_delivery:deliver(Sender, "refunds", "y"),
    ?assertMatch(#{topic := <<"refunds">>}, got()),
    until(fun() -> {ok, []} =:= pinnace_delivery:addresses(Sender, "refunds") end),
    ?assert(is_process_alive(Receiver)).

stopped_with_a_timeout(Place) ->
    {Sender, Receiver} = pair(Place, fun(_) -> receive go -> ack end end),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    _ = got(),
    ?assertExit(timeout, pinnace_delivery:stop(Receiver, 50)),
    Receiver ! go,
    all_handled(Sender),
    unlink(Receiver),
    until(fun() -> not is_process_alive(Receiver) end).

an_id_is_for_one(Place) ->
    {Sender, _} = pair(Place, fun delivery_places:ack/1),
    ?assertEqual([{error, einval}, {error, einval}],
                 pinnace_delivery:deliver_many(Sender, "orders", ["a", "b"], #{id => "1"})),
    ?assertEqual([{ok, 1}], pinnace_delivery:deliver_many(Sender, "orders", ["a"], #{id => "1"})).
