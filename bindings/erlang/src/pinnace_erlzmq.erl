%% @doc The functions of erlzmq, over `pinnace'.
%%
%% A message is sent and received frame by frame: `sndmore' tells that another frame follows, and the option `rcvmore'
%% whether one does. With `{active, true}' a process gets `{zmq, Socket, Frame, Flags}', of which `Flags' is `[rcvmore]'
%% or `[]'. Contexts and their sockets live until they are closed, or the application ends. See docs/erlang.md for what
%% is different.
-module(pinnace_erlzmq).

-export([context/0, context/1, term/1, term/2, version/0]).
-export([socket/2, close/1, close/2, bind/2, connect/2]).
-export([send/2, send/3, sendmsg/2, sendmsg/3, recv/1, recv/2, recvmsg/1, recvmsg/2]).
-export([setsockopt/3, getsockopt/2]).

-export_type([context/0, socket/0, type/0, option/0, flag/0]).

-type context() :: pid().
-type socket() :: czmq_context:handle().
-type type() :: pinnace:type().
-type option() :: {active, boolean()} | {active_pid, pid()}.
%% `active_pid' is the caller, if it is not given.
-type flag() :: dontwait | noblock | sndmore.
-type failed() :: {error, pinnace:reason() | enotsock}.

%% @doc A new context. The application `pinnace' is started if it is not.
-spec context() -> {ok, context()} | {error, term()}.
context() ->
    czmq_context:start(#{}).

%% @doc As `context/0'. The number of threads has no effect: all sockets of the node share those of the program.
-spec context(pos_integer()) -> {ok, context()} | {error, term()}.
context(Threads) when is_integer(Threads), Threads > 0 ->
    context().

%% @doc Ends a context with its sockets. What waits is sent, for as long as their option `linger' says.
-spec term(context()) -> ok.
term(Context) ->
    czmq_context:stop(Context).

%% @doc As `term/1', which does not wait, so there is nothing that could take longer than the timeout.
-spec term(context(), timeout()) -> ok.
term(Context, _Timeout) ->
    term(Context).

%% @doc The release of the program.
-spec version() -> {non_neg_integer(), non_neg_integer(), non_neg_integer()} | {error, term()}.
version() ->
    case czmq_context:started() of
        ok ->
            {ok, Release} = pinnace:version(),
            {match, Numbers} = re:run(Release, "^([0-9]+)\\.([0-9]+)\\.([0-9]+)", [{capture, all_but_first, list}]),
            list_to_tuple([list_to_integer(Number) || Number <- Numbers]);
        Error ->
            Error
    end.

%% @doc A new socket of a type, or with options: `[pull, {active, true}]'.
-spec socket(context(), type() | [type() | option()]) -> {ok, socket()} | failed().
socket(Context, Type) when is_atom(Type) ->
    socket(Context, [Type]);
socket(Context, Options) ->
    case [Type || Type <- Options, is_atom(Type)] of
        [Type] ->
            case czmq_context:call(Context, {socket, Type}) of
                {ok, Socket} -> activated(Socket, proplists:get_value(active, Options, false), Options);
                {error, noproc} -> {error, eterm};
                Error -> Error
            end;
        _ ->
            {error, einval}
    end.

activated(Socket, false, _Options) ->
    {ok, Socket};
activated(Socket, true, Options) ->
    Pid = proplists:get_value(active_pid, Options, self()),
    {ok, _} = czmq_poller:start(Socket, [{target, Pid}, {dispatch, fun(Frames) -> tell(Frames, Socket, Pid) end}]),
    {ok, Socket}.

tell([Frame], Socket, Pid) ->
    Pid ! {zmq, Socket, Frame, []};
tell([Frame | Frames], Socket, Pid) ->
    Pid ! {zmq, Socket, Frame, [rcvmore]},
    tell(Frames, Socket, Pid).

%% @doc Closes a socket. What waits is sent, for as long as its option `linger' says.
-spec close(socket()) -> ok | failed().
close({Context, Index}) ->
    checked(czmq_context:call(Context, {destroy, Index})).

%% @doc As `close/1', which does not wait, so there is nothing that could take longer than the timeout.
-spec close(socket(), timeout()) -> ok | failed().
close(Socket, _Timeout) ->
    close(Socket).

-spec bind(socket(), iodata()) -> ok | failed().
bind(Handle, Endpoint) ->
    case with_socket(Handle, fun(Socket) -> pinnace:bind(Socket, Endpoint) end) of
        {ok, _Bound} -> ok;
        Error -> Error
    end.

-spec connect(socket(), iodata()) -> ok | failed().
connect(Handle, Endpoint) ->
    with_socket(Handle, fun(Socket) -> pinnace:connect(Socket, Endpoint) end).

%% @doc Sends a frame, the last of a message. It waits for room.
-spec send(socket(), iodata()) -> ok | failed().
send(Socket, Frame) ->
    send(Socket, Frame, []).

%% @doc As `send/2', with flags. `sndmore': other frames of the message follow, and it is sent with the last. `dontwait'
%% or `noblock': `{error, eagain}' if there is no room.
-spec send(socket(), iodata(), [flag()]) -> ok | failed().
send({_, Index} = Handle, Frame, Flags) ->
    case {Flags -- [dontwait, noblock, sndmore], czmq_context:find(Handle)} of
        {[], {ok, Table, Socket, _}} ->
            Place = case lists:member(sndmore, Flags) of true -> more; false -> last end,
            Options = case is_nowait(Flags) of true -> [nowait]; false -> [] end,
            checked(pinnace_frames:send(Table, Index, Socket, Frame, Place, Options));
        {[], error} ->
            {error, enotsock};
        {_Unknown, _} ->
            {error, einval}
    end.

%% @doc As `send/2'.
-spec sendmsg(socket(), iodata()) -> ok | failed().
sendmsg(Socket, Frame) ->
    send(Socket, Frame).

%% @doc As `send/3'.
-spec sendmsg(socket(), iodata(), [flag()]) -> ok | failed().
sendmsg(Socket, Frame, Flags) ->
    send(Socket, Frame, Flags).

%% @doc The next frame. It waits for one.
-spec recv(socket()) -> {ok, binary()} | failed().
recv(Socket) ->
    recv(Socket, []).

%% @doc As `recv/1', with flags. `dontwait' or `noblock': `{error, eagain}' if there is none.
-spec recv(socket(), [flag()]) -> {ok, binary()} | failed().
recv({_, Index} = Handle, Flags) ->
    case {Flags -- [dontwait, noblock], czmq_context:find(Handle)} of
        {[], {ok, Table, Socket, _}} ->
            Timeout = case is_nowait(Flags) of true -> 0; false -> timeout_of(Table, Index) end,
            case pinnace_frames:recv(Table, Index, Socket, Timeout) of
                {ok, {Frame, _More}} -> {ok, Frame};
                {error, timeout} -> {error, eagain};
                Error -> checked(Error)
            end;
        {[], error} ->
            {error, enotsock};
        {_Unknown, _} ->
            {error, einval}
    end.

%% @doc As `recv/1'.
-spec recvmsg(socket()) -> {ok, binary()} | failed().
recvmsg(Socket) ->
    recv(Socket).

%% @doc As `recv/2'.
-spec recvmsg(socket(), [flag()]) -> {ok, binary()} | failed().
recvmsg(Socket, Flags) ->
    recv(Socket, Flags).

%% `rcvtimeo'.
timeout_of(Table, Index) ->
    try ets:lookup(Table, {timeout, Index}) of
        [{_, Timeout}] when Timeout >= 0 -> Timeout;
        _ -> infinity
    catch
        error:badarg -> infinity
    end.

is_nowait(Flags) ->
    lists:member(dontwait, Flags) orelse lists:member(noblock, Flags).

%% @doc Sets an option. Error: `enotsup' for `sndtimeo'.
-spec setsockopt(socket(), atom(), integer() | boolean() | iodata()) -> ok | failed().
setsockopt(_Handle, sndtimeo, _Value) ->
    {error, enotsup};
setsockopt({_, Index} = Handle, rcvtimeo, Timeout) when is_integer(Timeout), Timeout >= -1 ->
    case czmq_context:find(Handle) of
        {ok, Table, _, _} ->
            true = ets:insert(Table, {{timeout, Index}, Timeout}),
            ok;
        error ->
            {error, enotsock}
    end;
setsockopt(_Handle, rcvtimeo, _Timeout) ->
    {error, einval};
setsockopt(Handle, Name, Value) ->
    with_socket(Handle, fun(Socket) -> pinnace:setopts(Socket, [{option(Name), Value}]) end).

%% @doc The value of an option. `rcvmore': whether other frames follow the one that was received last, 1 or 0.
-spec getsockopt(socket(), atom()) -> {ok, integer() | binary()} | failed().
getsockopt({_, Index} = Handle, rcvmore) ->
    case czmq_context:find(Handle) of
        {ok, Table, _, _} -> {ok, case pinnace_frames:has_more(Table, Index) of true -> 1; false -> 0 end};
        error -> {error, enotsock}
    end;
getsockopt({_, Index} = Handle, rcvtimeo) ->
    case czmq_context:find(Handle) of
        {ok, Table, _, _} -> {ok, case timeout_of(Table, Index) of infinity -> -1; Timeout -> Timeout end};
        error -> {error, enotsock}
    end;
getsockopt(Handle, Name) ->
    Option = option(Name),
    case with_socket(Handle, fun(Socket) -> pinnace:getopts(Socket, [Option]) end) of
        {ok, [{Option, Value}]} -> {ok, Value};
        Error -> Error
    end.

%% Names that have changed since.
option(identity) -> routing_id;
option(Name) -> Name.

with_socket(Handle, Do) ->
    case czmq_context:find(Handle) of
        {ok, _Table, Socket, _Type} -> checked(Do(Socket));
        error -> {error, enotsock}
    end.

checked({error, Reason}) when Reason =:= closed; Reason =:= noproc -> {error, enotsock};
checked(Result) -> Result.
