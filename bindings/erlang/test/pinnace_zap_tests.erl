%% Handlers that admit peers, and contexts.
-module(pinnace_zap_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

all_test_() ->
    {foreach, fun waiting:quietly/0, fun waiting:stop/1, each([
        fun plain/1, fun curve/1, fun null/1, fun failing_handler/1, fun stays/1, fun old_decision/1, fun calls/1,
        fun one_for_a_context/1, fun contexts_are_apart/1, fun options_of_contexts/1, fun many_sockets/1,
        fun context_is_made_again/1, fun closed_context_sends_what_waits/1, fun wrong_use/1])}.

%% A server whose clients are admitted by a handler, and its endpoint.
server(Options) ->
    {ok, Pull} = pinnace:socket(pull, [{zap_domain, "test"} | Options]),
    {ok, Endpoint} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    {Pull, Endpoint}.

client(Endpoint, Options) ->
    {ok, Push} = pinnace:socket(push, [{linger, 0} | Options]),
    {ok, _} = pinnace:monitor(Push),
    ok = pinnace:connect(Push, Endpoint),
    Push.

%% Whether the server admits a client.
is_admitted(Server, Endpoint, Options) ->
    Push = client(Endpoint, Options),
    ok = pinnace:send(Push, <<"x">>),
    Result = decided(),
    Result =:= true andalso ?assertEqual({ok, [<<"x">>]}, pinnace:recv(Server, ?PATIENCE_MS)),
    ok = pinnace:close(Push),
    Result.

decided() ->
    case next() of
        {pinnace_event, _, #{event := handshake_succeeded}} -> true;
        {pinnace_event, _, #{event := handshake_failed_auth, value := Status}} -> {false, Status};
        {pinnace_event, _, #{event := handshake_failed_protocol}} -> false;
        {pinnace_event, _, _} -> decided()
    end.

plain(_) ->
    {ok, _} = pinnace_zap:start_link(zap_handler, fun
        (#{mechanism := plain, user := <<"ann">>, password := <<"secret">>, domain := <<"test">>,
           address := <<"127.0.0.1">>}) -> {admit, "ann", [{"Shoe-Size", <<"44">>}]};
        (_) -> deny
    end),
    {Server, Endpoint} = server([{plain_server, true}]),
    ?assertEqual(true, is_admitted(Server, Endpoint, [{plain_username, "ann"}, {plain_password, "secret"}])),
    ?assertEqual({false, 400}, is_admitted(Server, Endpoint, [{plain_username, "ann"}, {plain_password, "wrong"}])).

curve(_) ->
    {ok, {ServerPublic, ServerSecret}} = pinnace:key_pair(),
    {ok, {Known, KnownSecret}} = pinnace:key_pair(),
    {ok, {Stranger, StrangerSecret}} = pinnace:key_pair(),
    {ok, _} = pinnace_zap:start_link(zap_handler, fun
        (#{mechanism := curve, key := Key}) when Key =:= Known -> {admit, pinnace_z85_text(Key)};
        (#{mechanism := curve}) -> {deny, "a stranger"}
    end),
    {Server, Endpoint} = server([{curve_server, true}, {curve_secretkey, ServerSecret}]),
    Keys = fun(Public, Secret) ->
        [{curve_serverkey, ServerPublic}, {curve_publickey, Public}, {curve_secretkey, Secret}]
    end,
    ?assertEqual(true, is_admitted(Server, Endpoint, Keys(Known, KnownSecret))),
    ?assertEqual({false, 400}, is_admitted(Server, Endpoint, Keys(Stranger, StrangerSecret))).

pinnace_z85_text(Key) ->
    {ok, Text} = pinnace_z85:encode(Key),
    Text.

null(_) ->
    {ok, _} = pinnace_zap:start_link(zap_handler, fun(#{mechanism := null, domain := Domain}) ->
        case Domain of <<"test">> -> admit; _ -> deny end
    end),
    {Server, Endpoint} = server([]),
    ?assertEqual(true, is_admitted(Server, Endpoint, [])),
    ok = pinnace:setopts(Server, [{zap_domain, "other"}]),
    {ok, Closed} = pinnace:bind(Server, "tcp://127.0.0.1:*"),
    ?assertEqual({false, 400}, is_admitted(Server, Closed, [])).

%% A handler that fails, or decides nonsense, admits nobody, and lives.
failing_handler(_) ->
    {ok, Handler} = pinnace_zap:start_link(zap_handler, fun
        (#{user := <<"a">>}) -> error(planted);
        (#{user := <<"b">>}) -> nonsense;
        (#{user := <<"c">>}) -> {admit, "c", [{"", "a name without letters"}]};
        (#{user := <<"e">>}) -> {admit, "e", [nonsense]};
        (_) -> admit
    end),
    {Server, Endpoint} = server([{plain_server, true}]),
    [?assertNotEqual(true, is_admitted(Server, Endpoint, [{plain_username, User}, {plain_password, "x"}]))
     || User <- ["a", "b", "c", "e"]],
    ?assertEqual(true, is_admitted(Server, Endpoint, [{plain_username, "d"}, {plain_password, "x"}])),
    %% The states after failed calls are not kept.
    ?assertEqual(1, gen_server:call(Handler, count)).

%% After the program's death the handler is there before the sockets that it guards.
stays(_) ->
    {ok, Handler} = pinnace_zap:start_link(zap_handler, fun(#{user := User}) ->
        case User of <<"ann">> -> admit; _ -> deny end
    end),
    {Server, Endpoint} = server([{plain_server, true}]),
    {ok, #{os_pid := OsPid}} = pinnace:info(Server),
    "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    until(fun() -> {ok, #{os_pid := Next}} = pinnace:info(Server), Next =/= OsPid end),
    ?assertEqual({false, 400}, is_admitted(Server, Endpoint, [{plain_username, "bob"}, {plain_password, "x"}])),
    ?assertEqual(true, is_admitted(Server, Endpoint, [{plain_username, "ann"}, {plain_password, "x"}])),
    ?assert(is_process_alive(Handler)).

%% A decision about a peer of a program that has died is none about a peer of the next one.
old_decision(_) ->
    Self = self(),
    {ok, Handler} = pinnace_zap:start_link(zap_handler, fun
        (#{user := <<"ann">>}) ->
            Self ! {asked, ann},
            receive decide -> admit end;
        (_) ->
            deny
    end),
    {Server, Endpoint} = server([{plain_server, true}]),
    {ok, Ann} = pinnace:socket(push, [{linger, 0}, {plain_username, "ann"}, {plain_password, "x"}]),
    ok = pinnace:connect(Ann, Endpoint),
    ?assertEqual({asked, ann}, next()),
    {ok, #{os_pid := OsPid}} = pinnace:info(Server),
    ok = pinnace:disconnect(Ann, Endpoint),
    "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    until(fun() -> {ok, #{os_pid := Next}} = pinnace:info(Server), Next =/= OsPid end),
    _ = client(Endpoint, [{plain_username, "bob"}, {plain_password, "x"}]),
    %% The question about him waits behind the decision about her.
    until(fun() -> element(2, process_info(Handler, message_queue_len)) > 0 end),
    Handler ! decide,
    ?assertEqual({false, 400}, decided()).

calls(_) ->
    {ok, Handler} = pinnace_zap:start_link(zap_handler, fun(_) -> admit end),
    ?assertEqual(0, gen_server:call(Handler, count)),
    Handler ! {from, self()},
    ?assertEqual(noted, next()),
    Handler ! stop,
    until(fun() -> not is_process_alive(Handler) end),
    %% The endpoint is free.
    {ok, _} = pinnace_zap:start_link(zap_handler, fun(_) -> admit end),
    ?assertEqual(ignore, pinnace_zap:start_link(zap_handler, ignore)).

one_for_a_context(_) ->
    {ok, Context} = pinnace:context([]),
    {ok, _} = pinnace_zap:start_link(zap_handler, fun(_) -> deny end),
    process_flag(trap_exit, true),
    ?assertEqual({error, {shutdown, eaddrinuse}}, pinnace_zap:start_link(zap_handler, fun(_) -> admit end)),
    {'EXIT', _, {shutdown, eaddrinuse}} = next(),
    process_flag(trap_exit, false),
    %% Sockets of another context have another handler.
    {ok, _} = pinnace_zap:start_link(Context, zap_handler, fun(_) -> admit end),
    {ok, Pull} = pinnace:socket(Context, pull, [{zap_domain, "test"}]),
    {ok, Endpoint} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    ?assertEqual(true, is_admitted(Pull, Endpoint, [])),
    {Server, Other} = server([]),
    ?assertEqual({false, 400}, is_admitted(Server, Other, [])).

contexts_are_apart(_) ->
    {ok, Context} = pinnace:context([]),
    {ok, A} = pinnace:socket(pull),
    {ok, B} = pinnace:socket(Context, pull, []),
    {ok, _} = pinnace:bind(A, "inproc://same"),
    {ok, _} = pinnace:bind(B, "inproc://same"),
    {ok, Push} = pinnace:socket(Context, push, [{linger, 0}]),
    ok = pinnace:connect(Push, "inproc://same"),
    ok = pinnace:send(Push, <<"x">>),
    ?assertEqual({ok, [<<"x">>]}, pinnace:recv(B, ?PATIENCE_MS)),
    ?assertEqual({error, eagain}, pinnace:recv(A, 0)),
    ok = pinnace:close(Context),
    ?assertEqual({error, closed}, pinnace:send(Push, <<"y">>)),
    ?assertEqual({error, closed}, pinnace:close(Context)),
    ?assertMatch({error, _}, pinnace:socket(Context, pull, [])),
    ?assertMatch({ok, _}, pinnace:info(A)).

options_of_contexts(_) ->
    {ok, Context} = pinnace:context([{io_threads, 2}, {max_sockets, 2}, {ipv6, true}]),
    ?assertEqual({ok, [{io_threads, 2}, {max_sockets, 2}, {ipv6, 1}]},
                 pinnace:getopts(Context, [io_threads, max_sockets, ipv6])),
    {ok, First} = pinnace:socket(Context, pull, []),
    ?assertEqual({ok, [{ipv6, 1}]}, pinnace:getopts(First, [ipv6])),
    {ok, _} = pinnace:socket(Context, pull, []),
    ?assertEqual({error, emfile}, pinnace:socket(Context, pull, [])),
    ?assertEqual({ok, [{max_sockets, 1023}]}, pinnace:getopts(pinnace:context(), [max_sockets])).

%% 10,000 inproc sockets in the long form, or a clear error at the limit of descriptors.
many_sockets(_) ->
    Count = case waiting:is_long() of true -> 10000; false -> 2000 end,
    {ok, Context} = pinnace:context([{max_sockets, Count + 1}]),
    {ok, Pull} = pinnace:socket(Context, pull, []),
    {ok, _} = pinnace:bind(Pull, "inproc://many"),
    Connect = fun Connect(Left, Sockets) when Left > 0 ->
                      case pinnace:socket(Context, push, [{linger, 0}]) of
                          {ok, Push} ->
                              ok = pinnace:connect(Push, "inproc://many"),
                              Connect(Left - 1, [Push | Sockets]);
                          {error, Reason} ->
                              ?assertEqual(emfile, Reason),
                              Sockets
                      end;
                  Connect(0, Sockets) -> Sockets
              end,
    Sockets = Connect(Count, []),
    ?assert(length(Sockets) >= 400),
    [ok = pinnace:send(Push, <<"x">>) || Push <- Sockets],
    [{ok, [<<"x">>]} = pinnace:recv(Pull, ?PATIENCE_MS) || _ <- Sockets],
    ok = pinnace:close(Context),
    ?assertMatch({ok, _}, pinnace:socket(pull)).

context_is_made_again(_) ->
    {ok, Context} = pinnace:context([{max_sockets, 7}]),
    {ok, Pull} = pinnace:socket(Context, pull, []),
    {ok, _} = pinnace:bind(Pull, "inproc://again"),
    {ok, #{os_pid := OsPid}} = pinnace:info(Pull),
    "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    until(fun() -> {ok, #{os_pid := Next}} = pinnace:info(Pull), Next =/= OsPid end),
    ?assertEqual({ok, [{max_sockets, 7}]}, pinnace:getopts(Context, [max_sockets])),
    {ok, Push} = pinnace:socket(Context, push, []),
    ok = pinnace:connect(Push, "inproc://again"),
    ok = pinnace:send(Push, <<"x">>),
    ?assertEqual({ok, [<<"x">>]}, pinnace:recv(Pull, ?PATIENCE_MS)).

closed_context_sends_what_waits(_) ->
    {ok, Context} = pinnace:context([]),
    {ok, Push} = pinnace:socket(Context, push, [{sndhwm, 1}]),
    {ok, Endpoint} = pinnace:bind(Push, "tcp://127.0.0.1:*"),
    Messages = [integer_to_binary(Number) || Number <- lists:seq(1, 100)],
    ok = pinnace:send_many(Push, Messages),
    ok = pinnace:close(Context),
    {ok, Pull} = pinnace:socket(pull),
    ok = pinnace:connect(Pull, Endpoint),
    ?assertEqual(Messages, [begin {ok, [Message]} = pinnace:recv(Pull, ?PATIENCE_MS), Message end || _ <- Messages]).

wrong_use(_) ->
    ?assertEqual({error, einval}, pinnace:context([{nonsense, 1}])),
    ?assertEqual({error, einval}, pinnace:context([{max_sockets, many}])),
    ?assertEqual({error, einval}, pinnace:context([{io_threads, -1}])),
    ?assertEqual({error, einval}, pinnace:getopts(pinnace:context(), [nonsense])),
    ?assertEqual({error, einval}, pinnace:close(pinnace:context())),
    ok = application:stop(pinnace),
    ?assertEqual({error, not_started}, pinnace:socket(pull)),
    ?assertEqual({error, not_started}, pinnace:context([])),
    {ok, _} = application:ensure_all_started(pinnace).
