%% PropEr runs random commands of the API, and compares what a receiver gets with a model. The receiver must get each
%% message once, and each sender's in order, except messages that a killed program had.
-module(pinnace_model_tests).
-behaviour(proper_statem).

-include_lib("eunit/include/eunit.hrl").

-import(proper_types, [integer/2, boolean/0, oneof/1, frequency/1]).

-export([initial_state/0, command/1, precondition/2, next_state/3, postcondition/3]).
-export([apply_command/2, open/1, send/2, send_many/2, recv/1, collect/0, active/2, set/1, new_sender/1, kill/0]).
-export([info/0]).

-define(PATIENCE_MS, 20000).
%% A sender does not wait for room beyond as many octets that the receiver has not taken.
-define(AHEAD, 500000).

%% The model: of each sender, what it has sent and what came. A message is <<Sender:32, Number:32, Padding/binary>>.
-record(flow, {
    sent = 0 :: non_neg_integer(),
    last = 0 :: non_neg_integer(),
    %% From this number on, each comes.
    sure = 1 :: pos_integer()
}).
-record(world, {
    pull, push,
    endpoint,
    owner :: pid(),
    sender = 1 :: pos_integer(),
    flows = #{1 => #flow{}},
    %% Octets that were sent and did not come.
    ahead = 0 :: integer(),
    %% How many messages may come without being asked for.
    allowed = 0 :: non_neg_integer() | infinity,
    is_killed = false :: boolean()
}).

model_test_() ->
    {setup, fun start/0, fun stop/1, fun(_) -> {timeout, 3000, fun hold/0} end}.

start() ->
    ok = logger:set_primary_config(level, none),
    {ok, _} = application:ensure_all_started(pinnace),
    ok = application:set_env(pinnace, restart_intensity, {1000000, 1}).

stop(_) ->
    ok = application:stop(pinnace),
    ok = application:unset_env(pinnace, restart_intensity),
    ok = logger:set_primary_config(level, notice).

%% The same commands in each short run; others, and shrunk ones, in the long form.
hold() ->
    case waiting:is_long() of
        true -> ?assert(proper:quickcheck(messages(), [{numtests, 2000}, {to_file, user}, {max_size, 60}]));
        false -> [holds(Seed) || Seed <- lists:seq(1, 50)]
    end.

holds(Seed) ->
    {ok, Commands} = proper_gen:pick(commands(), 1 + Seed rem 60, {Seed, 0, 0}),
    ?assertEqual({Seed, none, Commands}, {Seed, run(Commands), Commands}).

commands() ->
    proper_statem:more_commands(3, proper_statem:commands(?MODULE)).

messages() ->
    proper:forall(commands(), fun(Commands) ->
        Failure = run(Commands),
        Show = fun() -> io:format(user, "~p~n~p~n", [Commands, Failure]) end,
        proper:whenfail(Show, fun() -> Failure =:= none end)
    end).

%% Why the commands fail.
run(Commands) ->
    try
        case proper_statem:run_commands(?MODULE, Commands) of
            {_History, _State, ok} -> ok = close_world(), none;
            {History, _State, Result} -> {Result, lists:last([none | History])}
        end
    catch
        Class:Reason:Stack -> {Class, Reason, Stack}
    after
        erase(?MODULE)
    end.

initial_state() ->
    closed.

command(closed) ->
    call(open, [transport()]);
command(open) ->
    frequency([{1, call(open, [transport()])},
               {12, call(send, [size(), oneof([[], [nowait], [confirm]])])},
               {8, call(send_many, [wide(300), wide(300)])},
               {12, call(recv, [frequency([{3, 0}, {2, 1}, {1, 20}])])},
               {6, call(collect, [])},
               {6, call(active, [oneof([true, false, once, integer(1, 20)]), boolean()])},
               {2, call(set, [oneof([{deliver, batch}, {deliver, message}, {copy, integer(0, 100)}])])},
               {2, call(new_sender, [oneof([close, exit, kill])])},
               {2, call(info, [])},
               {1, call(kill, [])}]).

call(Command, Arguments) ->
    {call, ?MODULE, apply_command, [Command, Arguments]}.

transport() ->
    oneof(["tcp://127.0.0.1:*", "ipc://*", "inproc"]).

%% PropEr of Debian 12 survives no exception on OTP 25.
apply_command(Command, Arguments) ->
    try apply(?MODULE, Command, Arguments)
    catch Class:Reason:Stack -> {Class, Reason, Stack}
    end.

