%% @doc File transfer: files and folders between hosts, verified, and resumed where a transfer has ended.
%%
%% A server and a client are processes, linked to the one that starts them. Transfers of a client run at the same time.
%% A path with which nothing can be done, such as one that does not exist, is a failure in the report, and no error.
%%
%% When pinnace-port dies, servers and clients are made again in the next one, and transfers go on there: what has
%% arrived of a file is not sent again. The report is then that of the last program, and names of a listing come again
%% to `progress'.
-module(pinnace_files).

-export([start_server/1, start_server/2, start_client/1, start_client/2, start_client/3, child_spec/1, stop/1]).
-export([endpoints/1, sent/1]).
-export([get/3, get/4, put/3, put/4, list/2, list/3, discard/2, discard/3]).
-export([transfer/2, transfer/3, wait/1, wait/2, cancel/1]).

-export_type([server/0, client/0, transfer/0, name/0, server_options/0, client_options/0, transfer_options/0, rules/0,
              what/0, kind/0, event/0, entry/0, failure/0, report/0]).

-include("pinnace_files.hrl").

-type name() :: {local, atom()} | {global, term()} | {via, module(), term()}.
-type process() :: pid() | atom() | name().
-type server() :: process().
-type client() :: process().
-type transfer() :: pid().
-type text() :: unicode:chardata().
-type key() :: iodata().
%% Of CURVE: 32 octets, or 40 characters of Z85.
-type server_options() :: #{endpoints => [text()], folders => [{text(), path()} | {text(), path(), writable}],
                            key => key(), cert => path(),
                            users => [{text(), {key, key()} | {cert, path()} | {password, text()}}],
                            grants => [{text(), text(), read | write}], atom() => value()}.
%% `endpoints': where it listens. `folders': which folders it serves, by virtual paths such as `/data'; clients may
%% upload to one that is `writable'. `key', or `cert', a file: the server's secret key. `users': only these are admitted.
%% `grants': what users may do, or `*', which is anybody. All others are those of the C interface in
%% docs/reference/files.md, such as `domain' and `quiet_ms'.
-type client_options() :: #{key => {key(), key()}, cert => {path(), path()}, password => {text(), text()},
                            atom() => value()}.
%% `key': the client's secret key, and the server's public one. `cert': the files of both.
-type rules() :: #{filter => [{exclude | include, text()}], atom() => value()}.
%% `filter': the first pattern that a name matches decides. All others are those of docs/reference/files.md.
-type transfer_options() :: #{progress => pid() | fun((event()) -> term()), events => all | [kind()],
                              timeout => timeout(), filter => [{exclude | include, text()}], atom() => term()}.
%% `progress': a process that gets `{pinnace_files, Transfer, Event}', or a function that the transfer's process calls.
%% The transfer waits for either, but not for a process that waits for its end. `events': which kinds are told (all).
%% `timeout': when it is cancelled, in milliseconds (infinity). All others are rules.
-type value() :: integer() | boolean() | atom() | text().
-type path() :: file:name_all().
-type what() :: {get, Path :: text(), To :: path()} | {put, From :: path(), Path :: text()}
              | {follow, Path :: text(), To :: path()} | {list, Path :: text()} | {discard, Path :: text()}.
%% A virtual path of the server is a text, and one of this host is as those of `file'. As for rsync(1), a slash at the
%% end of the source means the folder's content.
-type kind() :: listed | begun | progress | finished | removed | moved | planned | current | failed | linked | lost.
-type event() :: #{event := kind(), atom() => term()}.
%% `event' is the kind; docs/erlang.md has the others.
-type entry() :: #{path := binary(), type := file | directory | link, bytes := non_neg_integer(),
                   mode := non_neg_integer(), mtime_ns := integer(), target := binary()}.
-type failure() :: #{path := binary(), reason := pinnace:reason(), text := binary(), here := boolean()}.
%% `here': it failed on the disk of this host.
-type report() :: #{files := non_neg_integer(), bytes := non_neg_integer(), failed := non_neg_integer(),
                    failures := [failure()], entries => [entry()]}.
%% `files' and `bytes' that were transferred, and how many files failed. `failures' are the first of these, up to 1 MiB.
%% `entries': the names of a listing, unless they were told to `progress'.
-type result() :: {ok, report()} | {error, pinnace:reason()}.

%% @doc Starts a server.
-spec start_server(server_options()) -> gen_server:start_ret().
start_server(Options) ->
    gen_server:start_link(pinnace_files_channel, {server, Options}, []).

%% @doc As `start_server/1', with a name for the process.
-spec start_server(name(), server_options()) -> gen_server:start_ret().
start_server(Name, Options) ->
    gen_server:start_link(Name, pinnace_files_channel, {server, Options}, []).

%% @doc Starts a client of the server at this endpoint. It connects in the background; transfers tell if no server
%% answers.
-spec start_client(text()) -> gen_server:start_ret().
start_client(Endpoint) ->
    start_client(Endpoint, #{}).

%% @doc As `start_client/1', with options.
-spec start_client(text(), client_options()) -> gen_server:start_ret().
start_client(Endpoint, Options) ->
    gen_server:start_link(pinnace_files_channel, {client, Endpoint, Options}, []).

%% @doc As `start_client/2', with a name for the process.
-spec start_client(name(), text(), client_options()) -> gen_server:start_ret().
start_client(Name, Endpoint, Options) ->
    gen_server:start_link(Name, pinnace_files_channel, {client, Endpoint, Options}, []).

%% @doc For a supervisor: `server' or `client', and the arguments of `start_server' or `start_client' as a list.
-spec child_spec({server | client, [term()]}) -> supervisor:child_spec().
child_spec({server, [First | _] = Arguments}) ->
    #{id => {?MODULE, server, First}, start => {?MODULE, start_server, Arguments}};
