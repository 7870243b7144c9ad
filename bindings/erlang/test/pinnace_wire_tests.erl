%% Properties of the packets: what is encoded is parsed again, and wrong packets fail in one way.
-module(pinnace_wire_tests).

-include_lib("eunit/include/eunit.hrl").

-import(proper_types, [integer/2, binary/0, list/1, non_empty/1, oneof/1, vector/2]).

properties_test_() ->
    Properties = [fun messages_come_back/0, fun batches_are_the_messages/0, fun parts_are_the_message/0,
                  fun wrong_packets_fail_in_one_way/0, fun wrong_entries_fail_in_one_way/0,
                  fun wrong_options_fail_in_one_way/0],
    [{timeout, 600, fun() -> hold(Property()) end} || Property <- Properties].

hold(Property) ->
    Count = case waiting:is_long() of true -> 20000; false -> 200 end,
    ?assert(proper:quickcheck(Property, [{numtests, Count}, quiet])).

%% Numbers of all sizes: those of PropEr are near 0.
wide(Most) ->
    proper_types:resize(Most, integer(0, Most)).

message() ->
    non_empty(list(binary())).

encode(Messages) ->
    iolist_to_binary([element(1, pinnace_wire:encode(Message)) || Message <- Messages]).

messages_come_back() ->
    proper:forall(list(message()), fun(Messages) ->
        Encoded = encode(Messages),
        Octets = [Size || Message <- Messages, {_, Size} <- [pinnace_wire:encode(Message)]],
        Messages =:= pinnace_wire:messages(Encoded) andalso Octets =:= lists:map(fun pinnace_wire:octets/1, Messages)
            andalso byte_size(Encoded) =:= lists:sum(Octets)
    end).

%% Messages of some size, so that there are several batches.
batches_are_the_messages() ->
    Sizes = list(oneof([integer(0, 10), wide(70000)])),
    proper:forall(Sizes, fun(Each) ->
        Messages = [<<0:Size/unit:8>> || Size <- Each],
        Batches = pinnace_wire:batches(Messages),
        Parsed = [pinnace_wire:messages(iolist_to_binary(Encoded)) || {Encoded, _, _} <- Batches],
        [[Message] || Message <- Messages] =:= lists:append(Parsed)
            andalso [length(Batch) || Batch <- Parsed] =:= [Count || {_, _, Count} <- Batches]
            andalso lists:all(fun({Encoded, Octets, Count}) ->
                Octets =:= iolist_size(Encoded) andalso (Count =:= 1 orelse Octets =< 61440)
            end, Batches)
    end).

parts_are_the_message() ->
    proper:forall(oneof([wide(5000000), integer(1048560, 1048580), integer(1310710, 1310730)]), fun(Size) ->
        Content = <<0:Size/unit:8>>,
        %% Beside binaries there are small ones, which are not binaries of their own.
        <<Begin:(Size div 2)/binary, Rest/binary>> = Content,
        Parts = [iolist_to_binary(Part) || Part <- pinnace_wire:parts(7, [$a, [<<"b">> | Begin], Rest])],
        Contents = [{Last, Part} || <<4, 7:32, Last, Part/binary>> <- Parts],
        <<"ab", Content/binary>> =:= iolist_to_binary([Part || {_, Part} <- Contents])
            andalso lists:all(fun(Part) -> byte_size(Part) =< 1048576 end, Parts)
            andalso lists:usort([Last || {Last, _} <- Contents]) =:= [0]
    end).

%% Octets with some of them changed, and cut off or longer.
mutated(Octets, Changes, Cut, More) ->
    Size = byte_size(Octets),
    Changed = lists:foldl(fun({At, Octet}, Before) when Size > 0 ->
                                  Place = At rem Size,
                                  <<Head:Place/binary, _, Tail/binary>> = Before,
                                  <<Head/binary, Octet, Tail/binary>>;
                             (_, Before) -> Before
                          end, Octets, Changes),
    <<(binary:part(Changed, 0, Size - min(Cut, Size)))/binary, More/binary>>.

mutations() ->
    {list({wide(1000000), integer(0, 255)}), oneof([0, integer(0, 20)]), oneof([<<>>, binary()])}.

is_parsed_or_refused(Parse, Octets, {Changes, Cut, More}) ->
    try Parse(mutated(Octets, Changes, Cut, More)) of
        _ -> true
    catch
        error:function_clause -> true
    end.

wrong_packets_fail_in_one_way() ->
    proper:forall({list(message()), mutations()}, fun({Messages, Mutations}) ->
        is_parsed_or_refused(fun pinnace_wire:messages/1, encode(Messages), Mutations)
    end).

name() ->
    oneof([<<"received">>, <<"received.messages">>, <<"peers.1.address">>, <<"peers">>, <<"peers.1">>]).

wrong_entries_fail_in_one_way() ->
    Values = list({name(), oneof([integer(0, 16#FFFFFFFF), binary()])}),
    proper:forall({Values, mutations()}, fun({Entries, Mutations}) ->
        Encoded = << <<(entry(Name, Value))/binary>> || {Name, Value} <- Entries >>,
        is_parsed_or_refused(fun pinnace_wire:entries/1, Encoded, Mutations)
    end).

entry(Name, Number) when is_integer(Number) -> <<(byte_size(Name)):32, Name/binary, 0, Number:64>>;
entry(Name, Text) -> <<(byte_size(Name)):32, Name/binary, 1, (byte_size(Text)):32, Text/binary>>.

wrong_options_fail_in_one_way() ->
    proper:forall({list({integer(0, 200), integer(1, 6), vector(6, integer($A, $Z))}), mutations()},
                  fun({Rows, Mutations}) ->
        Encoded = << <<Number:32, Kind, 6:32, (list_to_binary(Name))/binary>> || {Number, Kind, Name} <- Rows >>,
        is_parsed_or_refused(fun pinnace_wire:options/1, <<(length(Rows)):16, Encoded/binary>>, Mutations)
    end).
