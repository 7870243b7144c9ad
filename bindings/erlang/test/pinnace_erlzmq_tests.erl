%% The functions of erlzmq.
-module(pinnace_erlzmq_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

start() ->
    {ok, Context} = pinnace_erlzmq:context(),
    Context.

stop(Context) ->
    ok = pinnace_erlzmq:term(Context),
    ok = application:stop(pinnace).

erlzmq_test_() ->
    Tests = [fun messages/1, fun frames/1, fun no_room/1, fun nothing_to_receive/1, fun timeouts/1, fun options/1,
             fun active_sockets/1, fun another_process/1, fun active_frames/1, fun receivers_that_end/1,
             fun messages_for_a_receiver_that_ended/1, fun topics/1,
             fun requests_and_replies/1, fun closed_sockets/1, fun contexts/1, fun wrong_arguments/1],
    {foreach, fun start/0, fun stop/1, each(Tests)}.

new(Context, Type) ->
    {ok, Socket} = pinnace_erlzmq:socket(Context, Type),
    Socket.

pair(Context, Bound, Connected) ->
    {Server, Client} = {new(Context, Bound), new(Context, Connected)},
    join(Server, Client),
    {Server, Client}.

join(Server, Client) ->
    ok = pinnace_erlzmq:bind(Server, "tcp://127.0.0.1:*"),
    {ok, Endpoint} = pinnace_erlzmq:getsockopt(Server, last_endpoint),
    ok = pinnace_erlzmq:connect(Client, Endpoint).

recv(Socket) ->
    ok = pinnace_erlzmq:setsockopt(Socket, rcvtimeo, ?PATIENCE_MS),
    pinnace_erlzmq:recv(Socket).

more(Socket) ->
    {ok, More} = pinnace_erlzmq:getsockopt(Socket, rcvmore),
    More.

messages(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    ok = pinnace_erlzmq:send(Push, <<"one">>),
    ok = pinnace_erlzmq:sendmsg(Push, ["tw", <<"o">>]),
    ok = pinnace_erlzmq:sendmsg(Push, <<"three">>, [dontwait]),
    ?assertEqual({ok, <<"one">>}, pinnace_erlzmq:recv(Pull)),
    ?assertEqual({ok, <<"two">>}, pinnace_erlzmq:recvmsg(Pull)),
    ?assertEqual({ok, <<"three">>}, pinnace_erlzmq:recvmsg(Pull, [])).

frames(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    ok = pinnace_erlzmq:send(Push, <<"a">>, [sndmore]),
    ok = pinnace_erlzmq:send(Push, <<"b">>, [sndmore, dontwait]),
    ?assertEqual({error, eagain}, pinnace_erlzmq:recv(Pull, [dontwait])),
    ok = pinnace_erlzmq:send(Push, <<"c">>),
    ok = pinnace_erlzmq:send(Push, <<"d">>),
    ?assertEqual({{ok, <<"a">>}, 1}, {recv(Pull), more(Pull)}),
    ?assertEqual({{ok, <<"b">>}, 1}, {recv(Pull), more(Pull)}),
    ?assertEqual({{ok, <<"c">>}, 0}, {pinnace_erlzmq:recv(Pull, [noblock]), more(Pull)}),
    ?assertEqual({{ok, <<"d">>}, 0}, {recv(Pull), more(Pull)}).

no_room(Context) ->
    Push = new(Context, push),
    Message = binary:copy(<<"x">>, 1000),
    Fill = fun Fill(Count) ->
        case pinnace_erlzmq:send(Push, Message, [dontwait]) of
            ok -> Fill(Count + 1);
            {error, eagain} -> Count
        end
    end,
    Count = Fill(0),
    ?assertEqual({error, eagain}, pinnace_erlzmq:send(Push, Message, [noblock])),
    %% A sender that waits goes on when a peer comes.
    Self = self(),
    spawn_link(fun() -> Self ! pinnace_erlzmq:send(Push, <<"last">>) end),
    ?assertEqual(nothing, nothing()),
    Pull = new(Context, pull),
    join(Pull, Push),
    [?assertEqual({ok, Message}, recv(Pull)) || _ <- lists:seq(1, Count)],
    ?assertEqual({ok, <<"last">>}, recv(Pull)),
    ?assertEqual(ok, next()).

nothing_to_receive(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    [?assertEqual({error, eagain}, pinnace_erlzmq:recv(Pull, [Flag])) || Flag <- [dontwait, noblock]],
    ?assertEqual({error, eagain}, pinnace_erlzmq:recvmsg(Pull, [dontwait])),
    Self = self(),
    spawn_link(fun() -> Self ! pinnace_erlzmq:recv(Pull) end),
    ok = pinnace_erlzmq:send(Push, <<"x">>),
    ?assertEqual({ok, <<"x">>}, next()).

timeouts(Context) ->
    Pull = new(Context, pull),
    ?assertEqual({ok, -1}, pinnace_erlzmq:getsockopt(Pull, rcvtimeo)),
    ok = pinnace_erlzmq:setsockopt(Pull, rcvtimeo, 10),
    ?assertEqual({ok, 10}, pinnace_erlzmq:getsockopt(Pull, rcvtimeo)),
    ?assertEqual({error, eagain}, pinnace_erlzmq:recv(Pull)),
    ok = pinnace_erlzmq:setsockopt(Pull, rcvtimeo, 0),
    ?assertEqual({error, eagain}, pinnace_erlzmq:recv(Pull)),
    ok = pinnace_erlzmq:setsockopt(Pull, rcvtimeo, -1),
    ?assertEqual({ok, -1}, pinnace_erlzmq:getsockopt(Pull, rcvtimeo)),
    ?assertEqual({error, einval}, pinnace_erlzmq:setsockopt(Pull, rcvtimeo, -2)),
    ?assertEqual({error, enotsup}, pinnace_erlzmq:setsockopt(Pull, sndtimeo, 10)).

options(Context) ->
    Dealer = new(Context, dealer),
    ok = pinnace_erlzmq:setsockopt(Dealer, identity, <<"me">>),
    ok = pinnace_erlzmq:setsockopt(Dealer, sndhwm, 7),
    ?assertEqual([{ok, <<"me">>}, {ok, 7}, {ok, -1}, {ok, 0}],
                 [pinnace_erlzmq:getsockopt(Dealer, Name) || Name <- [identity, sndhwm, linger, rcvmore]]),
    ?assertEqual({error, einval}, pinnace_erlzmq:setsockopt(Dealer, nonsense, 1)),
    ?assertEqual({error, einval}, pinnace_erlzmq:setsockopt(Dealer, sndhwm, -1)),
    ?assertEqual({error, einval}, pinnace_erlzmq:getsockopt(Dealer, nonsense)).

active_sockets(Context) ->
    {Pull, Push} = pair(Context, [pull, {active, true}], [push, {active, false}]),
    [ok = pinnace_erlzmq:send(Push, <<Number:32>>) || Number <- lists:seq(1, 2000)],
    [?assertEqual({zmq, Pull, <<Number:32>>, []}, next()) || Number <- lists:seq(1, 2000)],
    ?assertEqual({error, einval}, pinnace_erlzmq:recv(Pull)).

another_process(Context) ->
    Self = self(),
    Pid = spawn_link(fun() -> receive Message -> Self ! {other, Message} end end),
    {Pull, Push} = pair(Context, [pull, {active, true}, {active_pid, Pid}], push),
    ok = pinnace_erlzmq:send(Push, <<"x">>),
    ?assertEqual({other, {zmq, Pull, <<"x">>, []}}, next()).

active_frames(Context) ->
    {Pull, Push} = pair(Context, [{active, true}, pull], push),
    ok = pinnace_erlzmq:send(Push, <<"a">>, [sndmore]),
    ok = pinnace_erlzmq:send(Push, <<"b">>),
    ?assertEqual({zmq, Pull, <<"a">>, [rcvmore]}, next()),
    ?assertEqual({zmq, Pull, <<"b">>, []}, next()).

%% When the process has ended that gets messages, they are received by calls.
receivers_that_end(Context) ->
    {Pid, Monitor} = spawn_monitor(fun() -> receive stop -> ok end end),
    {Pull, Push} = pair(Context, [pull, {active, true}, {active_pid, Pid}], push),
    Pid ! stop,
    receive {'DOWN', Monitor, process, Pid, normal} -> ok after ?PATIENCE_MS -> error(late) end,
    until_passive(Pull, erlang:monotonic_time(millisecond) + ?PATIENCE_MS),
    ok = pinnace_erlzmq:send(Push, <<"x">>),
    ?assertEqual({ok, <<"x">>}, recv(Pull)).

%% Messages that had come for a process that ended are whole: no frame of them was received.
messages_for_a_receiver_that_ended(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    {ok, Poller} = czmq_poller:start(Pull, [{dispatch, fun(_) -> ok end}]),
    ok = sys:suspend(Poller),
    ok = pinnace_erlzmq:send(Push, <<"a">>, [sndmore]),
    [ok = pinnace_erlzmq:send(Push, Frame) || Frame <- [<<"b">>, <<"c">>]],
    until_mailbox(Poller, 2, erlang:monotonic_time(millisecond) + ?PATIENCE_MS),
    Monitor = monitor(process, Poller),
    ok = sys:terminate(Poller, shutdown),
    receive {'DOWN', Monitor, process, Poller, shutdown} -> ok after ?PATIENCE_MS -> error(late) end,
    ?assertEqual(0, more(Pull)),
    ?assertEqual({{ok, <<"a">>}, 1}, {recv(Pull), more(Pull)}),
    ?assertEqual({{ok, <<"b">>}, 0}, {recv(Pull), more(Pull)}),
    ?assertEqual({{ok, <<"c">>}, 0}, {recv(Pull), more(Pull)}).

until_mailbox(Pid, Length, Deadline) ->
    ?assert(erlang:monotonic_time(millisecond) < Deadline),
    {_, Now} = process_info(Pid, message_queue_len),
    Now >= Length orelse until_mailbox(Pid, Length, Deadline).

until_passive(Pull, Deadline) ->
    ?assert(erlang:monotonic_time(millisecond) < Deadline),
    pinnace_erlzmq:recv(Pull, [dontwait]) =:= {error, eagain} orelse until_passive(Pull, Deadline).

topics(Context) ->
    {Pub, Sub} = {new(Context, xpub), new(Context, sub)},
    ok = pinnace_erlzmq:setsockopt(Sub, subscribe, <<"weather">>),
    ok = pinnace_erlzmq:setsockopt(Sub, subscribe, <<"sport">>),
    ok = pinnace_erlzmq:setsockopt(Sub, unsubscribe, <<"sport">>),
    join(Pub, Sub),
    ?assertEqual({ok, <<1, "weather">>}, recv(Pub)),
    ok = pinnace_erlzmq:send(Pub, <<"sport: no">>),
    ok = pinnace_erlzmq:send(Pub, <<"weather: yes">>),
    ?assertEqual({ok, <<"weather: yes">>}, recv(Sub)).

requests_and_replies(Context) ->
    {Rep, Req} = pair(Context, rep, req),
    [begin
        ok = pinnace_erlzmq:send(Req, Question),
        ?assertEqual({ok, Question}, recv(Rep)),
        ok = pinnace_erlzmq:send(Rep, <<"answer">>),
        ?assertEqual({ok, <<"answer">>}, recv(Req))
     end || Question <- [<<"one">>, <<"two">>]].

closed_sockets(Context) ->
    Socket = new(Context, dealer),
    Active = new(Context, [dealer, {active, true}]),
    Self = self(),
    spawn_link(fun() -> Self ! pinnace_erlzmq:recv(Socket) end),
    ?assertEqual(nothing, nothing()),
    ok = pinnace_erlzmq:close(Socket),
    ok = pinnace_erlzmq:close(Active, 100),
    ?assertEqual({error, enotsock}, next()),
    [?assertEqual({error, enotsock}, Result)
     || Result <- [pinnace_erlzmq:close(Socket), pinnace_erlzmq:close(Active), pinnace_erlzmq:send(Socket, <<"x">>),
                   pinnace_erlzmq:send(Socket, <<"x">>, [sndmore]), pinnace_erlzmq:recv(Socket),
                   pinnace_erlzmq:bind(Socket, "inproc://x"), pinnace_erlzmq:connect(Socket, "inproc://x"),
                   pinnace_erlzmq:setsockopt(Socket, sndhwm, 1), pinnace_erlzmq:getsockopt(Socket, sndhwm),
                   pinnace_erlzmq:setsockopt(Socket, rcvtimeo, 1), pinnace_erlzmq:getsockopt(Socket, rcvmore),
                   pinnace_erlzmq:getsockopt(Socket, rcvtimeo)]].

contexts(_Context) ->
    {ok, Other} = pinnace_erlzmq:context(4),
    Socket = new(Other, pull),
    ok = pinnace_erlzmq:term(Other, 100),
    ok = pinnace_erlzmq:term(Other),
    ?assertEqual({error, enotsock}, pinnace_erlzmq:recv(Socket)),
    ?assertEqual({error, eterm}, pinnace_erlzmq:socket(Other, pull)).

wrong_arguments(Context) ->
    ?assertEqual({error, einval}, pinnace_erlzmq:socket(Context, nonsense)),
    ?assertEqual({error, einval}, pinnace_erlzmq:socket(Context, [])),
    ?assertEqual({error, einval}, pinnace_erlzmq:socket(Context, [pull, push])),
    {Pull, Push} = pair(Context, pull, push),
    ?assertEqual({error, einval}, pinnace_erlzmq:send(Push, <<"x">>, [nonsense])),
    ?assertEqual({error, einval}, pinnace_erlzmq:recv(Pull, [sndmore])),
    ?assertEqual({error, einval}, pinnace_erlzmq:bind(Pull, "nonsense")),
    ?assertEqual({error, eprotonosupport}, pinnace_erlzmq:connect(Push, "nonsense://x")),
    ?assertError(badarg, pinnace_erlzmq:send(Push, nonsense)).

%% It is that of the program, which the call starts.
version_test() ->
    {Major, Minor, Patch} = pinnace_erlzmq:version(),
    ?assertEqual({ok, iolist_to_binary(io_lib:format("~b.~b.~b", [Major, Minor, Patch]))}, pinnace:version()),
    ok = application:stop(pinnace).
