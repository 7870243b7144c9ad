%% Bad days: the program dies, is stopped, is not there, or is none.
-module(pinnace_faults_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

-import(waiting, [pair/1]).

-export([log/2]).

faults_test_() ->
    Tests = [fun sockets_come_back/0, fun callers_learn_that_it_died/0, fun a_stopped_program_is_replaced/0,
             fun what_was_not_taken_is_told/0, fun too_many_deaths/0, fun owners_that_die/0, fun many_senders/0,
             fun many_sockets/0, fun code_is_loaded_under_load/0, fun subscriptions_come_back/0,
             fun closed_while_it_is_made_again/0, fun modes_come_back/0, fun an_endpoint_in_use_is_bound_later/0,
             fun an_endpoint_in_use_is_unbound/0],
    {foreach, fun waiting:quietly/0, fun waiting:stop/1, [{timeout, waiting:limit_s(), Test} || Test <- Tests]}.

os_pid() ->
    {_Port, OsPid} = element(2, sys:get_state(pinnace_port)),
    integer_to_list(OsPid).

signal(Signal) ->
    OsPid = os_pid(),
    "" = os:cmd("kill -" ++ Signal ++ " " ++ OsPid),
    OsPid.

%% Kills the program, and waits until it is gone. The first SIGSEGV that is sent by another process is survived: Rust's
%% handler takes it for a fault that comes again.
kill(Signal) ->
    OsPid = os_pid(),
    Kill = "kill -" ++ Signal ++ " " ++ OsPid ++ " 2> /dev/null",
    until(fun() -> _ = os:cmd(Kill), is_gone(OsPid) end),
    OsPid.

%% There is no such process, or it is not the program any more.
is_gone(OsPid) ->
    file:read_file("/proc/" ++ OsPid ++ "/comm") =/= {ok, <<"pinnace-port\n">>}.

%% Twenty sockets under load. Each message has a number: none comes twice, and all pairs work again after each kill.
sockets_come_back() ->
    ok = application:set_env(pinnace, restart_intensity, {1000, 10}),
    Pairs = [pair("tcp://127.0.0.1:*") || _ <- lists:seq(1, 10)],
    Self = self(),
    Receivers = [spawn_link(fun() -> collect(Pull, 0, Self) end) || {Pull, _} <- Pairs],
    Senders = [spawn_link(fun() -> load(Push, 1) end) || {_, Push} <- Pairs],
    Count = case waiting:is_long() of true -> 100; false -> 10 end,
    Times = lists:sort([kill_and_wait(Signal, Receivers)
                        || Number <- lists:seq(1, Count), Signal <- [element(Number rem 2 + 1, {"SEGV", "KILL"})]]),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Senders ++ Receivers],
    Median = lists:nth((Count + 1) div 2, Times),
    io:format(user, "~b kills: all sockets are back after ~b ms (median), ~b ms (the most)~n",
              [Count, Median, lists:last(Times)]),
    %% In the short form the machine is busy with other tests.
    ?assert(not waiting:is_long() orelse (Median =< 100 andalso lists:last(Times) =< 2000)).

load(Push, Number) ->
    _ = pinnace:send(Push, <<Number:64>>),
    load(Push, Number + 1).

%% Numbers come in order, and none twice.
collect(Pull, Last, Parent) ->
    receive {tell, Reference} -> wait_for_next(Pull, Last, Parent, Reference)
    after 0 ->
        case pinnace:recv(Pull, 10) of
            {ok, [<<Number:64>>]} when Number > Last -> collect(Pull, Number, Parent);
            {error, timeout} -> collect(Pull, Last, Parent)
        end
    end.

wait_for_next(Pull, Last, Parent, Reference) ->
    {ok, [<<Number:64>>]} = pinnace:recv(Pull, ?PATIENCE_MS),
    true = Number > Last,
    Parent ! Reference,
    collect(Pull, Number, Parent).

%% Milliseconds until each receiver has got a message that was sent after the kill was noticed.
kill_and_wait(Signal, Receivers) ->
    OsPid = kill(Signal),
    Began = erlang:monotonic_time(millisecond),
    until(fun() -> os_pid() =/= OsPid end),
    References = [begin Reference = make_ref(), Pid ! {tell, Reference}, Reference end || Pid <- Receivers],
    [receive Reference -> ok after ?PATIENCE_MS -> error(not_back) end || Reference <- References],
    erlang:monotonic_time(millisecond) - Began.

