%% @doc Guaranteed delivery: messages that are on the disk before `deliver/3' returns, and that come until their
%% receiver has handled them.
%%
%% A client is a process with a name, a store of its own and topics. A module with `handle_message/2' handles what
%% comes; the client passes it one message at a time. What its result says of the message:
%%
%% <ul>
%% <li>`{ack, State}': it is handled.</li>
%% <li>`{{ack, Messages}, State}': it is handled, and these messages are sent, in one step: all of it or nothing is on
%% the disk. They are `{Topic, Body}' or `{Topic, Body, SendOptions}'.</li>
%% <li>`{nack, State}', `{{nack, Ms}, State}': it has failed, and comes again after a growing delay, or after this
%% one; others go first.</li>
%% <li>`{terminate, State}': it is given up, and becomes a dead letter.</li>
%% <li>`{give_back, State}': it was not handled, and comes again at once.</li>
%% <li>`{later, State}': a process says it by `settle/2'.</li>
%% <li>`{stop, Reason, State}': it was not handled, and the client ends; it comes again.</li>
%% </ul>
%%
%% If `handle_message/2' fails, the client logs why, and goes on with the state that it had before; the message comes
%% again before those of its sender and topic that the client has not got (see `prefetch'). When pinnace-port dies,
%% the client is started again in the next one: a send goes on, and what was not settled comes again.
-module(pinnace_delivery).

-export([start_link/1, start_link/3, start_link/4, child_spec/1, child_spec/3, stop/1, stop/2]).
-export([deliver/3, deliver/4, deliver_many/3, deliver_many/4, settle/2]).
-export([subscribe/2, unsubscribe/2, wait_listeners/4, addresses/2]).
-export([pending/1, pending_by_receiver/1, wait_pending/3, clear_pending/2, drain/2, forget/2]).
-export([about/1, statistics/1]).

-export_type([client/0, options/0, send_options/0, message/0, cursor/0, verdict/0, outgoing/0, result/0]).

-include("pinnace_port.hrl").

-type client() :: pid() | atom() | {local, atom()} | {global, term()} | {via, module(), term()}.
%% A process that `start_link' has started, or its name.
-type name() :: {local, atom()} | {global, term()} | {via, module(), term()}.
-type options() :: #{name := text(), topic => text(), topics => [text()], prefetch => pos_integer(),
                     close_within => non_neg_integer(), cert => file:filename_all(),
                     trust => [{text(), file:filename_all()}], peers => [{text(), text(), [text()]}],
                     atom() => integer() | boolean() | forever | text()}.
%% `name': the client's name. `topic': what it listens on, if it is not the name. `topics': others. `prefetch': how many
%% messages it has at most that are not settled (100). `close_within': how long its end may take, in milliseconds
%% (3000). `cert', `trust', `peers': files of certificates, and clients that are known in advance. All others are those
%% of the C interface in docs/reference/delivery.md, such as `data_dir', `registry' and `max_deliveries'.
-type text() :: unicode:chardata().
-type send_options() :: #{all => boolean(), durability => sync | interval | memory, ttl => pos_integer(),
                          timeout => timeout(), id => text(), content_type => text(), traceparent => text(),
                          tracestate => text(), ordering_key => text(), headers => [{text(), iodata()}]}.
