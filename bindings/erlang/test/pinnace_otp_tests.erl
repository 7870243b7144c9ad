%% What OTP expects of an application: supervisors, other nodes, what is known of a socket.
-module(pinnace_otp_tests).
-behaviour(supervisor).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

-export([init/1]).


init([]) ->
    {ok, {#{}, [pinnace_sup:child_spec()]}}.

%% The processes run below the supervisor of somebody else, and end with it. The application is not started.
own_supervisor_test() ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, []),
    ?assertNot(lists:keymember(pinnace, 1, application:which_applications())),
    {ok, Pull} = pinnace:socket(pull),
    {ok, Push} = pinnace:socket(push),
    {ok, _} = pinnace:bind(Pull, "inproc://own"),
    ok = pinnace:connect(Push, "inproc://own"),
    ok = pinnace:send(Push, <<"x">>),
    ?assertEqual({ok, [<<"x">>]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    {ok, #{os_pid := OsPid}} = pinnace:info(Pull),
    unlink(Supervisor),
    ok = gen_server:stop(Supervisor),
    ?assertEqual({error, not_started}, pinnace:socket(pull)),
    until(fun() -> file:read_file(["/proc/", integer_to_list(OsPid), "/comm"]) =/= {ok, <<"pinnace-port\n">>} end).

started_test_() ->
    Tests = [fun info_is_a_map/0, fun info_of_a_monitor/0, fun other_nodes_are_refused/0],
    {foreach, fun() -> {ok, _} = application:ensure_all_started(pinnace) end,
     fun(_) -> ok = application:stop(pinnace) end, [{timeout, 60, Test} || Test <- Tests]}.

info_is_a_map() ->
    {ok, Push} = pinnace:socket(push),
    {ok, Pull} = pinnace:socket(pull),
    {ok, Bound} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    {ok, Other} = pinnace:bind(Pull, "inproc://other"),
    ok = pinnace:connect(Push, Bound),
    Self = self(),
    {ok, #{room := Room} = Info} = pinnace:info(Push),
    ?assertMatch(#{type := push, owner := Self, active := false, queued := 0, bound := [], connected := [Bound]}, Info),
    ?assert(Room > 0),
    ok = pinnace:send_many(Push, [<<"a">>, <<"b">>, <<"c">>]),
    until(fun() -> {ok, #{queued := Queued}} = pinnace:info(Pull), Queued =:= 3 end),
    {ok, [<<"a">>]} = pinnace:recv(Pull, ?PATIENCE_MS),
    ?assertMatch({ok, #{type := pull, queued := 2, bound := [Bound, Other], connected := []}}, pinnace:info(Pull)),
    ok = pinnace:unbind(Pull, Bound),
    ok = pinnace:setopts(Pull, [{active, 7}]),
    ?assertMatch({ok, #{active := 5, queued := 0, bound := [Other]}}, pinnace:info(Pull)),
    {ok, #{os_pid := OsPid}} = pinnace:info(Pull),
    ?assertEqual({ok, <<"pinnace-port\n">>}, file:read_file(["/proc/", integer_to_list(OsPid), "/comm"])),
    ok = pinnace:close(Pull),
    ?assertEqual({error, closed}, pinnace:info(Pull)).

info_of_a_monitor() ->
    {ok, Pull} = pinnace:socket(pull),
    {ok, Monitor} = pinnace:monitor(Pull),
    ?assertMatch({ok, #{type := monitor, active := true, room := 0}}, pinnace:info(Monitor)).

%% The handle of a socket of another node: its pid is of that node.
other_nodes_are_refused() ->
    {ok, Pull} = pinnace:socket(pull),
    Theirs = setelement(3, Pull, binary_to_term(<<131, 88, 119, 10, "other@host", 1:32, 0:32, 1:32>>)),
    ?assertEqual('other@host', node(element(3, Theirs))),
    [?assertEqual({error, remote_node}, Result)
     || Result <- [pinnace:send(Theirs, <<"x">>), pinnace:send(Theirs, <<"x">>, [nowait]),
                   pinnace:send_many(Theirs, [<<"x">>]), pinnace:recv(Theirs), pinnace:recv(Theirs, 0),
                   pinnace:bind(Theirs, "inproc://x"), pinnace:connect(Theirs, "inproc://x"),
                   pinnace:unbind(Theirs, "inproc://x"), pinnace:disconnect(Theirs, "inproc://x"),
                   pinnace:setopts(Theirs, [{active, true}]), pinnace:setopts(Theirs, [{nonsense, 1}]),
                   pinnace:getopts(Theirs, [active]), pinnace:getopts(Theirs, [type]), pinnace:subscribe(Theirs, "x"),
                   pinnace:join(Theirs, "x"), pinnace:statistics(Theirs), pinnace:monitor(Theirs),
                   pinnace:info(Theirs), pinnace:controlling_process(Theirs, self()), pinnace:close(Theirs)]],
    %% What is no socket is an error of the caller.
    ?assertError(_, pinnace:close({pinnace_socket, 1})),
    ?assertMatch({ok, _}, pinnace:info(Pull)).