callers_learn_that_it_died() ->
    {Pull, _Push} = pair("inproc://callers"),
    Self = self(),
    %% The program is stopped, so that the request is under way when it is killed.
    OsPid = signal("STOP"),
    spawn_link(fun() -> Self ! {bind, pinnace:bind(Pull, "tcp://127.0.0.1:*")} end),
    spawn_link(fun() -> Self ! {new, pinnace:socket(push)} end),
    until(fun() -> map_size(element(4, sys:get_state(pinnace_port))) >= 2 end),
    "" = os:cmd("kill -KILL " ++ OsPid),
    [receive {What, Result} -> ?assertEqual({error, port_crashed}, Result) after ?PATIENCE_MS -> error(late) end
     || What <- [bind, new]],
    ?assertMatch({ok, _}, pinnace:bind(Pull, "tcp://127.0.0.1:*")).

a_stopped_program_is_replaced() ->
    ok = application:stop(pinnace),
    ok = application:set_env(pinnace, ping_ms, 100),
    Begin = erlang:monotonic_time(millisecond),
    ok = application:start(pinnace),
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    OsPid = signal("STOP"),
    until(fun() -> is_gone(OsPid) end),
    %% The first ping does not come after the default time.
    ?assert(erlang:monotonic_time(millisecond) - Begin < 5000),
    %% What the dead one got is lost.
    until(fun() ->
        ok = pinnace:send(Push, <<"again">>),
        pinnace:recv(Pull, 100) =:= {ok, [<<"again">>]}
    end).

