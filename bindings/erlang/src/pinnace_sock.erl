%% @private
%% The state of a socket in the process `pinnace_port': queued messages, waiting callers, and credit.
-module(pinnace_sock).

-export([new/5, renew/3, credit/1]).
-export([delivered/2, part/3, recv/3, give_up/2, resume/1, set/2, get/2, info/1]).
-export([modes/1, set_modes/2]).
-export([wait/4, room/3, unconfirmed/1, unsent/3, tell_unsent/1, drop_answer/2, close/2]).

-include("pinnace_port.hrl").
-include("pinnace_sock.hrl").

-type sock() :: #sock{}.
-export_type([sock/0]).

-define(ALL_MESSAGES, 16#FFFFFFFF).
%% The owner's mailbox has at most as many messages, or batches, before no more is granted.
-define(MAILBOX_MESSAGES, 10000).
-define(MAILBOX_BATCHES, 64).
%% How long until a full mailbox is looked at again.
-define(HELD_MS, 1).

-spec new(pos_integer(), port(), pid(), pinnace:type() | {events_of, pos_integer()}, non_neg_integer()) -> sock().
new(Id, Port, Owner, Type, Window) ->
    EventsOf = case Type of {events_of, Of} -> Of; _ -> none end,
    Is = #sock{id = Id, handle = pinnace_registry:handle(Id), port = Port, is_rep = Type =:= rep,
               receives = not lists:member(Type, [pub, push, radio, scatter]), owner = Owner,
               monitor = monitor(process, Owner), events_of = EventsOf, room = atomics:new(?IN_ROOM, []),
               out = atomics:new(?IN_QUEUE, [])},
    %% Nothing was sent just now.
    ok = atomics:put(Is#sock.out, ?LAST, erlang:monotonic_time(microsecond) - 1000000),
    %% It is there if another process had the socket before.
    case ets:lookup(?SOCKETS, Id) of
        [{_, _, Room, Out}] ->
            Before = Is#sock{room = Room, out = Out},
            Lost = unconfirmed(Before) + atomics:get(Out, ?LOST),
            Told = case Lost of 0 -> Is; _ -> unsent(Lost, port_crashed, Is) end,
            enter(unanswered(Before), Window, Told);
        [] ->
            enter(0, Window, Is)
    end.

%% The requests that a REP has not answered: one of its program, and those of programs before.
unanswered(#sock{is_rep = false}) ->
    0;
unanswered(#sock{id = Id, room = Room, out = Out}) ->
    Older = case ets:lookup(?SOCKETS, Id) of
        [{_, {unanswered, Count, _}, _, _}] -> Count;
        _ -> 0
    end,
    Older + max(atomics:get(Out, ?ASKED) - atomics:get(Room, ?SENT), 0).

enter(Unanswered, Window, #sock{id = Id, port = Port, room = Room, out = Out} = Sock) ->
    ok = atomics:put(Room, ?ROOM, Window),
    ok = atomics:put(Out, ?ASKED, 0),
    Place = case Unanswered of 0 -> Port; _ -> {unanswered, Unanswered, Port} end,
    true = ets:insert(?SOCKETS, {Id, Place, Room, Out}),
    Sock.

%% The socket was made again by another program. What it has delivered stays, except requests: the program that knew
%% where they came from has died. Callers that were about to answer one get an error.
-spec renew(port(), non_neg_integer(), sock()) -> sock().
renew(Port, Window, #sock{is_rep = IsRep, senders = Senders} = Sock) ->
    Renewed = Sock#sock{port = Port, room = atomics:new(?IN_ROOM, []), senders = [], part = <<>>, used = 0},
    case IsRep of
        true ->
            reply_all(Senders, {error, port_crashed}),
            Unanswered = max(unanswered(Sock) - length(Senders), 0),
            credit(enter(Unanswered, Window, Renewed#sock{queue = queue:new()}));
        false ->
            Entered = enter(0, Window, Renewed),
            reply_all(lists:reverse(Senders), ok),
            credit(Entered)
    end.

%% The answer to a request of a program that has died is dropped. `Tell': its sender does not get the error.
-spec drop_answer(boolean(), sock()) -> {error, port_crashed}.
drop_answer(Tell, #sock{id = Id, port = Port, owner = Owner, handle = Handle}) ->
    Place = case ets:lookup(?SOCKETS, Id) of
        [{_, {unanswered, Count, _}, _, _}] when Count > 1 -> {unanswered, Count - 1, Port};
        _ -> Port
    end,
    true = ets:update_element(?SOCKETS, Id, {2, Place}),
    _ = Tell andalso (Owner ! {pinnace_unsent, Handle, 1, port_crashed}),
    {error, port_crashed}.

%% Grants the first messages.
-spec credit(sock()) -> sock().
credit(#sock{queue = Queue, window = Window} = Sock) ->
    Queued = lists:sum([pinnace_wire:octets(Message) || Message <- queue:to_list(Queue)]),
    grant_octets(max(Window - Queued, 0), Sock).

grant_octets(Octets, #sock{id = Id, port = Port} = Sock) ->
    ok = pinnace_writer:pass(Port, pinnace_wire:credit(Id, ?ALL_MESSAGES, Octets)),
    Sock#sock{used = 0}.

%% Messages came.
-spec delivered(binary(), sock()) -> sock().
delivered(Packet, #sock{copy = 0} = Sock) ->
    arrived(pinnace_wire:messages(Packet), byte_size(Packet), Sock);
delivered(Packet, #sock{copy = Copy} = Sock) ->
    Frame = fun(Frame) when byte_size(Frame) =< Copy -> binary:copy(Frame);
               (Frame) -> Frame end,
    Messages = [lists:map(Frame, Message) || Message <- pinnace_wire:messages(Packet)],
    arrived(Messages, byte_size(Packet), Sock).

%% A part of a message came, which may be the last. Erlang appends in place: no part is copied more than once.
-spec part(boolean(), binary(), sock()) -> sock().
part(false, Content, #sock{part = Part} = Sock) ->
    Sock#sock{part = <<Part/binary, Content/binary>>};
part(true, Content, #sock{part = Part} = Sock) ->
    delivered(<<Part/binary, Content/binary>>, Sock#sock{part = <<>>}).

arrived(Messages, Octets, #sock{active = true, events_of = none, owner = Owner, handle = Handle} = Sock) ->
    ok = case Sock#sock.deliver of
        batch ->
            Owner ! {pinnace_batch, Handle, Messages},
            ok;
        message ->
            tell_each(Owner, Handle, Messages)
    end,
    ok = asked(Messages, Sock),
    used(Octets, Sock);
arrived(Messages, _Octets, #sock{queue = Queue} = Sock) ->
    give(Sock#sock{queue = lists:foldl(fun queue:in/2, Queue, Messages)}).

%% Callers or the owner have got messages.
asked(_Messages, #sock{is_rep = false}) -> ok;
asked(Messages, #sock{out = Out}) -> atomics:add(Out, ?ASKED, length(Messages)).

tell_each(Owner, Socket, [Message | Messages]) ->
    Owner ! {pinnace, Socket, Message},
    tell_each(Owner, Socket, Messages);
tell_each(_Owner, _Socket, []) ->
    ok.

%% Passes queued messages to waiting callers of recv, and then to the owner as the option `active' says.
give(#sock{queue = Queue, receivers = Receivers, active = Active} = Sock) ->
    case queue:out(Queue) of
        {empty, _} ->
            Sock;
        {{value, Message}, Left} ->
            case queue:out(Receivers) of
                {{value, {{Pid, _} = From, Timer}}, Others} ->
                    cancel(Timer),
                    case is_process_alive(Pid) of
                        true ->
                            gen_server:reply(From, {ok, Message}),
                            ok = asked([Message], Sock),
                            give(used(pinnace_wire:octets(Message), Sock#sock{queue = Left, receivers = Others}));
                        false ->
                            give(Sock#sock{receivers = Others})
                    end;
                {empty, _} when Active =/= false ->
                    _ = tell(Message, Sock),
                    ok = asked([Message], Sock),
                    Next = count_down(Sock),
                    give(used(pinnace_wire:octets(Message), Sock#sock{queue = Left, active = Next}));
                {empty, _} ->
                    Sock
            end
    end.

tell(Message, #sock{events_of = none, owner = Owner, handle = Handle, deliver = message}) ->
    Owner ! {pinnace, Handle, Message};
tell(Message, #sock{events_of = none, owner = Owner, handle = Handle, deliver = batch}) ->
    Owner ! {pinnace_batch, Handle, [Message]};
tell(Message, #sock{events_of = Of, owner = Owner}) ->
    Owner ! {pinnace_event, pinnace_registry:handle(Of), pinnace_wire:event(Message)}.

count_down(#sock{active = true}) ->
    true;
count_down(#sock{active = once}) ->
    false;
count_down(#sock{active = 1, owner = Owner, handle = Handle}) ->
    Owner ! {pinnace_passive, Handle},
    false;
count_down(#sock{active = Count}) ->
    Count - 1.

%% A caller or the owner has got octets. The program is granted as many again once they are a quarter of the window,
%% unless the owner's mailbox is full.
used(Octets, #sock{used = Used, window = Window} = Sock) when Used + Octets < Window div 4 ->
    Sock#sock{used = Used + Octets};
used(Octets, #sock{used = Used, is_held = true} = Sock) ->
    Sock#sock{used = Used + Octets};
used(Octets, #sock{used = Used, active = false} = Sock) ->
    grant_octets(Used + Octets, Sock);
used(Octets, #sock{used = Used} = Sock) ->
    resume(Sock#sock{used = Used + Octets}).

%% Grants again what was used, if the owner's mailbox has room.
-spec resume(sock()) -> sock().
resume(#sock{id = Id, used = Used, owner = Owner, deliver = Deliver} = Sock) ->
    Most = case Deliver of
        message -> ?MAILBOX_MESSAGES;
        batch -> ?MAILBOX_BATCHES
    end,
    case process_info(Owner, message_queue_len) of
        {message_queue_len, Length} when Length > Most ->
            _ = erlang:send_after(?HELD_MS, self(), {resume, Id}),
            Sock#sock{is_held = true};
        _ ->
            grant_octets(Used, Sock#sock{is_held = false})
    end.

%% Gives the caller a message, or lets it wait for one.
-spec recv(gen_server:from(), timeout(), sock()) -> {reply, term(), sock()} | {wait, sock()}.
recv(_From, _Timeout, #sock{receives = false} = Sock) ->
    {reply, {error, enotsup}, Sock};
recv(From, Timeout, #sock{id = Id, queue = Queue, receivers = Receivers, active = Active} = Sock) ->
    case queue:out(Queue) of
        _ when Active =/= false ->
            {reply, {error, einval}, Sock};
        {{value, Message}, Left} ->
            ok = asked([Message], Sock),
            {reply, {ok, Message}, used(pinnace_wire:octets(Message), Sock#sock{queue = Left})};
        {empty, _} when Timeout =:= 0 ->
            {reply, {error, eagain}, Sock};
        {empty, _} when Timeout =:= infinity ->
            {wait, Sock#sock{receivers = queue:in({From, none}, Receivers)}};
        {empty, _} ->
            Timer = erlang:send_after(Timeout, self(), {recv_timeout, Id, From}),
            {wait, Sock#sock{receivers = queue:in({From, Timer}, Receivers)}}
    end.

%% A caller's time is over, unless it has got a message.
-spec give_up(gen_server:from(), sock()) -> sock().
give_up(From, #sock{receivers = Receivers} = Sock) ->
    Others = queue:filter(fun({Other, _Timer}) -> Other =/= From end, Receivers),
    _ = queue:len(Others) =:= queue:len(Receivers) orelse gen_server:reply(From, {error, timeout}),
    Sock#sock{receivers = Others}.

cancel(none) ->
    ok;
cancel(Timer) ->
    _ = erlang:cancel_timer(Timer),
    ok.

%% Sets an option that this process has. Error: it has not, or the value is wrong.
-spec set({atom(), term()}, sock()) -> {ok, sock()} | error.
set({active, Active}, Sock) when is_boolean(Active); Active =:= once ->
    {ok, give(Sock#sock{active = Active})};
set({active, Count}, #sock{active = Active} = Sock) when is_integer(Count), Count > 0, Count < 32768 ->
    Before = if is_integer(Active) -> Active; true -> 0 end,
    {ok, give(Sock#sock{active = Before + Count})};
set({deliver, Deliver}, Sock) when Deliver =:= message; Deliver =:= batch ->
    {ok, Sock#sock{deliver = Deliver}};
set({copy, Copy}, Sock) when is_integer(Copy), Copy >= 0 ->
    {ok, Sock#sock{copy = Copy}};
set({window, Window}, #sock{id = Id, port = Port} = Sock) when is_integer(Window), Window > 0, Window < 1 bsl 32 ->
    ok = pinnace_writer:pass(Port, pinnace_wire:order(?WITHDRAW, <<Id:32>>)),
    {ok, credit(Sock#sock{window = Window})};
set(_Option, _Sock) ->
    error.

-spec get(atom(), sock()) -> {ok, term()} | error.
get(active, #sock{active = Active}) -> {ok, Active};
get(deliver, #sock{deliver = Deliver}) -> {ok, Deliver};
get(copy, #sock{copy = Copy}) -> {ok, Copy};
get(window, #sock{window = Window}) -> {ok, Window};
get(_Name, _Sock) -> error.

%% The options that this process has.
-spec modes(sock()) -> [{atom(), term()}].
modes(#sock{active = Active, deliver = Deliver, copy = Copy, window = Window}) ->
    [{deliver, Deliver}, {copy, Copy}, {window, Window}, {active, Active}].

-spec set_modes([{atom(), term()}], sock()) -> sock().
set_modes(Modes, Sock) ->
    lists:foldl(fun(Mode, Before) -> {ok, After} = set(Mode, Before), After end, Sock, Modes).

%% What is known of a socket, for its users.
-spec info(sock()) -> #{owner := pid(), active := term(), queued := non_neg_integer(), room := integer()}.
info(#sock{owner = Owner, active = Active, queue = Queue, room = Room}) ->
    #{owner => Owner, active => Active, queued => queue:len(Queue), room => atomics:get(Room, ?ROOM)}.

%% Lets a sender wait until there is room in `Room', or until another program has made the socket again. A REP gets
%% an error instead: its request came through the program that has died.
-spec wait(room | program, atomics:atomics_ref(), gen_server:from(), sock()) ->
    {reply, ok | {error, port_crashed}, sock()} | {wait, sock()}.
wait(What, Room, From, #sock{room = Room, senders = Senders} = Sock) ->
    case What =:= room andalso atomics:get(Room, ?ROOM) > 0 of
        true -> {reply, ok, Sock};
        false -> {wait, Sock#sock{senders = [From | Senders]}}
    end;
wait(_What, _Room, _From, #sock{is_rep = true} = Sock) ->
    {reply, drop_answer(false, Sock), Sock};
wait(_What, _Room, _From, Sock) ->
    {reply, ok, Sock}.

%% The program has taken messages.
-spec room(non_neg_integer(), non_neg_integer(), sock()) -> sock().
room(Messages, Octets, #sock{room = Room, senders = Senders} = Sock) ->
    ok = atomics:add(Room, ?TAKEN, Messages),
    ok = atomics:add(Room, ?ROOM, Octets),
    reply_all(lists:reverse(Senders), ok),
    Sock#sock{senders = []}.

%% How many messages were sent that the program has not taken, and whose senders will not get an error.
-spec unconfirmed(sock()) -> non_neg_integer().
unconfirmed(#sock{room = Room}) ->
    max(atomics:get(Room, ?SENT) - atomics:get(Room, ?TAKEN) - atomics:get(Room, ?CONFIRMING), 0).

%% Messages were refused or lost. The owner is told; if its mailbox is full, later, and at once of all.
-spec unsent(non_neg_integer(), pinnace:reason(), sock()) -> sock().
unsent(Count, Reason, #sock{unsent = Unsent} = Sock) ->
    tell_unsent(Sock#sock{unsent = maps:update_with(Reason, fun(Before) -> Before + Count end, Count, Unsent)}).

-spec tell_unsent(sock()) -> sock().
tell_unsent(#sock{id = Id, owner = Owner, handle = Handle, unsent = Unsent} = Sock) ->
    case process_info(Owner, message_queue_len) of
        {message_queue_len, Length} when Length > ?MAILBOX_MESSAGES ->
            _ = erlang:send_after(?HELD_MS, self(), {tell_unsent, Id}),
            Sock;
        _ ->
            maps:foreach(fun(Reason, Count) -> Owner ! {pinnace_unsent, Handle, Count, Reason} end, Unsent),
            Sock#sock{unsent = #{}}
    end.

%% Nobody waits any more.
-spec close(term(), sock()) -> ok.
close(Reason, #sock{id = Id, monitor = Monitor, senders = Senders, receivers = Receivers}) ->
    true = demonitor(Monitor, [flush]),
    true = ets:delete(?SOCKETS, Id),
    reply_all(Senders, {error, Reason}),
    reply_all([From || {From, _Timer} <- queue:to_list(Receivers)], {error, Reason}).

reply_all(Callers, Reply) ->
    lists:foreach(fun(From) -> gen_server:reply(From, Reply) end, Callers).
