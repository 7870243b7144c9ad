%% @private
%% The requests that make a socket again, the last first.
-module(pinnace_steps).

-export([add/3, endpoints/2]).

-include("pinnace_port.hrl").

-type step() :: {Operation :: pos_integer(), Argument :: iodata()}.
-export_type([step/0]).

-define(SUBSCRIBE, 6).
-define(UNSUBSCRIBE, 7).

%% Adds a request that was carried out, or takes away the one that it undoes. `Value': the answer; an endpoint is kept
%% as it was resolved.
-spec add(step(), binary(), [step()]) -> [step()].
add({Operation, _}, Endpoint, Steps) when Operation =:= ?BIND; Operation =:= ?CONNECT ->
    [{Operation, iolist_to_binary(pinnace_wire:bytes(Endpoint))} | Steps];
add({?UNBIND, Endpoint}, _, Steps) ->
    lists:delete({?BIND, iolist_to_binary(Endpoint)}, Steps);
add({?DISCONNECT, Endpoint}, _, Steps) ->
    lists:delete({?CONNECT, iolist_to_binary(Endpoint)}, Steps);
add({?LEAVE, Group}, _, Steps) ->
    lists:delete({?JOIN, iolist_to_binary(Group)}, Steps);
add({?SET_OPTION, Argument}, _, Steps) ->
    set(iolist_to_binary(Argument), Steps);
add({Operation, Argument}, _, Steps) ->
    [{Operation, iolist_to_binary(Argument)} | Steps].

set(<<?UNSUBSCRIBE:32, Topic/binary>>, Steps) ->
    lists:delete({?SET_OPTION, <<?SUBSCRIBE:32, Topic/binary>>}, Steps);
set(<<?SUBSCRIBE:32, _/binary>> = Argument, Steps) ->
    [{?SET_OPTION, Argument} | Steps];
set(<<Option:32, _/binary>> = Argument, Steps) ->
    [{?SET_OPTION, Argument} | without(Option, Steps)].

%% Without an earlier value of an option that no endpoint has.
without(Option, [{?SET_OPTION, <<Option:32, _/binary>>} | Steps]) ->
    Steps;
without(Option, [{Operation, _} = Step | Steps]) when Operation =/= ?BIND, Operation =/= ?CONNECT ->
    [Step | without(Option, Steps)];
without(_Option, Steps) ->
    Steps.

%% The endpoints that were bound, or connected, in their order.
-spec endpoints(pos_integer(), [step()]) -> [binary()].
endpoints(Operation, Steps) ->
    [Endpoint || {Made, <<_:32, Endpoint/binary>>} <- lists:reverse(Steps), Made =:= Operation].
