%% @doc A ZAP handler (RFC 27): a module decides which peers are admitted to the sockets of a context.
%%
%% A peer is asked for if a socket has a security mechanism, or the option `zap_domain' with NULL. While there is no
%% handler, the library decides: set `zap_enforce_domain', so that it admits nobody.
-module(pinnace_zap).
-behaviour(gen_server).

-export([start/3, start_link/2, start_link/3, child_spec/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([request/0, decision/0]).

-include_lib("kernel/include/logger.hrl").
-include("pinnace_port.hrl").

-type request() :: #{domain := binary(), address := binary(), routing_id := binary(), mechanism := atom() | binary(),
                     user => binary(), password => binary(), key => binary(), credentials => [binary()]}.
%% `mechanism': `null', `plain' with `user' and `password', `curve' with `key' (32 octets), or another one in capitals
%% with `credentials'.
-type decision() :: admit | {admit, User :: iodata()} | {admit, User :: iodata(), [{iodata(), iodata()}]}
                  | deny | {deny, Text :: iodata()}.
%% The user and the metadata are properties of the peer's messages; the names of metadata have at most 255 octets.

-callback init(Arguments :: term()) -> {ok, State :: term()} | {stop, Reason :: term()} | ignore.
-callback handle_request(request(), State :: term()) -> {decision(), State :: term()}.
-callback handle_call(term(), gen_server:from(), State :: term()) ->
    {reply, term(), State :: term()} | {noreply, State :: term()} | {stop, Reason :: term(), State :: term()}.
-callback handle_info(term(), State :: term()) ->
    {noreply, State :: term()} | {stop, Reason :: term(), State :: term()}.
-optional_callbacks([init/1, handle_call/3, handle_info/2]).

-record(state, {socket :: pinnace:socket(), module :: module(), state :: term()}).

%% @doc As `start_link/3', without a link.
-spec start(pinnace:context(), module(), term()) -> gen_server:start_ret().
start(Context, Module, Arguments) ->
    gen_server:start(?MODULE, {Context, Module, Arguments}, []).

%% @doc Starts the handler of the sockets that name no context. Error: `eaddrinuse' if there is one.
-spec start_link(module(), term()) -> gen_server:start_ret().
start_link(Module, Arguments) ->
    start_link(pinnace:context(), Module, Arguments).

%% @doc Starts the handler of a context. The module's `init/1' gets the arguments; if it has none, they are the state.
-spec start_link(pinnace:context(), module(), term()) -> gen_server:start_ret().
start_link(Context, Module, Arguments) ->
    gen_server:start_link(?MODULE, {Context, Module, Arguments}, []).

%% @doc For a supervisor.
-spec child_spec(module(), term()) -> supervisor:child_spec().
child_spec(Module, Arguments) ->
    #{id => {?MODULE, Module}, start => {?MODULE, start_link, [Module, Arguments]}, modules => [Module]}.

-spec init({pinnace:context(), module(), term()}) -> {ok, #state{}} | {stop, term()} | ignore.
init({Context, Module, Arguments}) ->
    _ = code:ensure_loaded(Module),
    Begun = case erlang:function_exported(Module, init, 1) of
        true -> Module:init(Arguments);
        false -> {ok, Arguments}
    end,
    case Begun of
        {ok, State} ->
            %% The socket is closed before the name of this process is free.
            process_flag(trap_exit, true),
            bind(Context, Module, State);
        Other -> Other
    end.

bind(Context, Module, State) ->
    case pinnace:socket(Context, rep, [{linger, 0}, {active, true}]) of
        {ok, Socket} ->
            case pinnace:bind(Socket, ?ZAP_ENDPOINT) of
                {ok, _} -> {ok, #state{socket = Socket, module = Module, state = State}};
                {error, Reason} -> {stop, {shutdown, Reason}}
            end;
        {error, Reason} ->
            {stop, {shutdown, Reason}}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}} | {noreply, #state{}} | {stop, term(), #state{}}.
handle_call(Request, From, #state{module = Module} = State) ->
    case erlang:function_exported(Module, handle_call, 3) of
        true -> result(Module:handle_call(Request, From, State#state.state), State);
        false -> {reply, {error, einval}, State}
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info({pinnace, Socket, Frames}, #state{socket = Socket} = State) ->
    {Answer, Next} = answer(Frames, State),
    %% If the program has died, the peer connects again.
    _ = pinnace:send(Socket, Answer),
    {noreply, Next};
handle_info({pinnace_unsent, Socket, _Count, _Reason}, #state{socket = Socket} = State) ->
    {noreply, State};
handle_info({pinnace_error, Socket, Reason}, #state{socket = Socket} = State) ->
    {stop, {shutdown, Reason}, State};
handle_info(Message, #state{module = Module} = State) ->
    case erlang:function_exported(Module, handle_info, 2) of
        true -> result(Module:handle_info(Message, State#state.state), State);
        false -> {noreply, State}
    end.

result({reply, Reply, Next}, State) -> {reply, Reply, State#state{state = Next}};
result({noreply, Next}, State) -> {noreply, State#state{state = Next}};
result({stop, Reason, Next}, State) -> {stop, Reason, State#state{state = Next}}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{socket = Socket}) ->
    %% Another handler can be bound when this call returns.
    _ = pinnace:close(Socket),
    ok.

answer([<<"1.0">>, Id, Domain, Address, RoutingId, Mechanism | Credentials], #state{module = Module} = State) ->
    Common = #{domain => Domain, address => Address, routing_id => RoutingId},
    try
        {Decision, Next} = Module:handle_request(maps:merge(Common, proof(Mechanism, Credentials)), State#state.state),
        {[<<"1.0">>, Id | decided(Decision)], State#state{state = Next}}
    catch
        Class:Reason:Stack ->
            ?LOG_ERROR("~tp:handle_request/2 has failed: ~0tp:~0tp~n~0tp~nThe peer is not admitted.",
                       [Module, Class, Reason, Stack]),
            {[<<"1.0">>, Id, <<"500">>, <<"the handler has failed">>, <<>>, <<>>], State}
    end;
answer([_Version, Id | _], State) ->
    {[<<"1.0">>, Id, <<"500">>, <<"not a request of RFC 27">>, <<>>, <<>>], State};
answer(_Frames, State) ->
    {[<<"1.0">>, <<>>, <<"500">>, <<"not a request of RFC 27">>, <<>>, <<>>], State}.

proof(<<"NULL">>, []) -> #{mechanism => null};
proof(<<"PLAIN">>, [User, Password]) -> #{mechanism => plain, user => User, password => Password};
proof(<<"CURVE">>, [Key]) -> #{mechanism => curve, key => Key};
proof(Mechanism, Credentials) -> #{mechanism => Mechanism, credentials => Credentials}.

%% Status, text, user, metadata.
decided(admit) -> decided({admit, <<>>});
decided({admit, User}) -> decided({admit, User, []});
decided({admit, User, Metadata}) -> [<<"200">>, <<"OK">>, iolist_to_binary(User), metadata(Metadata)];
decided(deny) -> decided({deny, <<"no access">>});
decided({deny, Text}) -> [<<"400">>, iolist_to_binary(Text), <<>>, <<>>].

%% As in RFC 37: each name with its length in one octet, each value in four.
metadata(Pairs) ->
    iolist_to_binary(lists:map(fun({Name, Value}) ->
        property(iolist_to_binary(Name), iolist_to_binary(Value))
    end, Pairs)).

property(Name, Value) when byte_size(Name) > 0, byte_size(Name) =< 255 ->
    <<(byte_size(Name)), Name/binary, (byte_size(Value)):32, Value/binary>>.
