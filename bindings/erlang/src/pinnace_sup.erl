%% @doc The supervisor of all processes of the application. `child_spec/0' puts it below one's own.
-module(pinnace_sup).
-behaviour(supervisor).

-export([child_spec/0, start_link/0, init/1]).

%% For one's own supervisor, in place of the application's, which is then not started. A node has one of them.
-spec child_spec() -> supervisor:child_spec().
child_spec() ->
    #{id => ?MODULE, start => {?MODULE, start_link, []}, type => supervisor}.

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Registry = #{id => pinnace_registry, start => {pinnace_registry, start_link, []}},
    Sender = #{id => pinnace_sender, start => {pinnace_sender, start_link, []}},
    Writer = #{id => pinnace_writer, start => {pinnace_writer, start_link, []}},
    Large = #{id => pinnace_large, start => {pinnace_large, start_link, []}},
    Port = #{id => pinnace_port, start => {pinnace_port, start_link, []}, shutdown => 5000},
    {ok, {#{strategy => rest_for_one, intensity => 3, period => 10}, [Registry, Sender, Writer, Large, Port]}}.
