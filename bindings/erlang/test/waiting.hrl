%% A deadline for what must happen, in milliseconds.
-define(PATIENCE_MS, 20000).
%% How long something is watched that must not happen.
-define(A_MOMENT_MS, 100).

-import(waiting, [until/1, result/1, next/0, nothing/0, each/1]).
