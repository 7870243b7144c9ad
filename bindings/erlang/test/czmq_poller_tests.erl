%% Pollers of sockets of `czmq'.
-module(czmq_poller_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

start() ->
    {ok, Context} = czmq:start(),
    ok = czmq:zctx_set_linger(Context, 1000),
    Context.

stop(Context) ->
    ok = czmq:terminate(Context),
    ok = application:stop(pinnace).

poller_test_() ->
    Tests = [fun messages_come_in_order/1, fun another_target/1, fun a_function/1, fun a_function_and_a_target/1,
             fun the_poll_interval_is_no_delay/1, fun it_ends_with_its_target/1, fun it_ends_with_its_context/1,
             fun it_ends_with_its_socket/1, fun a_linked_one_ends_with_its_caller/1, fun an_unlinked_one_stays/1,
             fun a_socket_has_one/1, fun nothing_is_lost_when_it_stops/1, fun what_was_received_goes_first/1,
             fun frames_are_not_received_meanwhile/1, fun a_full_mailbox_holds_back/1, fun a_function_that_fails/1,
             fun a_killed_one_ends_its_socket/1, fun stopping_twice/1],
    {foreach, fun start/0, fun stop/1, each(Tests)}.

pair(Context) ->
    {ok, Pull} = czmq:zsocket_new(Context, pull),
    {ok, Push} = czmq:zsocket_new(Context, push),
    {ok, Port} = czmq:zsocket_bind(Pull, "tcp://127.0.0.1:*"),
    ok = czmq:zsocket_connect(Push, "tcp://127.0.0.1:" ++ integer_to_list(Port)),
    {Pull, Push}.

%% Sends numbers, and waits while there is no room.
send(Push, Numbers) ->
    [result(fun() -> czmq:zsocket_sendmem(Push, <<Number:32>>) end) || Number <- Numbers],
    ok.

got(Poller, Numbers) ->
    [?assertEqual({Poller, [<<Number:32>>]}, next()) || Number <- Numbers].

received(Pull, Numbers) ->
    [?assertEqual({ok, [<<Number:32>>]}, result(fun() -> czmq:zframe_recv_all(Pull) end)) || Number <- Numbers].

%% Runs Do, and returns why a process has ended by it.
ended(Pid, Do) ->
    Monitor = monitor(process, Pid),
    _ = Do(),
    receive {'DOWN', Monitor, process, Pid, Reason} -> Reason
    after ?PATIENCE_MS -> late
    end.

%% More than it gets at once.
messages_come_in_order(Context) ->
    {Pull, Push} = pair(Context),
    {ok, Poller} = czmq_poller:start(Pull, []),
    ok = send(Push, lists:seq(1, 5000)),
    got(Poller, lists:seq(1, 5000)),
    ok = czmq:zsocket_send_all(Push, [<<"a">>, <<>>, <<"b">>]),
    ?assertEqual({Poller, [<<"a">>, <<>>, <<"b">>]}, next()).

another_target(Context) ->
    {Pull, Push} = pair(Context),
    Self = self(),
    Target = spawn_link(fun() -> receive Message -> Self ! {target, Message} end end),
    {ok, Poller} = czmq_poller:start(Pull, [{target, Target}]),
    ok = send(Push, [1]),
    ?assertEqual({target, {Poller, [<<1:32>>]}}, next()).

a_function(Context) ->
    {Pull, Push} = pair(Context),
    Self = self(),
    {ok, Poller} = czmq:subscribe(Pull, [{dispatch, fun(Frames) -> Self ! {called, self(), Frames} end}]),
    ok = send(Push, [1, 2]),
    ?assertEqual({called, Poller, [<<1:32>>]}, next()),
    ?assertEqual({called, Poller, [<<2:32>>]}, next()).

a_function_and_a_target(Context) ->
    {Pull, Push} = pair(Context),
    Self = self(),
    Target = spawn(fun() -> receive stop -> ok end end),
    {ok, Poller} = czmq:subscribe(Pull, [{dispatch, fun(Frames) -> Self ! Frames end}, {target, Target}]),
    ok = send(Push, [1]),
    ?assertEqual([<<1:32>>], next()),
    ?assertEqual(normal, ended(Poller, fun() -> Target ! stop end)).

the_poll_interval_is_no_delay(Context) ->
    {Pull, Push} = pair(Context),
    {ok, Poller} = czmq_poller:start(Pull, [{poll_interval, 10 * ?PATIENCE_MS}]),
    ok = send(Push, [1]),
    got(Poller, [1]).

it_ends_with_its_target(Context) ->
    {Pull, Push} = pair(Context),
    Target = spawn(fun() -> receive stop -> ok end end),
    {ok, Poller} = czmq_poller:start(Pull, [{target, Target}]),
    ?assertEqual(normal, ended(Poller, fun() -> Target ! stop end)),
    %% The socket stays.
    ok = send(Push, [1]),
    received(Pull, [1]).

it_ends_with_its_context(_Context) ->
    {ok, Other} = czmq:start(),
    {Pull, _Push} = pair(Other),
    {ok, Poller} = czmq_poller:start(Pull, []),
    ?assertEqual(normal, ended(Poller, fun() -> czmq:terminate(Other) end)).

it_ends_with_its_socket(Context) ->
    {Pull, _Push} = pair(Context),
    {ok, Poller} = czmq_poller:start(Pull, []),
    ?assertEqual(normal, ended(Poller, fun() -> ok = czmq:zsocket_destroy(Pull) end)),
    ?assertEqual({error, invalid_socket}, czmq:zstr_recv(Pull)).

a_linked_one_ends_with_its_caller(Context) ->
    {Pull, Push} = pair(Context),
    Self = self(),
    Caller = spawn(fun() ->
        Self ! czmq_poller:start_link(Pull, [{target, Self}]),
        receive stop -> exit(shutdown) end
    end),
    {ok, Poller} = next(),
    ok = send(Push, [1]),
    got(Poller, [1]),
    ?assertEqual(shutdown, ended(Poller, fun() -> Caller ! stop end)),
    ok = send(Push, [2]),
    received(Pull, [2]).

an_unlinked_one_stays(Context) ->
    {Pull, Push} = pair(Context),
    Self = self(),
    Caller = spawn(fun() -> Self ! czmq_poller:start(Pull, [{target, Self}]) end),
    {ok, Poller} = next(),
    _ = ended(Caller, fun() -> ok end),
    ok = send(Push, [1]),
    got(Poller, [1]).

a_socket_has_one(Context) ->
    {Pull, Push} = pair(Context),
    {ok, Poller} = czmq_poller:start(Pull, []),
    ?assertEqual({error, subscribed}, czmq_poller:start(Pull, [])),
    ok = czmq_poller:stop(Poller),
    {ok, Next} = czmq_poller:start(Pull, []),
    ok = send(Push, [1]),
    got(Next, [1]).

%% Pollers and calls take turns, while messages come.
nothing_is_lost_when_it_stops(Context) ->
    {Pull, Push} = pair(Context),
    Count = 3000,
    spawn_link(fun() -> ok = send(Push, lists:seq(1, Count)) end),
    ?assertEqual(lists:seq(1, Count), turns(Pull, Count, [])).

turns(_Pull, Count, Got) when length(Got) >= Count ->
    lists:reverse(Got);
turns(Pull, Count, Got) ->
    {ok, Poller} = czmq_poller:start(Pull, []),
    First = receive {Poller, [<<Number:32>>]} -> [Number] after ?PATIENCE_MS -> error(late) end,
    ok = czmq_poller:stop(Poller),
    Polled = told(Poller, First ++ Got),
    turns(Pull, Count, called(Pull, 5, Polled)).

told(Poller, Got) ->
    receive {Poller, [<<Number:32>>]} -> told(Poller, [Number | Got])
    after 0 -> Got
    end.

called(_Pull, 0, Got) ->
    Got;
called(Pull, Times, Got) ->
    case czmq:zframe_recv_nowait(Pull) of
        {ok, {<<Number:32>>, false}} -> called(Pull, Times - 1, [Number | Got]);
        error -> Got
    end.

what_was_received_goes_first(Context) ->
    {Pull, Push} = pair(Context),
    ok = czmq:zsocket_send_all(Push, [<<"a">>, <<"b">>, <<"c">>]),
    ok = send(Push, [1]),
    ?assertEqual({ok, {<<"a">>, true}}, result(fun() -> czmq:zframe_recv_nowait(Pull) end)),
    {ok, Poller} = czmq_poller:start(Pull, []),
    ?assertEqual({Poller, [<<"b">>, <<"c">>]}, next()),
    got(Poller, [1]).

frames_are_not_received_meanwhile(Context) ->
    {Pull, Push} = pair(Context),
    {ok, Poller} = czmq_poller:start(Pull, []),
    ok = send(Push, [1]),
    got(Poller, [1]),
    ?assertEqual(error, czmq:zframe_recv_nowait(Pull)),
    ?assertEqual(error, czmq:zframe_recv_all(Pull)),
    ?assertEqual({error, recv_failed}, czmq:zstr_recv(Pull)),
    %% Also after as many messages as it gets at once.
    ok = send(Push, lists:seq(2, 1000)),
    got(Poller, lists:seq(2, 1000)),
    ?assertEqual({error, recv_failed}, czmq:zstr_recv(Pull)).

%% A target that does not read its messages gets no more than a number of them.
a_full_mailbox_holds_back(Context) ->
    {Pull, Push} = pair(Context),
    Self = self(),
    Target = spawn_link(fun() -> receive go_on -> count(1, 30000, Self) end end),
    {ok, _} = czmq_poller:start(Pull, [{target, Target}]),
    spawn_link(fun() -> ok = send(Push, lists:seq(1, 30000)), Self ! sent end),
    Length = settled(Target, 0, erlang:monotonic_time(millisecond) + ?PATIENCE_MS),
    ?assert(Length > 10000 andalso Length =< 11001, Length),
    Target ! go_on,
    ?assertEqual([counted, sent], lists:sort([next(), next()])).

%% The length of a mailbox when it has been full for a moment.
settled(Pid, Before, Deadline) ->
    ?assert(erlang:monotonic_time(millisecond) < Deadline),
    receive never -> error(never) after ?A_MOMENT_MS -> ok end,
    case process_info(Pid, message_queue_len) of
        {_, Before} when Before > 10000 -> Before;
        {_, Length} -> settled(Pid, Length, Deadline)
    end.

count(Number, Last, To) when Number > Last ->
    To ! counted;
count(Number, Last, To) ->
    receive {_, [<<Number:32>>]} -> count(Number + 1, Last, To) end.

a_function_that_fails(Context) ->
    {Pull, Push} = pair(Context),
    ok = logger:set_primary_config(level, none),
    {ok, Poller} = czmq_poller:start(Pull, [{dispatch, fun([<<1:32>>]) -> error(refused) end}]),
    ?assertMatch({refused, _}, ended(Poller, fun() -> ok = send(Push, [1, 2]) end)),
    ok = logger:set_primary_config(level, notice),
    received(Pull, [2]).

%% It cannot give back its socket then.
a_killed_one_ends_its_socket(Context) ->
    {Pull, _Push} = pair(Context),
    {ok, Poller} = czmq_poller:start(Pull, []),
    ?assertEqual(killed, ended(Poller, fun() -> exit(Poller, kill) end)),
    ?assertEqual({error, invalid_socket}, result(fun() -> czmq:zframe_recv_nowait(Pull) end)),
    ?assertEqual({error, invalid_socket}, czmq_poller:start(Pull, [])).

stopping_twice(Context) ->
    {Pull, _Push} = pair(Context),
    {ok, Poller} = czmq_poller:start(Pull, []),
    ok = czmq_poller:stop(Poller),
    ?assertEqual(ok, czmq_poller:stop(Poller)).