size() ->
    frequency([{20, integer(0, 100)}, {5, wide(70000)}, {1, integer(1048000, 1050000)}]).

%% Numbers of all sizes: those of PropEr are near 0 in small cases.
wide(Most) ->
    proper_types:resize(Most, integer(0, Most)).

precondition(closed, {call, _, _, [Command, _]}) -> Command =:= open;
precondition(open, _Call) -> true.

next_state(_State, _Result, _Call) -> open.

postcondition(_State, _Call, Result) -> Result =:= ok.

world() -> get(?MODULE).

put_world(World) ->
    _ = put(?MODULE, World),
    ok.

%% A new receiver and a new sender, after the end of those before.
open(Transport) ->
    ok = close_world(),
    {ok, Pull} = pinnace:socket(pull),
    Named = case Transport of
        "inproc" -> "inproc://model-" ++ integer_to_list(erlang:unique_integer([positive]));
        _ -> Transport
    end,
    {ok, Endpoint} = pinnace:bind(Pull, Named),
    {Owner, Push} = sender(Endpoint),
    put_world(#world{pull = Pull, push = Push, endpoint = Endpoint, owner = Owner}).

%% A process that owns a sender, and tells how many messages were not sent.
sender(Endpoint) ->
    Self = self(),
    Owner = spawn_link(fun() ->
        {ok, Push} = pinnace:socket(push),
        ok = pinnace:connect(Push, Endpoint),
        Self ! {self(), Push},
        own(0)
    end),
    receive {Owner, Push} -> {Owner, Push} after ?PATIENCE_MS -> error(late) end.

own(Unsent) ->
    receive
        {pinnace_unsent, _, Count, port_crashed} -> own(Unsent + Count);
        {unsent, Pid} -> Pid ! {unsent, self(), Unsent}, own(Unsent);
        exit -> ok
    end.

%% All that was sent comes, and no more.
close_world() ->
    case world() of undefined -> ok; _ -> check_and_close() end.

check_and_close() ->
    ok = active(false, true),
    ok = drain(),
    #world{pull = Pull, push = Push, owner = Owner, is_killed = IsKilled} = world(),
    ?assertEqual({error, eagain}, pinnace:recv(Pull, 0)),
    Owner ! {unsent, self()},
    Unsent = receive {unsent, Owner, Count} -> Count after ?PATIENCE_MS -> error(late) end,
    ?assert(IsKilled orelse Unsent =:= 0),
    ok = pinnace:close(Push),
    ok = pinnace:close(Pull),
    Owner ! exit,
    _ = erase(?MODULE),
    ok.

drain() ->
    #world{pull = Pull, flows = Flows} = world(),
    case [Flow || #flow{sent = Sent, last = Last, sure = Sure} = Flow <- maps:values(Flows),
                  Sent > Last, Sent >= Sure] of
        [] -> take_rest(Pull);
        Open ->
            case pinnace:recv(Pull, ?PATIENCE_MS) of
                {ok, Message} -> arrived(Message), drain();
                Error -> error({lost, Error, Open})
            end
    end.

%% What a killed program had may still come.
take_rest(Pull) ->
    case pinnace:recv(Pull, 0) of
        {ok, Message} -> arrived(Message), take_rest(Pull);
        {error, eagain} -> ok
    end.

message(Sender, Number, Size) ->
    [<<Sender:32, Number:32>>, binary:copy(<<"x">>, Size)].

send(Size, Options) ->
    #world{push = Push, sender = Sender, flows = Flows, ahead = Ahead, is_killed = IsKilled} = World = world(),
    #flow{sent = Sent} = Flow = maps:get(Sender, Flows),
    How = if Ahead > ?AHEAD -> [nowait]; true -> Options end,
    case pinnace:send(Push, message(Sender, Sent + 1, Size), How) of
        ok -> put_world(World#world{flows = Flows#{Sender := Flow#flow{sent = Sent + 1}}, ahead = Ahead + Size + 500});
        {error, eagain} when How =:= [nowait] -> ok;
        %% The other program has not made the socket yet.
        {error, port_crashed} when How =:= [nowait], IsKilled -> ok;
        {error, emsgsize} when How =:= [confirm], Size > 1048549 -> ok
    end.

send_many(Count, Size) ->
    #world{push = Push, sender = Sender, flows = Flows, ahead = Ahead} = World = world(),
    #flow{sent = Sent} = Flow = maps:get(Sender, Flows),
    case Ahead > ?AHEAD of
        true -> ok;
        false ->
            Messages = [message(Sender, Number, Size) || Number <- lists:seq(Sent + 1, Sent + Count)],
            ok = pinnace:send_many(Push, Messages),
            put_world(World#world{flows = Flows#{Sender := Flow#flow{sent = Sent + Count}},
                                  ahead = Ahead + Count * (Size + 500)})
    end.

%% A message is the next of its sender. What is not sure may be missing before it.
arrived([<<Sender:32, Number:32>>, Padding]) ->
    #world{flows = Flows, ahead = Ahead} = World = world(),
    #flow{sent = Sent, last = Last, sure = Sure} = Flow = maps:get(Sender, Flows),
    ?assert(Number > Last andalso Number =< Sent, {Sender, Number, Flow}),
    ?assert(Number =:= Last + 1 orelse Number =< Sure, {Sender, Number, Flow}),
    put_world(World#world{flows = Flows#{Sender := Flow#flow{last = Number}},
                          ahead = Ahead - byte_size(Padding) - 500}).

