%% @private
%% What the operations of file transfer take and give (docs/port.md), as functions of their arguments. Those that make
%% arguments fail if an option is of a wrong type.
-module(pinnace_files_wire).

-export([server/1, client/2, transfer/1, events/1, endpoints/1, event/1, entry/1, report/1]).

-import(pinnace_options, [pair/2, part/1, option/1, text/1, file/1]).

-include("pinnace_files.hrl").

-define(KINDS, [{listed, 1}, {begun, 2}, {progress, 3}, {finished, 4}, {removed, 5}, {moved, 6}, {planned, 7},
                {current, 8}, {failed, 9}, {linked, 12}, {lost, 13}]).
-define(ALL, 16#FFFFFFFF).

%% The arguments that start a server, without its channel.
-spec server(pinnace_files:server_options()) -> iodata().
server(Options) ->
    [server_option(Option) || Option <- maps:to_list(Options)].

server_option({endpoints, Endpoints}) -> [pair(<<"bind">>, text(Endpoint)) || Endpoint <- Endpoints];
server_option({folders, Folders}) -> [folder(Folder) || Folder <- Folders];
server_option({key, Secret}) -> pair(<<"curve">>, key(Secret));
server_option({cert, File}) -> pair(<<"cert">>, file(File));
server_option({users, Users}) -> lists:map(fun user/1, Users);
server_option({grants, Grants}) -> lists:map(fun grant/1, Grants);
server_option(Option) -> option(Option).

folder({Alias, Path}) -> folder(Alias, Path, 0);
folder({Alias, Path, writable}) -> folder(Alias, Path, 1).

folder(Alias, Path, Writable) ->
    pair(<<"folder">>, [part(Alias), pinnace_wire:bytes(file(Path)), Writable]).

user({Name, {key, Key}}) -> pair(<<"user">>, [part(Name), key(Key)]);
user({Name, {cert, File}}) -> pair(<<"user_file">>, [part(Name), pinnace_wire:bytes(file(File))]);
user({Name, {password, Password}}) -> pair(<<"password">>, [part(Name), part(Password)]).

grant({User, Path, Right}) ->
    pair(<<"grant">>, [part(User), part(Path), right(Right)]).

right(read) -> 0;
right(write) -> 1.

%% The arguments that make a client, without its channel.
-spec client(unicode:chardata(), pinnace_files:client_options()) -> iodata().
client(Endpoint, Options) ->
    [part(Endpoint) | [client_option(Option) || Option <- maps:to_list(Options)]].

client_option({key, {Secret, Server}}) -> pair(<<"curve">>, [key(Secret), key(Server)]);
client_option({cert, {File, Server}}) ->
    pair(<<"cert">>, [pinnace_wire:bytes(file(File)), pinnace_wire:bytes(file(Server))]);
client_option({password, {User, Password}}) -> pair(<<"password">>, [part(User), part(Password)]);
client_option(Option) -> option(Option).

%% The operation of a transfer, and its arguments: what is transferred, and by which rules.
-spec transfer({pinnace_files:what(), pinnace_files:rules()}) -> {pos_integer(), iodata()}.
transfer({{get, Path, To}, Rules}) -> {?GET, [part(Path), here(To) | rules(Rules)]};
transfer({{follow, Path, To}, Rules}) -> {?FOLLOW, [part(Path), here(To) | rules(Rules)]};
transfer({{put, From, Path}, Rules}) -> {?PUT, [here(From), part(Path) | rules(Rules)]};
transfer({{list, Path}, Rules}) when Rules =:= #{} -> {?LIST, part(Path)};
transfer({{discard, Path}, Rules}) when Rules =:= #{} -> {?DISCARD, part(Path)}.

here(Path) ->
    pinnace_wire:bytes(file(Path)).

rules(Rules) ->
    [rule(Rule) || Rule <- maps:to_list(Rules)].

rule({filter, Patterns}) -> [pattern(Pattern) || Pattern <- Patterns];
rule(Rule) -> option(Rule).

pattern({exclude, Pattern}) -> pair(<<"exclude">>, text(Pattern));
pattern({include, Pattern}) -> pair(<<"include">>, text(Pattern)).

%% The kinds of events as bits.
-spec events(all | [pinnace_files:kind()]) -> non_neg_integer().
events(all) ->
    ?ALL;
events(Kinds) ->
    lists:foldl(fun(Kind, Bits) ->
        {_, Number} = lists:keyfind(Kind, 1, ?KINDS),
        Bits bor (1 bsl Number)
    end, 0, Kinds).

%% Of 32 octets, or as text in Z85.
key(<<_:32/binary>> = Key) ->
    Key;
key(Text) ->
    {ok, <<Key:32/binary>>} = pinnace_z85:decode(iolist_to_binary(Text)),
    Key.

%% The endpoints of a server.
-spec endpoints(binary()) -> [binary()].
endpoints(<<Size:32, Endpoint:Size/binary, Rest/binary>>) -> [Endpoint | endpoints(Rest)];
endpoints(<<>>) -> [].

%% An event from its frames.
-spec event(pinnace_wire:message()) -> pinnace_files:event().
event([<<1, _/binary>> | _] = Frames) ->
    (entry(Frames))#{event => listed};
event([<<Kind, Flag, _Type, Errno:32/signed, _Mode:32, Bytes:64, _Time:64, Digest/binary>>, Path, Other]) ->
    {Name, _} = lists:keyfind(Kind, 2, ?KINDS),
    maps:put(event, Name, about(Name, Flag =:= 1, Errno, Bytes, Digest, Path, Other)).

about(begun, _, _, Bytes, _, Path, _) -> #{path => Path, bytes => Bytes};
about(progress, _, _, Bytes, _, _, _) -> #{bytes => Bytes};
about(finished, _, _, Bytes, Digest, Path, _) -> #{path => Path, bytes => Bytes, digest => Digest};
about(removed, Here, _, _, _, Path, _) -> #{path => Path, here => Here};
about(moved, Here, _, _, _, Path, To) -> #{path => Path, to => To, here => Here};
about(planned, Removal, _, _, _, Path, _) -> #{path => Path, removal => Removal};
about(current, _, _, _, _, _, _) -> #{};
about(failed, Here, Errno, _, _, Path, Text) -> failure(Here, Errno, Path, Text);
about(linked, _, _, _, _, Path, First) -> #{path => Path, first => First};
about(lost, _, Errno, _, _, _, Text) -> #{reason => pinnace_error:reason(Errno), text => Text}.

failure(Here, Errno, Path, Text) ->
    #{path => Path, reason => pinnace_error:reason(Errno), text => Text, here => Here}.

%% A name in a listing.
-spec entry(pinnace_wire:message()) -> pinnace_files:entry().
entry([<<1, _Flag, Type, _Errno:32, Mode:32, Bytes:64, Time:64/signed>>, Path, Target]) ->
    #{path => Path, type => type(Type), bytes => Bytes, mode => Mode, mtime_ns => Time, target => Target}.

type(1) -> file;
type(2) -> directory;
type(3) -> link.

%% The report of a transfer.
-spec report(binary()) -> pinnace_files:report().
report(<<Files:64, Bytes:64, Failed:64, Failures/binary>>) ->
    #{files => Files, bytes => Bytes, failed => Failed, failures => failures(Failures)}.

failures(<<Here, Errno:32/signed, Size:32, Path:Size/binary, Length:32, Text:Length/binary, Rest/binary>>) ->
    [failure(Here =:= 1, Errno, Path, Text) | failures(Rest)];
failures(<<>>) ->
    [].
