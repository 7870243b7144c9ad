%% Orders from a shop to a warehouse, which are two nodes, by guaranteed delivery: each order is counted once, also if
%% pinnace-port is killed below one of them. tools/demo-erlang runs it.
%%
%%   erl -pa EBIN -noshell -run orders warehouse DIRECTORY COUNT
%%   erl -pa EBIN -noshell -run orders shop DIRECTORY COUNT
-module(orders).
-behaviour(supervisor).

-export([warehouse/1, shop/1]).
-export([init/1]).

-define(TOPIC, <<"orders">>).
%% Processes that send, and the orders that each sends at once.
-define(SENDERS, 4).
-define(BATCH, 50).
-define(PATIENCE_MS, 60000).

%% Counts orders. Told to `report' on its input, it prints what it has counted, and ends.
warehouse([Directory, Count]) ->
    {ok, _} = application:ensure_all_started(pinnace),
    Options = options("warehouse", Directory),
    {ok, Client} = supervise(pinnace_delivery:child_spec(Options#{topic => ?TOPIC}, warehouse, list_to_integer(Count))),
    io:format("ready~n"),
    "report\n" = io:get_line(""),
    #{orders := Orders, handled := Handled, redelivered := Redelivered, pause := Pause} = gen_server:call(Client, report),
    io:format("orders ~b handled ~b redelivered ~b pause ~b~n", [Orders, Handled, Redelivered, Pause]),
    init:stop().

%% Sends orders, and waits until all were handled.
shop([Directory, Count]) ->
    {ok, _} = application:ensure_all_started(pinnace),
    {ok, Client} = supervise(pinnace_delivery:child_spec([options("shop", Directory)])),
    ok = pinnace_delivery:wait_listeners(Client, ?TOPIC, 1, ?PATIENCE_MS),
    Begin = erlang:monotonic_time(millisecond),
    Orders = [<<Number:32>> || Number <- lists:seq(1, list_to_integer(Count))],
    Senders = [spawn_monitor(fun() -> send(Client, Part) end) || Part <- parts(Orders)],
    [receive {'DOWN', Monitor, process, _, normal} -> sent end || {_, Monitor} <- Senders],
    ok = pinnace_delivery:wait_pending(Client, 0, ?PATIENCE_MS),
    io:format("sent ~b ms ~b~n", [length(Orders), erlang:monotonic_time(millisecond) - Begin]),
    init:stop().

options(Name, Directory) ->
    #{name => Name, data_dir => filename:join(Directory, Name),
      registry => "dir://" ++ filename:join(Directory, "registry")}.

supervise(Child) ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, [Child]),
    [{_, Client, _, _}] = supervisor:which_children(Supervisor),
    {ok, Client}.

parts(Orders) ->
    Size = length(Orders) div ?SENDERS,
    {Parts, Rest} = lists:mapfoldl(fun(_, Left) -> lists:split(Size, Left) end, Orders, lists:seq(2, ?SENDERS)),
    [Rest | Parts].

send(_Client, []) ->
    ok;
send(Client, Orders) ->
    {Batch, Rest} = lists:split(min(?BATCH, length(Orders)), Orders),
    [{ok, 1}] = lists:usort(pinnace_delivery:deliver_many(Client, ?TOPIC, Batch)),
    send(Client, Rest).

init(Children) ->
    {ok, {#{}, Children}}.
