%% @doc Z85 (RFC 32): binary keys as printable text, five characters for four octets.
-module(pinnace_z85).

-export([encode/1, decode/1]).

-define(DIGITS, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#").

%% @doc The text for octets. Error: `einval' if their number is not a multiple of 4.
-spec encode(binary()) -> {ok, binary()} | {error, einval}.
encode(Octets) when byte_size(Octets) rem 4 =:= 0 ->
    {ok, << <<(digits(Number))/binary>> || <<Number:32>> <= Octets >>};
encode(_Octets) ->
    {error, einval}.

digits(Number) ->
    Digits = list_to_tuple(?DIGITS),
    << <<(element(Number div Power rem 85 + 1, Digits))>> || Power <- [52200625, 614125, 7225, 85, 1] >>.

%% @doc The octets of a text. Error: `einval' if it is not Z85.
-spec decode(iodata()) -> {ok, binary()} | {error, einval}.
decode(Text) ->
    Characters = iolist_to_binary(Text),
    Groups = [number(Group) || <<Group:5/binary>> <= Characters],
    case byte_size(Characters) rem 5 =:= 0 andalso lists:all(fun(Number) -> Number < 1 bsl 32 end, Groups) of
        true -> {ok, << <<Number:32>> || Number <- Groups >>};
        false -> {error, einval}
    end.

%% `infinity', which is greater than any number, if a character is none of Z85.
number(Group) ->
    lists:foldl(fun add_digit/2, 0, binary_to_list(Group)).

add_digit(_Character, infinity) ->
    infinity;
add_digit(Character, Number) ->
    case string:chr(?DIGITS, Character) of
        0 -> infinity;
        Place -> Number * 85 + Place - 1
    end.
