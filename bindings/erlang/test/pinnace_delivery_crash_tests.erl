%% Guaranteed delivery whose program or processes die.
-module(pinnace_delivery_crash_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

-import(delivery_places, [options/2, receiver/4, pair/2, got/0, body/0, all_handled/1, kill_program/0]).

all_test_() ->
    {foreach, fun delivery_places:place/0, fun delivery_places:leave/1, each([
        fun program_dies/1, fun program_dies_while_sending/1, fun settled_for_another_program/1,
        fun process_dies/1, fun port_process_dies/1, fun program_dies_at_the_start/1])}.

%% What was not settled comes again, and is marked; nothing is lost.
program_dies(Place) ->
    {Sender, _} = pair(Place, fun(#{redelivered := false}) -> later; (_) -> ack end),
    Bodies = [integer_to_binary(Number) || Number <- lists:seq(1, 50)],
    _ = pinnace_delivery:deliver_many(Sender, "orders", Bodies),
    First = [got() || _ <- Bodies],
    kill_program(),
    Again = [got() || _ <- Bodies],
    ?assertEqual([Body || #{body := Body} <- First], lists:sort(fun by_number/2, [Body || #{body := Body} <- Again])),
    all_handled(Sender).

by_number(A, B) ->
    binary_to_integer(A) =< binary_to_integer(B).

%% Sends that are under way go on with the next program: each message is stored once.
program_dies_while_sending(Place) ->
    {Sender, Receiver} = pair(Place, fun delivery_places:ack/1),
    Parent = self(),
    Processes = 10,
    Each = 100,
    [spawn_link(fun() ->
        Results = [pinnace_delivery:deliver(Sender, "orders", <<Process, Number:32>>) || Number <- lists:seq(1, Each)],
        Parent ! {results, lists:usort(Results)}
    end) || Process <- lists:seq(1, Processes)],
    [begin
        Count = gen_server:call(Receiver, count),
        until(fun() -> gen_server:call(Receiver, count) > Count + 50 end),
        kill_program()
    end || _ <- lists:seq(1, 3)],
    [begin
        {results, Results} = receive {results, _} = R -> R after ?PATIENCE_MS -> nothing end,
        ?assertEqual([], [Result || Result <- Results, element(1, Result) =/= ok])
    end || _ <- lists:seq(1, Processes)],
    all_handled(Sender),
    Got = received([]),
    All = [<<Process, Number:32>> || Process <- lists:seq(1, Processes), Number <- lists:seq(1, Each)],
    ?assertEqual(All, lists:sort(Got)),
    %% No message comes again that was handled.
    ?assertEqual(length(All), length(Got)).

received(Got) ->
    receive {got, #{body := Body}} -> received([Body | Got])
    after 0 -> Got
    end.

settled_for_another_program(Place) ->
    {Sender, _} = pair(Place, fun(_) -> later end),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    Message = got(),
    kill_program(),
    ?assertEqual(<<"x">>, body()),
    ?assertEqual({error, port_crashed}, pinnace_delivery:settle(Message, ack)).

%% A client that is killed ends in the program too, and the next one of its name gets what it had.
process_dies(Place) ->
    {Sender, Receiver} = pair(Place, fun(_) -> later end),
    {ok, 1} = pinnace_delivery:deliver(Sender, "orders", "x"),
    #{cursor := Cursor} = got(),
    unlink(Receiver),
    exit(Receiver, kill),
    _ = receiver(Place, "billing", "orders", fun delivery_places:ack/1),
    ?assertMatch(#{cursor := Cursor}, got()),
    all_handled(Sender).

%% The process that has the program dies, and with it the program.
port_process_dies(Place) ->
    {Sender, _} = pair(Place, fun delivery_places:ack/1),
    exit(whereis(pinnace_port), kill),
    ?assertEqual({ok, 1}, pinnace_delivery:deliver(Sender, "orders", "x")),
    ?assertEqual(<<"x">>, body()),
    all_handled(Sender).

%% The program is killed while a client is started in it: the next one has it.
program_dies_at_the_start(Place) ->
    {ok, Socket} = pinnace:socket(pair),
    [begin
        {ok, #{os_pid := OsPid}} = pinnace:info(Socket),
        {ok, Client} = waiting:while_the_program_dies(OsPid, fun() ->
            pinnace_delivery:start_link(options(Place, "shop"))
        end),
        ?assertEqual({ok, 0}, pinnace_delivery:pending(Client)),
        ok = pinnace_delivery:stop(Client)
    end || _ <- [1, 2]].
