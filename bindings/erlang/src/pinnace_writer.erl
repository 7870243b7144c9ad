%% @private
%% Passes requests, credit and pings to the program for `pinnace_port', which must not wait for a port that is busy: it
%% would not see that the program has stopped.
-module(pinnace_writer).

-export([start_link/0, pass/2]).
-export([init/1, wait/0]).

-spec start_link() -> {ok, pid()}.
start_link() ->
    proc_lib:start_link(?MODULE, init, [self()]).

%% Passes a packet on, behind those before. If the program has died, that is told by its exit status.
-spec pass(port(), iodata()) -> ok.
pass(Port, Packet) ->
    _ = catch ?MODULE ! {Port, Packet},
    ok.

-spec init(pid()) -> no_return().
init(Parent) ->
    true = register(?MODULE, self()),
    process_flag(message_queue_data, off_heap),
    proc_lib:init_ack(Parent, {ok, self()}),
    wait().

%% Calls are to the code that was loaded last.
-spec wait() -> no_return().
wait() ->
    receive
        {Port, Packet} when is_port(Port) -> _ = catch port_command(Port, Packet);
        _Other -> ok
    end,
    ?MODULE:wait().
