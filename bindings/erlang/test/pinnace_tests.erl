%% Sockets through the API.
-module(pinnace_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

start() ->
    {ok, _} = application:ensure_all_started(pinnace),
    ok.

stop(_) ->
    ok = application:stop(pinnace).

%% Each test has an application of its own.
sockets_test_() ->
    Tests = [fun messages_arrive/0, fun frames_are_kept/0, fun many_at_once/0, fun a_large_message/0,
             fun requests_and_replies/0, fun topics/0, fun groups/0, fun routing_ids/0,
             fun nothing_is_lost_at_a_timeout/0, fun receivers_take_turns/0,
             fun a_receiver_that_died_gets_nothing/0, fun no_room/0, fun confirmations/0,
             fun unsent_messages_are_told/0, fun active_true/0, fun active_once/0, fun active_count/0, fun batches/0,
             fun switching_loses_nothing/0, fun a_full_mailbox_holds_back/0, fun small_frames_are_copied/0,
             fun options/0, fun wrong_arguments/0, fun requests_that_are_too_large/0, fun endpoints/0, fun owners/0,
             fun a_new_owner/0, fun monitors/0, fun statistics_are_maps/0, fun curve/0, fun closed_sockets/0,
             fun reasons_in_words/0, fun the_release/0],
    {foreach, fun start/0, fun stop/1, [{timeout, 60, Test} || Test <- Tests]}.

pair() ->
    pair([]).

pair(Options) ->
    {ok, Pull} = pinnace:socket(pull, Options),
    {ok, Push} = pinnace:socket(push),
    {ok, Endpoint} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    ok = pinnace:connect(Push, Endpoint),
    {Pull, Push}.

numbered(From, To) ->
    [<<Number:32>> || Number <- lists:seq(From, To)].

take(Pull, Messages) ->
    [?assertEqual({ok, [Message]}, pinnace:recv(Pull, ?PATIENCE_MS)) || Message <- Messages].

messages_arrive() ->
    {Pull, Push} = pair(),
    [ok = pinnace:send(Push, Message) || Message <- numbered(1, 1000)],
    take(Pull, numbered(1, 1000)).

frames_are_kept() ->
    {Pull, Push} = pair(),
    ok = pinnace:send(Push, [<<"one">>, ["t", <<"w">>, $o], <<>>, "last"]),
    ok = pinnace:send(Push, [<<>>]),
    ?assertEqual({ok, [<<"one">>, <<"two">>, <<>>, <<"last">>]}, pinnace:recv(Pull)),
    ?assertEqual({ok, [<<>>]}, pinnace:recv(Pull)).

many_at_once() ->
    {Pull, Push} = pair(),
    Messages = numbered(1, 100000),
    Self = self(),
    Sender = spawn_link(fun() -> ok = pinnace:send_many(Push, Messages), Self ! done end),
    take(Pull, Messages),
    receive done -> ok after ?PATIENCE_MS -> error({late, Sender}) end,
    ?assertEqual(ok, pinnace:send_many(Push, [])),
    ok = pinnace:send_many(Push, [<<"a">>, [<<"b">>, <<"c">>]]),
    ?assertEqual({ok, [<<"a">>]}, pinnace:recv(Pull)),
    ?assertEqual({ok, [<<"b">>, <<"c">>]}, pinnace:recv(Pull)).

a_large_message() ->
    {Pull, Push} = pair(),
    Large = binary:copy(<<"0123456789">>, 2000000),
    ok = pinnace:send(Push, [<<"head">>, Large]),
    ok = pinnace:send(Push, <<"after">>),
    ?assertEqual({ok, [<<"head">>, Large]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    ?assertEqual({ok, [<<"after">>]}, pinnace:recv(Pull, ?PATIENCE_MS)).

requests_and_replies() ->
    {ok, Rep} = pinnace:socket(rep),
    {ok, Req} = pinnace:socket(req),
    {ok, Endpoint} = pinnace:bind(Rep, "ipc://*"),
    ok = pinnace:connect(Req, Endpoint),
    [begin
        ok = pinnace:send(Req, Question),
        ?assertEqual({ok, [Question]}, pinnace:recv(Rep, ?PATIENCE_MS)),
        ok = pinnace:send(Rep, [<<"answer to">>, Question]),
        ?assertEqual({ok, [<<"answer to">>, Question]}, pinnace:recv(Req, ?PATIENCE_MS))
     end || Question <- numbered(1, 100)].

topics() ->
    {ok, Pub} = pinnace:socket(xpub),
    {ok, Sub} = pinnace:socket(sub),
    {ok, Endpoint} = pinnace:bind(Pub, "tcp://127.0.0.1:*"),
    ok = pinnace:subscribe(Sub, "weather"),
    ok = pinnace:subscribe(Sub, <<"sport">>),
    ok = pinnace:unsubscribe(Sub, "sport"),
    ok = pinnace:connect(Sub, Endpoint),
    ?assertEqual({ok, [<<1, "weather">>]}, pinnace:recv(Pub, ?PATIENCE_MS)),
    ok = pinnace:send(Pub, <<"sport: no">>),
    ok = pinnace:send(Pub, <<"weather: yes">>),
    ?assertEqual({ok, [<<"weather: yes">>]}, pinnace:recv(Sub, ?PATIENCE_MS)).

groups() ->
    {ok, Radio} = pinnace:socket(radio),
    {ok, Dish} = pinnace:socket(dish),
    {ok, Endpoint} = pinnace:bind(Radio, "inproc://groups"),
    ok = pinnace:connect(Dish, Endpoint),
    ok = pinnace:join(Dish, "news"),
    ok = pinnace:join(Dish, "old"),
    ok = pinnace:leave(Dish, "old"),
    ok = pinnace:send(Radio, [<<"old">>, <<"no">>]),
    ok = pinnace:send(Radio, [<<"news">>, <<"yes">>]),
    ?assertEqual({ok, [<<"news">>, <<"yes">>]}, pinnace:recv(Dish, ?PATIENCE_MS)).

routing_ids() ->
    {ok, Server} = pinnace:socket(server),
    {ok, Client} = pinnace:socket(client),
    {ok, Endpoint} = pinnace:bind(Server, "inproc://ids"),
    ok = pinnace:connect(Client, Endpoint),
    ok = pinnace:send(Client, <<"question">>),
    {ok, [<<_:32>> = Id, <<"question">>]} = pinnace:recv(Server, ?PATIENCE_MS),
    ok = pinnace:send(Server, [Id, <<"answer">>]),
    ?assertEqual({ok, [<<"answer">>]}, pinnace:recv(Client, ?PATIENCE_MS)).

nothing_is_lost_at_a_timeout() ->
    {Pull, Push} = pair(),
    Self = self(),
    %% Receives with all timeouts, while messages come.
    spawn_link(fun() -> [ok = pinnace:send(Push, Message) || Message <- numbered(1, 2000)], Self ! sent end),
    Receive = fun Receive(Count, Timeout) when Count =< 2000 ->
                      case pinnace:recv(Pull, Timeout) of
                          {ok, [<<Count:32>>]} -> Receive(Count + 1, (Timeout + 1) rem 3);
                          {error, Reason} when Reason =:= timeout; Reason =:= eagain -> Receive(Count, Timeout)
                      end;
                  Receive(_, _) -> ok
              end,
    ok = Receive(1, 0),
    receive sent -> ok after ?PATIENCE_MS -> error(late) end,
    ?assertEqual({error, eagain}, pinnace:recv(Pull, 0)),
    ?assertEqual({error, timeout}, pinnace:recv(Pull, 10)).

receivers_take_turns() ->
    {Pull, Push} = pair(),
    Self = self(),
    Pids = [spawn_link(fun() -> Self ! {self(), pinnace:recv(Pull)} end) || _ <- lists:seq(1, 20)],
    ok = pinnace:send_many(Push, numbered(1, 20)),
    Got = [receive {Pid, {ok, [Message]}} -> Message after ?PATIENCE_MS -> late end || Pid <- Pids],
    ?assertEqual(numbered(1, 20), lists:sort(Got)),
    ?assertEqual(nothing, nothing()).

a_receiver_that_died_gets_nothing() ->
    {Pull, Push} = pair(),
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() -> Self ! begun, pinnace:recv(Pull) end),
    receive begun -> ok after ?PATIENCE_MS -> error(late) end,
    until(fun() -> process_info(Pid, current_function) =:= {current_function, {gen, do_call, 4}} end),
    exit(Pid, kill),
    receive {'DOWN', Monitor, process, Pid, killed} -> ok after ?PATIENCE_MS -> error(late) end,
    ok = pinnace:send(Push, <<"for the living">>),
    take(Pull, [<<"for the living">>]).

no_room() ->
    {ok, Push} = pinnace:socket(push),
    Message = binary:copy(<<"x">>, 1000),
    Fill = fun Fill(Count) ->
               case pinnace:send(Push, Message, [nowait]) of
                   ok -> Fill(Count + 1);
                   {error, eagain} -> Count
               end
           end,
    Count = Fill(0),
    ?assert(Count >= 1000 andalso Count < 1100, Count),
    %% A sender that waits goes on when a peer comes.
    Self = self(),
    Waiting = [spawn_link(fun() -> Self ! {self(), pinnace:send(Push, Message)} end) || _ <- lists:seq(1, 10)],
    ?assertEqual(nothing, nothing()),
    {ok, Pull} = pinnace:socket(pull),
    {ok, Endpoint} = pinnace:bind(Pull, "inproc://room"),
    ok = pinnace:connect(Push, Endpoint),
    take(Pull, lists:duplicate(Count + 10, Message)),
    [?assertEqual(ok, receive {Pid, Sent} -> Sent after ?PATIENCE_MS -> late end) || Pid <- Waiting],
    %% All room comes back.
    Refill = fun Refill(Sent, Deadline) when Sent < Count ->
                     ?assert(erlang:monotonic_time(millisecond) < Deadline, Sent),
                     Refill(Sent + Fill(0), Deadline);
                 Refill(_, _) -> ok
             end,
    ok = Refill(0, erlang:monotonic_time(millisecond) + ?PATIENCE_MS).

confirmations() ->
    {Pull, Push} = pair(),
    ?assertEqual(ok, pinnace:send(Push, <<"taken">>, [confirm])),
    take(Pull, [<<"taken">>]),
    {ok, Req} = pinnace:socket(req),
    {ok, _} = pinnace:bind(Req, "inproc://nobody"),
    {ok, Router} = pinnace:socket(router, [{router_mandatory, true}]),
    ?assertEqual({error, ehostunreach}, pinnace:send(Router, [<<"nobody">>, <<"x">>], [confirm])),
    ?assertEqual({error, enotsup}, pinnace:send(Pull, <<"x">>, [confirm])).

unsent_messages_are_told() ->
    {ok, Router} = pinnace:socket(router, [{router_mandatory, true}]),
    ok = pinnace:send(Router, [<<"nobody">>, <<"x">>]),
    ?assertEqual({pinnace_unsent, Router, 1, ehostunreach}, next()).

active_true() ->
    {Pull, Push} = pair(),
    ok = pinnace:setopts(Pull, [{active, true}]),
    ?assertEqual({error, einval}, pinnace:recv(Pull)),
    ok = pinnace:send_many(Push, numbered(1, 1000)),
    [?assertEqual({pinnace, Pull, [Message]}, next()) || Message <- numbered(1, 1000)].

active_once() ->
    {Pull, Push} = pair(),
    ok = pinnace:setopts(Pull, [{active, once}]),
    ok = pinnace:send_many(Push, numbered(1, 3)),
    ?assertEqual({pinnace, Pull, [<<1:32>>]}, next()),
    ?assertEqual(nothing, nothing()),
    ?assertEqual({ok, [{active, false}]}, pinnace:getopts(Pull, [active])),
    ok = pinnace:setopts(Pull, [{active, once}]),
    ?assertEqual({pinnace, Pull, [<<2:32>>]}, next()),
    take(Pull, [<<3:32>>]).

active_count() ->
    {Pull, Push} = pair(),
    ok = pinnace:setopts(Pull, [{active, 2}]),
    ok = pinnace:setopts(Pull, [{active, 1}]),
    ok = pinnace:send_many(Push, numbered(1, 5)),
    [?assertEqual({pinnace, Pull, [Message]}, next()) || Message <- numbered(1, 3)],
    ?assertEqual({pinnace_passive, Pull}, next()),
    ?assertEqual(nothing, nothing()),
    take(Pull, numbered(4, 5)).

batches() ->
    {Pull, Push} = pair([{deliver, batch}, {active, true}]),
    ok = pinnace:send_many(Push, numbered(1, 1000)),
    Take = fun Take(Taken) when length(Taken) < 1000 ->
                   {pinnace_batch, Pull, Messages} = next(),
                   Take(Taken ++ Messages);
               Take(Taken) -> Taken
           end,
    ?assertEqual([[Message] || Message <- numbered(1, 1000)], Take([])).

switching_loses_nothing() ->
    {Pull, Push} = pair(),
    spawn_link(fun() -> [ok = pinnace:send(Push, Message) || Message <- numbered(1, 3000)] end),
    Take = fun Take(Count) when Count =< 3000 ->
                   ok = pinnace:setopts(Pull, [{active, once}]),
                   ?assertEqual({pinnace, Pull, [<<Count:32>>]}, next()),
                   take(Pull, numbered(Count + 1, Count + 2)),
                   Take(Count + 3);
               Take(_) -> ok
           end,
    Take(1).

%% A process that does not read its messages gets no more than a number of them.
a_full_mailbox_holds_back() ->
    {Pull, Push} = pair([{deliver, batch}, {rcvhwm, 100}]),
    {ok, Sub} = pinnace:socket(pair),
    ok = pinnace:close(Sub),
    Owner = spawn_link(fun() -> receive go_on -> drain(0) end end),
    ok = pinnace:setopts(Pull, [{active, true}]),
    ok = pinnace:controlling_process(Pull, Owner),
    Message = binary:copy(<<"x">>, 50000),
    Self = self(),
    Sender = spawn_link(fun() -> fill(Push, Message, Self) end),
    Length = fun() -> element(2, process_info(Owner, message_queue_len)) end,
    ok = until(fun() -> Length() > 64 end),
    Most = watch(Sender, 0),
    ?assert(Length() < 80, Length()),
    %% It goes on when the owner reads.
    Owner ! go_on,
    receive {sent, Count} when Count > Most -> ok after ?PATIENCE_MS -> error(stuck) end,
    unlink(Sender),
    exit(Sender, kill).

drain(Count) ->
    receive _ -> drain(Count + 1) end.

fill(Push, Message, To) ->
    ok = pinnace:send(Push, Message),
    To ! {sent, put_up()},
    fill(Push, Message, To).

put_up() ->
    Count = case get(sent) of undefined -> 1; Before -> Before + 1 end,
    _ = put(sent, Count),
    Count.

%% How many were sent when nothing more is for a while.
watch(Sender, Count) ->
    receive {sent, More} -> watch(Sender, More)
    after 1000 -> Count
    end.

small_frames_are_copied() ->
    {Pull, Push} = pair([{copy, 64}]),
    Frames = [binary:copy(<<"s">>, 64), binary:copy(<<"l">>, 65)],
    ok = pinnace:send_many(Push, lists:duplicate(10, Frames)),
    {ok, [Small, Large]} = pinnace:recv(Pull, ?PATIENCE_MS),
    ?assertEqual(Frames, [Small, Large]),
    ?assert(binary:referenced_byte_size(Small) =:= 64),
    ?assert(binary:referenced_byte_size(Large) > 65).

options() ->
    {ok, Sub} = pinnace:socket(sub, [{sndhwm, 7}, {linger, infinity}, {ipv6, true}, {maxmsgsize, -1}, {copy, 9}]),
    Values = [{sndhwm, 7}, {linger, -1}, {ipv6, 1}, {maxmsgsize, -1}, {copy, 9}, {deliver, message}],
    ?assertEqual({ok, Values}, pinnace:getopts(Sub, [Name || {Name, _} <- Values])),
    ok = pinnace:setopts(Sub, [{routing_id, "named"}, {zap_domain, <<"domain">>}]),
    ?assertEqual({ok, [{routing_id, <<"named">>}, {zap_domain, <<"domain">>}]},
                 pinnace:getopts(Sub, [routing_id, zap_domain])).

wrong_arguments() ->
    ?assertEqual({error, einval}, pinnace:socket(nonsense)),
    ?assertEqual({error, einval}, pinnace:socket(pull, [{nonsense, 1}])),
    ?assertEqual({error, einval}, pinnace:socket(pull, [{sndhwm, "many"}])),
    ?assertEqual({error, einval}, pinnace:socket(pull, [{sndhwm, -2}])),
    ?assertEqual({error, einval}, pinnace:socket(pull, [{active, sometimes}])),
    {ok, Pull} = pinnace:socket(pull),
    ?assertEqual({error, einval}, pinnace:getopts(Pull, [nonsense])),
    ?assertEqual({error, einval}, pinnace:setopts(Pull, [{subscribe, "x"}])),
    ?assertError(_, pinnace:send(Pull, [])),
    ?assertError(_, pinnace:send(Pull, [nonsense])),
    %% The process is unharmed.
    ?assertEqual({error, eagain}, pinnace:recv(Pull, 0)).

%% A request that is larger than a packet is refused, and does not end the program.
requests_that_are_too_large() ->
    {Pull, Push} = pair(),
    Confirm = fun(Size) -> pinnace:send(Push, binary:copy(<<"x">>, Size), [confirm]) end,
    Most = 1048561,
    {ok, #{os_pid := OsPid}} = pinnace:info(Push),
    ?assertEqual(ok, Confirm(Most)),
    ?assertEqual({error, emsgsize}, Confirm(Most + 1)),
    ?assertEqual({error, emsgsize}, pinnace:connect(Push, binary:copy(<<"x">>, 2000000))),
    ?assertEqual({error, emsgsize}, pinnace:setopts(Push, [{zap_domain, binary:copy(<<"x">>, 2000000)}])),
    {ok, [Message]} = pinnace:recv(Pull, ?PATIENCE_MS),
    ?assertEqual(Most, byte_size(Message)),
    ?assertMatch({ok, #{os_pid := OsPid}}, pinnace:info(Push)).

endpoints() ->
    {ok, Pull} = pinnace:socket(pull),
    {ok, Endpoint} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    {ok, Other} = pinnace:socket(pull),
    ?assertEqual({error, eaddrinuse}, pinnace:bind(Other, Endpoint)),
    ok = pinnace:unbind(Pull, Endpoint),
    ?assertEqual({error, enoent}, pinnace:unbind(Pull, Endpoint)),
    ?assertEqual({error, enoent}, pinnace:disconnect(Pull, Endpoint)),
    ?assertEqual({error, einval}, pinnace:bind(Other, "nonsense")),
    ?assertEqual({error, eprotonosupport}, pinnace:connect(Other, "nonsense://x")),
    ?assertEqual({error, einval}, pinnace:connect(Other, "tcp://127.0.0.1:99999")).

%% A socket ends with its owner.
owners() ->
    {ok, Push} = pinnace:socket(push),
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        {ok, Pull} = pinnace:socket(pull),
        Self ! {Pull, pinnace:bind(Pull, "tcp://127.0.0.1:*")}
    end),
    {Pull, {ok, Endpoint}} = next(),
    receive {'DOWN', Monitor, process, Pid, normal} -> ok after ?PATIENCE_MS -> error(late) end,
    ?assertEqual({error, closed}, until_not(fun() -> pinnace:recv(Pull, 0) end, {error, eagain})),
    ?assertMatch({ok, _}, until_not(fun() -> pinnace:bind(Push, Endpoint) end, {error, eaddrinuse})).

until_not(Do, Value) ->
    until_not(Do, Value, erlang:monotonic_time(millisecond) + ?PATIENCE_MS).

until_not(Do, Value, Deadline) ->
    case Do() of
        Value ->
            ?assert(erlang:monotonic_time(millisecond) < Deadline, Value),
            until_not(Do, Value, Deadline);
        Other -> Other
    end.

a_new_owner() ->
    {Pull, Push} = pair([{active, true}]),
    Self = self(),
    New = spawn_link(fun() -> receive {pinnace, Pull, Message} -> Self ! {new, Message} end end),
    ok = pinnace:controlling_process(Pull, New),
    ?assertEqual({error, not_owner}, pinnace:controlling_process(Pull, self())),
    ok = pinnace:send(Push, <<"for the new one">>),
    ?assertEqual({new, [<<"for the new one">>]}, next()).

monitors() ->
    {ok, Pull} = pinnace:socket(pull),
    {ok, Monitor} = pinnace:monitor(Pull),
    {ok, Endpoint} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    ?assertMatch({pinnace_event, Pull, #{event := listening, endpoint := Endpoint}}, next()),
    {ok, Push} = pinnace:socket(push),
    ok = pinnace:connect(Push, Endpoint),
    ?assertMatch({pinnace_event, Pull, #{event := accepted}}, next()),
    ?assertMatch({pinnace_event, Pull, #{event := handshake_succeeded}}, next()),
    ok = pinnace:close(Monitor),
    ok = pinnace:close(Push),
    ?assertEqual(nothing, nothing()).

statistics_are_maps() ->
    {Pull, Push} = pair(),
    ok = pinnace:send(Push, <<"four">>),
    take(Pull, [<<"four">>]),
    {ok, #{socket_type := <<"PULL">>, received := #{messages := 1, bytes := 6}, drops := #{full := 0},
           events := #{accepted := 1}, peers := Peers}} = pinnace:statistics(Pull),
    [#{address := <<"127.0.0.1">>, mechanism := <<"NULL">>, connected := 1}] = maps:values(Peers).

curve() ->
    {ok, {ServerPublic, ServerSecret}} = pinnace:key_pair(),
    {ok, {Public, Secret}} = pinnace:key_pair(),
    {ok, Pull} = pinnace:socket(pull, [{curve_server, true}, {curve_secretkey, ServerSecret}]),
    {ok, Push} = pinnace:socket(push, [{curve_serverkey, ServerPublic}, {curve_publickey, Public},
                                       {curve_secretkey, Secret}]),
    {ok, Endpoint} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    ok = pinnace:connect(Push, Endpoint),
    ok = pinnace:send(Push, <<"secret">>),
    take(Pull, [<<"secret">>]),
    {ok, #{peers := Peers}} = pinnace:statistics(Pull),
    ?assertMatch([#{mechanism := <<"CURVE">>}], maps:values(Peers)).

%% A socket that was not closed when the application was stopped.
stopped_test() ->
    ok = start(),
    {ok, Push} = pinnace:socket(push),
    ok = application:stop(pinnace),
    [?assertEqual({error, not_started}, Result)
     || Result <- [pinnace:send(Push, <<"x">>), pinnace:send_many(Push, [<<"x">>]), pinnace:close(Push),
                   pinnace:send(Push, <<"x">>, [confirm]), pinnace:bind(Push, "inproc://x"), pinnace:statistics(Push),
                   pinnace:recv(Push), pinnace:info(Push), pinnace:setopts(Push, [{sndhwm, 1}])]].

closed_sockets() ->
    {ok, Pull} = pinnace:socket(pull),
    Self = self(),
    spawn_link(fun() -> Self ! pinnace:recv(Pull) end),
    ?assertEqual(nothing, nothing()),
    ok = pinnace:close(Pull),
    ?assertEqual({error, closed}, next()),
    [?assertEqual({error, closed}, Result)
     || Result <- [pinnace:close(Pull), pinnace:recv(Pull), pinnace:send(Pull, <<"x">>), pinnace:statistics(Pull),
                   pinnace:bind(Pull, "inproc://x"), pinnace:setopts(Pull, [{active, true}]),
                   pinnace:getopts(Pull, [type]), pinnace:monitor(Pull)]].

reasons_in_words() ->
    {error, Reason} = pinnace:connect(element(2, pinnace:socket(pull)), "nonsense"),
    ?assertEqual("invalid argument", pinnace:format_error(Reason)),
    [?assert(io_lib:printable_list(pinnace:format_error(Each)))
     || Each <- [closed, efsm, port_crashed, {errno, 5}, {port_exit, 3}, {port_not_started, "/x", enoent}, eaddrinuse]].

the_release() ->
    {ok, Release} = pinnace:version(),
    ?assertMatch({match, _}, re:run(Release, "^[0-9]+\\.[0-9]+\\.[0-9]+$")).

not_started_test() ->
    ?assertEqual({error, not_started}, pinnace:socket(pull)),
    ?assertEqual("the application pinnace is not started", pinnace:format_error(not_started)).
