%% ZAP handlers and certificates of `czmq'.
-module(czmq_zauth_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

-import(czmq_pairs, [new/2, join/2, endpoint/1, string_of/1]).

start() ->
    {ok, Context} = czmq:start(),
    Context.

stop(Context) ->
    ok = czmq:terminate(Context),
    ok = application:stop(pinnace).

zauth_test_() ->
    Tests = [fun addresses/1, fun passwords/1, fun keys/1, fun certificates/1, fun certificates_of_other_programs/1,
             fun one_handler/1, fun the_handler_ends_with_its_context/1,
             fun nobody_is_admitted_without_the_handler/1, fun the_handler_is_back_before_the_sockets/1],
    {foreach, fun start/0, fun stop/1, each(Tests)}.

%% A directory of its own for a test.
with_directory(Do) ->
    Directory = filename:join("_build", "czmq." ++ integer_to_list(erlang:unique_integer([positive]))),
    ok = filelib:ensure_dir(filename:join(Directory, "x")),
    try Do(Directory)
    after ok = file:del_dir_r(Directory)
    end.

%% Whether a client is admitted to a server: its message arrives, or its handshake is refused.
is_admitted(Server, Client) ->
    {ok, _, Socket, _} = czmq_context:find(Server),
    {ok, Monitor} = pinnace:monitor(Socket),
    join(Server, Client),
    Is = handshake(Socket, erlang:monotonic_time(millisecond) + ?PATIENCE_MS),
    ok = pinnace:close(Monitor),
    ok = czmq:zstr_send(Client, "hello"),
    case Is of
        true -> ?assertEqual({ok, "hello"}, string_of(Server));
        false -> ?assertEqual(error, czmq:zstr_recv_nowait(Server))
    end,
    ok = czmq:zsocket_destroy(Client),
    ok = czmq:zsocket_destroy(Server),
    flush(),
    Is.

handshake(Socket, Deadline) ->
    receive
        {pinnace_event, Socket, #{event := handshake_succeeded}} -> true;
        {pinnace_event, Socket, #{event := handshake_failed_auth}} -> false
    after max(Deadline - erlang:monotonic_time(millisecond), 0) -> late
    end.

flush() ->
    receive {pinnace_event, _, _} -> flush()
    after 0 -> ok
    end.

plain(Context, Domain, User, Password) ->
    Server = new(Context, pull),
    ok = czmq:zsocket_set_plain_server(Server, true),
    ok = czmq:zsocket_set_zap_domain(Server, Domain),
    Client = new(Context, push),
    ok = czmq:zsocket_set_plain_username(Client, User),
    ok = czmq:zsocket_set_plain_password(Client, Password),
    is_admitted(Server, Client).

passwords(Context) ->
    with_directory(fun(Directory) ->
        File = filename:join(Directory, "passwords"),
        ok = file:write_file(File, "# users\nadmin=secret=x\r\n\nguest=\nnonsense\n#hidden=1\n"),
        {ok, Auth} = czmq:zauth_new(Context),
        ?assertNot(plain(Context, "d", "admin", "secret=x")),
        ?assertEqual({error, configure_plain_failed},
                     czmq:zauth_configure_plain(Auth, "d", filename:join(Directory, "none"))),
        ok = czmq:zauth_configure_plain(Auth, "d", File),
        ?assert(plain(Context, "d", "admin", "secret=x")),
        ?assertNot(plain(Context, "d", "admin", "secret")),
        ?assertNot(plain(Context, "d", "admin", "secret=y")),
        ?assertNot(plain(Context, "d", "#hidden", "1")),
        ?assertNot(plain(Context, "other", "admin", "secret=x")),
        %% All domains, and a file that has changed.
        ok = czmq:zauth_configure_plain(Auth, "*", File),
        ?assert(plain(Context, "other", "admin", "secret=x")),
        ok = file:write_file(File, "admin=new"),
        ?assertNot(plain(Context, "other", "admin", "secret=x")),
        ?assert(plain(Context, "other", "admin", "new")),
        ok = file:delete(File),
        ?assertNot(plain(Context, "other", "admin", "new"))
    end).

curve(Context, Domain, Cert) ->
    {ok, Own} = czmq:zcert_new(Context),
    Server = new(Context, pull),
    ok = czmq:zcert_apply(Own, Server),
    ok = czmq:zsocket_set_curve_server(Server, true),
    ok = czmq:zsocket_set_zap_domain(Server, Domain),
    Client = new(Context, push),
    ok = czmq:zcert_apply(Cert, Client),
    {ok, Key} = czmq:zcert_public_txt(Own),
    ?assertEqual(40, length(Key)),
    ok = czmq:zsocket_set_curve_serverkey(Client, Key),
    is_admitted(Server, Client).

keys(Context) ->
    with_directory(fun(Directory) ->
        {ok, Cert} = czmq:zcert_new(Context),
        {ok, Stranger} = czmq:zcert_new(Context),
        %% Without a handler all keys are admitted.
        ?assert(curve(Context, "d", Stranger)),
        {ok, Auth} = czmq:zauth_new(Context),
        ?assertNot(curve(Context, "d", Stranger)),
        ?assertEqual({error, configure_curve_failed},
                     czmq:zauth_configure_curve(Auth, "d", filename:join(Directory, "none"))),
        ok = czmq:zauth_configure_curve(Auth, "d", Directory),
        ?assertNot(curve(Context, "d", Cert)),
        ok = czmq:zcert_save_public(Cert, filename:join(Directory, "friend")),
        ?assert(curve(Context, "d", Cert)),
        ?assertNot(curve(Context, "d", Stranger)),
        ?assertNot(curve(Context, "other", Cert)),
        [begin
            ok = czmq:zauth_configure_curve(Auth, "*", Any),
            ?assert(curve(Context, "other", Stranger))
         end || Any <- [allow_any, "*"]]
    end).

certificates(Context) ->
    with_directory(fun(Directory) ->
        {ok, Cert} = czmq:zcert_new(Context),
        Name = filename:join(Directory, "name"),
        ok = czmq:zcert_save_public(Cert, Name),
        {ok, Text} = file:read_file(Name),
        {ok, Key} = czmq:zcert_public_txt(Cert),
        {match, [Key]} = re:run(Text, "^metadata\ncurve\n    public-key = \"(.{40})\"\n$",
                                [multiline, {capture, all_but_first, list}]),
        ?assertEqual(nomatch, re:run(Text, "secret-key")),
        ?assertEqual({error, save_public_failed}, czmq:zcert_save_public(Cert, filename:join(Name, "x"))),
        Socket = new(Context, dealer),
        ok = czmq:zsocket_destroy(Socket),
        ?assertEqual({error, invalid_socket}, czmq:zcert_apply(Cert, Socket))
    end).

%% Certificates that were written by hand or by CZMQ, and files that are none.
certificates_of_other_programs(Context) ->
    with_directory(fun(Directory) ->
        {ok, Cert} = czmq:zcert_new(Context),
        {ok, Key} = czmq:zcert_public_txt(Cert),
        Name = filename:join(Directory, "friend"),
        {ok, Auth} = czmq:zauth_new(Context),
        ok = czmq:zauth_configure_curve(Auth, "*", Directory),
        ok = file:make_dir(filename:join(Directory, "nested")),
        ok = file:write_file(filename:join(Directory, "nonsense"), [<<0, 255, 10>>, lists:duplicate(1000, $x)]),
        Good = ["#   ZeroMQ CURVE Public Certificate\n\nmetadata\n    name = \"A # name\"\ncurve\n    public-key = \"",
                Key, "\"\n"],
        Single = ["curve\r\n    public-key='", Key, "'\r\n"],
        Bad = [["other\n    public-key = \"", Key, "\"\n"], ["curve\n    secret-key = \"", Key, "\"\n"],
               ["curve\n    public-key = \"", tl(Key), "\"\n"], ["# curve\n#    public-key = \"", Key, "\"\n"], ""],
        [begin ok = file:write_file(Name, Text), ?assertEqual({Is, Text}, {curve(Context, "d", Cert), Text}) end
         || {Is, Text} <- [{true, Good}, {true, Single}] ++ [{false, Text} || Text <- Bad]],
        %% A secret certificate is no permission.
        ok = file:delete(Name),
        ok = file:write_file(Name ++ "_secret", Good),
        ?assertNot(curve(Context, "d", Cert))
    end).

null(Context) ->
    Server = new(Context, pull),
    ok = czmq:zsocket_set_zap_domain(Server, "d"),
    is_admitted(Server, new(Context, push)).

addresses(Context) ->
    {ok, Auth} = czmq:zauth_new(Context),
    ?assert(null(Context)),
    ok = czmq:zauth_deny(Auth, "10.0.0.1"),
    ?assert(null(Context)),
    ok = czmq:zauth_deny(Auth, <<"127.0.0.1">>),
    ?assertNot(null(Context)),
    ok = czmq:zauth_allow(Auth, "127.0.0.1"),
    ?assert(null(Context)),
    ok = czmq:zauth_destroy(Auth),
    {ok, Other} = czmq:zauth_new(Context),
    ok = czmq:zauth_allow(Other, "10.0.0.1"),
    ?assertNot(null(Context)),
    ?assertError(badarg, czmq:zauth_allow(Other, nonsense)).

one_handler(Context) ->
    {ok, Auth} = czmq:zauth_new(Context),
    ?assertEqual({error, new_failed}, czmq:zauth_new(Context)),
    {ok, Other} = czmq:start(),
    ?assertEqual({error, new_failed}, czmq:zauth_new(Other)),
    ok = czmq:zauth_destroy(Auth),
    {ok, _} = czmq:zauth_new(Other),
    ok = czmq:terminate(Other).

the_handler_ends_with_its_context(Context) ->
    {ok, Other} = czmq:start(),
    {ok, _} = czmq:zauth_new(Other),
    ok = czmq:terminate(Other),
    New = fun() -> case czmq:zauth_new(Context) of {error, new_failed} -> error; Made -> Made end end,
    ?assertMatch({ok, _}, result(New)).

%% A handler that fails ends its context, because the sockets would admit every peer.
nobody_is_admitted_without_the_handler(_Context) ->
    {ok, Other} = czmq:start(),
    {ok, {_, Index}} = czmq:zauth_new(Other),
    {ok, Handler} = czmq_context:call(Other, {auth, Index}),
    Monitor = monitor(process, Other),
    exit(Handler, kill),
    ?assertEqual({shutdown, {zauth, killed}},
                 receive {'DOWN', Monitor, process, Other, Reason} -> Reason after ?PATIENCE_MS -> late end).

%% The program dies, and another one makes all again. A stranger that connects meanwhile is not admitted.
the_handler_is_back_before_the_sockets(Context) ->
    ok = logger:set_primary_config(level, none),
    {ok, Own} = czmq:zcert_new(Context),
    {ok, Server} = czmq:zsocket_new(Context, pull),
    ok = czmq:zcert_apply(Own, Server),
    ok = czmq:zsocket_set_curve_server(Server, true),
    {ok, Port} = czmq:zsocket_bind(Server, "tcp://127.0.0.1:*"),
    {ok, Key} = czmq:zcert_public_txt(Own),
    {Friend, Stranger} = {client(Context, Key), client(Context, Key)},
    %% They take a while to be made.
    _ = [{ok, _} = czmq:zsocket_new(Context, pull) || _ <- lists:seq(1, 500)],
    {ok, Auth} = czmq:zauth_new(Context),
    with_directory(fun(Directory) ->
        {Cert, Client} = Friend,
        ok = czmq:zcert_save_public(Cert, filename:join(Directory, "friend")),
        ok = czmq:zauth_configure_curve(Auth, "*", Directory),
        [ok = czmq:zsocket_connect(Socket, "tcp://127.0.0.1:" ++ integer_to_list(Port))
         || {_, Socket} <- [Friend, Stranger]],
        ok = czmq:zstr_send(Client, "friend"),
        ?assertEqual({ok, "friend"}, string_of(Server)),
        {_Port, OsPid} = element(2, sys:get_state(pinnace_port)),
        "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
        _ = sent(fun() -> czmq:zstr_send(element(2, Stranger), "stranger") end, OsPid),
        _ = sent(fun() -> czmq:zstr_send(Client, "friend") end, OsPid),
        ?assertEqual({ok, "friend"}, string_of(Server))
    end),
    ok = logger:set_primary_config(level, notice).

client(Context, ServerKey) ->
    {ok, Cert} = czmq:zcert_new(Context),
    {ok, Socket} = czmq:zsocket_new(Context, push),
    ok = czmq:zcert_apply(Cert, Socket),
    ok = czmq:zsocket_set_curve_serverkey(Socket, ServerKey),
    {Cert, Socket}.

%% Sends when there is another program.
sent(Send, OsPid) ->
    result(fun() ->
        case element(2, sys:get_state(pinnace_port)) of
            {_, OsPid} -> error;
            _ -> Send()
        end
    end).
