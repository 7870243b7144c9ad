%% The functions of erlang-czmq.
-module(czmq_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

-import(czmq_pairs, [new/2, join/2, endpoint/1, string_of/1]).

start() ->
    {ok, Context} = czmq:start(),
    ok = czmq:zctx_set_linger(Context, 1000),
    Context.

stop(Context) ->
    ok = czmq:terminate(Context),
    ok = application:stop(pinnace).

%% Each test has an application of its own.
czmq_test_() ->
    Tests = [fun strings/1, fun frames/1, fun admission/1, fun a_poller/1, fun routers_and_dealers/1,
             fun pushing_and_pulling/1, fun requests_and_replies/1, fun topics/1, fun options/1,
             fun a_large_message/1,
             fun contexts/1, fun linked_contexts/1, fun options_of_later_sockets/1,
             fun sockets_end_with_their_context/1, fun endpoints/1, fun types/1, fun sending_does_not_wait/1,
             fun a_failed_last_frame_is_repeated/1,
             fun what_is_left_of_a_message/1, fun strings_with_a_timeout/1, fun receivers_of_frames/1,
             fun destroyed_things/1, fun a_context_that_ended/1, fun the_application_ends/1,
             fun killed_contexts_are_forgotten/1],
    {foreach, fun start/0, fun stop/1, each(Tests)}.

pair(Context, Bound, Connected) ->
    {Server, Client} = {new(Context, Bound), new(Context, Connected)},
    join(Server, Client),
    {Server, Client}.

all_of(Socket) ->
    result(fun() -> czmq:zframe_recv_all(Socket) end).

ended(Pid) ->
    Monitor = monitor(process, Pid),
    receive {'DOWN', Monitor, process, Pid, Reason} -> Reason
    after ?PATIENCE_MS -> late
    end.

%% The ten behaviours of the original.

strings(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    ?assertEqual(error, czmq:zstr_recv_nowait(Pull)),
    ok = czmq:zstr_send(Push, "one"),
    ok = czmq:zstr_send(Push, <<"two">>),
    ok = czmq:zstr_send(Push, ""),
    ?assertEqual({ok, "one"}, string_of(Pull)),
    ?assertEqual({ok, "two"}, czmq:zstr_recv(Pull)),
    ?assertEqual({ok, ""}, result(fun() -> czmq:zstr_recv_nowait(Pull) end)).

frames(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    ?assertEqual(error, czmq:zframe_recv_nowait(Pull)),
    ok = czmq:zsocket_sendmem(Push, <<"a">>, more),
    ok = czmq:zsocket_sendmem(Push, ["b", <<"c">>], [more, dontwait]),
    ?assertEqual(error, czmq:zframe_recv_nowait(Pull)),
    ok = czmq:zsocket_sendmem(Push, <<"d">>, [reuse]),
    ok = czmq:zsocket_sendmem(Push, <<"e">>),
    {ok, Frame} = result(fun() -> czmq:zframe_recv_nowait(Pull) end),
    ?assertEqual(<<"a">>, czmq:zframe_data(Frame)),
    ?assert(czmq:zframe_more(Frame)),
    ?assertEqual({ok, {<<"bc">>, true}}, czmq:zframe_recv_nowait(Pull)),
    {ok, Last} = czmq:zframe_recv_nowait(Pull),
    ?assertEqual({<<"d">>, false}, {czmq:zframe_data(Last), czmq:zframe_more(Last)}),
    ?assertEqual({ok, {<<"e">>, false}}, result(fun() -> czmq:zframe_recv_nowait(Pull) end)).

admission(Context) ->
    {ok, Auth} = czmq:zauth_new(Context),
    ok = czmq:zauth_deny(Auth, "127.0.0.1"),
    Denied = new(Context, pull),
    ok = czmq:zsocket_set_zap_domain(Denied, "global"),
    Push = new(Context, push),
    join(Denied, Push),
    ok = czmq:zstr_send(Push, "denied"),
    ?assertEqual({error, timeout}, czmq:zstr_recv(Denied, [{timeout, ?A_MOMENT_MS}])),
    %% A socket without a domain asks nobody.
    {Open, Other} = pair(Context, pull, push),
    ok = czmq:zstr_send(Other, "open"),
    ?assertEqual({ok, "open"}, string_of(Open)),
    ok = czmq:zauth_destroy(Auth),
    ?assertEqual({error, invalid_auth}, czmq:zauth_destroy(Auth)).

a_poller(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    {ok, Poller} = czmq:subscribe(Pull, [{poll_interval, 50}]),
    ok = czmq:zsocket_send_all(Push, [<<"a">>, <<"b">>]),
    ok = czmq:zstr_send(Push, "c"),
    ?assertEqual({Poller, [<<"a">>, <<"b">>]}, next()),
    ?assertEqual({Poller, [<<"c">>]}, next()),
    ok = czmq:unsubscribe(Poller),
    {ok, Linked} = czmq:subscribe_link(Pull),
    ok = czmq:zstr_send(Push, "d"),
    ?assertEqual({Linked, [<<"d">>]}, next()),
    ok = czmq:unsubscribe(Linked).

routers_and_dealers(Context) ->
    {Router, Dealer} = pair(Context, router, dealer),
    ok = czmq:zsocket_send_all(Dealer, [<<"1">>, <<"question">>]),
    {ok, [Id, <<"1">>, <<"question">>]} = all_of(Router),
    ok = czmq:zsocket_sendmem(Router, Id, more),
    ok = czmq:zsocket_sendmem(Router, <<"answer">>),
    ?assertEqual({ok, "answer"}, string_of(Dealer)).

pushing_and_pulling(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    Other = new(Context, pull),
    {ok, Port} = czmq:zsocket_bind(Other, "tcp://127.0.0.1:*"),
    Numbers = [integer_to_list(Number) || Number <- lists:seq(1, 1000)],
    [ok = czmq:zstr_send(Push, Number) || Number <- Numbers],
    [?assertEqual({ok, Number}, string_of(Pull)) || Number <- Numbers],
    ok = czmq:zsocket_disconnect(Push, endpoint_of(Pull)),
    ok = czmq:zsocket_connect(Push, endpoint(Port)),
    ok = czmq:zstr_send(Push, "for the other one"),
    ?assertEqual({ok, "for the other one"}, string_of(Other)).

%% The endpoint that a socket has bound.
endpoint_of(Pull) ->
    {ok, _, Socket, _} = czmq_context:find(Pull),
    {ok, [{last_endpoint, Endpoint}]} = pinnace:getopts(Socket, [last_endpoint]),
    Endpoint.

requests_and_replies(Context) ->
    {Rep, Req} = pair(Context, rep, req),
    [begin
        ok = czmq:zstr_send(Req, Question),
        ?assertEqual({ok, Question}, string_of(Rep)),
        ok = czmq:zstr_send(Rep, "answer to " ++ Question),
        ?assertEqual({ok, "answer to " ++ Question}, string_of(Req))
     end || Question <- ["one", "two", "three"]].

topics(Context) ->
    {Pub, Sub} = {new(Context, xpub), new(Context, sub)},
    ok = czmq:zsocket_set_subscribe(Sub, "weather"),
    ok = czmq:zsocket_set_subscribe(Sub, "sport"),
    ok = czmq:zsocket_set_unsubscribe(Sub, "sport"),
    join(Pub, Sub),
    ?assertEqual({ok, [<<1, "weather">>]}, all_of(Pub)),
    ok = czmq:zstr_send(Pub, "sport: no"),
    ok = czmq:zstr_send(Pub, "weather: yes"),
    ?assertEqual({ok, "weather: yes"}, string_of(Sub)).

options(Context) ->
    Socket = new(Context, dealer),
    ok = czmq:zsocket_set_sndhwm(Socket, 11),
    ok = czmq:zsocket_set_rcvhwm(Socket, 12),
    ok = czmq:zsocket_set_backlog(Socket, 13),
    ok = czmq:zsocket_set_identity(Socket, "me"),
    ok = czmq:zsocket_set_plain_username(Socket, "user"),
    ok = czmq:zsocket_set_plain_password(Socket, "password"),
    ?assertEqual({{ok, 11}, {ok, 12}, {ok, 13}, {ok, "me"}},
                 {czmq:zsocket_sndhwm(Socket), czmq:zsocket_rcvhwm(Socket), czmq:zsocket_backlog(Socket),
                  czmq:zsocket_identity(Socket)}),
    ?assertEqual({error, set_sndhwm_failed}, czmq:zsocket_set_sndhwm(Socket, -1)),
    ?assertEqual({error, set_rcvhwm_failed}, czmq:zsocket_set_rcvhwm(Socket, many)),
    ?assertEqual({error, set_identity_failed}, czmq:zsocket_set_identity(Socket, lists:duplicate(256, $x))),
    ?assertEqual({error, set_curve_serverkey_failed}, czmq:zsocket_set_curve_serverkey(Socket, "short")),
    ?assertEqual({error, set_subscribe_failed}, czmq:zsocket_set_subscribe(Socket, "x")),
    ?assertEqual({error, set_unsubscribe_failed}, czmq:zsocket_set_unsubscribe(Socket, "x")).

a_large_message(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    Large = binary:copy(<<"0123456789">>, 2000000),
    ok = czmq:zsocket_sendmem(Push, Large),
    ?assertEqual({ok, [Large]}, all_of(Pull)).

%% Each function, also when it fails.

contexts(Context) ->
    ?assertEqual(pong, czmq:ping(Context)),
    ?assertEqual(pong, czmq:ping(Context, ?PATIENCE_MS)),
    ok = sys:suspend(Context),
    ?assertEqual({error, timeout}, czmq:ping(Context, 1)),
    ok = sys:resume(Context),
    {ok, Other} = czmq:start(),
    ok = czmq:terminate(Other),
    ok = czmq:terminate(Other),
    ?assertEqual({error, noproc}, czmq:ping(Other)),
    ?assertEqual(pong, czmq:ping(Context)).

linked_contexts(_Context) ->
    Self = self(),
    Parent = spawn(fun() -> Self ! czmq:start_link(), receive stop -> exit(done) end end),
    {ok, Linked} = next(),
    Parent ! stop,
    ?assertEqual(done, ended(Linked)).

options_of_later_sockets(Context) ->
    Before = new(Context, push),
    ok = czmq:zctx_set_sndhwm(Context, 7),
    ok = czmq:zctx_set_rcvhwm(Context, 8),
    ok = czmq:zctx_set_iothreads(Context, 2),
    ok = czmq:zctx_set_pipehwm(Context, 9),
    After = new(Context, push),
    ?assertEqual([{ok, 1000}, {ok, 7}, {ok, 8}],
                 [czmq:zsocket_sndhwm(Before), czmq:zsocket_sndhwm(After), czmq:zsocket_rcvhwm(After)]),
    ok = czmq:zctx_set_sndhwm(Context, -1),
    ?assertEqual({error, new_failed}, czmq:zsocket_new(Context, push)).

sockets_end_with_their_context(Context) ->
    {ok, Other} = czmq:start(),
    {Pull, Push} = pair(Other, pull, push),
    {ok, Port} = czmq:zsocket_bind(Pull, "tcp://127.0.0.1:*"),
    ok = czmq:terminate(Other),
    [?assertEqual({error, invalid_socket}, Result)
     || Result <- [czmq:zstr_recv(Pull), czmq:zstr_send(Push, "x"), czmq:zsocket_sndhwm(Push)]],
    Again = new(Context, pull),
    Bind = fun() ->
        case czmq:zsocket_bind(Again, endpoint(Port)) of
            {error, bind_failed} -> error;
            Bound -> Bound
        end
    end,
    ?assertEqual({ok, Port}, result(Bind)).

endpoints(Context) ->
    {Pull, Push} = {new(Context, pull), new(Context, push)},
    {ok, Port} = czmq:zsocket_bind(Pull, "tcp://127.0.0.1:*"),
    ?assertEqual({ok, 0}, czmq:zsocket_bind(Pull, "inproc://port:5")),
    ?assertEqual({ok, 0}, czmq:zsocket_bind(Pull, "ipc://*")),
    ?assertEqual({error, bind_failed}, czmq:zsocket_bind(Push, endpoint(Port))),
    ?assertEqual({error, bind_failed}, czmq:zsocket_bind(Push, "nonsense")),
    ok = czmq:zsocket_unbind(Pull, endpoint(Port)),
    ?assertEqual({error, unbind_failed}, czmq:zsocket_unbind(Pull, endpoint(Port))),
    ?assertEqual({error, connect_failed}, czmq:zsocket_connect(Push, "nonsense")),
    ?assertEqual({error, disconnect_failed}, czmq:zsocket_disconnect(Push, endpoint(Port))).

types(Context) ->
    [?assertEqual({ok, string:uppercase(atom_to_list(Type))}, czmq:zsocket_type_str(new(Context, Type)))
     || Type <- [pair, pub, sub, req, rep, dealer, router, pull, push, xpub, xsub, stream]],
    ?assertEqual({error, new_failed}, czmq:zsocket_new(Context, nonsense)).

sending_does_not_wait(Context) ->
    Push = new(Context, push),
    Message = binary:copy(<<"x">>, 1000),
    Fill = fun Fill(Count) ->
        case czmq:zsocket_sendmem(Push, Message) of
            ok -> Fill(Count + 1);
            error -> Count
        end
    end,
    ?assert(Fill(0) > 0),
    ?assertEqual(error, czmq:zsocket_send_all(Push, [Message])).

a_failed_last_frame_is_repeated(Context) ->
    {Push, Pull} = {new(Context, push), new(Context, pull)},
    Filler = binary:copy(<<"x">>, 1000),
    Fill = fun Fill(Count) ->
        case czmq:zsocket_sendmem(Push, Filler) of
            ok -> Fill(Count + 1);
            error -> Count
        end
    end,
    Count = Fill(0),
    ok = czmq:zsocket_sendmem(Push, <<"first">>, more),
    ?assertEqual(error, czmq:zsocket_sendmem(Push, <<"last">>)),
    join(Pull, Push),
    [{ok, [Filler]} = all_of(Pull) || _ <- lists:seq(1, Count)],
    ok = result(fun() -> czmq:zsocket_sendmem(Push, <<"last">>) end),
    ?assertEqual({ok, [<<"first">>, <<"last">>]}, all_of(Pull)).

what_is_left_of_a_message(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    [ok = czmq:zsocket_send_all(Push, [<<"a">>, <<"b">>, <<"c">>]) || _ <- [1, 2, 3]],
    ?assertEqual({ok, "a"}, string_of(Pull)),
    ?assertEqual({ok, [<<"b">>, <<"c">>]}, czmq:zframe_recv_all(Pull)),
    ?assertEqual({ok, [<<"a">>, <<"b">>, <<"c">>]}, all_of(Pull)),
    ?assertEqual({ok, {<<"a">>, true}}, result(fun() -> czmq:zframe_recv_nowait(Pull) end)),
    ?assertEqual({ok, "b"}, czmq:zstr_recv_nowait(Pull)),
    ?assertEqual({ok, "c"}, czmq:zstr_recv(Pull)),
    ?assertEqual(error, czmq:zframe_recv_all(Pull)).

strings_with_a_timeout(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    ?assertEqual({error, timeout}, czmq:zstr_recv(Pull, [{timeout, 0}])),
    ?assertEqual({error, timeout}, czmq:zstr_recv(Pull, [{timeout, 10}])),
    Self = self(),
    spawn_link(fun() -> Self ! czmq:zstr_recv(Pull) end),
    ok = czmq:zstr_send(Push, "for the one that waits"),
    ?assertEqual({ok, "for the one that waits"}, next()).

%% Several processes receive frames: none is lost, and none comes twice.
receivers_of_frames(Context) ->
    {Pull, Push} = pair(Context, pull, push),
    Count = 100,
    Self = self(),
    Pids = [spawn_link(fun() -> Self ! {self(), collect(Pull, [])} end) || _ <- lists:seq(1, 4)],
    Frame = fun(Number, Part) -> [Number, Part] end,
    [ok = czmq:zsocket_send_all(Push, [Frame(Number, Part) || Part <- [1, 2, 3]]) || Number <- lists:seq(1, Count)],
    [ok = czmq:zstr_send(Push, "end") || _ <- Pids],
    Got = lists:append([receive {Pid, Frames} -> Frames after ?PATIENCE_MS -> error(late) end || Pid <- Pids]),
    ?assertEqual([Frame(Number, Part) || Number <- lists:seq(1, Count), Part <- [1, 2, 3]], lists:sort(Got)).

collect(Pull, Got) ->
    case string_of(Pull) of
        {ok, "end"} -> Got;
        {ok, Frame} -> collect(Pull, [Frame | Got])
    end.

destroyed_things(Context) ->
    Socket = new(Context, dealer),
    ok = czmq:zsocket_sendmem(Socket, <<"begin">>, more),
    ok = czmq:zsocket_destroy(Socket),
    {ok, Cert} = czmq:zcert_new(Context),
    ok = czmq:zcert_destroy(Cert),
    invalid_sockets(Socket),
    [?assertEqual({error, invalid_cert}, Result)
     || Result <- [czmq:zcert_destroy(Cert), czmq:zcert_apply(Cert, Socket), czmq:zcert_public_txt(Cert),
                   czmq:zcert_save_public(Cert, "name")]],
    {ok, Auth} = czmq:zauth_new(Context),
    ok = czmq:zauth_destroy(Auth),
    invalid_auths(Auth).

invalid_sockets(Socket) ->
    Setters = [zsocket_set_zap_domain, zsocket_set_plain_username, zsocket_set_plain_password, zsocket_set_subscribe,
               zsocket_set_unsubscribe, zsocket_set_identity, zsocket_set_curve_serverkey, zsocket_unbind, zsocket_bind,
               zsocket_connect, zsocket_disconnect, zsocket_sendmem, zstr_send],
    Numbers = [zsocket_set_sndhwm, zsocket_set_rcvhwm, zsocket_set_backlog, zsocket_set_plain_server,
               zsocket_set_curve_server],
    Readers = [zsocket_type_str, zsocket_destroy, zsocket_sndhwm, zsocket_rcvhwm, zsocket_backlog, zsocket_identity,
               zstr_recv_nowait, zstr_recv, zframe_recv_nowait, zframe_recv_all, subscribe, subscribe_link],
    Calls = [{Name, [Socket, "inproc://x"]} || Name <- Setters] ++ [{Name, [Socket, 1]} || Name <- Numbers]
        ++ [{Name, [Socket]} || Name <- Readers]
        ++ [{zsocket_sendmem, [Socket, "x", more]}, {zsocket_send_all, [Socket, ["x"]]}, {subscribe, [Socket, []]},
            {zstr_recv, [Socket, [{timeout, 1}]]}, {subscribe_link, [Socket, []]}],
    process_flag(trap_exit, true),
    [?assertEqual({Name, {error, invalid_socket}}, {Name, apply(czmq, Name, Arguments)}) || {Name, Arguments} <- Calls].

invalid_auths(Auth) ->
    [?assertEqual({error, invalid_auth}, Result)
     || Result <- [czmq:zauth_allow(Auth, "1.2.3.4"), czmq:zauth_deny(Auth, "1.2.3.4"), czmq:zauth_destroy(Auth),
                   czmq:zauth_configure_plain(Auth, "*", "name"), czmq:zauth_configure_curve(Auth, "*", allow_any)]].

a_context_that_ended(_Context) ->
    {ok, Other} = czmq:start(),
    Socket = new(Other, dealer),
    {ok, Auth} = czmq:zauth_new(Other),
    {ok, Cert} = czmq:zcert_new(Other),
    ok = czmq:terminate(Other),
    invalid_sockets(Socket),
    invalid_auths(Auth),
    ?assertEqual({error, invalid_cert}, czmq:zcert_public_txt(Cert)),
    ?assertEqual({error, invalid_cert}, czmq:zcert_destroy(Cert)),
    [?assertEqual({error, invalid_context}, Result)
     || Result <- [czmq:zsocket_new(Other, pull), czmq:zauth_new(Other), czmq:zcert_new(Other),
                   czmq:zctx_set_linger(Other, 1), czmq:zctx_set_sndhwm(Other, 1), czmq:zctx_set_rcvhwm(Other, 1)]].

the_application_ends(_Context) ->
    {ok, Other} = czmq:start(),
    {Pull, _Push} = pair(Other, pull, push),
    {ok, Poller} = czmq:subscribe(Pull),
    Monitors = [monitor(process, Pid) || Pid <- [Other, Poller]],
    ok = application:stop(pinnace),
    ?assertMatch([{shutdown, {port_exit, _}}, normal],
                 [receive {'DOWN', Monitor, process, _, Reason} -> Reason after ?PATIENCE_MS -> late end
                  || Monitor <- Monitors]),
    ?assertEqual({error, invalid_socket}, czmq:zstr_send(Pull, "x")),
    %% It is started again.
    {ok, Again} = czmq:start(),
    ?assertEqual(pong, czmq:ping(Again)),
    ok = czmq:terminate(Again).

killed_contexts_are_forgotten(Context) ->
    {ok, Other} = czmq:start(),
    Socket = new(Other, pull),
    exit(Other, kill),
    _ = ended(Other),
    ?assertEqual({error, invalid_socket}, czmq:zstr_recv(Socket)),
    {ok, Third} = czmq:start(),
    ?assertEqual(lists:sort([Context, Third]), lists:sort([Pid || {Pid, _} <- ets:tab2list(czmq_contexts)])),
    ok = czmq:terminate(Third).
