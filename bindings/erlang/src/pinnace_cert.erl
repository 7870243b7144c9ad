%% @doc Keys of CURVE in files, in the form of CZMQ's certificates: `NAME' has the public key, and may be given to
%% others; `NAME_secret' has both, and only its owner can read it.
-module(pinnace_cert).

-export([new/0, options/1]).
-export([load/1, load_public/1, load_secret/1, load_own/1]).
-export([save/2, save_new/2, save_public/2, save_secret/2]).

-export_type([cert/0]).

-include("pinnace_port.hrl").

-type cert() :: #{public := binary(), secret => binary(), metadata => [{text(), text()}]}.
%% Keys have 32 octets. `metadata': names and values about the owner.
-type text() :: unicode:chardata().

%% Which files an operation reads or writes.
-define(BOTH, 0).
-define(PUBLIC, 1).
-define(SECRET, 2).
-define(OWN, 3).
-define(NEW, 3).

%% @doc A certificate with new keys.
-spec new() -> {ok, cert()} | {error, pinnace:reason()}.
new() ->
    case pinnace:key_pair() of
        {ok, {Public, Secret}} -> {ok, #{public => Public, secret => Secret, metadata => []}};
        Error -> Error
    end.

%% @doc The options of a socket that has these keys. Error `enokey': the certificate has no secret key.
-spec options(cert()) -> {ok, [pinnace:option()]} | {error, enokey}.
options(#{public := Public, secret := Secret}) ->
    {ok, [{curve_publickey, Public}, {curve_secretkey, Secret}]};
options(#{public := _}) ->
    {error, enokey}.

%% @doc Reads both keys of `NAME_secret' if that is there, else the public one of `NAME'.
-spec load(file:name_all()) -> {ok, cert()} | {error, pinnace:reason()}.
load(Name) ->
    load(?BOTH, Name).

%% @doc Reads the public key of this file.
-spec load_public(file:name_all()) -> {ok, cert()} | {error, pinnace:reason()}.
load_public(File) ->
    load(?PUBLIC, File).

%% @doc Reads both keys of this file. Error `ekeyrejected': it has no secret key, or one that does not match.
-spec load_secret(file:name_all()) -> {ok, cert()} | {error, pinnace:reason()}.
load_secret(File) ->
    load(?SECRET, File).

%% @doc Reads both keys; the name is that of either file. Errors as of `load_secret/1'.
-spec load_own(file:name_all()) -> {ok, cert()} | {error, pinnace:reason()}.
load_own(Name) ->
    load(?OWN, Name).

load(Which, File) ->
    with_arguments(fun() -> [Which, pinnace_wire:bytes(pinnace_options:file(File))] end, fun(Arguments) ->
        case pinnace_port:request(?LOAD_CERT, Arguments) of
            {ok, Values} -> {ok, decode(Values)};
            Error -> Error
        end
    end).

%% @doc Writes both files. They are replaced if they are there.
-spec save(cert(), file:name_all()) -> ok | {error, pinnace:reason()}.
save(Cert, Name) ->
    save(?BOTH, Cert, Name).

%% @doc Writes both files. Error `eexist': one of them is there.
-spec save_new(cert(), file:name_all()) -> ok | {error, pinnace:reason()}.
save_new(Cert, Name) ->
    save(?NEW, Cert, Name).

%% @doc Writes the public key to this file.
-spec save_public(cert(), file:name_all()) -> ok | {error, pinnace:reason()}.
save_public(Cert, File) ->
    save(?PUBLIC, Cert, File).

%% @doc Writes both keys to this file.
-spec save_secret(cert(), file:name_all()) -> ok | {error, pinnace:reason()}.
save_secret(Cert, File) ->
    save(?SECRET, Cert, File).

save(Which, Cert, File) ->
    with_arguments(fun() -> [Which, pinnace_wire:bytes(pinnace_options:file(File)) | encode(Cert)] end,
                   fun(Arguments) ->
        case pinnace_port:request(?SAVE_CERT, Arguments) of
            {ok, _} -> ok;
            Error -> Error
        end
    end).

%% Arguments of a wrong type are an error.
with_arguments(Make, Request) ->
    try iolist_to_binary(Make()) of
        Arguments -> Request(Arguments)
    catch
        error:_ -> {error, einval}
    end.

encode(#{public := <<Public:32/binary>>} = Cert) ->
    Secret = case Cert of
        #{secret := <<Key:32/binary>>} -> [1, Key];
        #{secret := _} -> error(badarg);
        #{} -> 0
    end,
    [Public, Secret | lists:map(fun metadata/1, maps:get(metadata, Cert, []))].

metadata({Name, Value}) ->
    [pinnace_options:part(Name), pinnace_options:part(Value)].

decode(<<Public:32/binary, 0, Metadata/binary>>) ->
    #{public => Public, metadata => pairs(Metadata)};
decode(<<Public:32/binary, 1, Secret:32/binary, Metadata/binary>>) ->
    #{public => Public, secret => Secret, metadata => pairs(Metadata)}.

pairs(<<Size:32, Name:Size/binary, Length:32, Value:Length/binary, Rest/binary>>) -> [{Name, Value} | pairs(Rest)];
pairs(<<>>) -> [].