%% `all': to each client that listens, and not to one. `durability': on the disk when the call returns (`sync', the
%% default), soon (`interval'), or never (`memory'). `ttl': how long it is kept, in milliseconds. `timeout': how long
%% to wait for room and the disk.
%% `id': a further message of this id is a retry, which is not stored again.
-type message() :: #{topic := binary(), from := binary(), body := binary(), deliveries := pos_integer(),
                     redelivered := boolean(), accepted := non_neg_integer(), cursor := cursor(),
                     ref := pinnace_delivery_client:ref(), id => binary(),
                     content_type => binary(), traceparent => binary(), tracestate => binary(),
                     ordering_key => binary(), headers := [{binary(), binary()}],
                     dead => #{topic := binary(), receiver := binary(), reason := atom(), deliveries := pos_integer()}}.
%% `deliveries': how often it was delivered, with this time. `redelivered': this process had it before. `accepted': when
%% its sender has stored it, in milliseconds since 1970. `dead': why it is a dead letter.
-type cursor() :: #{sender := binary(), stream := non_neg_integer(), number := pos_integer(),
                    settled := non_neg_integer()}.
%% What identifies a message, for effects that happen once (docs/delivery-guide.md): the sender's store, 32 hexadecimal
%% digits, a stream of it, and the message's number; no message of the stream up to `settled' comes again.
-type verdict() :: ack | {ack, [outgoing()]} | nack | {nack, Ms :: non_neg_integer()} | terminate | give_back
                 | in_progress.
%% What becomes of a message. `in_progress': it takes more time than `ack_within_ms', and is settled later.
-type outgoing() :: {text(), iodata()} | {text(), iodata(), send_options()}.
-type result() :: {ack | {ack, [outgoing()]} | nack | {nack, non_neg_integer()} | terminate | give_back | later,
                   State :: term()}
                | {stop, Reason :: term(), State :: term()}.

-callback init(Arguments :: term()) -> {ok, State :: term()} | {stop, Reason :: term()} | ignore.
-callback handle_message(message(), State :: term()) -> result().
-callback handle_call(term(), gen_server:from(), State :: term()) ->
    {reply, term(), State :: term()} | {noreply, State :: term()} | {stop, Reason :: term(), State :: term()}
  | {stop, Reason :: term(), Reply :: term(), State :: term()}.
-callback handle_cast(term(), State :: term()) ->
    {noreply, State :: term()} | {stop, Reason :: term(), State :: term()}.
-callback handle_info(term(), State :: term()) ->
    {noreply, State :: term()} | {stop, Reason :: term(), State :: term()}.
-callback terminate(Reason :: term(), State :: term()) -> term().
-callback code_change(term(), State :: term(), term()) -> {ok, State :: term()} | {error, term()}.
-optional_callbacks([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, code_change/3]).

%% @doc Starts a client that only sends. What is sent to its topic is kept until it is started with a module.
-spec start_link(options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link(pinnace_delivery_client, {Options, none, []}, []).

%% @doc Starts a client of which this module handles the messages. `init/1' gets the arguments; if the module has none,
%% they are the state.
-spec start_link(options(), module(), term()) -> gen_server:start_ret().
start_link(Options, Module, Arguments) ->
    gen_server:start_link(pinnace_delivery_client, {Options, Module, Arguments}, []).

%% @doc As `start_link/3', with a name for the process.
-spec start_link(name(), options(), module(), term()) -> gen_server:start_ret().
start_link(Name, Options, Module, Arguments) ->
    gen_server:start_link(Name, pinnace_delivery_client, {Options, Module, Arguments}, []).

%% @doc For a supervisor: the arguments of `start_link', as a list.
-spec child_spec([term()]) -> supervisor:child_spec().
child_spec([Name, #{name := Client} = Options, Module, Arguments]) ->
    (child_spec(Options, Module, Arguments))#{
        id := {?MODULE, Client}, start := {?MODULE, start_link, [Name, Options, Module, Arguments]}};
child_spec([#{name := Client} = Options]) ->
    #{id => {?MODULE, Client}, start => {?MODULE, start_link, [Options]}, shutdown => shutdown(Options)}.

%% @doc For a supervisor.
-spec child_spec(options(), module(), term()) -> supervisor:child_spec().
child_spec(#{name := Client} = Options, Module, Arguments) ->
    #{id => {?MODULE, Client}, start => {?MODULE, start_link, [Options, Module, Arguments]},
      shutdown => shutdown(Options), modules => [Module]}.

%% After `close_within', the registry may take 2 s, and the last acknowledgements 1 s.
shutdown(Options) ->
    pinnace_delivery_client:close_within(Options) + 4000.

%% @doc Ends a client, once its module has handled the message that it has. Subscriptions and what is pending stay, for
%% the next one of its name. `drain/2' before it waits until what the client has is settled.
-spec stop(client()) -> ok.
stop(Client) ->
    stop(Client, infinity).

%% @doc As `stop/1', but after so many milliseconds it fails with the exit `timeout', and the client goes on.
-spec stop(client(), timeout()) -> ok.
stop(Client, Timeout) ->
    gen_server:stop(case Client of {local, Name} -> Name; _ -> Client end, normal, Timeout).

%% @doc Sends a message to one of the clients that listen on a topic, or that will listen on it; the client itself does
%% not get it. When it returns, the message is on the disk. The result is 1. With the option `all' it is the number of
%% clients that it goes to, 0 if it is kept for the first that will listen.
-spec deliver(client(), text(), iodata()) -> {ok, non_neg_integer()} | {error, pinnace:reason()}.
deliver(Client, Topic, Body) ->
    deliver(Client, Topic, Body, #{}).

%% @doc As `deliver/3', with options. Error `timeout': the message may be stored.
-spec deliver(client(), text(), iodata(), send_options()) -> {ok, non_neg_integer()} | {error, pinnace:reason()}.
deliver(Client, Topic, Body, Options) ->
    hd(deliver_many(Client, Topic, [Body], Options)).

%% @doc As `deliver/3', for several messages, which share the waits for the disk. There is a result for each.
-spec deliver_many(client(), text(), [iodata()]) -> [{ok, non_neg_integer()} | {error, pinnace:reason()}].
deliver_many(Client, Topic, Bodies) ->
    deliver_many(Client, Topic, Bodies, #{}).

%% @doc As `deliver_many/3', with options for each. Error `einval' of all: an `id' for more than one, which would be
%% stored once.
-spec deliver_many(client(), text(), [iodata()], send_options()) ->
    [{ok, non_neg_integer()} | {error, pinnace:reason()}].
deliver_many(_Client, _Topic, [_, _ | _] = Bodies, #{id := _}) ->
    [{error, einval} || _ <- Bodies];
deliver_many(Client, Topic, Bodies, Options) ->
    Deadline = deadline(maps:get(timeout, Options, infinity)),
    try [pinnace_delivery_wire:message(Topic, Body, Options) || Body <- Bodies] of
        Messages -> send(pid(Client), Messages, Deadline)
    catch
        error:_ -> [{error, einval} || _ <- Bodies]
    end.

%% A message that the program may have stored when it died is sent again with its id, so it is stored once.
send({ok, Pid}, Messages, Deadline) ->
    case up(Pid, Deadline) of
        {ok, Id, Port} ->
            Asked = [begin_send(Port, Id, Message, Deadline) || Message <- Messages],
            Replies = [end_send(Sending) || Sending <- Asked],
            again(Pid, lists:zip(Messages, Replies), Deadline);
        Error ->
            [Error || _ <- Messages]
    end;
send(Error, Messages, _Deadline) ->
    [Error || _ <- Messages].

begin_send(Port, Id, {Begin, Properties, Body}, Deadline) ->
    Arguments = [<<Id:32>>, Begin, <<(left(Deadline)):32/signed>>, Properties, Body],
    case pinnace_wire:fits_request(Arguments) of
        true ->
            {request, gen_server:send_request(pinnace_port, {request, Port, ?DELIVER, Arguments})};
        false ->
            Parent = self(),
            {large, spawn_monitor(fun() ->
                Parent ! {sent, self(), send_large(Port, Id, Begin, Properties, Body, Deadline)}
            end)}
    end.

end_send({request, Request}) ->
    reply(gen_server:receive_response(Request, infinity));
end_send({large, {Pid, Monitor}}) ->
    receive
        {sent, Pid, Reply} ->
            true = demonitor(Monitor, [flush]),
            reply({reply, Reply});
        {'DOWN', Monitor, process, _, Reason} ->
            exit(Reason)
    end.

reply({reply, {ok, <<Receivers:32>>}}) -> {ok, Receivers};
%% The text names the limit, and the receivers with the most octets pending.
reply({reply, {error, {enospc, Text}}}) -> {error, {enospc, Text}};
reply({reply, {error, {Reason, _Text}}}) -> {error, reason(Reason)};
reply({reply, {error, Reason}}) -> {error, Reason};
reply({error, _}) -> {error, port_crashed}.

%% Sends a body in parts, through a channel of its own. It ends with the process.
send_large(Port, Id, Begin, Properties, Body, Deadline) ->
    case pinnace_relays:open({?DROP_BODY, <<>>}) of
        {ok, Of, Port} ->
            case pinnace_relays:request(Port, ?NEW_BODY, <<Of:32>>) of
                {ok, <<>>} ->
                    Parts = pinnace_wire:parts(Of, Body) ++ [pinnace_wire:last_part(Of)],
                    lists:foreach(fun(Part) -> catch port_command(Port, Part) end, Parts),
                    Arguments = [<<Id:32, Of:32>>, Begin, <<(left(Deadline)):32/signed>>, Properties],
                    pinnace_relays:request(Port, ?DELIVER_BODY, Arguments);
                Error -> Error
            end;
        {ok, _Of, _Next} -> {error, port_crashed};
        Error -> Error
    end.

again(Pid, Outcomes, Deadline) ->
    case [Message || {Message, {error, port_crashed}} <- Outcomes] of
        [] -> [Reply || {_, Reply} <- Outcomes];
        Messages -> merge(Outcomes, send({ok, Pid}, Messages, Deadline))
    end.

merge([{_, {error, port_crashed}} | Outcomes], [Reply | Replies]) -> [Reply | merge(Outcomes, Replies)];
merge([{_, Reply} | Outcomes], Replies) -> [Reply | merge(Outcomes, Replies)];
merge([], []) -> [].

%% @doc Says what becomes of a message for which `handle_message/2' has returned `later'. Any process may say it, once.
%% Error `port_crashed': the program has died since, and the message comes again. `enoent': it was settled before.
-spec settle(message(), verdict()) -> ok | {error, pinnace:reason()}.
settle(#{ref := Ref}, Verdict) ->
    pinnace_delivery_client:settle(Ref, Verdict).

%% @doc Listens on a further topic, until the client unsubscribes.
-spec subscribe(client(), text()) -> ok | {error, pinnace:reason()}.
subscribe(Client, Topic) ->
    listen(Client, ?LISTEN, pinnace_options:text(Topic)).

-spec unsubscribe(client(), text()) -> ok | {error, pinnace:reason()}.
unsubscribe(Client, Topic) ->
    listen(Client, ?UNLISTEN, pinnace_options:text(Topic)).

%% The process of the client keeps the topics for the next program.
listen(Client, Operation, Topic) ->
    case pid(Client) of
        {ok, Pid} ->
            Noted = fun(Port) -> Pid ! {pinnace_delivery_client, {listens, Port, Operation, Topic}} end,
            done(ask_of(Pid, Operation, fun(_Left) -> pinnace_wire:bytes(Topic) end, infinity, Noted));
        Error -> Error
    end.

%% @doc Waits until so many clients listen on a topic.
-spec wait_listeners(client(), text(), pos_integer(), timeout()) -> ok | {error, pinnace:reason()}.
wait_listeners(_Client, _Topic, Count, _Timeout) when not is_integer(Count); Count < 0; Count >= 1 bsl 32 ->
    {error, einval};
wait_listeners(Client, Topic, Count, Timeout) ->
    Name = pinnace_options:part(Topic),
    done(ask(Client, ?WAIT_LISTENERS, fun(Left) -> [Name, <<Count:32, Left:32/signed>>] end, Timeout)).

%% @doc The endpoints of the known clients that listen on a topic.
-spec addresses(client(), text()) -> {ok, [binary()]} | {error, pinnace:reason()}.
addresses(Client, Topic) ->
    case ask(Client, ?ADDRESSES, pinnace_options:part(Topic)) of
        {ok, <<>>} -> {ok, []};
        {ok, Lines} -> {ok, binary:split(Lines, <<"\n">>, [global])};
        Error -> Error
    end.

%% @doc How many messages of the client are not acknowledged.
-spec pending(client()) -> {ok, non_neg_integer()} | {error, pinnace:reason()}.
pending(Client) ->
    number(ask(Client, ?PENDING, [])).

%% @doc The same for each receiver and topic: maps of `topic', `messages', `bytes', and if they are known `receiver' and
%% `oldest_ms', when the oldest was stored, in milliseconds since 1970.
-spec pending_by_receiver(client()) -> {ok, [map()]} | {error, pinnace:reason()}.
pending_by_receiver(Client) ->
    case ask(Client, ?PENDING_BY_RECEIVER, []) of
        {ok, Entries} -> pinnace_delivery_wire:list(Entries);
        Error -> Error
    end.

%% @doc Waits until at most so many are not acknowledged.
-spec wait_pending(client(), non_neg_integer(), timeout()) -> ok | {error, pinnace:reason()}.
wait_pending(_Client, Most, _Timeout) when not is_integer(Most); Most < 0; Most >= 1 bsl 64 ->
    {error, einval};
wait_pending(Client, Most, Timeout) ->
    done(ask(Client, ?WAIT_PENDING, fun(Left) -> <<Most:64, Left:32/signed>> end, Timeout)).

%% @doc Discards what is not acknowledged on a topic. The result is how many these were.
-spec clear_pending(client(), text()) -> {ok, non_neg_integer()} | {error, pinnace:reason()}.
clear_pending(Client, Topic) ->
    number(ask(Client, ?CLEAR_PENDING, pinnace_options:part(Topic))).

%% @doc Lets the client receive no more, and waits until it has settled what it has.
-spec drain(client(), timeout()) -> ok | {error, pinnace:reason()}.
drain(Client, Timeout) ->
    done(ask(Client, ?DRAIN, fun(Left) -> <<Left:32/signed>> end, Timeout)).

%% @doc Ends all subscriptions of a client that is gone for good. Error `eexist': it lives.
-spec forget(client(), text()) -> ok | {error, pinnace:reason()}.
forget(Client, Name) ->
    done(ask(Client, ?FORGET, pinnace_options:part(Name))).

%% @doc What the client is: a map of `name', `endpoint', `store_id', `in_hand' (messages that are not settled), and if
%% it has them `metrics', the address of its statistics, and `registry_error'.
-spec about(client()) -> {ok, map()} | {error, pinnace:reason()}.
about(Client) ->
    case ask(Client, ?ABOUT, []) of
        {ok, Entries} -> pinnace_wire:map(Entries);
        Error -> Error
    end.

%% @doc What the client has sent and received, by topics, and its store, as docs/reference/delivery.md says.
-spec statistics(client()) -> {ok, map()} | {error, pinnace:reason()}.
statistics(Client) ->
    case ask(Client, ?DELIVERY_STATISTICS, []) of
        {ok, Entries} -> pinnace_delivery_wire:statistics(Entries);
        Error -> Error
    end.

ask(Client, Operation, Arguments) ->
    ask(Client, Operation, fun(_Left) -> Arguments end, infinity).

%% Requests an operation of a client's channel, again if the program dies meanwhile.
ask(Client, Operation, Arguments, Timeout) ->
    case pid(Client) of
        {ok, Pid} -> ask_of(Pid, Operation, Arguments, deadline(Timeout), fun(_Port) -> ok end);
        Error -> Error
    end.

%% `Noted' gets the port to the program that has carried it out.
ask_of(Pid, Operation, Arguments, Deadline, Noted) ->
    case up(Pid, Deadline) of
        {ok, Id, Port} ->
            case pinnace_relays:request(Port, Operation, [<<Id:32>>, Arguments(left(Deadline))]) of
                {error, port_crashed} -> ask_of(Pid, Operation, Arguments, Deadline, Noted);
                {error, {Reason, Text}} when is_binary(Text) -> {error, reason(Reason)};
                {ok, _} = Reply ->
                    _ = Noted(Port),
                    Reply;
                Error -> Error
            end;
        Error ->
            Error
    end.

%% The client's channel, once it is made in a living program.
up(Pid, Deadline) ->
    case pinnace_relays:find(Pid) of
        {ok, Id, Port} when is_port(Port) ->
            case erlang:port_info(Port, id) of
                {id, _} -> {ok, Id, Port};
                undefined -> wait_up(Pid, Deadline)
            end;
        {ok, _Id, down} ->
            wait_up(Pid, Deadline);
        Error ->
            Error
    end.

%% The client itself cannot wait: what it handles comes again.
wait_up(Pid, _Deadline) when Pid =:= self() ->
    {error, port_crashed};
wait_up(Pid, Deadline) ->
    Timeout = case left(Deadline) of
        -1 -> infinity;
        Left -> Left
    end,
    try gen_server:call(Pid, {pinnace_delivery_client, up}, Timeout)
    catch
        exit:{timeout, _} -> {error, timeout};
        exit:_ -> {error, closed}
    end.

pid(Client) ->
    case where(Client) of
        Pid when is_pid(Pid), node(Pid) =:= node() -> {ok, Pid};
        Pid when is_pid(Pid) -> {error, remote_node};
        undefined -> {error, closed}
    end.

where(Pid) when is_pid(Pid) -> Pid;
where(Name) when is_atom(Name) -> whereis(Name);
where({local, Name}) -> whereis(Name);
where({global, Name}) -> global:whereis_name(Name);
where({via, Module, Name}) -> Module:whereis_name(Name).

deadline(infinity) -> infinity;
deadline(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

%% What is left in milliseconds; -1: there is no deadline.
left(infinity) -> -1;
left(Deadline) -> min(max(Deadline - erlang:monotonic_time(millisecond), 0), 16#7FFFFFFF).

number({ok, <<Number:64>>}) -> {ok, Number};
number(Error) -> Error.

done({ok, _}) -> ok;
done(Error) -> Error.

reason(eagain) -> timeout;
reason(ecanceled) -> closed;
reason(Reason) -> Reason.
