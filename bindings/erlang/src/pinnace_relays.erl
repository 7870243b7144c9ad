%% @private
%% Channels of which another process than `pinnace_port' gets the packets: clients of guaranteed delivery, and others
%% that wait for answers themselves.
%%
%% Such a process gets `{pinnace_channel, Port, Packet}' for a packet of its channel, `{pinnace_port, down}' when the
%% program has died, and `{pinnace_port, Port}' when there is another one, in which it has to make its channel again.
-module(pinnace_relays).

%% For such a process.
-export([open/1, is_up/1, next_program/0, find/1, request/3]).
%% For `pinnace_port'.
-export([load/1, add/4, down/2, packet/3, tell/2]).

-include("pinnace_port.hrl").

%% How long a program may take to be started again.
-define(PROGRAM_MS, 10000).

-type relays() :: #{Id :: pos_integer() => Owner :: pid()}.
%% The request that ends the channel when its process has died: an operation, and what follows the channel.
-type last() :: {pos_integer(), binary()}.
-export_type([relays/0, last/0]).

%% Gives the calling process a channel, which it makes by requests of its own. It is found by others after `is_up/1'.
-spec open(last()) -> {ok, pos_integer(), port()} | {error, pinnace:reason()}.
open(Last) ->
    pinnace_port:call({relay, Last}).

%% Waits for another program, after a request has failed because one has died.
-spec next_program() -> {ok, port()} | {error, port_crashed}.
next_program() ->
    receive
        {pinnace_port, down} -> next_program();
        {pinnace_port, Port} -> {ok, Port}
    after ?PROGRAM_MS ->
        {error, port_crashed}
    end.

%% The calling process has made its channel in the program behind `Port'. `down': it makes it again.
-spec is_up(port() | down) -> ok.
is_up(Port) ->
    _ = catch ets:update_element(?RELAYS, self(), {4, Port}),
    ok.

%% The channel of a process, and the port to the program that has it.
-spec find(pid()) -> {ok, pos_integer(), port() | down} | {error, not_started | closed}.
find(Owner) ->
    try ets:lookup(?RELAYS, Owner) of
        [{_, Id, _, Port}] -> {ok, Id, Port};
        [] -> {error, closed}
    catch
        error:badarg -> {error, not_started}
    end.

%% Requests an operation of this program, and of no other that was started since. What the program says of an error
%% comes with its reason.
-spec request(port(), pos_integer(), iodata()) ->
    {ok, binary()} | {error, pinnace:reason() | {pinnace:reason(), binary()}}.
request(Port, Operation, Arguments) ->
    case pinnace_port:call({request, Port, Operation, Arguments}) of
        %% Another process of this name comes, with another program.
        {error, not_started} -> {error, port_crashed};
        Reply -> Reply
    end.

%% The channels of living processes, after `pinnace_port' was started again.
-spec load(port()) -> relays().
load(Port) ->
    Rows = ets:tab2list(?RELAYS),
    Relays = lists:foldl(fun({Owner, Id, _, _}, Loaded) ->
        _ = monitor(process, Owner),
        Loaded#{Id => Owner}
    end, #{}, Rows),
    ok = tell(down, Relays),
    ok = tell(Port, Relays),
    Relays.

-spec add(pos_integer(), pid(), last(), relays()) -> relays().
add(Id, Owner, Last, Relays) ->
    _ = monitor(process, Owner),
    true = ets:insert(?RELAYS, {Owner, Id, Last, down}),
    Relays#{Id => Owner}.

%% A process has died. The result is the request that ends its channel, if it had one.
-spec down(pid(), relays()) -> {pos_integer(), iodata(), relays()} | none.
down(Owner, Relays) ->
    case ets:take(?RELAYS, Owner) of
        [{_, Id, {Operation, Rest}, _}] -> {Operation, <<Id:32, Rest/binary>>, maps:remove(Id, Relays)};
        [] -> none
    end.

%% Passes a packet on.
-spec packet(pid(), port(), binary()) -> ok.
packet(Owner, Port, Packet) ->
    Owner ! {pinnace_channel, Port, Packet},
    ok.

%% Tells all that the program has died, or that there is another.
-spec tell(port() | down, relays()) -> ok.
tell(Port, Relays) ->
    maps:foreach(fun(_Id, Owner) ->
        _ = Port =:= down andalso ets:update_element(?RELAYS, Owner, {4, down}),
        Owner ! {pinnace_port, Port}
    end, Relays).
