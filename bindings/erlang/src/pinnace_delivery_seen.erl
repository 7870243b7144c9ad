%% @private
%% The deliveries that a client has seen. A program may die before it has stored a settlement; then the next program
%% delivers the message again.
-module(pinnace_delivery_seen).

-export([new/0, look/2, settled/3]).

-export_type([seen/0]).

%% By the sender's store and the stream: what became of each number that may come again.
-opaque seen() :: #{{binary(), non_neg_integer()} => {Settled :: non_neg_integer(), Kept :: non_neg_integer(),
                                                      #{pos_integer() => verdict()}}}.
%% `open': the module has it, or had it.
-type verdict() :: open | non_neg_integer().

%% Numbers are forgotten once there are twice as many as after the last time, and at least so many.
-define(LEAST, 256).

-spec new() -> seen().
new() ->
    #{}.

%% What has become of a delivery that comes.
-spec look(pinnace_delivery:cursor(), seen()) -> {new | verdict(), seen()}.
look(#{sender := Sender, stream := Stream, number := Number, settled := Settled}, Seen) ->
    Key = {Sender, Stream},
    {_, Kept, Numbers} = maps:get(Key, Seen, {0, 0, #{}}),
    case Numbers of
        #{Number := Verdict} -> {Verdict, Seen#{Key => {Settled, Kept, Numbers}}};
        #{} -> {new, Seen#{Key => forget({Settled, Kept, Numbers#{Number => open}})}}
    end.

%% Up to `Settled' no number comes again.
forget({Settled, Kept, Numbers}) when map_size(Numbers) > 2 * Kept, map_size(Numbers) > ?LEAST ->
    Left = maps:filter(fun(Number, _) -> Number > Settled end, Numbers),
    {Settled, map_size(Left), Left};
forget(Stream) ->
    Stream.

%% The client has settled a delivery for good.
-spec settled(pinnace_delivery:cursor(), non_neg_integer(), seen()) -> seen().
settled(#{sender := Sender, stream := Stream, number := Number}, Verdict, Seen) ->
    Key = {Sender, Stream},
    case Seen of
        #{Key := {Settled, Kept, #{Number := _} = Numbers}} ->
            Seen#{Key := {Settled, Kept, Numbers#{Number := Verdict}}};
        #{} -> Seen
    end.