%% What came without being asked for comes first.
recv(Timeout) ->
    ok = collect(),
    #world{pull = Pull, allowed = Allowed} = world(),
    case pinnace:recv(Pull, Timeout) of
        {ok, Message} -> ok = collect(), arrived(Message);
        {error, eagain} when Timeout =:= 0 -> ok;
        {error, timeout} when Timeout > 0 -> ok;
        {error, einval} when Allowed > 0 -> ok
    end.

collect() ->
    #world{pull = Pull} = world(),
    receive
        {pinnace, Pull, Message} -> allowed(1), arrived(Message), collect();
        {pinnace_batch, Pull, Messages} -> allowed(length(Messages)), lists:foreach(fun arrived/1, Messages), collect();
        {pinnace_passive, Pull} -> collect()
    after 0 -> ok
    end.

allowed(Count) ->
    #world{allowed = Allowed} = World = world(),
    ?assert(Count =< Allowed),
    put_world(World#world{allowed = case Allowed of infinity -> infinity; _ -> Allowed - Count end}).

%% Sets the mode, or first none, so that the model knows how many messages may come.
active(Active, IsFresh) ->
    #world{pull = Pull} = world(),
    ok = case IsFresh of
        true -> pinnace:setopts(Pull, [{active, false}]);
        false -> ok
    end,
    ok = collect(),
    ok = pinnace:setopts(Pull, [{active, Active}]),
    World = world(),
    put_world(World#world{allowed = case Active of
        false when IsFresh -> 0;
        once when IsFresh -> 1;
        Count when IsFresh, is_integer(Count) -> Count;
        _ -> infinity
    end}).

set(Option) ->
    pinnace:setopts((world())#world.pull, [Option]).

%% Another sender connects to the same receiver. What the last one has sent comes.
new_sender(How) ->
    #world{push = Push, owner = Owner, endpoint = Endpoint, sender = Sender, flows = Flows} = World = world(),
    true = unlink(Owner),
    _ = case How of
        close -> ok = pinnace:close(Push), Owner ! exit;
        exit -> Owner ! exit;
        kill -> exit(Owner, kill)
    end,
    {Other, New} = sender(Endpoint),
    put_world(World#world{push = New, owner = Other, sender = Sender + 1, flows = Flows#{Sender + 1 => #flow{}}}).

%% Kills the program, and waits until another one runs. What was sent before may be lost.
kill() ->
    #world{pull = Pull, flows = Flows} = World = world(),
    {ok, #{os_pid := OsPid}} = pinnace:info(Pull),
    "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    until_other(Pull, OsPid, erlang:monotonic_time(millisecond) + ?PATIENCE_MS),
    Unsure = maps:map(fun(_, #flow{sent = Sent} = Flow) -> Flow#flow{sure = Sent + 1} end, Flows),
    put_world(World#world{flows = Unsure, is_killed = true, ahead = 0}).

until_other(Pull, OsPid, Deadline) ->
    case pinnace:info(Pull) of
        {ok, #{os_pid := OsPid}} ->
            ?assert(erlang:monotonic_time(millisecond) < Deadline),
            until_other(Pull, OsPid, Deadline);
        {ok, _} -> ok
    end.

info() ->
    #world{pull = Pull, push = Push, endpoint = Endpoint, owner = Owner, allowed = Allowed} = world(),
    Self = self(),
    {ok, #{type := pull, owner := Self, bound := [Endpoint], active := Active}} = pinnace:info(Pull),
    {ok, #{type := push, owner := Owner, connected := [Endpoint]}} = pinnace:info(Push),
    ?assert(Allowed =/= 0 orelse Active =:= false),
    ok.
