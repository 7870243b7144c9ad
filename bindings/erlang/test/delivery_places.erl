%% Clients of guaranteed delivery for tests, with stores and a registry below a directory of each test.
-module(delivery_places).

-include("waiting.hrl").

-export([place/0, leave/1, options/2, receiver/4, receiver/5, sender/1, pair/2, pair/3]).
-export([ack/1, got/0, body/0, all_handled/1, kill_program/0]).

place() ->
    ok = waiting:quietly(),
    Dir = string:trim(os:cmd("mktemp -d")),
    Dir.

leave(Dir) ->
    ok = waiting:stop(Dir),
    %% The program may still write.
    until(fun() -> ok =:= file:del_dir_r(Dir) end).

%% Options of a client with a store and a registry below the directory of the test.
options(Dir, Name) ->
    #{name => Name, data_dir => filename:join(Dir, Name), registry => "dir://" ++ filename:join(Dir, "registry"),
      retry_first_ms => 10, retry_most_ms => 20}.

receiver(Place, Name, Topic, Decide) ->
    receiver(Place, Name, Topic, Decide, #{}).

receiver(Place, Name, Topic, Decide, More) ->
    Options = maps:merge(maps:put(topic, Topic, options(Place, Name)), More),
    {ok, Client} = pinnace_delivery:start_link(Options, delivery_handler, {self(), Decide}),
    Client.

sender(Place) ->
    {ok, Client} = pinnace_delivery:start_link((options(Place, "shop"))#{topic => <<"offers">>}),
    Client.

%% A sender, and a receiver of orders that is known to it.
pair(Place, Decide) ->
    pair(Place, Decide, #{}).

pair(Place, Decide, More) ->
    Receiver = receiver(Place, "billing", "orders", Decide, More),
    Sender = sender(Place),
    ok = pinnace_delivery:wait_listeners(Sender, "orders", 1, ?PATIENCE_MS),
    {Sender, Receiver}.

ack(_Message) -> ack.

got() ->
    {got, Message} = next(),
    Message.

body() ->
    maps:get(body, got()).

all_handled(Sender) ->
    ok = pinnace_delivery:wait_pending(Sender, 0, ?PATIENCE_MS).

kill_program() ->
    {ok, Socket} = pinnace:socket(pair),
    {ok, #{os_pid := Pid}} = pinnace:info(Socket),
    "" = os:cmd("kill -KILL " ++ integer_to_list(Pid)),
    until(fun() ->
        case pinnace:info(Socket) of
            {ok, #{os_pid := Next}} -> Next =/= Pid;
            _ -> false
        end
    end),
    ok = pinnace:close(Socket).
