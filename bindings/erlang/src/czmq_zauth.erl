%% @private
%% A ZAP handler (RFC 27): it decides which peers are admitted to the sockets of this node. It ends with its context.
%%
%% An address is admitted if it is in the list of those that are allowed, or if there is no such list and it is not in
%% that of those that are denied. PLAIN and CURVE also want a known password or key, in the socket's domain or in "*".
%% Files are read for each peer, so changes take effect at once.
-module(czmq_zauth).
-behaviour(pinnace_zap).

-export([start/1, call/2, stop/1]).
-export([init/1, handle_request/2, handle_call/3, handle_info/2]).

-define(ALL_DOMAINS, <<"*">>).

-type request() :: {allow | deny, Address :: binary()} | {plain, Domain :: binary(), file:name_all()}
                 | {curve, Domain :: binary(), any | file:name_all()}.

-record(state, {
    context :: reference(),
    allowed = #{} :: #{binary() => true},
    denied = #{} :: #{binary() => true},
    %% Files of passwords, and directories of certificates, by domain.
    passwords = #{} :: #{binary() => file:name_all()},
    certificates = #{} :: #{binary() => any | file:name_all()}
}).

%% Starts the handler. Error: `eaddrinuse' if the node has one.
-spec start(pid()) -> {ok, pid()} | {error, term()}.
start(Context) ->
    case pinnace_zap:start(pinnace:context(), ?MODULE, Context) of
        {ok, Pid} -> {ok, Pid};
        {error, {shutdown, Reason}} -> {error, Reason};
        {error, Reason} -> {error, Reason}
    end.

-spec call(pid(), request()) -> ok | {error, term()}.
call(Pid, Request) ->
    try gen_server:call(Pid, Request, infinity)
    catch exit:{_Reason, {gen_server, call, _}} -> {error, noproc}
    end.

-spec stop(pid()) -> ok.
stop(Pid) ->
    try gen_server:stop(Pid)
    catch exit:noproc -> ok
    end.

-spec init(pid()) -> {ok, #state{}}.
init(Context) ->
    {ok, #state{context = monitor(process, Context)}}.

-spec handle_call(request(), gen_server:from(), #state{}) -> {reply, ok | {error, term()}, #state{}}.
handle_call({allow, Address}, _From, #state{allowed = Allowed} = State) ->
    {reply, ok, State#state{allowed = Allowed#{Address => true}}};
handle_call({deny, Address}, _From, #state{denied = Denied} = State) ->
    {reply, ok, State#state{denied = Denied#{Address => true}}};
handle_call({plain, Domain, Name}, _From, #state{passwords = Passwords} = State) ->
    case file:read_file(Name) of
        {ok, _} -> {reply, ok, State#state{passwords = Passwords#{Domain => Name}}};
        Error -> {reply, Error, State}
    end;
handle_call({curve, Domain, Place}, _From, #state{certificates = Certificates} = State) ->
    case Place =:= any orelse filelib:is_dir(Place) of
        true -> {reply, ok, State#state{certificates = Certificates#{Domain => Place}}};
        false -> {reply, {error, enotdir}, State}
    end.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({'DOWN', Context, process, _, _}, #state{context = Context} = State) ->
    {stop, normal, State};
handle_info(_Message, State) ->
    {noreply, State}.

-spec handle_request(pinnace_zap:request(), #state{}) -> {pinnace_zap:decision(), #state{}}.
handle_request(#{address := Address} = Request, State) ->
    case is_admitted(Address, State) andalso user(Request, State) of
        {ok, User} -> {{admit, User}, State};
        _ -> {deny, State}
    end.

is_admitted(Address, #state{allowed = Allowed, denied = Denied}) when map_size(Allowed) =:= 0 ->
    not is_map_key(Address, Denied);
is_admitted(Address, #state{allowed = Allowed}) ->
    is_map_key(Address, Allowed).

%% The user that a peer has proved to be.
user(#{mechanism := null}, _State) ->
    {ok, <<>>};
user(#{mechanism := plain, user := User, password := Password, domain := Domain}, #state{passwords = Passwords}) ->
    case in_domain(Domain, Passwords) of
        {ok, Name} -> is_password(User, Password, Name) andalso {ok, User};
        error -> false
    end;
user(#{mechanism := curve, key := Key, domain := Domain}, #state{certificates = Certificates}) ->
    {ok, User} = pinnace_z85:encode(Key),
    case in_domain(Domain, Certificates) of
        {ok, any} -> {ok, User};
        {ok, Directory} -> is_known(Key, Directory) andalso {ok, User};
        error -> false
    end;
user(_Request, _State) ->
    false.

%% Whether a public key is that of a certificate in a directory. Secret certificates do not count.
is_known(Key, Directory) ->
    case file:list_dir(Directory) of
        {ok, Names} ->
            Files = [filename:join(Directory, Name) || Name <- Names, not lists:suffix("_secret", Name)],
            lists:any(fun(File) -> is_of(Key, pinnace_cert:load_public(File)) end, Files);
        {error, _} ->
            false
    end.

is_of(Key, {ok, #{public := Key}}) -> true;
is_of(_Key, _Loaded) -> false.

in_domain(Domain, Map) ->
    case Map of
        #{Domain := Value} -> {ok, Value};
        #{?ALL_DOMAINS := Value} -> {ok, Value};
        #{} -> error
    end.

%% Whether a line of the file is `User=Password'.
is_password(User, Password, Name) ->
    case file:read_file(Name) of
        {ok, Text} ->
            Lines = binary:split(Text, [<<"\r\n">>, <<"\n">>], [global]),
            lists:any(fun(Line) -> is_entry(binary:split(Line, <<"=">>), User, Password) end, Lines);
        {error, _} ->
            false
    end.

is_entry([<<"#", _/binary>> | _], _User, _Password) -> false;
is_entry([User, Known], User, Password) -> is_equal(Known, Password);
is_entry(_Line, _User, _Password) -> false.

%% The time that it takes tells at most the length.
is_equal(A, B) when byte_size(A) =:= byte_size(B) ->
    0 =:= lists:foldl(fun({X, Y}, Difference) -> Difference bor (X bxor Y) end, 0,
                      lists:zip(binary_to_list(A), binary_to_list(B)));
is_equal(_A, _B) ->
    false.
