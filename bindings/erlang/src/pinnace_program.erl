%% @private
%% The program pinnace-port: where it is, how it is started and ended.
-module(pinnace_program).

-export([start/0, kill/1, release/0]).

-include("pinnace_port.hrl").

%% The version of the protocol that this application speaks.
-define(VERSION, 1).
%% How long the program has for its hello.
-define(HELLO_MS, 5000).
%% The octets of the port's queue at which senders wait, and at which they go on.
-define(BUSY, {131072, 1048576}).
-define(RELEASE, {?MODULE, release}).

-type program() :: {port(), OsPid :: non_neg_integer()}. % 0: it has ended
-type problem() :: port_missing | port_version | port_protocol | port_silent | {port_exit, term()}
                 | {port_not_started, file:filename_all(), term()}.
-export_type([program/0, problem/0]).

%% Starts it, and exchanges the hellos.
-spec start() -> {ok, program()} | {error, problem()}.
start() ->
    Named = [os:getenv("PINNACE_PORT"), application:get_env(pinnace, program, false), in_priv()],
    case [Name || Name <- Named, Name =/= false, Name =/= ""] of
        [] -> {error, port_missing};
        [Name | _] -> open(Name)
    end.

in_priv() ->
    case code:priv_dir(pinnace) of
        {error, bad_name} -> false;
        Priv ->
            Name = filename:join(Priv, "pinnace-port"),
            filelib:is_regular(Name) andalso Name
    end.

open(Name) ->
    Linger = integer_to_list(application:get_env(pinnace, linger, 1000)),
    Options = [{packet, 4}, binary, exit_status, use_stdio, hide, {args, ["--linger", Linger, "--log"]},
               {busy_limits_port, ?BUSY}, {busy_limits_msgq, ?BUSY}],
    try open_port({spawn_executable, Name}, Options) of
        Port -> greet(Port)
    catch
        error:Reason -> {error, {port_not_started, Name, Reason}}
    end.

greet(Port) ->
    %% It may have ended.
    OsPid = case erlang:port_info(Port, os_pid) of
        {os_pid, Pid} -> Pid;
        undefined -> 0
    end,
    receive
        {Port, {data, <<129, "pinnace-port", Lowest:16, Highest:16, Release/binary>>}}
          when Lowest =< ?VERSION, ?VERSION =< Highest ->
            persistent_term:put(?RELEASE, Release),
            _ = catch port_command(Port, pinnace_wire:hello(?VERSION)),
            {ok, {Port, OsPid}};
        {Port, {data, <<129, "pinnace-port", _/binary>>}} ->
            give_up(Port, OsPid, port_version);
        {Port, {data, _}} ->
            give_up(Port, OsPid, port_protocol);
        {Port, {exit_status, Status}} ->
            {error, {port_exit, Status}};
        {'EXIT', Port, Reason} ->
            {error, {port_exit, Reason}}
    after ?HELLO_MS ->
        give_up(Port, OsPid, port_silent)
    end.

give_up(Port, OsPid, Reason) ->
    kill({Port, OsPid}),
    {error, Reason}.

%% The release of the program that was started last.
-spec release() -> {ok, binary()} | error.
release() ->
    case persistent_term:get(?RELEASE, none) of
        none -> error;
        Release -> {ok, Release}
    end.

%% Ends it, even if it is stopped.
-spec kill(program()) -> ok.
kill({Port, OsPid}) ->
    _ = OsPid =/= 0 andalso os:cmd("kill -KILL " ++ integer_to_list(OsPid) ++ " 2> /dev/null"),
    _ = catch port_close(Port),
    ok.
