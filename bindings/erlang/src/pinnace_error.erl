%% @doc The reasons of errors: atoms, as those of `inet' and `file' where those have them.
-module(pinnace_error).

-export([reason/1, format/1]).

%% The reason for an error number of the program.
-spec reason(integer()) -> atom() | {errno, integer()}.
reason(1) -> eperm;
reason(2) -> enoent;
reason(5) -> eio;
reason(7) -> e2big;
reason(11) -> eagain;
reason(12) -> enomem;
reason(13) -> eacces;
reason(16) -> ebusy;
reason(17) -> eexist;
reason(19) -> enodev;
reason(20) -> enotdir;
reason(21) -> eisdir;
reason(22) -> einval;
reason(24) -> emfile;
reason(27) -> efbig;
reason(28) -> enospc;
reason(30) -> erofs;
reason(38) -> enosys;
reason(40) -> eloop;
reason(71) -> eproto;
reason(74) -> ebadmsg;
reason(88) -> closed;
reason(90) -> emsgsize;
reason(93) -> eprotonosupport;
reason(95) -> enotsup;
reason(98) -> eaddrinuse;
reason(99) -> eaddrnotavail;
reason(103) -> econnaborted;
reason(104) -> econnreset;
reason(110) -> etimedout;
reason(111) -> econnrefused;
reason(113) -> ehostunreach;
reason(115) -> einprogress;
reason(116) -> estale;
reason(121) -> eremoteio;
reason(122) -> edquot;
reason(125) -> ecanceled;
reason(126) -> enokey;
reason(129) -> ekeyrejected;
reason(156384763) -> efsm;
reason(156384764) -> enocompatproto;
reason(156384765) -> eterm;
reason(156384766) -> emthread;
reason(Errno) -> {errno, Errno}.

%% A reason in words.
-spec format(term()) -> string().
format(closed) -> "it is closed";
format(efsm) -> "the socket's pattern does not allow this now";
format(enocompatproto) -> "the transport does not support this type of socket";
format(eterm) -> "the context has ended";
format(enokey) -> "there is no secret key";
format(ekeyrejected) -> "the secret key does not match";
format(emthread) -> "no I/O thread is available";
format(timeout) -> "nothing came in time";
format(not_owner) -> "the socket belongs to another process";
format(not_started) -> "the application pinnace is not started";
format(remote_node) -> "sockets are used on the node that made them";
format(progress_failed) -> "the function that is told of the progress has failed";
format(port_crashed) -> "pinnace-port has died, and is started again";
format(port_missing) -> "there is no pinnace-port: set PINNACE_PORT, or put it into priv";
format(port_version) -> "pinnace-port speaks other versions of the protocol";
format(port_protocol) -> "the program is not pinnace-port";
format(port_silent) -> "the program has sent no hello";
format({port_exit, Status}) ->
    lists:flatten(io_lib:format("pinnace-port has ended at once, with status ~0p", [Status]));
format({port_not_started, Name, Reason}) ->
    lists:flatten(io_lib:format("~ts cannot be started: ~ts", [Name, inet:format_error(Reason)]));
format({Reason, Text}) when is_atom(Reason), is_binary(Text) -> unicode:characters_to_list(Text);
format({errno, Number}) -> lists:flatten(io_lib:format("error ~b", [Number]));
format(Reason) when is_atom(Reason) -> inet:format_error(Reason);
format(Reason) -> lists:flatten(io_lib:format("~0p", [Reason])).
