%% @private
%% What the operations of guaranteed delivery take and give (docs/port.md), as functions of their arguments.
-module(pinnace_delivery_wire).

-export([start/2, message/3, together/1, delivery/1, statistics/1, list/1]).

-import(pinnace_options, [pair/2, part/1, option/1, file/1]).

-define(ID, 1).
-define(CONTENT_TYPE, 2).
-define(TRACEPARENT, 3).
-define(TRACESTATE, 4).
-define(ORDERING_KEY, 5).
-define(HEADER, 6).
-define(DEAD, 7).

%% The options that are not the program's.
-define(OWN, [name, topic, topics, cert, trust, peers, prefetch, close_within]).

%% The arguments that start a client which listens on these further topics. It fails with `badarg'.
-spec start(pinnace_delivery:options(), [binary()]) -> iodata().
start(#{name := Name} = Options, Topics) ->
    Pairs = [[pair(<<"topic">>, Topic) || Topic <- Topics],
             [pair(<<"cert">>, file(File)) || #{cert := File} <- [Options]],
             lists:map(fun trust/1, maps:get(trust, Options, [])),
             lists:map(fun peer/1, maps:get(peers, Options, [])),
             [option(Option) || Option <- maps:to_list(maps:without(?OWN, Options))]],
    [part(Name), part(maps:get(topic, Options, Name)) | Pairs].

trust({Name, File}) ->
    pair(<<"trust">>, [part(Name), pinnace_wire:bytes(file(File))]).

peer({Name, Endpoint, Topics}) ->
    pair(<<"peer">>, [part(Name), part(Endpoint) | [part(Topic) || Topic <- Topics]]).

%% The arguments of a message to send, without its channel: what comes before the deadline, its properties, its body.
%% A message without an id gets one: with it the message can be sent again to another program. It fails if an option is
%% wrong.
-spec message(unicode:chardata(), iodata(), pinnace_delivery:send_options()) -> {iodata(), iodata(), binary()}.
message(Topic, Body, Options) ->
    ToAll = case maps:get(all, Options, false) of true -> 1; false -> 0 end,
    Durability = case maps:get(durability, Options, sync) of sync -> 0; interval -> 1; memory -> 2 end,
    Ttl = maps:get(ttl, Options, 0),
    true = is_integer(Ttl) andalso Ttl >= 0 andalso Ttl < 1 bsl 32,
    Known = maps:without([all, durability, ttl, timeout], Options),
    Properties = [property(Property) || Property <- maps:to_list(maps:merge(#{id => new_id()}, Known))],
    {[part(Topic), ToAll, Durability, <<Ttl:32>>], pinnace_wire:bytes(Properties), iolist_to_binary(Body)}.

%% The arguments of messages that are sent together with an acknowledgement. It fails if one is wrong.
-spec together([pinnace_delivery:outgoing()]) -> iodata().
together(Messages) ->
    lists:map(fun
        ({Topic, Body}) -> pinnace_wire:bytes(whole(Topic, Body, #{}));
        ({Topic, Body, Options}) -> pinnace_wire:bytes(whole(Topic, Body, Options))
    end, Messages).

%% No message waits on its own.
whole(Topic, Body, Options) ->
    {Begin, Properties, Content} = message(Topic, Body, Options),
    [Begin, <<-1:32>>, Properties, Content].

%% An id that no other message of the client has, also of earlier nodes.
new_id() ->
    [integer_to_binary(erlang:system_time(), 36), $-, integer_to_binary(erlang:unique_integer([positive]), 36)].

property({id, Text}) -> [?ID, part(Text)];
property({content_type, Text}) -> [?CONTENT_TYPE, part(Text)];
property({traceparent, Text}) -> [?TRACEPARENT, part(Text)];
property({tracestate, Text}) -> [?TRACESTATE, part(Text)];
property({ordering_key, Text}) -> [?ORDERING_KEY, part(Text)];
property({headers, Headers}) -> lists:map(fun header/1, Headers).

header({Key, Value}) -> [?HEADER, part(Key), pinnace_wire:bytes(Value)].

%% A delivery: its token, its octets, and what it is.
-spec delivery(pinnace_wire:message()) -> {non_neg_integer(), pos_integer(), map()}.
delivery([<<Token:64, Deliveries:32, Accepted:64, Sender:16/binary, Stream:64, Number:64, Settled:64>>, From, Topic,
          Properties, Body] = Frames) ->
    Cursor = #{sender => string:lowercase(binary:encode_hex(Sender)), stream => Stream, number => Number,
               settled => Settled},
    Message = #{deliveries => Deliveries, accepted => Accepted, cursor => Cursor, from => From, topic => Topic,
                headers => [], body => Body},
    {Token, pinnace_wire:octets(Frames), properties(Properties, Message)}.

properties(<<?HEADER, Size:32, Key:Size/binary, Length:32, Value:Length/binary, Rest/binary>>, Map) ->
    #{headers := Headers} = Map,
    properties(Rest, Map#{headers := [{Key, Value} | Headers]});
properties(<<?DEAD, A:32, Topic:A/binary, B:32, Receiver:B/binary, C:32, Reason:C/binary, D:32, Count:D/binary,
             Rest/binary>>, Map) ->
    Dead = #{topic => Topic, receiver => Receiver, reason => binary_to_atom(Reason),
             deliveries => binary_to_integer(Count)},
    properties(Rest, Map#{dead => Dead});
properties(<<Kind, Size:32, Text:Size/binary, Rest/binary>>, Map) ->
    properties(Rest, Map#{key(Kind) => Text});
properties(<<>>, #{headers := Headers} = Map) ->
    Map#{headers := lists:reverse(Headers)}.

key(?ID) -> id;
key(?CONTENT_TYPE) -> content_type;
key(?TRACEPARENT) -> traceparent;
key(?TRACESTATE) -> tracestate;
key(?ORDERING_KEY) -> ordering_key.

%% Statistics as a map, in which lists are lists.
-spec statistics(binary()) -> {ok, map()} | {error, port_protocol}.
statistics(Entries) ->
    try
        Empty = #{outgoing => [], incoming => [], not_admitted => []},
        {ok, maps:map(fun(_Key, Value) -> elements(Value) end, maps:merge(Empty, pinnace_wire:entries(Entries)))}
    catch
        error:function_clause -> {error, port_protocol}
    end.

elements(#{0 := _} = Elements) -> [Value || {_, Value} <- lists:sort(maps:to_list(Elements))];
elements(Value) -> Value.

%% Entries that are a list.
-spec list(binary()) -> {ok, [map()]} | {error, port_protocol}.
list(<<>>) ->
    {ok, []};
list(Entries) ->
    try {ok, elements(pinnace_wire:entries(Entries))}
    catch error:function_clause -> {error, port_protocol}
    end.
