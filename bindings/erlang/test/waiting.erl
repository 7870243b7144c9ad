%% What tests have in common: they wait for an event, with a deadline.
-module(waiting).

-include_lib("eunit/include/eunit.hrl").

-export([until/1, result/1, next/0, nothing/0, each/1, while_the_program_dies/2]).
-export([quietly/0, stop/1, is_long/0, limit_s/0, pair/1]).

-include("waiting_times.hrl").

%% Repeats a call until it returns true.
until(Holds) ->
    true = result(fun() ->
        case Holds() of
            true -> true;
            _ -> error
        end
    end),
    ok.

%% Repeats a call until it returns something else than `error', and returns that.
result(Do) ->
    result(Do, erlang:monotonic_time(millisecond) + ?PATIENCE_MS).

result(Do, Deadline) ->
    case Do() of
        error ->
            ?assert(erlang:monotonic_time(millisecond) < Deadline),
            result(Do, Deadline);
        Result ->
            Result
    end.

%% The next message to this process.
next() ->
    receive Message -> Message
    after ?PATIENCE_MS -> nothing
    end.

%% No message comes for a moment, or this one.
nothing() ->
    receive Message -> Message
    after ?A_MOMENT_MS -> nothing
    end.

%% Tests for `foreach': each gets what the setup has made, and has its own name.
each(Tests) ->
    [fun(Made) -> {timeout, 60, {name(Test), fun() -> Test(Made) end}} end || Test <- Tests].

name(Test) ->
    {name, Name} = erlang:fun_info(Test, name),
    atom_to_list(Name).

%% Calls something that gets a channel, in a program that dies before it is asked for anything.
while_the_program_dies(OsPid, Call) ->
    Port = whereis(pinnace_port),
    ok = sys:suspend(Port),
    Waits = fun(Least) -> until(fun() -> element(2, process_info(Port, message_queue_len)) >= Least end) end,
    spawn_link(fun() ->
        ok = Waits(1),
        {message_queue_len, Before} = process_info(Port, message_queue_len),
        "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
        ok = Waits(Before + 1),
        ok = sys:resume(Port)
    end),
    Call().

%% Starts the application, without a word of programs that die.
quietly() ->
    ok = logger:set_primary_config(level, none),
    {ok, _} = application:ensure_all_started(pinnace),
    ok.

%% Ends it, and forgets its settings.
stop(_) ->
    _ = application:stop(pinnace),
    [application:unset_env(pinnace, Key) || {Key, _} <- application:get_all_env(pinnace)],
    ok = logger:set_primary_config(level, notice).

%% The long form, by `make faults'.
is_long() ->
    os:getenv("FAULTS") =:= "long".

%% How many seconds a test may take.
limit_s() ->
    case is_long() of true -> 600; false -> 60 end.

%% A PULL that is bound to an endpoint, and a PUSH that is connected to it.
pair(Endpoint) ->
    {ok, Pull} = pinnace:socket(pull),
    {ok, Push} = pinnace:socket(push),
    {ok, Bound} = pinnace:bind(Pull, Endpoint),
    ok = pinnace:connect(Push, Bound),
    {Pull, Push}.
