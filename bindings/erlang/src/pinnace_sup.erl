%% @private
-module(pinnace_sup).
-behaviour(supervisor).

-export([start_link/0, init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Registry = #{id => pinnace_registry, start => {pinnace_registry, start_link, []}},
    Sender = #{id => pinnace_sender, start => {pinnace_sender, start_link, []}},
    Port = #{id => pinnace_port, start => {pinnace_port, start_link, []}, shutdown => 5000},
    {ok, {#{strategy => rest_for_one, intensity => 3, period => 10}, [Registry, Sender, Port]}}.
