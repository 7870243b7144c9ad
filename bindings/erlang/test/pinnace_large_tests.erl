%% Messages that are larger than a packet: what goes on beside them, and what becomes of them when a process dies.
-module(pinnace_large_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

-import(waiting, [pair/1]).
-include("../src/pinnace_port.hrl").

large_test_() ->
    Tests = [fun others_go_on/0, fun messages_are_not_mixed/0, fun a_sender_dies_between_parts/0,
             fun the_program_dies_between_parts/0, fun the_program_stops_between_parts/0,
             fun the_socket_is_closed_between_parts/0, fun the_order_of_a_sender_is_kept/0, fun nobody_waits/0],
    {foreach, fun waiting:quietly/0, fun waiting:stop/1, [{timeout, waiting:limit_s(), Test} || Test <- Tests]}.

os_pid(Socket) ->
    {ok, #{os_pid := OsPid}} = pinnace:info(Socket),
    OsPid.

signal(Signal, OsPid) ->
    "" = os:cmd("kill -" ++ Signal ++ " " ++ integer_to_list(OsPid)),
    ok.

%% A message whose parts do not fit into the pipe and the port's queue together.
large() ->
    large(1 bsl 20).

large(Count) ->
    binary:copy(<<"0123456789abcdef">>, Count).

%% It takes longer than the time between two pings in the long form. Meanwhile another socket's messages come and go,
%% and the program is not taken for dead.
others_go_on() ->
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    {Pull2, Push2} = pair("inproc://other"),
    Large = large(case waiting:is_long() of true -> 1 bsl 26; false -> 1 bsl 24 end),
    OsPid = os_pid(Push),
    Sender = spawn_link(fun() -> ok = pinnace:send(Push, Large) end),
    Monitor = monitor(process, Sender),
    Ended = fun() -> receive {'DOWN', Monitor, _, _, Why} -> Why after 0 -> none end end,
    {normal, Sent} = trips(Push2, Pull2, Ended, 0),
    Self = self(),
    spawn_link(fun() -> Self ! {got, pinnace:recv(Pull, 10 * ?PATIENCE_MS)} end),
    {Got, Received} = trips(Push2, Pull2, fun() -> receive {got, Result} -> Result after 0 -> none end end, 0),
    ?assert(Got =:= {ok, [Large]}),
    %% Many more, if the machine is not busy.
    Least = byte_size(Large) div (1 bsl 25),
    ?assert(Sent >= Least),
    ?assert(Received >= Least),
    ?assertEqual(OsPid, os_pid(Push)).

%% Messages there and back until something has happened. Returns what, and their number.
trips(Push, Pull, Happened, Count) ->
    case Happened() of
        none ->
            ok = pinnace:send(Push, <<Count:32>>),
            ?assertEqual({ok, [<<Count:32>>]}, pinnace:recv(Pull, ?PATIENCE_MS)),
            trips(Push, Pull, Happened, Count + 1);
        What ->
            {What, Count}
    end.

%% With this size there is room left for a second message while the parts of the first are passed.
messages_are_not_mixed() ->
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    Size = 1048576 - 8,
    [spawn_link(fun() -> [ok = pinnace:send(Push, binary:copy(<<Octet>>, Size)) || _ <- lists:seq(1, 20)] end)
     || Octet <- lists:seq(1, 8)],
    Received = [element(2, pinnace:recv(Pull, ?PATIENCE_MS)) || _ <- lists:seq(1, 160)],
    Whole = [Octet || [<<Octet, _/binary>> = Message] <- Received, Message =:= binary:copy(<<Octet>>, Size)],
    ?assertEqual(lists:append([lists:duplicate(20, Octet) || Octet <- lists:seq(1, 8)]), lists:sort(Whole)).

%% Begins to send a message to a program that is stopped, until the port is busy.
begin_to_send(Push, Large) ->
    OsPid = os_pid(Push),
    ok = signal("STOP", OsPid),
    Self = self(),
    Sender = spawn(fun() -> Self ! {sent, pinnace:send(Push, Large)} end),
    until(fun() -> process_info(Sender, status) =:= {status, suspended} end),
    {OsPid, Sender}.

%% The channel is as before, also its room.
a_sender_dies_between_parts() ->
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    {ok, #{room := Room}} = pinnace:info(Push),
    {OsPid, Sender} = begin_to_send(Push, large()),
    exit(Sender, kill),
    ok = signal("CONT", OsPid),
    until(fun() -> {ok, #{room := Now}} = pinnace:info(Push), Now =:= Room end),
    ok = pinnace:send(Push, <<"small">>),
    ?assertEqual({ok, [<<"small">>]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    ok = pinnace:send(Push, large()),
    ?assertEqual({ok, [large()]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    ?assertEqual(OsPid, os_pid(Push)).

%% The message arrives by the next program, once, and is not told to be lost.
the_program_dies_between_parts() ->
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    {OsPid, _} = begin_to_send(Push, large()),
    ok = signal("KILL", OsPid),
    arrives_once(Pull, Push, OsPid).

arrives_once(Pull, Push, OsPid) ->
    receive {sent, Result} -> ?assertEqual(ok, Result) after ?PATIENCE_MS -> error(late) end,
    ?assertEqual({ok, [large()]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    ok = pinnace:send(Push, <<"last">>),
    ?assertEqual({ok, [<<"last">>]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    receive {pinnace_unsent, _, _, _} = Unsent -> error(Unsent) after 0 -> ok end,
    ?assert(OsPid =/= os_pid(Push)).

%% The port is busy and stays so: that the program has stopped is found nevertheless, whatever is asked of it.
the_program_stops_between_parts() ->
    ok = application:stop(pinnace),
    ok = application:set_env(pinnace, ping_ms, 200),
    ok = application:start(pinnace),
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    {OsPid, _} = begin_to_send(Push, large()),
    ?assertEqual({error, port_crashed}, pinnace:getopts(Push, [sndhwm])),
    arrives_once(Pull, Push, OsPid).

the_socket_is_closed_between_parts() ->
    {_Pull, Push} = pair("tcp://127.0.0.1:*"),
    {OsPid, _} = begin_to_send(Push, large()),
    Self = self(),
    spawn_link(fun() -> Self ! {closed, pinnace:close(Push)} end),
    {pinnace_socket, Id, _} = Push,
    until(fun() -> not ets:member(?SOCKETS, Id) end),
    ok = signal("CONT", OsPid),
    receive {closed, Closed} -> ?assertEqual(ok, Closed) after ?PATIENCE_MS -> error(late) end,
    receive {sent, Sent} -> ?assertEqual({error, closed}, Sent) after ?PATIENCE_MS -> error(late) end.

%% Small messages before it are gathered, and those behind it are not sent before it.
the_order_of_a_sender_is_kept() ->
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    Small = [<<Number:32>> || Number <- lists:seq(1, 100)],
    Large = large(1 bsl 17),
    spawn_link(fun() ->
        [begin
            [ok = pinnace:send(Push, Message) || Message <- Small],
            ok = pinnace:send(Push, Large)
        end || _ <- lists:seq(1, 5)]
    end),
    [?assertEqual({ok, [Message]}, pinnace:recv(Pull, ?PATIENCE_MS))
     || _ <- lists:seq(1, 5), Message <- Small ++ [Large]].

%% Without room, and with room while another message is passed in parts.
nobody_waits() ->
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    {_Pull2, Push2} = pair("tcp://127.0.0.1:*"),
    {ok, #{room := Room}} = pinnace:info(Push),
    {OsPid, _} = begin_to_send(Push2, large()),
    ?assertEqual({error, eagain}, pinnace:send(Push2, large(), [nowait])),
    LeavesRoom = binary:copy(<<"x">>, Room - 8),
    Sender = spawn_link(fun() -> ok = pinnace:send(Push, LeavesRoom) end),
    until(fun() -> process_info(Sender, status) =:= {status, suspended} end),
    ?assertEqual({error, eagain}, pinnace:send(Push, LeavesRoom, [nowait])),
    ok = signal("CONT", OsPid),
    ?assertEqual({ok, [LeavesRoom]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    until(fun() -> {ok, #{room := Now}} = pinnace:info(Push), Now =:= Room end),
    ?assertEqual(ok, pinnace:send(Push, LeavesRoom, [nowait])),
    ?assertEqual({ok, [LeavesRoom]}, pinnace:recv(Pull, ?PATIENCE_MS)).
