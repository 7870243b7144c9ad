%% A REP whose program dies: an answer reaches the peer that has asked, or nobody.
-module(pinnace_answers_tests).

-include_lib("eunit/include/eunit.hrl").
-include("waiting.hrl").

all_test_() ->
    {foreach, fun start/0, fun waiting:stop/1, each([
        fun an_old_answer_goes_to_nobody/1, fun an_old_confirmed_answer_goes_to_nobody/1,
        fun an_answered_request_leaves_nothing/1, fun a_confirmed_answer_leaves_nothing/1,
        fun queued_requests_are_dropped/1, fun an_answer_while_the_program_dies/1, fun the_process_of_the_port_dies/1,
        fun confirmed_messages_leave_the_room/1, fun confirmed_messages_are_told_once/1])}.

%% A REP, and the endpoint that it is bound to.
start() ->
    ok = waiting:quietly(),
    {ok, Rep} = pinnace:socket(rep),
    {ok, _} = pinnace:bind(Rep, "inproc://answers"),
    Rep.

ask(Question) ->
    {ok, Req} = pinnace:socket(req, [{linger, 0}]),
    ok = pinnace:connect(Req, "inproc://answers"),
    ok = pinnace:send(Req, Question),
    Req.

asked(Rep) ->
    {ok, [Question]} = pinnace:recv(Rep, ?PATIENCE_MS),
    Question.

answer(Req) ->
    {ok, [Answer]} = pinnace:recv(Req, ?PATIENCE_MS),
    Answer.

os_pid(Socket) ->
    {ok, #{os_pid := OsPid}} = pinnace:info(Socket),
    OsPid.

kill(Rep) ->
    OsPid = os_pid(Rep),
    "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    until(fun() -> os_pid(Rep) =/= OsPid end).

%% The next question is answered as always.
goes_on(Rep) ->
    Req = ask(<<"next">>),
    ?assertEqual(<<"next">>, asked(Rep)),
    ok = pinnace:send(Rep, <<"answer to next">>),
    ?assertEqual(<<"answer to next">>, answer(Req)),
    receive {pinnace_unsent, Rep, _, _} = Unsent -> error(Unsent) after 0 -> ok end.

an_old_answer_goes_to_nobody(Rep) ->
    old_answer(Rep, []).

an_old_confirmed_answer_goes_to_nobody(Rep) ->
    old_answer(Rep, [confirm]).

old_answer(Rep, Options) ->
    _ = ask(<<"older">>),
    ?assertEqual(<<"older">>, asked(Rep)),
    ok = kill(Rep),
    _ = ask(<<"old">>),
    ?assertEqual(<<"old">>, asked(Rep)),
    ok = kill(Rep),
    ok = kill(Rep),
    Req = ask(<<"new">>),
    ?assertEqual(<<"new">>, asked(Rep)),
    ?assertEqual({error, port_crashed}, pinnace:send(Rep, <<"answer to older">>, Options)),
    ?assertEqual({error, port_crashed}, pinnace:send(Rep, <<"answer to old">>, Options)),
    ok = pinnace:send(Rep, <<"answer to new">>, Options),
    ?assertEqual(<<"answer to new">>, answer(Req)),
    goes_on(Rep).

an_answered_request_leaves_nothing(Rep) ->
    answered(Rep, []).

a_confirmed_answer_leaves_nothing(Rep) ->
    answered(Rep, [confirm]).

answered(Rep, Options) ->
    Req = ask(<<"old">>),
    ?assertEqual(<<"old">>, asked(Rep)),
    ok = pinnace:send(Rep, <<"answer to old">>, Options),
    ?assertEqual(<<"answer to old">>, answer(Req)),
    ok = kill(Rep),
    goes_on(Rep).

queued_requests_are_dropped(Rep) ->
    _ = ask(<<"old">>),
    until(fun() -> {ok, #{queued := Queued}} = pinnace:info(Rep), Queued =:= 1 end),
    ok = kill(Rep),
    goes_on(Rep).

%% The program dies after a request was received, and before the answer is passed to it.
an_answer_while_the_program_dies(Rep) ->
    _ = ask(<<"old">>),
    ?assertEqual(<<"old">>, asked(Rep)),
    {Port, OsPid} = element(2, sys:get_state(pinnace_port)),
    ok = sys:suspend(pinnace_port),
    "" = os:cmd("kill -KILL " ++ integer_to_list(OsPid)),
    until(fun() -> erlang:port_info(Port) =:= undefined end),
    Self = self(),
    Sender = spawn_link(fun() -> Self ! {answered, pinnace:send(Rep, <<"answer to old">>)} end),
    %% It has asked to be told of the next program.
    until(fun() -> process_info(Sender, current_function) =:= {current_function, {gen, do_call, 4}} end),
    ok = sys:resume(pinnace_port),
    %% That the question may be lost is told, too.
    receive {answered, Answered} -> ?assertEqual({error, port_crashed}, Answered) after ?PATIENCE_MS -> error(late) end,
    until(fun() -> os_pid(Rep) =/= OsPid end),
    goes_on(Rep).

the_process_of_the_port_dies(Rep) ->
    _ = ask(<<"old">>),
    ?assertEqual(<<"old">>, asked(Rep)),
    OsPid = os_pid(Rep),
    exit(whereis(pinnace_port), kill),
    until(fun() ->
        case pinnace:info(Rep) of
            {ok, #{os_pid := Next}} -> Next =/= OsPid;
            {error, _} -> false
        end
    end),
    Req = ask(<<"new">>),
    ?assertEqual(<<"new">>, asked(Rep)),
    ?assertEqual({error, port_crashed}, pinnace:send(Rep, <<"answer to old">>)),
    ok = pinnace:send(Rep, <<"answer to new">>),
    ?assertEqual(<<"answer to new">>, answer(Req)),
    goes_on(Rep).

%% Messages of which the sender waits for the confirmation take room as others do, and give it back.
confirmed_messages_leave_the_room(_Rep) ->
    {ok, Pull} = pinnace:socket(pull),
    {ok, Push} = pinnace:socket(push, [{sndhwm, 1}]),
    {ok, Endpoint} = pinnace:bind(Pull, "tcp://127.0.0.1:*"),
    ok = pinnace:connect(Push, Endpoint),
    {ok, #{room := Room}} = pinnace:info(Push),
    Content = binary:copy(<<"x">>, 100000),
    [begin
        ok = pinnace:send(Push, Content, [confirm]),
        {ok, [Content]} = pinnace:recv(Pull, ?PATIENCE_MS)
    end || _ <- lists:seq(1, 30)],
    until(fun() -> {ok, #{room := Now}} = pinnace:info(Push), Now =:= Room end).

%% The caller gets the error; the owner is told of the others only.
confirmed_messages_are_told_once(_Rep) ->
    {ok, Push} = pinnace:socket(push),
    {ok, _} = pinnace:bind(Push, "inproc://nobody"),
    ok = pinnace:send(Push, <<"not confirmed">>),
    Self = self(),
    _ = spawn_link(fun() -> Self ! {confirmed, pinnace:send(Push, <<"confirmed">>, [confirm])} end),
    {ok, #{room := Room}} = pinnace:info(Push),
    until(fun() -> {ok, #{room := Now}} = pinnace:info(Push), Now < Room orelse Room < 1048576 - 20 end),
    ok = kill(Push),
    ?assertEqual([{confirmed, {error, port_crashed}}, {pinnace_unsent, Push, 1, port_crashed}],
                 lists:sort([next(), next()])).
