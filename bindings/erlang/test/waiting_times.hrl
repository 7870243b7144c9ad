%% A deadline for what must happen, in milliseconds.
-define(PATIENCE_MS, 20000).
%% How long something is watched that must not happen.
-define(A_MOMENT_MS, 100).
