%% @private
%% Passes requests, credit and pings to the program for `pinnace_port', which must not wait for a port that is busy: it
%% would not see that the program has stopped. If the port is busy, a process of its own waits for it.
-module(pinnace_writer).
-behaviour(gen_server).

-export([start_link/0, pass/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% In an array of atomics: the packets that the process has, and has not passed on.
-define(WAITING, 1).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% Passes a packet on, behind those before. If the program has died, that is told by its exit status. It is for one
%% process.
-spec pass(port(), iodata()) -> ok.
pass(Port, Packet) ->
    Waiting = persistent_term:get(?MODULE),
    case atomics:get(Waiting, ?WAITING) =:= 0 andalso catch port_command(Port, Packet, [nosuspend]) of
        false ->
            ok = atomics:add(Waiting, ?WAITING, 1),
            _ = catch ?MODULE ! {Port, Packet, Waiting},
            ok;
        _ -> ok
    end.

-spec init([]) -> {ok, []}.
init([]) ->
    process_flag(message_queue_data, off_heap),
    persistent_term:put(?MODULE, atomics:new(1, [])),
    {ok, []}.

-spec handle_call(term(), gen_server:from(), []) -> {reply, {error, einval}, []}.
handle_call(_Request, _From, State) ->
    {reply, {error, einval}, State}.

-spec handle_cast(term(), []) -> {noreply, []}.
handle_cast(_Request, State) ->
    {noreply, State}.

-spec handle_info(term(), []) -> {noreply, []}.
handle_info({Port, Packet, Waiting}, State) ->
    _ = catch port_command(Port, Packet),
    ok = atomics:sub(Waiting, ?WAITING, 1),
    {noreply, State};
handle_info(_Message, State) ->
    {noreply, State}.
