%% @doc The protocol of the pipes to pinnace-port (docs/port.md), as functions of their arguments.
-module(pinnace_wire).

-export([hello/1, request/3, order/2, send/1, parts/2, last_part/1, given_up/1, credit/3, ping/1]).
-export([encode/1, octets/1, messages/1]).
-export([bytes/1, map/1, entries/1, options/1, option/2, value/2, event/1, batches/1, fits/1, fits_request/1]).

-export_type([message/0]).

-define(HELLO, 1).
-define(REQUEST, 2).
-define(SEND, 3).
-define(PART, 4).
-define(CREDIT, 5).
-define(PING, 6).

-define(PART_MAX, (1048576 - 6)).
%% The octets of a part. With larger ones the port allocates and frees memory of the system for each.
-define(PART_SIZE, 262144).
%% What a part is of its message.
-define(MIDDLE, 0).
-define(LAST, 1).
-define(GIVEN_UP, 2).

-type message() :: [binary(), ...].
%% The frames of a message.

-spec hello(1..65535) -> iodata().
hello(Version) ->
    <<?HELLO, Version:16>>.

-spec request(non_neg_integer(), pos_integer(), iodata()) -> iodata().
request(Id, Operation, Arguments) ->
    [<<?REQUEST, Id:32, Operation:16>> | Arguments].

%% A request that is not answered.
-spec order(pos_integer(), iodata()) -> iodata().
order(Operation, Arguments) ->
    request(0, Operation, Arguments).

%% The begin of a packet of messages.
-spec send(pos_integer()) -> binary().
send(Channel) ->
    <<?SEND, Channel:32>>.

