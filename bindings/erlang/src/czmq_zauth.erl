%% @private
%% A ZAP handler (RFC 27): it decides which peers are admitted to the sockets of this node. It ends with its context.
%%
%% An address is admitted if it is in the list of those that are allowed, or if there is no such list and it is not in
%% that of those that are denied. PLAIN and CURVE also want a known password or key, in the socket's domain or in "*".
%% Files are read for each peer, so changes take effect at once.
-module(czmq_zauth).
-behaviour(gen_server).

-export([start/1, call/2, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-include("pinnace_port.hrl").

-define(ALL_DOMAINS, <<"*">>).

-type request() :: {allow | deny, Address :: binary()} | {plain, Domain :: binary(), file:name_all()}
                 | {curve, Domain :: binary(), any | file:name_all()}.

-record(state, {
    context :: reference(),
    socket :: pinnace:socket(),
    allowed = #{} :: #{binary() => true},
    denied = #{} :: #{binary() => true},
    %% Files of passwords, and directories of certificates, by domain.
    passwords = #{} :: #{binary() => file:name_all()},
    certificates = #{} :: #{binary() => any | file:name_all()}
}).

%% Starts the handler. Error: `eaddrinuse' if the node has one.
-spec start(pid()) -> {ok, pid()} | {error, term()}.
start(Context) ->
    case gen_server:start(?MODULE, Context, []) of
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

-spec init(pid()) -> {ok, #state{}} | {stop, term()}.
init(Context) ->
    case pinnace:socket(rep, [{linger, 0}, {active, true}]) of
        {ok, Socket} ->
            case pinnace:bind(Socket, ?ZAP_ENDPOINT) of
                {ok, _} -> {ok, #state{context = monitor(process, Context), socket = Socket}};
                {error, Reason} -> {stop, {shutdown, Reason}}
            end;
        {error, Reason} ->
            {stop, {shutdown, Reason}}
    end.

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

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, normal, #state{}}.
handle_info({pinnace, Socket, Request}, #state{socket = Socket} = State) ->
    %% If the program has died, the peer connects again.
    _ = pinnace:send(Socket, answer(Request, State)),
    {noreply, State};
handle_info({'DOWN', Context, process, _, _}, #state{context = Context} = State) ->
    {stop, normal, State};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{socket = Socket}) ->
    %% Another handler can be bound when this call returns.
    _ = pinnace:close(Socket),
    ok.

answer([<<"1.0">>, Id, Domain, Address, _RoutingId, Mechanism | Credentials], State) ->
    case is_admitted(Address, State) andalso user(Mechanism, Credentials, Domain, State) of
        {ok, User} -> reply(Id, <<"200">>, <<"OK">>, User);
        _ -> reply(Id, <<"400">>, <<"no access">>, <<>>)
    end;
answer([_Version, Id | _], _State) ->
    reply(Id, <<"500">>, <<"not a request of RFC 27">>, <<>>);
answer(_Request, _State) ->
    reply(<<>>, <<"500">>, <<"not a request of RFC 27">>, <<>>).

reply(Id, Status, Text, User) ->
    [<<"1.0">>, Id, Status, Text, User, <<>>].

is_admitted(Address, #state{allowed = Allowed, denied = Denied}) when map_size(Allowed) =:= 0 ->
    not is_map_key(Address, Denied);
is_admitted(Address, #state{allowed = Allowed}) ->
    is_map_key(Address, Allowed).

%% The user that a peer has proved to be.
user(<<"NULL">>, [], _Domain, _State) ->
    {ok, <<>>};
user(<<"PLAIN">>, [User, Password], Domain, #state{passwords = Passwords}) ->
    case in_domain(Domain, Passwords) of
        {ok, Name} -> is_password(User, Password, Name) andalso {ok, User};
        error -> false
    end;
user(<<"CURVE">>, [Key], Domain, #state{certificates = Certificates}) ->
    {ok, User} = pinnace_z85:encode(Key),
    case in_domain(Domain, Certificates) of
        {ok, any} -> {ok, User};
        {ok, Directory} -> czmq_zcert:is_known(Directory, Key) andalso {ok, User};
        error -> false
    end;
user(_Mechanism, _Credentials, _Domain, _State) ->
    false.

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
