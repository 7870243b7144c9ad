%% The sender and the receiver in Erlang:
%%
%%     send WAY ENDPOINT OCTETS          sends until it is killed; ways: batch, one, czmq, nif
%%     recv WAY ENDPOINT MILLISECONDS    binds, prints the endpoint, and then messages a second; ways: batch, each, czmq,
%%                                       nif
%%     bare WAY PROGRAM MESSAGES OCTETS MILLISECONDS    messages a second of a port that only writes; ways: batch, each
%%     ask ENDPOINT COUNT                the median round trip of a REQ, in microseconds
%%     answer ENDPOINT                   the REP
%%     ask_bare PROGRAM FROM TO COUNT    the same over ports that only pass on
%%     answer_bare PROGRAM FROM TO
-module(bench_peer).

-export([main/0]).

main() ->
    run(init:get_plain_arguments()),
    halt().

run(["send", Way, Endpoint, Octets]) ->
    send(Way, Endpoint, binary:copy(<<"x">>, list_to_integer(Octets)));
run(["recv", Way, Endpoint, Milliseconds]) ->
    recv(Way, Endpoint, list_to_integer(Milliseconds));
run(["bare", Way, Program, Messages, Octets, Milliseconds]) ->
    Port = open_port({spawn_executable, Program}, [{args, ["send", Messages, Octets]}, {packet, 4}, binary]),
    measure(bare(Way, Port), list_to_integer(Milliseconds)),
    port_close(Port);
run(["ask_bare", Program, From, To, Count]) ->
    Port = open_port({spawn_executable, Program}, [{args, ["pass", From, To]}, {packet, 4}, binary]),
    Trip = fun() ->
        true = port_command(Port, <<"a question">>),
        receive {Port, {data, <<"a question">>}} -> ok end
    end,
    trips(Trip, list_to_integer(Count));
run(["answer_bare", Program, From, To]) ->
    Port = open_port({spawn_executable, Program}, [{args, ["pass", From, To]}, {packet, 4}, binary]),
    bound(To),
    answer_bare(Port);
run(["ask", Endpoint, Count]) ->
    start(),
    {ok, Req} = pinnace:socket(req),
    ok = pinnace:connect(Req, Endpoint),
    Trip = fun() ->
        ok = pinnace:send(Req, <<"a question">>),
        {ok, [<<"a question">>]} = pinnace:recv(Req)
    end,
    trips(Trip, list_to_integer(Count));
run(["answer", Endpoint]) ->
    start(),
    {ok, Rep} = pinnace:socket(rep),
    {ok, Bound} = pinnace:bind(Rep, Endpoint),
    io:format("bound ~s~n", [Bound]),
    answer(Rep).

start() ->
    {ok, _} = application:ensure_all_started(pinnace).

answer_bare(Port) ->
    receive {Port, {data, Question}} -> true = port_command(Port, Question) end,
    answer_bare(Port).

answer(Rep) ->
    {ok, [Question]} = pinnace:recv(Rep),
    ok = pinnace:send(Rep, Question),
    answer(Rep).

%% The median of many round trips; the first tenth is not measured.
trips(Trip, Count) ->
    _ = [Trip() || _ <- lists:seq(1, Count div 10)],
    Times = [element(1, timer:tc(Trip)) || _ <- lists:seq(1, Count)],
    io:format("end ~b~n", [lists:nth(Count div 2, lists:sort(Times))]).

send("nif", Endpoint, Message) ->
    Push = zmq_nif:socket(8),
    _ = zmq_nif:connect(Push, list_to_binary(Endpoint)),
    for_ever(fun() -> ok = zmq_nif:send(Push, Message) end);
send("czmq", Endpoint, Message) ->
    start(),
    {ok, Context} = czmq:start_link(),
    {ok, Push} = czmq:zsocket_new(Context, push),
    ok = czmq:zsocket_connect(Push, Endpoint),
    %% An error says that there is no room now.
    for_ever(fun() -> _ = czmq:zsocket_sendmem(Push, Message) end);
send(Way, Endpoint, Message) ->
    start(),
    {ok, Push} = pinnace:socket(push),
    ok = pinnace:connect(Push, Endpoint),
    case Way of
        "one" -> for_ever(fun() -> ok = pinnace:send(Push, Message) end);
        "batch" ->
            Messages = lists:duplicate(1000, Message),
            for_ever(fun() -> ok = pinnace:send_many(Push, Messages) end)
    end.

for_ever(Do) ->
    Do(),
    for_ever(Do).

recv("nif", Endpoint, Milliseconds) ->
    Pull = zmq_nif:socket(7),
    bound(zmq_nif:bind(Pull, list_to_binary(Endpoint))),
    measure(fun() -> <<_/binary>> = zmq_nif:recv(Pull), 1 end, Milliseconds);
recv("czmq", Endpoint, Milliseconds) ->
    start(),
    {ok, Context} = czmq:start_link(),
    {ok, Pull} = czmq:zsocket_new(Context, pull),
    {ok, Port} = czmq:zsocket_bind(Pull, Endpoint),
    bound(io_lib:format("tcp://127.0.0.1:~b", [Port])),
    {ok, _} = czmq:subscribe_link(Pull, [{target, self()}]),
    measure(fun() -> receive {_, [_ | _]} -> 1 end end, Milliseconds);
recv(Way, Endpoint, Milliseconds) ->
    start(),
    Deliver = case Way of "batch" -> batch; "each" -> message end,
    {ok, Pull} = pinnace:socket(pull, [{deliver, Deliver}, {active, true}]),
    {ok, Bound} = pinnace:bind(Pull, Endpoint),
    bound(Bound),
    Next = case Deliver of
        batch -> fun() -> receive {pinnace_batch, Pull, Messages} -> length(Messages) end end;
        message -> fun() -> receive {pinnace, Pull, [_ | _]} -> 1 end end
    end,
    measure(Next, Milliseconds).

bound(Endpoint) ->
    io:format("bound ~s~n", [Endpoint]).

%% In batches, or by another process that gets one Erlang message for each.
bare("batch", Port) ->
    fun() -> receive {Port, {data, Packet}} -> length(split(Packet)) end end;
bare("each", Port) ->
    Self = self(),
    Reader = spawn_link(fun() -> read(Port, Self) end),
    true = port_connect(Port, Reader),
    %% Packets that came before go to the reader too.
    fun() ->
        receive
            {message, _} -> 1;
            {Port, {data, _}} = Packet -> Reader ! Packet, 0
        end
    end.

read(Port, To) ->
    receive {Port, {data, Packet}} -> [To ! {message, Message} || Message <- split(Packet)] end,
    read(Port, To).

split(<<Length:32, Message:Length/binary, Rest/binary>>) -> [Message | split(Rest)];
split(<<>>) -> [].

%% Messages a second. The first tenth of a second is not measured.
measure(Next, Milliseconds) ->
    _ = Next(),
    _ = count(Next, 0, 0, now_us() + 100000),
    io:format("begin~n"),
    Begin = now_us(),
    Count = count(Next, 0, 0, Begin + Milliseconds * 1000),
    io:format("end ~b~n", [Count * 1000000 div (now_us() - Begin)]).

%% The clock is read once for 64 steps.
count(Next, Count, 64, Deadline) ->
    case now_us() >= Deadline of
        true -> Count;
        false -> count(Next, Count, 0, Deadline)
    end;
count(Next, Count, Steps, Deadline) ->
    count(Next, Count + Next(), Steps + 1, Deadline).

now_us() ->
    erlang:monotonic_time(microsecond).
