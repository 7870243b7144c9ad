%% Files of certificates.
-module(pinnace_cert_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

cert_test_() ->
    {foreach, fun start/0, fun stop/1, waiting:each([
        fun what_is_saved_is_loaded/1, fun sockets_have_the_keys/1, fun wrong_certificates_are_refused/1,
        fun a_file_of_the_node_s_directory/1
    ])}.

start() ->
    {ok, _} = application:ensure_all_started(pinnace),
    Name = io_lib:format("pinnace-cert-~s-~b", [os:getpid(), erlang:unique_integer([positive])]),
    Place = filename:join("/tmp", lists:flatten(Name)),
    ok = file:make_dir(Place),
    Place.

stop(Place) ->
    ok = application:stop(pinnace),
    ok = file:del_dir_r(Place).

what_is_saved_is_loaded(Place) ->
    [File, Secret, Other] = [filename:join(Place, Name) || Name <- ["mine", "mine_secret", "other"]],
    {ok, New} = pinnace_cert:new(),
    Cert = New#{metadata := [{<<"name">>, <<"Käthe"/utf8>>}, {<<"place">>, <<"here">>}]},
    Public = maps:remove(secret, Cert),
    ok = pinnace_cert:save(Cert, File),
    [?assertEqual({ok, Cert}, Result)
     || Result <- [pinnace_cert:load(File), pinnace_cert:load_secret(Secret), pinnace_cert:load_own(File),
                   pinnace_cert:load_own(list_to_binary(Secret))]],
    ?assertEqual({ok, Public}, pinnace_cert:load_public(File)),
    ok = pinnace_cert:save_public(Cert, Other),
    ?assertEqual({ok, Public}, pinnace_cert:load(Other)),
    ok = pinnace_cert:save_secret(Cert, Other),
    ?assertEqual({ok, Cert}, pinnace_cert:load_secret(Other)),
    ?assertEqual({error, eexist}, pinnace_cert:save_new(Cert, File)),
    ok = pinnace_cert:save_new(maps:remove(metadata, Cert), filename:join(Place, "new")),
    ?assertEqual({ok, Cert#{metadata := []}}, pinnace_cert:load(filename:join(Place, "new"))).

sockets_have_the_keys(_Place) ->
    [{ok, Server}, {ok, Client}] = [pinnace_cert:new() || _ <- [1, 2]],
    {ok, ServerKeys} = pinnace_cert:options(Server),
    {ok, ClientKeys} = pinnace_cert:options(Client),
    {ok, Pull} = pinnace:socket(pull, [{curve_server, true} | ServerKeys]),
    {ok, Push} = pinnace:socket(push, [{curve_serverkey, maps:get(public, Server)} | ClientKeys]),
    {ok, Endpoint} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    ok = pinnace:connect(Push, Endpoint),
    ok = pinnace:send(Push, <<"secret">>),
    ?assertEqual({ok, [<<"secret">>]}, pinnace:recv(Pull, ?PATIENCE_MS)),
    ?assertEqual({error, enokey}, pinnace_cert:options(maps:remove(secret, Server))).

wrong_certificates_are_refused(Place) ->
    File = filename:join(Place, "mine"),
    [{ok, Cert}, {ok, #{secret := Other}}] = [pinnace_cert:new() || _ <- [1, 2]],
    ?assertEqual({error, enoent}, pinnace_cert:load(File)),
    ?assertEqual({error, enokey}, pinnace_cert:save(maps:remove(secret, Cert), File)),
    ?assertEqual({error, ekeyrejected}, pinnace_cert:save(Cert#{secret := Other}, File)),
    [?assertEqual({error, einval}, pinnace_cert:save(Wrong, File))
     || Wrong <- [#{}, Cert#{public := <<"short">>}, Cert#{secret := none}, Cert#{metadata := [name]},
                  Cert#{metadata := [{"name", "two\nlines"}]}, Cert#{metadata := [{"no name", "x"}]}]],
    ?assertEqual({error, enoent}, pinnace_cert:save(Cert, filename:join([Place, "none", "mine"]))),
    ?assertEqual({error, einval}, pinnace_cert:load(#{})),
    ok = file:write_file(File, "text"),
    ?assertEqual({error, ebadmsg}, pinnace_cert:load_public(File)),
    ok = pinnace_cert:save_public(Cert, File),
    ?assertEqual({error, ekeyrejected}, pinnace_cert:load_own(File)).

%% The program may be in another one.
a_file_of_the_node_s_directory(Place) ->
    {ok, Cert} = pinnace_cert:new(),
    {ok, Before} = file:get_cwd(),
    try
        ok = file:set_cwd(Place),
        ok = pinnace_cert:save(Cert, "mine"),
        ?assertEqual({ok, Cert}, pinnace_cert:load_own("./mine"))
    after
        ok = file:set_cwd(Before)
    end,
    ?assertEqual({ok, Cert}, pinnace_cert:load(filename:join(Place, "mine"))).
