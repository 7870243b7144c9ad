%% A supervisor of the children that it is given, for tests.
-module(one_child).
-behaviour(supervisor).

-export([init/1]).

init(Children) ->
    {ok, {#{intensity => 10, period => 1}, Children}}.
