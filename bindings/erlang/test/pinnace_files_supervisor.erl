%% A supervisor of the children that it is given.
-module(pinnace_files_supervisor).
-behaviour(supervisor).

-export([init/1]).

init(Specs) ->
    {ok, {#{strategy => rest_for_one}, Specs}}.
