%% @private
%% Public certificates as files, in the form of CZMQ's zcert: ZPL (RFC 4) with a key in Z85. And directories of them.
-module(czmq_zcert).

-export([save/2, load/1, is_known/2]).

%% The largest certificate that is read.
-define(OCTETS_MAX, 65536).

%% Writes a public key.
-spec save(file:name_all(), binary()) -> ok | {error, term()}.
save(Name, Public) ->
    {ok, Text} = pinnace_z85:encode(Public),
    file:write_file(Name, ["# CURVE certificate, public: give it to your peers over a channel that you trust.\n\n",
                           "metadata\ncurve\n    public-key = \"", Text, "\"\n"]).

%% Reads the public key. Error: `einval' if the file has none.
-spec load(file:name_all()) -> {ok, binary()} | {error, term()}.
load(Name) ->
    case filelib:is_regular(Name) andalso filelib:file_size(Name) =< ?OCTETS_MAX andalso file:read_file(Name) of
        {ok, Text} -> public_key(binary:split(Text, [<<"\n">>], [global]), outside);
        false -> {error, einval};
        Error -> Error
    end.

%% The first `public-key' of the section `curve'.
public_key([], _Section) ->
    {error, einval};
public_key([Line | Lines], Section) ->
    case re:run(Line, <<"^( *)([A-Za-z0-9$_@.&+/-]+)\\s*(?:=\\s*[\"']?([^\"']*?)[\"']?\\s*)?$">>,
                [{capture, all_but_first, binary}]) of
        {match, [<<>>, <<"curve">> | _]} ->
            public_key(Lines, curve);
        {match, [<<>> | _]} ->
            public_key(Lines, outside);
        {match, [<<"    ">>, <<"public-key">>, Key]} when Section =:= curve, byte_size(Key) =:= 40 ->
            pinnace_z85:decode(Key);
        _ ->
            public_key(Lines, Section)
    end.

%% Whether a public key is that of a certificate in a directory. Secret certificates do not count.
-spec is_known(file:name_all(), binary()) -> boolean().
is_known(Directory, Key) ->
    case file:list_dir(Directory) of
        {ok, Names} ->
            Files = [filename:join(Directory, Name) || Name <- Names, is_public(Name)],
            lists:any(fun(File) -> load(File) =:= {ok, Key} end, Files);
        {error, _} ->
            false
    end.

is_public(Name) ->
    not lists:suffix("_secret", Name).
