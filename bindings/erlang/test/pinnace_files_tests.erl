%% File transfer.
-module(pinnace_files_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

-define(MIB, (1024 * 1024)).

%% Each test has the application, a folder that is served, one to fetch to, a server and a client.
files_test_() ->
    {foreach, fun start/0, fun stop/1, waiting:each([
        fun a_file_goes_both_ways/1, fun a_folder_goes_both_ways/1, fun a_path_of_this_host_is_absolute/1,
        fun names_are_listed/1, fun progress_is_told_to_a_function/1, fun progress_is_told_to_a_process/1,
        fun all_events_reach_a_process_that_waits/1, fun what_is_not_read_holds_up_the_transfer/1,
        fun a_transfer_is_cancelled/1, fun a_transfer_ends_with_its_owner/1, fun a_transfer_ends_with_its_client/1,
        fun a_folder_is_followed/1, fun users_have_keys_passwords_and_rights/1,
        fun failures_are_told/1, fun a_missing_server_is_told/1, fun options_are_checked/1,
        fun a_function_that_fails_ends_the_transfer/1, fun processes_have_names/1
    ])}.

crash_test_() ->
    {foreach, fun start/0, fun stop/1, [fun(Made) -> {timeout, 120, {Name, fun() -> Test(Made) end}} end
     || {Name, Test} <- [{"get", fun a_get_goes_on_in_the_next_program/1},
                         {"put", fun a_put_goes_on_in_the_next_program/1},
                         {"pinnace_port", fun a_get_goes_on_after_the_process_of_the_port/1},
                         {"follow", fun a_followed_folder_goes_on_in_the_next_program/1},
                         {"start", fun a_server_starts_while_the_program_dies/1},
                         {"list", fun names_come_once_after_a_crash/1},
                         {"application", fun transfers_end_with_the_application/1}]]}.

start() ->
    {ok, _} = application:ensure_all_started(pinnace),
    Name = io_lib:format("pinnace-files-~s-~b", [os:getpid(), erlang:unique_integer([positive])]),
    Place = filename:join("/tmp", lists:flatten(Name)),
    [From, To] = [filename:join(Place, Folder) || Folder <- ["from", "to"]],
    [ok = filelib:ensure_path(Made) || Made <- [From, To]],
    {ok, Server} = pinnace_files:start_server(#{endpoints => ["tcp://127.0.0.1:*"], quiet_ms => 10,
                                                folders => [{"/data", From, writable}]}),
    {ok, [Endpoint]} = pinnace_files:endpoints(Server),
    {ok, Client} = pinnace_files:start_client(Endpoint),
    %% A test may end the application, and so these.
    [unlink(Process) || Process <- [Server, Client]],
    #{place => Place, from => From, to => To, server => Server, client => Client, endpoint => Endpoint}.