child_spec({client, [First | _] = Arguments}) ->
    #{id => {?MODULE, client, First}, start => {?MODULE, start_client, Arguments}}.

%% @doc Ends a server or a client. Transfers of a client end.
-spec stop(server() | client()) -> ok.
stop(Process) ->
    gen_server:stop(case Process of {local, Name} -> Name; _ -> Process end).

%% @doc Where a server listens, with the ports that the system chose.
-spec endpoints(server()) -> {ok, [binary()]} | {error, pinnace:reason()}.
endpoints(Server) ->
    called(Server, fun pinnace_files_channel:endpoints/1).

%% @doc How many octets of content a server has sent to all clients, since the program was started.
-spec sent(server()) -> {ok, non_neg_integer()} | {error, pinnace:reason()}.
sent(Server) ->
    sent(Server, none).

sent(Server, Dead) ->
    case called(Server, fun(Pid) -> pinnace_files_channel:channel(Pid, Dead) end) of
        {ok, Id, Port} ->
            case pinnace_relays:request(Port, ?SENT, <<Id:32>>) of
                {ok, <<Octets:64>>} -> {ok, Octets};
                {error, port_crashed} -> sent(Server, Port);
                {error, {Reason, Text}} when is_binary(Text) -> {error, Reason};
                Error -> Error
            end;
        Error ->
            Error
    end.

called(Process, Call) ->
    try pid(Process) of
        undefined -> {error, closed};
        Pid -> Call(Pid)
    catch
        exit:_ -> {error, closed}
    end.

%% @doc Fetches a file, or a folder with all below it.
-spec get(client(), text(), path()) -> result().
get(Client, Path, To) ->
    get(Client, Path, To, #{}).

%% @doc As `get/3', with options.
-spec get(client(), text(), path(), transfer_options()) -> result().
get(Client, Path, To, Options) ->
    run(Client, {get, Path, To}, Options).

%% @doc Uploads a file, or a folder with all below it.
-spec put(client(), path(), text()) -> result().
put(Client, From, Path) ->
    put(Client, From, Path, #{}).

%% @doc As `put/3', with options.
-spec put(client(), path(), text(), transfer_options()) -> result().
put(Client, From, Path, Options) ->
    run(Client, {put, From, Path}, Options).

%% @doc The names below a path are the `entries' of the report.
-spec list(client(), text()) -> result().
list(Client, Path) ->
    list(Client, Path, #{}).

%% @doc As `list/2', with options. With `progress' the names are told, and the report has no `entries'.
-spec list(client(), text(), transfer_options()) -> result().
list(Client, Path, Options) ->
    run(Client, {list, Path}, Options).

%% @doc Fetches, verifies, and discards what arrives.
-spec discard(client(), text()) -> result().
discard(Client, Path) ->
    discard(Client, Path, #{}).

%% @doc As `discard/2', with options.
-spec discard(client(), text(), transfer_options()) -> result().
discard(Client, Path, Options) ->
    run(Client, {discard, Path}, Options).

run(Client, What, Options) ->
    case start(true, Client, What, Options) of
        {ok, Transfer} -> wait(Transfer);
        Error -> Error
    end.

start(IsAwaited, Client, What, Options) ->
    case pid(Client) of
        Pid when is_pid(Pid), node(Pid) =:= node() -> pinnace_files_transfer:start(IsAwaited, Pid, What, Options);
        Pid when is_pid(Pid) -> {error, remote_node};
        undefined -> {error, closed}
    end.

pid(Pid) when is_pid(Pid) -> Pid;
pid(Name) when is_atom(Name) -> whereis(Name);
pid({local, Name}) -> whereis(Name);
pid({global, Name}) -> global:whereis_name(Name);
pid({via, Module, Name}) -> Module:whereis_name(Name).

%% @doc Begins a transfer of the calling process, which gets `{pinnace_files, Transfer, {ended, Result}}' at its end. It
%% is the only way to follow a folder: that goes on until it is cancelled. The transfer ends with the calling process.
-spec transfer(client(), what()) -> {ok, transfer()} | {error, pinnace:reason()}.
transfer(Client, What) ->
    transfer(Client, What, #{}).

%% @doc As `transfer/2', with options.
-spec transfer(client(), what(), transfer_options()) -> {ok, transfer()} | {error, pinnace:reason()}.
transfer(Client, What, Options) ->
    start(false, Client, What, Options).

%% @doc Waits for the end of a transfer of the calling process, and takes its message.
-spec wait(transfer()) -> result().
wait(Transfer) ->
    wait(Transfer, infinity).

%% @doc As `wait/1', for at most so many milliseconds. Error `timeout': the transfer goes on.
-spec wait(transfer(), timeout()) -> result().
wait(Transfer, Timeout) ->
    Monitor = monitor(process, Transfer),
    receive
        {pinnace_files, Transfer, {ended, Result}} ->
            true = demonitor(Monitor, [flush]),
            Result;
        {'DOWN', Monitor, process, _, _} ->
            {error, closed}
    after Timeout ->
        true = demonitor(Monitor, [flush]),
        {error, timeout}
    end.

%% @doc Cancels a transfer. It ends with `ecanceled', unless it was complete. What has arrived of a file is kept.
-spec cancel(transfer()) -> ok.
cancel(Transfer) ->
    pinnace_files_transfer:cancel(Transfer).
