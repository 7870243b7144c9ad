%% Wrong arguments and processes that are killed: an error, and the application goes on.
-module(pinnace_misuse_tests).
-behaviour(supervisor).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").
-include("../src/pinnace_port.hrl").

-export([init/1]).

all_test_() ->
    {foreach, fun waiting:quietly/0, fun waiting:stop/1, each([
        fun wrong_times/1, fun sockets_that_only_send/1, fun options_without_effect/1, fun wrong_events/1,
        fun numbers_out_of_range/1, fun malformed_options/1, fun wrong_flags/1, fun a_small_window/1,
        fun a_window_is_kept/1, fun a_full_mailbox_is_not_filled/1, fun empty_paths/1,
        fun killed_processes_are_told/1])}.

wrong_times(_) ->
    {ok, Pull} = pinnace:socket(pull),
    Port = whereis(pinnace_port),
    [?assertEqual({error, einval}, pinnace:recv(Pull, Timeout)) || Timeout <- [-1, foo, 1.5, 1 bsl 32]],
    ?assertEqual(Port, whereis(pinnace_port)).

sockets_that_only_send(_) ->
    [begin
        {ok, Socket} = pinnace:socket(Type),
        [?assertEqual({error, enotsup}, pinnace:recv(Socket, Timeout)) || Timeout <- [0, 1, infinity]]
    end || Type <- [push, pub, radio, scatter]].

%% The calls have timeouts of their own.
options_without_effect(_) ->
    {ok, Pair} = pinnace:socket(pair),
    [?assertEqual({error, enotsup}, pinnace:setopts(Pair, [{Name, 100}])) || Name <- [rcvtimeo, sndtimeo]].

wrong_events(_) ->
    {ok, Pull} = pinnace:socket(pull),
    Port = whereis(pinnace_port),
    [?assertEqual({error, einval}, pinnace:monitor(Pull, Events)) || Events <- [all, -1, 1 bsl 64, 1.5]],
    ?assertEqual(Port, whereis(pinnace_port)).

numbers_out_of_range(_) ->
    {ok, Pull} = pinnace:socket(pull),
    [?assertEqual({Option, {error, einval}}, {Option, pinnace:setopts(Pull, [Option])})
     || Option <- [{linger, 1 bsl 32}, {sndhwm, (1 bsl 32) + 7}, {linger, -1 bsl 32}, {maxmsgsize, 1 bsl 63},
                   {affinity, 1 bsl 64}, {affinity, -1}, {window, 0}, {window, 1 bsl 32}, {active, 32768}]],
    ?assertEqual(ok, pinnace:setopts(Pull, [{maxmsgsize, -1}, {affinity, (1 bsl 64) - 1}, {linger, -1}])).