stop(#{place := Place, server := Server, client := Client}) ->
    [is_process_alive(Process) andalso pinnace_files:stop(Process) || Process <- [Client, Server]],
    _ = application:stop(pinnace),
    %% The program may still write.
    until(fun() -> ok =:= file:del_dir_r(Place) end).

below(Folder, Name) -> filename:join(Folder, Name).

write(Folder, Name, Content) -> ok = file:write_file(below(Folder, Name), Content).

%% A client that fetches so slowly that something can happen in the middle.
slow(#{endpoint := Endpoint}, Rate) ->
    {ok, Client} = pinnace_files:start_client(Endpoint, #{limit_rate => Rate}),
    Client.

%% Waits for progress of at least so many octets.
progressed(Transfer, Octets) when Octets > 0 ->
    receive {pinnace_files, Transfer, #{event := progress, bytes := Bytes}} -> progressed(Transfer, Octets - Bytes)
    after ?PATIENCE_MS -> error(no_progress)
    end;
progressed(_Transfer, _Octets) ->
    ok.

%% All events that a process has got.
told(Transfer) ->
    receive {pinnace_files, Transfer, #{} = Event} -> [Event | told(Transfer)]
    after 0 -> []
    end.

a_file_goes_both_ways(#{from := From, to := To, client := Client, server := Server}) ->
    write(From, "a", "content"),
    ?assertEqual({ok, #{files => 1, bytes => 7, failed => 0, failures => []}},
                 pinnace_files:get(Client, "/data/a", below(To, "b"))),
    ?assertEqual({ok, <<"content">>}, file:read_file(below(To, "b"))),
    %% It is there already.
    ?assertMatch({ok, #{files := 0}}, pinnace_files:get(Client, "/data/a", below(To, "b"))),
    ?assertMatch({ok, #{files := 1}}, pinnace_files:put(Client, below(To, "b"), <<"/data/c">>)),
    ?assertEqual({ok, <<"content">>}, file:read_file(below(From, "c"))),
    ?assertMatch({ok, #{files := 2, bytes := 14}}, pinnace_files:discard(Client, "/data/")),
    {ok, Sent} = pinnace_files:sent(Server),
    ?assert(Sent >= 21).

a_folder_goes_both_ways(#{from := From, to := To, client := Client}) ->
    ok = file:make_dir(below(From, "sub")),
    write(From, "a", "content"),
    write(From, "sub/b", binary:copy(<<"text">>, ?MIB)),
    write(From, "sub/ü", "umlaut"),
    Rules = #{filter => [{exclude, "/a"}], compress => true, existing => different},
    ?assertMatch({ok, #{files := 2, failed := 0}}, pinnace_files:get(Client, "/data/", To, Rules)),
    ?assertEqual({ok, binary:copy(<<"text">>, ?MIB)}, file:read_file(below(To, "sub/b"))),
    ?assertEqual({ok, ["sub"]}, file:list_dir(To)),
    ?assertMatch({ok, #{files := 2}}, pinnace_files:put(Client, below(To, "sub"), "/data/back/")),
    ?assertEqual({ok, <<"umlaut">>}, file:read_file(below(From, "back/sub/ü"))),
    %% What the source does not have is removed.
    write(To, "sub/more", "more"),
    ?assertMatch({ok, #{files := 0}}, pinnace_files:get(Client, "/data/sub/", below(To, "sub/"), #{deletion => true})),
    ?assertEqual({error, enoent}, file:read_file(below(To, "sub/more"))).

%% The program may be in another directory than the node.
a_path_of_this_host_is_absolute(#{from := From, to := To, client := Client}) ->
    write(From, "a", "content"),
    {ok, Before} = file:get_cwd(),
    try
        ok = file:set_cwd(To),
        ?assertMatch({ok, #{files := 1}}, pinnace_files:get(Client, "/data/a", "new/")),
        ?assertMatch({ok, #{files := 1}}, pinnace_files:get(Client, "/data/a", <<"b">>))
    after
        ok = file:set_cwd(Before)
    end,
    ?assertEqual({ok, <<"content">>}, file:read_file(below(To, "new/a"))),
    ?assertEqual({ok, <<"content">>}, file:read_file(below(To, "b"))).

names_are_listed(#{from := From, client := Client}) ->
    ok = file:make_dir(below(From, "sub")),
    ok = file:make_symlink("sub", below(From, "link")),
    write(From, "sub/b", "text"),
    {ok, #{entries := Entries}} = pinnace_files:list(Client, "/data/"),
    [Link, Sub, File] = lists:sort(fun(#{path := A}, #{path := B}) -> A =< B end, Entries),
    ?assertMatch(#{path := <<"link">>, type := link, target := <<"sub">>}, Link),
    ?assertMatch(#{path := <<"sub">>, type := directory}, Sub),
    ?assertMatch(#{path := <<"sub/b">>, type := file, bytes := 4, target := <<>>}, File),
    #{mtime_ns := Time} = File,
    ?assert(abs(Time div 1000000000 - erlang:system_time(second)) < 60),
    ?assertMatch({ok, #{failed := 1, entries := [], failures := [#{reason := enoent}]}},
                 pinnace_files:list(Client, "/data/none")).

progress_is_told_to_a_function(#{from := From, to := To, client := Client}) ->
    Content = rand:bytes(3 * ?MIB),
    write(From, "a", Content),
    Self = self(),
    {ok, _} = pinnace_files:get(Client, "/data/a", To, #{progress => fun(Event) -> Self ! {told, Event} end}),
    Events = [Event || {told, Event} <- element(2, process_info(self(), messages))],
    ?assertMatch([#{event := begun, path := <<"/data/a">>, bytes := 3 * ?MIB} | _], Events),
    ?assertEqual(3 * ?MIB, lists:sum([Bytes || #{event := progress, bytes := Bytes} <- Events])),
    ?assertMatch(#{event := finished, path := <<"/data/a">>, bytes := 3 * ?MIB, digest := <<_:32/binary>>},
                 lists:last(Events)).

progress_is_told_to_a_process(#{from := From, to := To, client := Client}) ->
    write(From, "a", "content"),
    {ok, Transfer} = pinnace_files:transfer(Client, {get, "/data/a", To},
                                            #{progress => self(), events => [finished, failed]}),
    ?assertMatch({ok, #{files := 1}}, pinnace_files:wait(Transfer, ?PATIENCE_MS)),
    ?assertMatch([#{event := finished}], told(Transfer)),
    ?assertEqual({error, closed}, pinnace_files:wait(Transfer)).

many(From, Count) ->
    [write(From, [integer_to_list(Number) | lists:duplicate(200, $n)], "") || Number <- lists:seq(1, Count)].

%% It does not read meanwhile.
all_events_reach_a_process_that_waits(#{from := From, client := Client}) ->
    many(From, 1500),
    {ok, Report} = pinnace_files:list(Client, "/data/", #{progress => self()}),
    ?assertMatch(#{files := 1500}, Report),
    ?assertNot(is_map_key(entries, Report)),
    {messages, Messages} = process_info(self(), messages),
    ?assertEqual(1500, length([listed || {pinnace_files, _, #{event := listed}} <- Messages])).

what_is_not_read_holds_up_the_transfer(#{from := From, client := Client}) ->
    many(From, 2500),
    {ok, Transfer} = pinnace_files:transfer(Client, {list, "/data/"}, #{progress => self()}),
    until(fun() -> element(2, process_info(self(), message_queue_len)) > 1000 end),
    %% The others do not come for a moment.
    receive never -> ok after ?A_MOMENT_MS -> ok end,
    ?assert(element(2, process_info(self(), message_queue_len)) < 2000),
    ?assertEqual(2500, read_all(Transfer, 0)).

read_all(Transfer, Count) ->
    case next() of
        {pinnace_files, Transfer, #{event := listed}} -> read_all(Transfer, Count + 1);
        {pinnace_files, Transfer, {ended, {ok, #{files := Count}}}} -> Count
    end.

a_transfer_is_cancelled(#{from := From, to := To, client := Client} = Made) ->
    Content = rand:bytes(6 * ?MIB),
    write(From, "a", Content),
    Slow = slow(Made, 3000000),
    {ok, Transfer} = pinnace_files:transfer(Slow, {get, "/data/a", To}, #{progress => self(), events => [progress]}),
    progressed(Transfer, ?MIB),
    ?assertEqual({error, timeout}, pinnace_files:wait(Transfer, 1)),
    ok = pinnace_files:cancel(Transfer),
    ?assertEqual({error, ecanceled}, pinnace_files:wait(Transfer, ?PATIENCE_MS)),
    ok = pinnace_files:cancel(Transfer),
    ?assertEqual({error, timeout}, pinnace_files:get(Slow, "/data/a", To, #{timeout => 200})),
    ?assertEqual({error, enoent}, file:read_file(below(To, "a"))),
    %% What has arrived is not sent again.
    {ok, Next} = pinnace_files:transfer(Client, {get, "/data/a", To}, #{progress => self(), events => [progress]}),
    ?assertMatch({ok, #{files := 1}}, pinnace_files:wait(Next, ?PATIENCE_MS)),
    ?assert(lists:sum([Bytes || #{bytes := Bytes} <- told(Next)]) < 6 * ?MIB),
    ?assertEqual({ok, Content}, file:read_file(below(To, "a"))).

%% Nobody writes the file any more: another transfer of it need not wait.
a_transfer_ends_with_its_owner(#{from := From, to := To, client := Client} = Made) ->
    write(From, "a", rand:bytes(6 * ?MIB)),
    Slow = slow(Made, 100000),
    Self = self(),
    Owner = spawn(fun() ->
        Self ! pinnace_files:transfer(Slow, {get, "/data/a", To}, #{progress => Self, events => [progress]}),
        receive never -> ok end
    end),
    {ok, Transfer} = next(),
    progressed(Transfer, 1),
    Monitor = monitor(process, Transfer),
    exit(Owner, kill),
    receive {'DOWN', Monitor, process, _, normal} -> ok after ?PATIENCE_MS -> error(it_goes_on) end,
    ?assertMatch({ok, #{files := 1}}, pinnace_files:get(Client, "/data/a", To)).

a_transfer_ends_with_its_client(#{from := From, to := To} = Made) ->
    write(From, "a", rand:bytes(6 * ?MIB)),
    Slow = slow(Made, 100000),
    {ok, Transfer} = pinnace_files:transfer(Slow, {get, "/data/a", To}, #{progress => self(), events => [progress]}),
    progressed(Transfer, 1),
    ok = pinnace_files:stop(Slow),
    {error, Reason} = pinnace_files:wait(Transfer, ?PATIENCE_MS),
    ?assert(lists:member(Reason, [ecanceled, closed])),
    ?assertEqual({error, closed}, pinnace_files:get(Slow, "/data/a", To)).

a_folder_is_followed(#{from := From, to := To, client := Client}) ->
    write(From, "a", "first"),
    {ok, Transfer} = pinnace_files:transfer(Client, {follow, "/data/", To},
                                            #{progress => self(), events => [current, finished, removed],
                                              deletion => true}),
    ?assertMatch({pinnace_files, Transfer, #{event := finished, path := <<"/data/a">>}}, next()),
    ?assertMatch({pinnace_files, Transfer, #{event := current}}, next()),
    write(From, "b", "second"),
    ?assertMatch({pinnace_files, Transfer, #{event := finished, path := <<"/data/b">>}}, next()),
    ?assertEqual({ok, <<"second">>}, file:read_file(below(To, "b"))),
    ok = file:delete(below(From, "a")),
    ?assertMatch({pinnace_files, Transfer, #{event := removed, path := <<"/data/a">>, here := true}}, next()),
    ok = pinnace_files:cancel(Transfer),
    ?assertEqual({error, ecanceled}, pinnace_files:wait(Transfer, ?PATIENCE_MS)).

users_have_keys_passwords_and_rights(#{from := From, to := To}) ->
    write(From, "a", "content"),
    {ok, {Public, Secret}} = pinnace:key_pair(),
    {ok, {Alice, AliceSecret}} = pinnace:key_pair(),
    {ok, Text} = pinnace_z85:encode(Alice),
    Folders = #{endpoints => ["tcp://127.0.0.1:*"], folders => [{"/data", From, writable}]},
    {ok, Server} = pinnace_files:start_server(Folders#{key => Secret, users => [{"alice", {key, Text}}],
                                                       grants => [{"alice", "/data", read}]}),
    {ok, [Endpoint]} = pinnace_files:endpoints(Server),
    {ok, Client} = pinnace_files:start_client(Endpoint, #{key => {AliceSecret, Public}}),
    ?assertMatch({ok, #{files := 1}}, pinnace_files:get(Client, "/data/a", To)),
    ?assertMatch({ok, #{failures := [#{reason := eacces, here := false}]}},
                 pinnace_files:put(Client, below(To, "a"), "/data/b")),
    {ok, Other} = pinnace_files:start_client(Endpoint, #{key => {Secret, Public}, patience_ms => 2000}),
    ?assertEqual({error, eacces}, pinnace_files:get(Other, "/data/a", To)),
    {ok, Second} = pinnace_files:start_server(Folders#{users => [{"bob", {password, "word"}}]}),
    {ok, [Place]} = pinnace_files:endpoints(Second),
    {ok, Bob} = pinnace_files:start_client(Place, #{password => {"bob", "word"}}),
    ?assertMatch({ok, #{files := 1}}, pinnace_files:discard(Bob, "/data/a")),
    %% A log has no secrets.
    Shown = [io_lib:format("~p", [sys:get_status(Process)]) || Process <- [Bob, Second]],
    ?assertEqual(nomatch, string:find(Shown, "\"word\"")),
    [ok = pinnace_files:stop(Process) || Process <- [Client, Other, Bob, Server, Second]].

failures_are_told(#{to := To, client := Client}) ->
    ?assertMatch({ok, #{files := 0, failed := 1, failures := [#{path := <<"/data/none">>, reason := enoent,
                                                                here := false}]}},
                 pinnace_files:get(Client, "/data/none", To)),
    ?assertMatch({ok, #{failures := [#{reason := enoent, here := true}]}},
                 pinnace_files:put(Client, below(To, "none"), "/data/x")).

a_missing_server_is_told(#{to := To}) ->
    {ok, Client} = pinnace_files:start_client("tcp://127.0.0.1:1", #{patience_ms => 100}),
    ?assertEqual({error, ehostunreach}, pinnace_files:get(Client, "/data/a", To)).

options_are_checked(Made) ->
    process_flag(trap_exit, true),
    quietly(fun() -> wrong_options(Made) end).

wrong_options(#{to := To, client := Client, place := Place}) ->
    ?assertMatch({error, {einval, <<"unknown option", _/binary>>}}, pinnace_files:start_server(#{nonsense => 1})),
    [?assertEqual({error, einval}, pinnace_files:start_server(Wrong))
     || Wrong <- [#{folders => [nonsense]}, #{key => "short"}, #{endpoints => [tcp]}, #{users => ["alice"]},
                  #{users => [{"alice", "word"}]}, #{grants => [{"alice", "/data"}]},
                  #{grants => [{"alice", "/data", all}]}]],
    {error, {enoent, Text}} = pinnace_files:start_server(#{folders => [{"/x", below(Place, "none")}]}),
    ?assertEqual(unicode:characters_to_list(Text), pinnace:format_error({enoent, Text})),
    ?assertMatch({error, {enoent, _}}, pinnace_files:start_server(#{cert => below(Place, "none")})),
    ?assertMatch({error, {einval, _}}, pinnace_files:start_client("nonsense")),
    ?assertMatch({error, {einval, _}}, pinnace_files:start_client("tcp://127.0.0.1:1", #{chunk => 0})),
    Get = fun(Options) -> pinnace_files:get(Client, "/data/", To, Options) end,
    [?assertEqual({error, einval}, Get(Options))
     || Options <- [#{nonsense => 1}, #{deletion => 2}, #{existing => all}, #{filter => ["a"]}, #{timeout => -1},
                    #{progress => name}, #{events => all}, #{progress => self(), events => [nonsense]}]],
    ?assertEqual({error, einval}, pinnace_files:list(Client, "/data/", #{deletion => true})),
    ?assertEqual({error, einval}, pinnace_files:transfer(Client, {fetch, "/data/"})),
    ?assertEqual({error, emsgsize}, pinnace_files:get(Client, ["/data/", binary:copy(<<"n">>, ?MIB)], To)),
    ?assertEqual({error, closed}, pinnace_files:get(no_such_process, "/data/", To)),
    ?assertMatch({ok, _}, Get(#{})).

a_function_that_fails_ends_the_transfer(#{from := From, to := To, client := Client}) ->
    write(From, "a", rand:bytes(3 * ?MIB)),
    quietly(fun() ->
        Result = pinnace_files:get(Client, "/data/a", To, #{progress => fun(_) -> error(nonsense) end}),
        %% It may have been complete.
        ?assert(Result =:= {error, progress_failed} orelse element(1, Result) =:= ok)
    end).

processes_have_names(#{from := From, to := To}) ->
    write(From, "a", "content"),
    Endpoint = "ipc://" ++ below(To, "socket"),
    Options = #{endpoints => ["inproc://files", Endpoint], folders => [{"/data", From}]},
    Specs = [pinnace_files:child_spec({server, [{local, my_server}, Options]}),
             pinnace_files:child_spec({client, [{global, my_client}, Endpoint, #{}]})],
    {ok, Supervisor} = supervisor:start_link(pinnace_files_supervisor, Specs),
    ?assertMatch({ok, [<<"inproc://files">>, _]}, pinnace_files:endpoints(my_server)),
    ?assertMatch({ok, #{bytes := 7}}, pinnace_files:discard({global, my_client}, "/data/a")),
    ?assertMatch({ok, 7}, pinnace_files:sent({local, my_server})),
    unlink(Supervisor),
    ok = gen_server:stop(Supervisor),
    ?assertEqual({error, closed}, pinnace_files:endpoints(my_server)),
    ?assertEqual({error, closed}, pinnace_files:discard({global, my_client}, "/data/a")).

%% The end of the program.

kill() ->
    %% One that has died may not be noticed yet.
    Socket = result(fun() ->
        case pinnace:socket(pull) of
            {ok, New} -> New;
            {error, port_crashed} -> error
        end
    end),
    {ok, #{os_pid := OsPid}} = pinnace:info(Socket),
    ok = pinnace:close(Socket),
    "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)).

%% How large the files are that are transferred over a crash; `make faults' has the long form.
mib() ->
    case waiting:is_long() of true -> 200; false -> 40 end.

large(Folder, Name) ->
    Part = rand:bytes(?MIB),
    Parts = [[<<Number:32>> | Part] || Number <- lists:seq(1, mib())],
    write(Folder, Name, Parts),
    erlang:md5(Parts).

digest(Folder, Name) ->
    {ok, Content} = file:read_file(below(Folder, Name)),
    erlang:md5(Content).

quietly(Do) ->
    ok = logger:set_primary_config(level, critical),
    try Do()
    after ok = logger:set_primary_config(level, notice)
    end.

a_get_goes_on_in_the_next_program(#{from := From, to := To} = Made) ->
    Digest = large(From, "a"),
    goes_on(Made, {get, "/data/a", below(To, "b")}, fun kill/0),
    ?assertEqual(Digest, digest(To, "b")).

%% The program ends with the process that has started it, and may still be there when the next one is started.
a_get_goes_on_after_the_process_of_the_port(#{from := From, to := To} = Made) ->
    Digest = large(From, "a"),
    goes_on(Made, {get, "/data/a", below(To, "b")}, fun() -> exit(whereis(pinnace_port), kill) end),
    ?assertEqual(Digest, digest(To, "b")).

a_put_goes_on_in_the_next_program(#{from := From, to := To} = Made) ->
    Digest = large(To, "a"),
    goes_on(Made, {put, below(To, "a"), "/data/b"}, fun kill/0),
    ?assertEqual(Digest, digest(From, "b")).

%% The server is in the program that is killed, too: it gets its port again.
goes_on(#{server := Server, endpoint := Endpoint} = Made, What, Kill) ->
    Slow = slow(Made, 60000000),
    quietly(fun() ->
        {ok, Transfer} = pinnace_files:transfer(Slow, What, #{progress => self(), events => [progress]}),
        progressed(Transfer, mib() * ?MIB div 5),
        Kill(),
        progressed(Transfer, mib() * ?MIB div 10),
        Kill(),
        ?assertMatch({ok, #{files := 1, failed := 0}}, pinnace_files:wait(Transfer, 60000)),
        ?assertEqual({ok, [Endpoint]}, pinnace_files:endpoints(Server)),
        %% The file and what was under way, and not all of it for each program.
        ?assert(lists:sum([Bytes || #{bytes := Bytes} <- told(Transfer)]) < mib() * ?MIB)
    end).

a_followed_folder_goes_on_in_the_next_program(#{from := From, to := To, client := Client}) ->
    quietly(fun() ->
        {ok, Transfer} = pinnace_files:transfer(Client, {follow, "/data/", To}, #{progress => self(),
                                                                                  events => [current]}),
        ?assertMatch({pinnace_files, Transfer, #{event := current}}, next()),
        kill(),
        write(From, "a", "content"),
        until(fun() -> file:read_file(below(To, "a")) =:= {ok, <<"content">>} end),
        ok = pinnace_files:cancel(Transfer),
        ?assertEqual({error, ecanceled}, pinnace_files:wait(Transfer, ?PATIENCE_MS))
    end).

names_come_once_after_a_crash(#{from := From, client := Client}) ->
    many(From, 1000),
    quietly(fun() ->
        {ok, Transfer} = pinnace_files:transfer(Client, {list, "/data/"}),
        kill(),
        {ok, #{entries := Entries}} = pinnace_files:wait(Transfer, ?PATIENCE_MS),
        ?assertEqual(1000, length(Entries)),
        ?assertEqual(1000, length(lists:usort([Path || #{path := Path} <- Entries])))
    end).

%% A program that cannot be started again ends the application in the same way.
transfers_end_with_the_application(#{from := From, to := To} = Made) ->
    write(From, "a", rand:bytes(6 * ?MIB)),
    process_flag(trap_exit, true),
    Slow = slow(Made, 100000),
    quietly(fun() ->
        [Cancelled, Left] = [begin
            {ok, Transfer} = pinnace_files:transfer(Slow, {get, "/data/a", below(To, Name)},
                                                    #{progress => self(), events => [progress]}),
            progressed(Transfer, 1),
            Transfer
        end || Name <- ["a", "b"]],
        ok = application:stop(pinnace),
        [?assert(lists:member(pinnace_files:wait(Transfer, ?PATIENCE_MS),
                              [{error, not_started}, {error, closed}, {error, ecanceled}]))
         || Transfer <- [Cancelled, Left]],
        until(fun() -> not is_process_alive(Slow) end),
        ?assertEqual({error, not_started}, pinnace_files:get(Slow, "/data/a", To)),
        ?assertEqual({error, not_started}, pinnace_files:start_client("tcp://127.0.0.1:1")),
        {ok, _} = application:ensure_all_started(pinnace)
    end).

%% The next program has the server, and the one after that.
a_server_starts_while_the_program_dies(#{from := From}) ->
    {ok, Socket} = pinnace:socket(pair),
    Servers = [begin
        {ok, #{os_pid := OsPid}} = pinnace:info(Socket),
        {ok, Server} = waiting:while_the_program_dies(OsPid, fun() ->
            pinnace_files:start_server(#{endpoints => ["tcp://127.0.0.1:*"], folders => [{"/data", From}]})
        end),
        Server
    end || _ <- [1, 2]],
    [begin
        ?assertEqual({ok, 0}, pinnace_files:sent(Server)),
        ok = pinnace_files:stop(Server)
    end || Server <- Servers].
