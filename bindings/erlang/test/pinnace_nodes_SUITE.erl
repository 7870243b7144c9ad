%% Several nodes: each pattern over each transport between two of them, keys, and nodes that are killed.
-module(pinnace_nodes_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include("waiting.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_group/2, end_per_group/2]).
-export([init_per_testcase/2, end_per_testcase/2]).
-export([push_pull/1, pub_sub/1, xpub_xsub/1, req_rep/1, dealer_router/1, pair/1, server_client/1, radio_dish/1]).
-export([curve/1, batches_in_order/1, killed_node/1, delivery_between_nodes/1, delivery_to_a_killed_node/1]).
%% For other nodes.
-export([burst/2, collect/2, handle_message/2]).

suite() ->
    [{timetrap, {seconds, 60}}].

all() ->
    [{group, tcp}, {group, ipc}, curve, batches_in_order, killed_node, delivery_between_nodes,
     delivery_to_a_killed_node].

groups() ->
    Patterns = [push_pull, pub_sub, xpub_xsub, req_rep, dealer_router, pair, server_client, radio_dish],
    [{tcp, [], Patterns}, {ipc, [], Patterns}].

init_per_suite(Config) ->
    {ok, _} = application:ensure_all_started(pinnace),
    Config.

end_per_suite(_Config) ->
    ok = application:stop(pinnace).

init_per_group(Transport, Config) ->
    Ipc = "ipc://" ++ filename:join("/tmp", "pinnace-nodes-" ++ os:getpid()),
    [{endpoint, maps:get(Transport, #{tcp => "tcp://127.0.0.1:*", ipc => Ipc})} | Config].

end_per_group(_Group, Config) ->
    Config.

%% Each test has another node.
init_per_testcase(_Test, Config) ->
    [{peer, start_peer()} | Config].

end_per_testcase(_Test, Config) ->
    _ = catch peer:stop(peer_of(Config)),
    ok.

start_peer() ->
    Paths = lists:append([["-pa", Path] || Path <- code:get_path(), filename:basename(Path) =/= "ebin" orelse
                                                                     string:find(Path, "_build") =/= nomatch]),
    {ok, Peer, _} = peer:start(#{connection => standard_io, args => Paths}),
    ok = peer:call(Peer, node_role, start, []),
    Peer.

peer_of(Config) ->
    proplists:get_value(peer, Config).

%% Applies a function of `pinnace' on the other node.
there(Config, Function, Arguments) ->
    there(Config, pinnace, Function, Arguments).

there(Config, Module, Function, Arguments) ->
    peer:call(peer_of(Config), node_role, do, [Module, Function, Arguments], ?PATIENCE_MS).

%% A bound socket of this node, and one of the other node that is connected to it.
sockets(Config, Bound, Connected) ->
    sockets(Config, Bound, [], Connected, []).

sockets(Config, Bound, BoundOptions, Connected, Options) ->
    {ok, Here} = pinnace:socket(Bound, [{linger, 0} | BoundOptions]),
    {ok, Endpoint} = pinnace:bind(Here, proplists:get_value(endpoint, Config, "tcp://127.0.0.1:*")),
    {ok, There} = there(Config, socket, [Connected, [{linger, 0} | Options]]),
    ok = there(Config, connect, [There, Endpoint]),
    {Here, There}.

received(Socket) ->
    {ok, Frames} = pinnace:recv(Socket, ?PATIENCE_MS),
    Frames.

received(Config, Socket) ->
    {ok, Frames} = there(Config, recv, [Socket, ?PATIENCE_MS]),
    Frames.

push_pull(Config) ->
    {Pull, Push} = sockets(Config, pull, push),
    ok = there(Config, send, [Push, [<<"two">>, <<"frames">>]]),
    ?assertEqual([<<"two">>, <<"frames">>], received(Pull)).

%% A publisher sends until the subscription has come.
pub_sub(Config) ->
    {Pub, Sub} = sockets(Config, pub, [], sub, [{subscribe, "a"}]),
    ?assertEqual([<<"a1">>], published(Config, Pub, Sub)),
    ok = there(Config, unsubscribe, [Sub, "a"]).

published(Config, Pub, Sub) ->
    result(fun() ->
        ok = pinnace:send(Pub, <<"b1">>),
        ok = pinnace:send(Pub, <<"a1">>),
        case there(Config, recv, [Sub, 10]) of
            {ok, Frames} -> Frames;
            {error, timeout} -> error
        end
    end).

xpub_xsub(Config) ->
    {Xpub, Xsub} = sockets(Config, xpub, xsub),
    ok = there(Config, send, [Xsub, <<1, "a">>]),
    ?assertEqual([<<1, "a">>], received(Xpub)),
    ok = pinnace:send(Xpub, <<"b1">>),
    ok = pinnace:send(Xpub, <<"a1">>),
    ?assertEqual([<<"a1">>], received(Config, Xsub)).

req_rep(Config) ->
    {Rep, Req} = sockets(Config, rep, req),
    [begin
        ok = there(Config, send, [Req, <<Number>>]),
        ?assertEqual([<<Number>>], received(Rep)),
        ok = pinnace:send(Rep, <<"to ", Number>>),
        ?assertEqual([<<"to ", Number>>], received(Config, Req))
    end || Number <- [1, 2, 3]].

dealer_router(Config) ->
    {Router, Dealer} = sockets(Config, router, [], dealer, [{routing_id, "dealer"}]),
    ok = there(Config, send, [Dealer, <<"question">>]),
    ?assertEqual([<<"dealer">>, <<"question">>], received(Router)),
    ok = pinnace:send(Router, [<<"dealer">>, <<"answer">>]),
    ?assertEqual([<<"answer">>], received(Config, Dealer)).

pair(Config) ->
    {Here, There} = sockets(Config, pair, pair),
    ok = there(Config, send, [There, <<"ping">>]),
    ?assertEqual([<<"ping">>], received(Here)),
    ok = pinnace:send(Here, <<"pong">>),
    ?assertEqual([<<"pong">>], received(Config, There)).

server_client(Config) ->
    {Server, Client} = sockets(Config, server, client),
    ok = there(Config, send, [Client, <<"question">>]),
    [Id, <<"question">>] = received(Server),
    ok = pinnace:send(Server, [Id, <<"answer">>]),
    ?assertEqual([<<"answer">>], received(Config, Client)).

radio_dish(Config) ->
    {Dish, Radio} = sockets(Config, dish, radio),
    ok = pinnace:join(Dish, "group"),
    Frames = result(fun() ->
        ok = there(Config, send, [Radio, [<<"other">>, <<"x">>]]),
        ok = there(Config, send, [Radio, [<<"group">>, <<"y">>]]),
        case pinnace:recv(Dish, 10) of
            {ok, Frames} -> Frames;
            {error, timeout} -> error
        end
    end),
    ?assertEqual([<<"group">>, <<"y">>], Frames).

curve(Config) ->
    {ok, {ServerKey, ServerSecret}} = pinnace:key_pair(),
    {ok, {Key, Secret}} = there(Config, key_pair, []),
    {Pull, Push} = sockets(Config, pull, [{curve_server, true}, {curve_secretkey, ServerSecret}], push,
                           [{curve_serverkey, ServerKey}, {curve_publickey, Key}, {curve_secretkey, Secret}]),
    ok = there(Config, send, [Push, <<"secret">>]),
    ?assertEqual([<<"secret">>], received(Pull)).

%% Batches from another node arrive in order, beyond all windows.
batches_in_order(Config) ->
    {Pull, Push} = sockets(Config, pull, push),
    Count = 200000,
    _ = spawn_link(fun() -> ok = there(Config, ?MODULE, burst, [Push, Count]) end),
    ok = pinnace:setopts(Pull, [{deliver, batch}, {active, true}]),
    ?assertEqual(Count, in_order(Pull, 0, Count)),
    ok = pinnace:close(Pull).

burst(Push, Count) ->
    pinnace:send_many(Push, [<<Number:32, 0:800>> || Number <- lists:seq(1, Count)]).

in_order(_Pull, Count, Count) ->
    Count;
in_order(Pull, Last, Count) ->
    receive
        {pinnace_batch, Pull, Messages} ->
            in_order(Pull, lists:foldl(fun([<<Number:32, _/binary>>], Before) when Number =:= Before + 1 -> Number end,
                                       Last, Messages), Count)
    after ?PATIENCE_MS -> Last
    end.

%% A node that is killed leaves no program, and the next one takes its place.
killed_node(Config) ->
    {Pull, Push} = sockets(Config, pull, push),
    ok = there(Config, send, [Push, <<"x">>]),
    ?assertEqual([<<"x">>], received(Pull)),
    {ok, #{os_pid := Program}} = there(Config, info, [Push]),
    kill_node(Config),
    until(fun() -> file:read_file_info(["/proc/", integer_to_list(Program)]) =:= {error, enoent} end),
    Next = [{peer, start_peer()} | Config],
    {ok, #{bound := [Endpoint]}} = pinnace:info(Pull),
    {ok, Other} = there(Next, socket, [push]),
    ok = there(Next, connect, [Other, Endpoint]),
    ok = there(Next, send, [Other, <<"y">>]),
    ?assertEqual([<<"y">>], received(Pull)),
    peer:stop(peer_of(Next)).

kill_node(Config) ->
    Peer = peer_of(Config),
    unlink(Peer),
    Monitor = monitor(process, Peer),
    OsPid = peer:call(Peer, os, getpid, []),
    "" = os:cmd("kill -KILL " ++ OsPid),
    receive {'DOWN', Monitor, process, _, _} -> ok
    after ?PATIENCE_MS -> error(it_lives)
    end.

%% A receiver on another node: it keeps what it handles in a file.
collect(Options, File) ->
    pinnace_delivery:start_link(Options, ?MODULE, File).

handle_message(#{body := Body, cursor := #{number := Number}}, File) ->
    ok = file:write_file(File, io_lib:format("~s ~b~n", [Body, Number]), [append]),
    {ack, File}.

collected(File) ->
    case file:read_file(File) of
        {ok, Text} -> [binary:split(Line, <<" ">>) || Line <- binary:split(Text, <<"\n">>, [global, trim])];
        {error, enoent} -> []
    end.

options(Dir, Name) ->
    #{name => Name, data_dir => filename:join(Dir, Name), registry => "dir://" ++ filename:join(Dir, "registry")}.

place(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), integer_to_list(erlang:unique_integer([positive]))),
    ok = filelib:ensure_path(Dir),
    Dir.

bodies(From, To) ->
    [integer_to_binary(Number) || Number <- lists:seq(From, To)].

delivery_between_nodes(Config) ->
    Dir = place(Config),
    File = filename:join(Dir, "handled"),
    {ok, _} = there(Config, ?MODULE, collect, [(options(Dir, "billing"))#{topic => "orders"}, File]),
    {ok, Shop} = pinnace_delivery:start_link(options(Dir, "shop")),
    ok = pinnace_delivery:wait_listeners(Shop, "orders", 1, ?PATIENCE_MS),
    Results = pinnace_delivery:deliver_many(Shop, "orders", bodies(1, 100)),
    ?assertEqual([{ok, 1}], lists:usort(Results)),
    ok = pinnace_delivery:wait_pending(Shop, 0, ?PATIENCE_MS),
    ?assertEqual(bodies(1, 100), [Body || [Body, _] <- collected(File)]),
    ok = pinnace_delivery:stop(Shop).

%% The receiver's node is killed in the middle: nothing is lost, and what came twice has the same cursor.
delivery_to_a_killed_node(Config) ->
    Dir = place(Config),
    File = filename:join(Dir, "handled"),
    Options = (options(Dir, "billing"))#{topic => "orders"},
    {ok, _} = there(Config, ?MODULE, collect, [Options, File]),
    {ok, Shop} = pinnace_delivery:start_link(options(Dir, "shop")),
    ok = pinnace_delivery:wait_listeners(Shop, "orders", 1, ?PATIENCE_MS),
    Parent = self(),
    Sender = spawn_link(fun() ->
        Parent ! {self(), [pinnace_delivery:deliver(Shop, "orders", Body) || Body <- bodies(1, 1000)]}
    end),
    until(fun() -> length(collected(File)) >= 100 end),
    kill_node(Config),
    Next = [{peer, start_peer()} | Config],
    {ok, _} = there(Next, ?MODULE, collect, [Options, File]),
    receive {Sender, Results} -> ?assertEqual([{ok, 1}], lists:usort(Results))
    after ?PATIENCE_MS -> error(nothing_was_sent)
    end,
    ok = pinnace_delivery:wait_pending(Shop, 0, ?PATIENCE_MS),
    %% The last line of the killed node may be cut off.
    Handled = lists:usort([Line || [_, _] = Line <- collected(File)]),
    ?assertEqual(lists:sort(bodies(1, 1000)), lists:usort([Body || [Body, _] <- Handled])),
    ?assertEqual(1000, length(Handled)),
    ok = pinnace_delivery:stop(Shop),
    peer:stop(peer_of(Next)).