%% The packets of a message that is too large for one. `last_part/1' comes behind them. Binaries are not copied.
-spec parts(pos_integer(), iodata()) -> [iodata()].
parts(Channel, Encoded) ->
    parts(Channel, erlang:iolist_to_iovec(Encoded), [], 0).

parts(_Channel, [], [], 0) ->
    [];
parts(Channel, [], Part, _Size) ->
    [[<<?PART, Channel:32, ?MIDDLE>>, Part]];
parts(Channel, [Binary | Binaries], Part, Size) when Size + byte_size(Binary) =< ?PART_SIZE ->
    parts(Channel, Binaries, [Part, Binary], Size + byte_size(Binary));
parts(Channel, [Binary | Binaries], Part, Size) ->
    {Begin, Rest} = split_binary(Binary, ?PART_SIZE - Size),
    [[<<?PART, Channel:32, ?MIDDLE>>, Part, Begin] | parts(Channel, [Rest | Binaries], [], 0)].

-spec last_part(pos_integer()) -> binary().
last_part(Channel) ->
    <<?PART, Channel:32, ?LAST>>.

%% Gives up a message of which parts were sent.
-spec given_up(pos_integer()) -> binary().
given_up(Channel) ->
    <<?PART, Channel:32, ?GIVEN_UP>>.

-spec credit(pos_integer(), non_neg_integer(), non_neg_integer()) -> binary().
credit(Channel, Messages, Octets) ->
    <<?CREDIT, Channel:32, Messages:32, Octets:32>>.

-spec ping(non_neg_integer()) -> binary().
ping(Number) ->
    <<?PING, Number:64>>.

%% A message with the headers of its frames, and its size with them.
-spec encode(iodata() | [iodata()]) -> {iodata(), pos_integer()}.
encode(Frame) when is_binary(Frame) ->
    Size = byte_size(Frame),
    {[<<0:1, Size:31>>, Frame], Size + 4};
encode([Frame]) ->
    Size = iolist_size(Frame),
    {[<<0:1, Size:31>>, Frame], Size + 4};
encode([Frame | Frames]) ->
    Size = iolist_size(Frame),
    {Encoded, Octets} = encode(Frames),
    {[<<1:1, Size:31>>, Frame | Encoded], Size + 4 + Octets}.

%% The size of a received message, as credit counts it.
-spec octets(message()) -> pos_integer().
octets([Frame]) -> byte_size(Frame) + 4;
octets([Frame | Frames]) -> byte_size(Frame) + 4 + octets(Frames).

%% The messages of a packet.
-spec messages(binary()) -> [message()].
messages(<<0:1, Size:31, Frame:Size/binary, Rest/binary>>) ->
    [[Frame] | messages(Rest)];
messages(<<1:1, Size:31, Frame:Size/binary, Rest/binary>>) ->
    frames(Rest, [Frame]);
messages(<<>>) ->
    [].

frames(<<0:1, Size:31, Frame:Size/binary, Rest/binary>>, Frames) ->
    [lists:reverse(Frames, [Frame]) | messages(Rest)];
frames(<<1:1, Size:31, Frame:Size/binary, Rest/binary>>, Frames) ->
    frames(Rest, [Frame | Frames]).

%% Whether messages of so many octets fit into one packet.
-spec fits(non_neg_integer()) -> boolean().
fits(Octets) ->
    Octets =< ?PART_MAX.

-define(REQUEST_MAX, (1048576 - 7)).

%% Whether these arguments of a request fit into a packet.
-spec fits_request(iodata()) -> boolean().
fits_request(Arguments) ->
    iolist_size(Arguments) =< ?REQUEST_MAX.

-define(BATCH_MAX, 61440).

%% Messages in batches for a packet each: encoded, with their octets and their number.
-spec batches([iodata() | [iodata()]]) -> [{iodata(), pos_integer(), pos_integer()}].
batches(Messages) ->
    batches(Messages, [], 0, 0).

batches([], [], 0, 0) ->
    [];
batches([], Batch, Octets, Count) ->
    [{lists:reverse(Batch), Octets, Count}];
batches([Message | Messages], Batch, Octets, Count) ->
    {Encoded, More} = encode(Message),
    if
        Count > 0, Octets + More > ?BATCH_MAX ->
            [{lists:reverse(Batch), Octets, Count} | batches(Messages, [Encoded], More, 1)];
        true ->
            batches(Messages, [Encoded | Batch], Octets + More, Count + 1)
    end.

%% The value of an option as an argument.
-spec option(atom(), term()) -> {ok, iodata()} | error.
option(Kind, infinity) -> option(Kind, -1);
option(Kind, true) -> option(Kind, 1);
option(Kind, false) -> option(Kind, 0);
option(int, Value) when is_integer(Value), Value >= -1 bsl 31, Value < 1 bsl 31 -> {ok, <<Value:32/signed>>};
option(int64, Value) when is_integer(Value), Value >= -1 bsl 63, Value < 1 bsl 63 -> {ok, <<Value:64/signed>>};
option(bits, Value) when is_integer(Value), Value >= 0, Value < 1 bsl 64 -> {ok, <<Value:64>>};
option(Kind, Value) when Kind =:= text; Kind =:= bytes; Kind =:= key ->
    try {ok, iolist_to_binary(Value)}
    catch error:badarg -> error
    end;
option(_Kind, _Value) -> error.

%% The value of an option from the program.
-spec value(atom(), binary()) -> integer() | binary().
value(int, <<Value:32/signed>>) -> Value;
value(int64, <<Value:64/signed>>) -> Value;
value(bits, <<Value:64>>) -> Value;
value(_Kind, Value) -> Value.

-define(EVENTS, [{1, connected}, {2, connect_delayed}, {4, connect_retried}, {8, listening}, {16, bind_failed},
                 {32, accepted}, {64, accept_failed}, {128, closed}, {256, close_failed}, {512, disconnected},
                 {1024, monitor_stopped}, {2048, handshake_failed_no_detail}, {4096, handshake_succeeded},
                 {8192, handshake_failed_protocol}, {16384, handshake_failed_auth}]).

%% An event of a monitor.
-spec event(message()) -> #{event := atom() | integer(), value := non_neg_integer(), endpoint := binary()}.
event([<<Number:16/native, Value:32/native>>, Endpoint]) ->
    #{event => proplists:get_value(Number, ?EVENTS, Number), value => Value, endpoint => Endpoint}.

%% A text or octets as an argument.
-spec bytes(iodata()) -> iodata().
bytes(Text) ->
    [<<(iolist_size(Text)):32>> | Text].

%% Entries that the program has sent.
-spec map(binary()) -> {ok, map()} | {error, port_protocol}.
map(Entries) ->
    try {ok, entries(Entries)}
    catch error:function_clause -> {error, port_protocol}
    end.

%% Pairs of a name and a number or text, as nested maps.
-spec entries(binary()) -> map().
entries(Binary) ->
    entries(Binary, #{}).

entries(<<Size:32, Name:Size/binary, 0, Number:64, Rest/binary>>, Map) ->
    entries(Rest, put_in(binary:split(Name, <<".">>, [global]), Number, Map));
entries(<<Size:32, Name:Size/binary, 1, Length:32, Text:Length/binary, Rest/binary>>, Map) ->
    entries(Rest, put_in(binary:split(Name, <<".">>, [global]), Text, Map));
entries(<<>>, Map) ->
    Map.

put_in([Name], Value, Map) when is_map(Map) ->
    Map#{key(Name) => Value};
put_in([Name | Names], Value, Map) when is_map(Map) ->
    Key = key(Name),
    Map#{Key => put_in(Names, Value, maps:get(Key, Map, #{}))}.

%% The names are those of the program, and few.
key(Name) ->
    try binary_to_integer(Name)
    catch error:badarg -> binary_to_atom(text(Name, unicode:characters_to_binary(Name)))
    end.

-define(ATOM_MAX, 255).

%% A text, if it is UTF-8 and can be an atom.
text(Text, Text) when byte_size(Text) =< ?ATOM_MAX ->
    Text.

%% The table of options: by name, their numbers and the kinds of their values.
-spec options(binary()) -> #{atom() => {integer(), int | int64 | bits | text | bytes | key}}.
options(<<_Count:16, Rows/binary>>) ->
    maps:from_list(rows(Rows)).

rows(<<Number:32/signed, Kind, Size:32, Name:Size/binary, Rest/binary>>) ->
    Text = text(Name, unicode:characters_to_binary(Name)),
    [{binary_to_atom(string:lowercase(Text)), {Number, kind(Kind)}} | rows(Rest)];
rows(<<>>) ->
    [].

kind(1) -> int;
kind(2) -> int64;
kind(3) -> bits;
kind(4) -> text;
kind(5) -> bytes;
kind(6) -> key.
