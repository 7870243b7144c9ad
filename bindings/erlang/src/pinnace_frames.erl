%% @private
%% Frames one at a time, for libraries whose calls send and receive frames rather than messages.
%%
%% What is left of a received message, and the frames before the last of a message to send, are rows of a public table
%% under a key for each socket. So callers use sockets directly, and no process stands between. Frames of a message are
%% not shared among callers: a socket has one sender and one receiver at a time. A socket with a poller has no other
%% receiver.
-module(pinnace_frames).

-export([send/6, recv/4, recv_message/4, keep/3, take_kept/2, has_more/2]).

-type key() :: pos_integer().
-type place() :: last | more.

%% Sends a frame. `more': the frame is kept until the last one comes. A call that fails has no effect, and can be
%% repeated.
-spec send(ets:table(), key(), pinnace:socket(), iodata(), place(), [nowait]) -> ok | {error, pinnace:reason()}.
send(Table, Key, Socket, Frame, Place, Options) ->
    Binary = iolist_to_binary(Frame),
    try send_frame(Table, {sent, Key}, Socket, Binary, Place, Options)
    catch error:badarg -> {error, closed} % the table is gone
    end.

send_frame(Table, Row, _Socket, Frame, more, _Options) ->
    put_row(Table, Row, [Frame | take(Table, Row)]);
send_frame(Table, Row, Socket, Frame, last, Options) ->
    Before = take(Table, Row),
    case pinnace:send(Socket, lists:reverse(Before, [Frame]), Options) of
        ok ->
            ok;
        Error ->
            ok = put_row(Table, Row, Before),
            Error
    end.

%% The next frame, and whether more frames of its message follow.
-spec recv(ets:table(), key(), pinnace:socket(), timeout()) -> {ok, {binary(), boolean()}} | {error, pinnace:reason()}.
recv(Table, Key, Socket, Timeout) ->
    case recv_message(Table, Key, Socket, Timeout) of
        {ok, [Frame]} ->
            {ok, {Frame, false}};
        {ok, [Frame | Rest]} ->
            ok = put_received(Table, Key, [{rest, Rest}]),
            {ok, {Frame, true}};
        Error ->
            Error
    end.

%% What is left of the message of which frames were received, or the next message.
-spec recv_message(ets:table(), key(), pinnace:socket(), timeout()) ->
    {ok, pinnace:message()} | {error, pinnace:reason()}.
recv_message(Table, Key, Socket, Timeout) ->
    try not has_poller(Table, Key) andalso take(Table, {received, Key}) of
        false ->
            {error, einval};
        [] ->
            pinnace:recv(Socket, Timeout);
        [{_, Message} | Others] ->
            ok = put_received(Table, Key, Others),
            {ok, Message}
    catch
        error:badarg -> {error, closed}
    end.

%% Keeps messages for the next calls.
-spec keep(ets:table(), key(), [pinnace:message()]) -> ok.
keep(Table, Key, Messages) ->
    put_received(Table, Key, [{whole, Message} || Message <- Messages]).

put_received(Table, Key, Messages) ->
    try put_row(Table, {received, Key}, Messages)
    catch error:badarg -> ok % they end with the socket
    end.

%% All that is kept, which is removed.
-spec take_kept(ets:table(), key()) -> [pinnace:message()].
take_kept(Table, Key) ->
    try [Message || {_, Message} <- take(Table, {received, Key})]
    catch error:badarg -> []
    end.

%% Whether more frames follow of the message of which frames were received.
-spec has_more(ets:table(), key()) -> boolean().
has_more(Table, Key) ->
    try ets:lookup(Table, {received, Key}) of
        [{_, [{rest, _} | _]}] -> true;
        _ -> false
    catch
        error:badarg -> false
    end.

%% `czmq_context' has the row. A poller that was killed is still in it.
has_poller(Table, Key) ->
    case ets:lookup(Table, {poller, Key}) of
        [{_, Poller}] -> is_process_alive(Poller);
        [] -> false
    end.

%% Most messages have one frame: then the table is only read.
take(Table, Row) ->
    case ets:member(Table, Row) andalso ets:take(Table, Row) of
        [{_, Kept}] -> Kept;
        _ -> []
    end.

put_row(_Table, _Row, []) ->
    ok;
put_row(Table, Row, Kept) ->
    case ets:insert_new(Table, {Row, Kept}) of
        true -> ok;
        false -> put_row(Table, Row, Kept ++ take(Table, Row))
    end.
