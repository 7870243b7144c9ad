%% A program whose packets are wrong: the node lives, callers get errors, and the program is started again or given up.
-module(pinnace_mutation_tests).

-include_lib("eunit/include/eunit.hrl").

%% How often the program may end.
-define(DEATHS, 4).
-define(PROGRAMS, 5).
-define(PATIENCE_MS, 20000).

mutations_test_() ->
    {setup, fun start/0, fun stop/1, fun(_) -> {timeout, 3000, fun many_seeds/0} end}.

start() ->
    ok = logger:set_primary_config(level, none),
    _ = application:load(pinnace),
    ok = application:set_env(pinnace, restart_intensity, {?DEATHS, 3600}),
    Before = os:getenv("PINNACE_PORT"),
    true = os:putenv("PINNACE_PORT", program()),
    Before.

stop(Before) ->
    true = case Before of false -> os:unsetenv("PINNACE_PORT"); _ -> os:putenv("PINNACE_PORT", Before) end,
    [true = os:unsetenv(Name) || Name <- ["MUTATION_COUNT", "MUTATION_SEED"]],
    ok = application:unset_env(pinnace, restart_intensity),
    ok = logger:set_primary_config(level, notice).

%% Beside the source of this module.
program() ->
    Source = proplists:get_value(source, ?MODULE:module_info(compile)),
    filename:join(filename:dirname(Source), "mutated-port").

%% MUTATION_FIRST repeats the runs from a seed on.
many_seeds() ->
    IsLong = waiting:is_long(),
    First = case os:getenv("MUTATION_FIRST") of
        false when IsLong -> rand:uniform(1 bsl 30);
        false -> 1;
        Text -> list_to_integer(Text)
    end,
    Count = if IsLong -> 200; true -> 5 end,
    io:format(user, "mutated packets: MUTATION_FIRST=~b, ~b seeds~n", [First, Count]),
    [?assertMatch({Seed, {{port_crashed, _}, ?PROGRAMS}}, {Seed, one_seed(Seed)})
     || Seed <- lists:seq(First, First + Count - 1)].

%% Why the process gave up, and how many programs it has started.
one_seed(Seed) ->
    Counter = filename:join("/tmp", "pinnace-mutations-" ++ os:getpid()),
    ok = file:write_file(Counter, <<>>),
    true = os:putenv("MUTATION_SEED", integer_to_list(Seed)),
    true = os:putenv("MUTATION_COUNT", Counter),
    _ = rand:seed(exsss, Seed),
    Self = self(),
    %% Not below the supervisor, which would start it again.
    {Pid, Monitor} = spawn_monitor(fun() ->
        process_flag(trap_exit, true),
        {ok, _} = pinnace_registry:start_link(),
        {ok, _} = pinnace_sender:start_link(),
        {ok, Port} = pinnace_port:start_link(),
        Self ! started,
        receive {'EXIT', Port, Reason} -> exit({gave_up, Reason}) end
    end),
    receive started -> ok after ?PATIENCE_MS -> error({not_started, Seed}) end,
    ok = call_until_none([], erlang:monotonic_time(millisecond) + ?PATIENCE_MS),
    Ended = receive {'DOWN', Monitor, process, Pid, {gave_up, Reason}} -> Reason after ?PATIENCE_MS -> stuck end,
    {ok, Programs} = file:read_file(Counter),
    ok = file:delete(Counter),
    until_gone([pinnace_registry, pinnace_sender], erlang:monotonic_time(millisecond) + ?PATIENCE_MS),
    flush(),
    {Ended, binary_to_integer(Programs)}.

until_gone(Names, Deadline) ->
    case [Name || Name <- Names, whereis(Name) =/= undefined] of
        [] -> ok;
        Left ->
            ?assert(erlang:monotonic_time(millisecond) < Deadline),
            until_gone(Left, Deadline)
    end.

flush() ->
    receive _ -> flush() after 0 -> ok end.

%% Calls all kinds of functions until there is no program. Each returns, with a result of its type.
call_until_none(Sockets, Deadline) ->
    ?assert(erlang:monotonic_time(millisecond) < Deadline),
    case call(rand:uniform(12), Sockets) of
        {ok, Socket} when element(1, Socket) =:= pinnace_socket -> call_until_none([Socket | Sockets], Deadline);
        {ok, _} -> call_until_none(Sockets, Deadline);
        ok -> call_until_none(Sockets, Deadline);
        {error, not_started} -> ok;
        {error, Reason} when is_atom(Reason) -> call_until_none(Sockets, Deadline);
        {error, {errno, _}} -> call_until_none(Sockets, Deadline)
    end.

call(_, []) -> pinnace:socket(pull);
call(Which, Sockets) ->
    Socket = lists:nth(rand:uniform(length(Sockets)), Sockets),
    case Which of
        1 -> pinnace:socket(push);
        2 -> pinnace:bind(Socket, "tcp://127.0.0.1:*");
        3 -> pinnace:connect(Socket, "tcp://127.0.0.1:5555");
        4 -> pinnace:send(Socket, [<<"a">>, <<"b">>], [nowait]);
        5 -> pinnace:send(Socket, <<"x">>, [confirm]);
        6 -> pinnace:recv(Socket, 0);
        7 -> pinnace:setopts(Socket, [{active, lists:nth(rand:uniform(4), [true, false, once, 3])}]);
        8 -> pinnace:setopts(Socket, [{sndhwm, 7}]);
        9 -> pinnace:getopts(Socket, [sndhwm]);
        10 -> pinnace:statistics(Socket);
        11 -> pinnace:monitor(Socket);
        12 -> pinnace:key_pair()
    end.