what_was_not_taken_is_told() ->
    {ok, Push} = pinnace:socket(push),
    ok = pinnace:send_many(Push, lists:duplicate(2500, <<"x">>)),
    {ok, #{sent := _}} = pinnace:statistics(Push),
    _ = kill("KILL"),
    receive {pinnace_unsent, Push, 2500, port_crashed} -> ok after ?PATIENCE_MS -> error(not_told) end,
    %% There is room again.
    ?assertEqual(ok, pinnace:send_many(Push, lists:duplicate(2500, <<"x">>))).

subscriptions_come_back() ->
    {ok, Pub} = pinnace:socket(xpub),
    {ok, Sub} = pinnace:socket(sub),
    {ok, Endpoint} = pinnace:bind(Pub, "tcp://127.0.0.1:*"),
    [ok = pinnace:subscribe(Sub, Topic) || Topic <- ["a", "b", "c"]],
    ok = pinnace:unsubscribe(Sub, "b"),
    ok = pinnace:connect(Sub, Endpoint),
    Topics = fun() -> lists:sort([element(2, pinnace:recv(Pub, ?PATIENCE_MS)) || _ <- [1, 2]]) end,
    ?assertEqual([[<<1, "a">>], [<<1, "c">>]], Topics()),
    _ = kill("SEGV"),
    ?assertEqual([[<<1, "a">>], [<<1, "c">>]], Topics()),
    ok = pinnace:send(Pub, <<"c: news">>),
    ?assertEqual({ok, [<<"c: news">>]}, pinnace:recv(Sub, ?PATIENCE_MS)).

%% A socket is closed after another program was asked to make it again, and before the answer.
closed_while_it_is_made_again() ->
    {Pull, Push} = pair("inproc://closed"),
    Port = whereis(pinnace_port),
    OsPid = os_pid(),
    ok = sys:suspend(Port),
    "" = os:cmd("kill -KILL " ++ OsPid),
    until(fun() -> is_queued(Port, fun(Message) -> is_port(element(1, Message)) end) end),
    Self = self(),
    spawn_link(fun() -> Self ! {closed, pinnace:close(Push)} end),
    until(fun() -> is_queued(Port, fun(Message) -> element(1, Message) =:= '$gen_call' end) end),
    ok = sys:resume(Port),
    receive {closed, Result} -> ?assertEqual(ok, Result) after ?PATIENCE_MS -> error(late) end,
    ?assertEqual(Port, whereis(pinnace_port)),
    ?assertEqual({error, eagain}, pinnace:recv(Pull, 0)).

%% The process of the port gives up, and its supervisor starts another: sockets are as they were.
modes_come_back() ->
    ok = application:set_env(pinnace, restart_intensity, {0, 60}),
    {Pull, Push} = pair("inproc://modes"),
    {ok, Other} = pinnace:socket(pull, [{copy, 7}]),
    {ok, Monitor} = pinnace:monitor(Other),
    ok = pinnace:setopts(Pull, [{active, 3}, {deliver, batch}]),
    Port = whereis(pinnace_port),
    _ = kill("KILL"),
    until(fun() -> not lists:member(whereis(pinnace_port), [Port, undefined]) end),
    %% Until it is made again, a socket is not closed.
    until(fun() ->
        case pinnace:getopts(Other, [copy]) of
            {ok, [{copy, 7}]} -> true;
            {error, port_crashed} -> false
        end
    end),
    ok = pinnace:send_many(Push, [<<"1">>, <<"2">>, <<"3">>, <<"4">>]),
    [receive {pinnace_batch, Pull, [[Message]]} -> ok after ?PATIENCE_MS -> error(Message) end
     || Message <- [<<"1">>, <<"2">>, <<"3">>]],
    receive {pinnace_passive, Pull} -> ok after ?PATIENCE_MS -> error(passive) end,
    ?assertEqual({ok, [<<"4">>]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    ?assertMatch({ok, #{active := true}}, pinnace:info(Monitor)).

%% Another program takes the port of a socket before it is made again: that is logged, and it is bound in the end.
an_endpoint_in_use_is_bound_later() ->
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    {Endpoint, Other} = port_is_taken(Pull),
    ok = gen_tcp:close(Other),
    ok = pinnace:send(Push, <<"again">>),
    ?assertEqual({ok, [<<"again">>]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    ?assertMatch({ok, #{bound := [Endpoint]}}, pinnace:info(Pull)).

%% A socket that waits for its port does not get it after it was unbound.
an_endpoint_in_use_is_unbound() ->
    {Pull, _Push} = pair("tcp://127.0.0.1:*"),
    {Endpoint, Other} = port_is_taken(Pull),
    ?assertEqual({error, enoent}, pinnace:unbind(Pull, "tcp://127.0.0.1:1")),
    ?assertEqual(ok, pinnace:unbind(Pull, Endpoint)),
    ?assertEqual({error, enoent}, pinnace:unbind(Pull, Endpoint)),
    ?assertMatch({ok, #{bound := []}}, pinnace:info(Pull)),
    ok = gen_tcp:close(Other).

%% The program of a bound socket dies, and its port is taken. Returns when that was logged.
port_is_taken(Pull) ->
    {ok, #{bound := [<<"tcp://127.0.0.1:", Number/binary>> = Endpoint]}} = pinnace:info(Pull),
    ok = logger:set_handler_config(default, level, none),
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => self()}),
    ok = logger:set_primary_config(level, error),
    Port = whereis(pinnace_port),
    OsPid = os_pid(),
    ok = sys:suspend(Port),
    "" = os:cmd("kill -KILL " ++ OsPid),
    Listen = fun() -> gen_tcp:listen(binary_to_integer(Number), [{ip, {127, 0, 0, 1}}, {reuseaddr, true}]) end,
    {ok, Other} = result(fun() -> case Listen() of {error, eaddrinuse} -> error; Made -> Made end end),
    ok = sys:resume(Port),
    Told = unicode:characters_to_list(["pinnace: ", Endpoint, " is in use"]),
    try until(fun() -> receive {logged, Text} -> string:prefix(Text, Told) =/= nomatch after 0 -> false end end)
    after
        ok = logger:remove_handler(?MODULE),
        ok = logger:set_handler_config(default, level, all)
    end,
    {Endpoint, Other}.

%% A handler of `logger' that passes on texts.
log(#{msg := {Format, Values}}, #{config := Pid}) when is_list(Values) ->
    Pid ! {logged, lists:flatten(io_lib:format(Format, Values))};
log(_Event, _Config) ->
    ok.

is_queued(Pid, Is) ->
    {messages, Messages} = process_info(Pid, messages),
    lists:any(Is, Messages).

%% A program that dies again and again is not started for ever: the application ends.
too_many_deaths() ->
    ok = application:set_env(pinnace, restart_intensity, {2, 60}),
    Monitor = monitor(process, pinnace_sup),
    Kill = fun Kill() ->
        receive {'DOWN', Monitor, process, _, shutdown} -> ok
        after 0 ->
            _ = catch signal("KILL"),
            Kill()
        end
    end,
    ok = Kill(),
    ?assertEqual({error, not_started}, pinnace:socket(pull)).

owners_that_die() ->
    {Pull, _} = pair("inproc://owners"),
    Owners = [spawn(fun() ->
        {ok, Push} = pinnace:socket(push),
        ok = pinnace:connect(Push, "inproc://owners"),
        load(Push, 1)
    end)
              || _ <- lists:seq(1, 20)],
    [{ok, _} = pinnace:recv(Pull, ?PATIENCE_MS) || _ <- lists:seq(1, 1000)],
    [exit(Owner, kill) || Owner <- Owners],
    until(fun() -> ets:info(pinnace_sockets, size) =:= 2 end),
    ?assertEqual(2, ets:info(pinnace_specs, size)).

%% A thousand processes send a thousand messages each.
many_senders() ->
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    {Processes, Each} = case waiting:is_long() of true -> {1000, 1000}; false -> {1000, 100} end,
    [spawn_link(fun() -> [ok = pinnace:send(Push, <<Process:32, Number:32>>) || Number <- lists:seq(1, Each)] end)
     || Process <- lists:seq(1, Processes)],
    Count = fun Count(0, Last) -> Last;
                Count(Left, Last) ->
                    {ok, [<<Process:32, Number:32>>]} = pinnace:recv(Pull, ?PATIENCE_MS),
                    ?assertEqual(Number - 1, maps:get(Process, Last, 0)),
                    Count(Left - 1, Last#{Process => Number})
            end,
    Last = Count(Processes * Each, #{}),
    ?assertEqual([Each], lists:usort(maps:values(Last))).

many_sockets() ->
    Count = 1000,
    Sockets = [element(2, pinnace:socket(pair)) || _ <- lists:seq(1, Count)],
    [ok = case Number rem 2 of
        1 -> element(1, pinnace:bind(Socket, ["inproc://", integer_to_list(Number)]));
        0 -> pinnace:connect(Socket, ["inproc://", integer_to_list(Number - 1)])
     end || {Number, Socket} <- lists:enumerate(Sockets)],
    [ok = pinnace:send(Socket, <<"x">>) || Socket <- Sockets],
    [{ok, [<<"x">>]} = pinnace:recv(Socket, ?PATIENCE_MS) || Socket <- Sockets],
    {error, emfile} = until_error(23 + Count).

%% The limit of a context's sockets is an error.
until_error(0) ->
    ok;
until_error(Left) ->
    case pinnace:socket(pair) of
        {ok, _} -> until_error(Left - 1);
        Error -> Error
    end.

%% Another process receives all the time: a sender that waits for room would stay in the old code.
code_is_loaded_under_load() ->
    {Pull, Push} = pair("tcp://127.0.0.1:*"),
    Received = counters:new(1, []),
    Receiver = spawn_link(fun() -> in_order(Pull, 1, Received) end),
    Sender = spawn_link(fun() -> load(Push, 1) end),
    [begin
        Before = counters:get(Received, 1),
        [begin until(fun() -> code:soft_purge(Module) end), {module, Module} = code:load_file(Module) end
         || Module <- [pinnace, pinnace_port, pinnace_sock, pinnace_sender, pinnace_writer, pinnace_large,
                       pinnace_wire, pinnace_error]],
        until(fun() -> counters:get(Received, 1) > Before + 1000 end)
     end || _ <- lists:seq(1, case waiting:is_long() of true -> 20; false -> 3 end)],
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- [Sender, Receiver]].

in_order(Pull, Number, Received) ->
    {ok, [<<Number:64>>]} = pinnace:recv(Pull, ?PATIENCE_MS),
    ok = counters:add(Received, 1, 1),
    in_order(Pull, Number + 1, Received).

%% Programs that are none.
wrong_programs_test_() ->
    {setup, fun() -> logger:set_primary_config(level, none) end, fun(_) -> logger:set_primary_config(level, notice) end,
     [{timeout, 60, Test} || Test <- [fun missing/0, fun not_executable/0, fun nonsense/0, fun too_old/0,
                                      fun ends_at_once/0]]}.

%% The reason why the application does not start with this program.
reason(Program) ->
    Before = os:getenv("PINNACE_PORT"),
    true = os:putenv("PINNACE_PORT", Program),
    {error, {pinnace, {{shutdown, {failed_to_start_child, pinnace_port, Reason}}, _}}} =
        application:ensure_all_started(pinnace),
    true = case Before of false -> os:unsetenv("PINNACE_PORT"); _ -> os:putenv("PINNACE_PORT", Before) end,
    ?assert(io_lib:printable_list(pinnace:format_error(Reason))),
    Reason.

script(Text) ->
    Name = filename:join("/tmp", "pinnace-port-" ++ os:getpid()),
    ok = file:write_file(Name, ["#!/bin/sh\n", Text]),
    ok = file:change_mode(Name, 8#755),
    Reason = reason(Name),
    ok = file:delete(Name),
    Reason.

missing() ->
    ?assertEqual({port_not_started, "/nonexistent", enoent}, reason("/nonexistent")).

not_executable() ->
    Name = filename:join("/tmp", "pinnace-port-" ++ os:getpid()),
    ok = file:write_file(Name, <<>>),
    ?assertEqual({port_not_started, Name, eacces}, reason(Name)),
    ok = file:delete(Name).

nonsense() ->
    ?assertEqual(port_protocol, script("printf '\\0\\0\\0\\2no'; cat\n")).

too_old() ->
    ?assertEqual(port_version, script("printf '\\0\\0\\0\\025\\201pinnace-port\\0\\2\\0\\39.99'; cat\n")).

ends_at_once() ->
    ?assertEqual({port_exit, 3}, script("exit 3\n")).