%% A socket that is not made takes no descriptor.
malformed_options(_) ->
    Descriptors = fun() ->
        {ok, Socket} = pinnace:socket(pair),
        {ok, #{os_pid := OsPid}} = pinnace:info(Socket),
        ok = pinnace:close(Socket),
        {ok, Names} = file:list_dir(["/proc/", integer_to_list(OsPid), "/fd"]),
        length(Names)
    end,
    Before = Descriptors(),
    [?assertEqual({error, einval}, pinnace:socket(pull, Options))
     || Options <- [[foo], foo, [{foo, 1}], [{"linger", 1}], [{linger}]], _ <- lists:seq(1, 20)],
    until(fun() -> Descriptors() =< Before + 1 end),
    {ok, Pull} = pinnace:socket(pull),
    ?assertEqual({error, einval}, pinnace:setopts(Pull, [foo])),
    ?assertEqual({error, einval}, pinnace:getopts(Pull, [foo])).

wrong_flags(_) ->
    {ok, Push} = pinnace:socket(push),
    [?assertEqual({error, einval}, pinnace:send(Push, <<"x">>, Flags)) || Flags <- [[confirm, nowait], [foo], foo]].

%% With a small window, what is not demanded stays with the peer.
a_small_window(_) ->
    {ok, Push} = pinnace:socket(push, [{sndhwm, 1}]),
    {ok, Endpoint} = pinnace:bind(Push, "tcp://127.0.0.1:*"),
    {ok, Pull} = pinnace:socket(pull, [{window, 1}, {rcvhwm, 1}]),
    ?assertEqual({ok, [{window, 1}]}, pinnace:getopts(Pull, [window])),
    ok = pinnace:connect(Pull, Endpoint),
    Content = binary:copy(<<"x">>, 100),
    _ = spawn_link(fun() -> pinnace:send_many(Push, [[<<Number:32>>, Content] || Number <- lists:seq(1, 1000)]) end),
    [begin
        {ok, [<<Number:32>>, Content]} = pinnace:recv(Pull, ?PATIENCE_MS),
        {ok, #{queued := Queued}} = pinnace:info(Pull),
        ?assert(Queued =< 1)
    end || Number <- lists:seq(1, 1000)].

a_window_is_kept(_) ->
    {ok, Pull} = pinnace:socket(pull, [{window, 1}]),
    {ok, Endpoint} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    {ok, #{os_pid := OsPid}} = pinnace:info(Pull),
    "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    until(fun() -> {ok, #{os_pid := Next}} = pinnace:info(Pull), Next =/= OsPid end),
    {ok, Push} = pinnace:socket(push),
    ok = pinnace:connect(Push, Endpoint),
    ok = pinnace:send_many(Push, [<<"x">> || _ <- lists:seq(1, 100)]),
    [{ok, [<<"x">>]} = pinnace:recv(Pull, ?PATIENCE_MS) || _ <- lists:seq(1, 50)],
    {ok, #{queued := Queued}} = pinnace:info(Pull),
    ?assert(Queued =< 1).

%% What is refused is told in sums, while the owner does not read.
a_full_mailbox_is_not_filled(_) ->
    Count = 50000,
    {ok, Router} = pinnace:socket(router, [{router_mandatory, true}]),
    Messages = [[<<"nobody">>, <<"x">>] || _ <- lists:seq(1, Count)],
    ok = pinnace:send_many(Router, Messages),
    {ok, _} = pinnace:statistics(Router),
    {message_queue_len, Length} = process_info(self(), message_queue_len),
    ?assert(Length =< 10010),
    ?assertEqual(Count, told(Router, Count)).

told(_Socket, 0) ->
    0;
told(Socket, Left) ->
    receive {pinnace_unsent, Socket, Count, _} -> Count + told(Socket, Left - Count)
    after ?PATIENCE_MS -> 0
    end.

empty_paths(_) ->
    {ok, Server} = pinnace_files:start_server(#{endpoints => ["tcp://127.0.0.1:*"]}),
    {ok, [Endpoint]} = pinnace_files:endpoints(Server),
    {ok, Client} = pinnace_files:start_client(Endpoint),
    ?assertEqual({error, einval}, pinnace_files:get(Client, "/data/", "")),
    ?assertEqual({error, einval}, pinnace_files:put(Client, "", "/data/")),
    ?assertEqual({error, einval}, pinnace_files:put(Client, <<>>, "/data/")),
    ok = pinnace_files:stop(Client),
    ok = pinnace_files:stop(Server).

%% If a process of the application is killed, owners learn what was not taken.
killed_processes_are_told(_) ->
    Count = 100,
    [begin
        {ok, Push} = pinnace:socket(push),
        {ok, _} = pinnace:bind(Push, "inproc://nobody"),
        ok = pinnace:send_many(Push, [<<"x">> || _ <- lists:seq(1, Count)]),
        {ok, #{os_pid := OsPid}} = pinnace:info(Push),
        exit(whereis(Process), kill),
        until(fun() ->
            case pinnace:info(Push) of
                {ok, #{os_pid := Next}} -> Next =/= OsPid;
                {error, _} -> false
            end
        end),
        ?assertEqual({Process, Count}, {Process, told(Push, Count)}),
        ok = pinnace:close(Push)
    end || Process <- [pinnace_port, pinnace_writer, pinnace_sender]].

init([]) ->
    {ok, {#{}, [pinnace_sup:child_spec()]}}.

%% `czmq' and `pinnace_erlzmq' use the processes that a supervisor of the test has started.
own_supervisor_test() ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, []),
    {ok, Context} = czmq:start(),
    {ok, _} = czmq:zsocket_new(Context, pull),
    ok = czmq:terminate(Context),
    {ok, Other} = pinnace_erlzmq:context(),
    {_, _, _} = pinnace_erlzmq:version(),
    ok = pinnace_erlzmq:term(Other),
    unlink(Supervisor),
    ok = gen_server:stop(Supervisor).
