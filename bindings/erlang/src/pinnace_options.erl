%% @private
%% Options by name as text, as operations of the program take them. Functions fail with `badarg' if a value is of a
%% wrong type.
-module(pinnace_options).

-export([pair/2, part/1, option/1, text/1, file/1]).

%% An option: its name, and its value as it is.
-spec pair(binary(), iodata()) -> iodata().
pair(Key, Value) ->
    [pinnace_wire:bytes(Key), pinnace_wire:bytes(Value)].

%% A text within a value.
-spec part(unicode:chardata()) -> iodata().
part(Text) ->
    pinnace_wire:bytes(text(Text)).

%% An option that is a text, a number or a flag.
-spec option({atom(), boolean() | integer() | atom() | unicode:chardata()}) -> iodata().
option({Key, Value}) ->
    pair(atom_to_binary(Key), value(Value)).

value(true) -> <<"1">>;
value(false) -> <<"0">>;
value(Value) when is_integer(Value) -> integer_to_binary(Value);
value(Value) when is_atom(Value) -> atom_to_binary(Value);
value(Value) -> text(Value).

%% A text in UTF-8.
-spec text(unicode:chardata()) -> binary().
text(Text) ->
    case unicode:characters_to_binary(Text) of
        Binary when is_binary(Binary) -> Binary;
        _ -> error(badarg)
    end.

%% A path from the root on, as the system has it: the program may have been started in another directory. A slash at its
%% end has a meaning. No path is empty.
-spec file(file:name_all()) -> binary().
file(Name) ->
    Octets = octets(Name),
    _ = Octets =:= <<>> andalso error(badarg),
    Absolute = octets(filename:absname(Octets)),
    case binary:longest_common_suffix([Octets, <<"/">>]) of
        1 when Absolute =/= <<"/">> -> <<Absolute/binary, $/>>;
        _ -> Absolute
    end.

octets(Name) when is_binary(Name) ->
    Name;
octets(Name) ->
    case unicode:characters_to_binary(filename:flatten(Name), unicode, file:native_name_encoding()) of
        Binary when is_binary(Binary) -> Binary;
        _ -> error(badarg)
    end.
