-include("waiting_times.hrl").

-import(waiting, [until/1, result/1, next/0, nothing/0, each/1]).
